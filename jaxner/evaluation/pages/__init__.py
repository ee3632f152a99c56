"""Reports as one HTML page, with the same content as JSON and CSV."""

from jaxner.evaluation.pages.writing import check as check
from jaxner.evaluation.pages.writing import html as html
from jaxner.evaluation.pages.writing import write as write
