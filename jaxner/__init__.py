"""Sequence labelling in JAX: published taggers as one composable library."""

from jaxner.analysis.heatmaps import attention as attention
from jaxner.analysis.heatmaps import relations as relations
from jaxner.sampling import Uncertainty as Uncertainty
from jaxner.sampling import sample as sample
from jaxner.sampling import uncertainty as uncertainty
from jaxner.tagging import Params as Params
from jaxner.tagging import encode as encode
from jaxner.tagging import load as load
from jaxner.tagging import tag as tag
