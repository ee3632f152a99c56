"""Reports as pages: one HTML file, and the same as JSON and CSV."""

from jaxner.evaluation.pages.writing import check as check
from jaxner.evaluation.pages.writing import html as html
from jaxner.evaluation.pages.writing import write as write
