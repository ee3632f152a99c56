"""Old names of functions in `jaxner.data.readers`."""

from jaxner.data.readers.conll import DOCSTART as DOCSTART
from jaxner.data.readers.conll import read as read
from jaxner.data.readers.conll import write as write
from jaxner.data.readers.examples import ConllError as ConllError
from jaxner.data.readers.examples import Example as Example
