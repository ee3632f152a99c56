"""Sequence labelling in JAX: published taggers as one composable library."""

from jaxner.analysis.heatmaps import attention as attention
from jaxner.analysis.heatmaps import relations as relations
from jaxner.dropout_passes import Uncertainty as Uncertainty
from jaxner.dropout_passes import sample as sample
from jaxner.dropout_passes import uncertainty as uncertainty
from jaxner.tagging import Tagger as Tagger
from jaxner.tagging import encode as encode
from jaxner.tagging import load as load
from jaxner.tagging import tag as tag
