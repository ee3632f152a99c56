"""Old names of functions in `jaxner.data.readers.conllu`."""

from jaxner.data.readers.conllu import UPOS as UPOS
from jaxner.data.readers.conllu import XPOS as XPOS
from jaxner.data.readers.conllu import is_conllu as is_conllu
from jaxner.data.readers.conllu import read as read
