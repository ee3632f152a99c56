"""Models: a representation, an encoder and a head, chosen independently by name.

`build` makes the (static, hashable) model, `init` its weights, and `apply` computes the
potentials of one sentence. `jax.vmap` adds the batch.
"""

import functools

from jaxner.models.axes import automatic as automatic
from jaxner.models.axes import beside as beside
from jaxner.models.bert import BERT, DeBERTa, ModernBERT, WordPieces
from jaxner.models.bilstm import BiLSTM, Chain, Identity, Projection, SelfAttention
from jaxner.models.bilstm import candidate_kernels as candidate_kernels
from jaxner.models.grn import GRN
from jaxner.models.grn import relation_scores as relation_scores
from jaxner.models.heads import DirectionHead, Head, LanguageModel, ScoresHead
from jaxner.models.idcnn import IDCNN
from jaxner.models.lan import LabelAttention
from jaxner.models.model import Keys as Keys
from jaxner.models.model import MCDropout as MCDropout
from jaxner.models.model import Model as Model
from jaxner.models.model import apply as apply
from jaxner.models.model import character_readers as character_readers
from jaxner.models.model import check_inputs as check_inputs
from jaxner.models.model import check_model as check_model
from jaxner.models.model import init as init
from jaxner.models.model import pass_keys as pass_keys
from jaxner.models.model import passes as passes
from jaxner.models.model import predict as predict
from jaxner.models.model import sentence_key as sentence_key
from jaxner.models.model import shapes as shapes
from jaxner.models.model import standardise_words as standardise_words
from jaxner.models.model import with_vectors as with_vectors
from jaxner.models.representation import (
    Capitalisation,
    CharacterCNN,
    CharacterLSTM,
    IntNet,
    Representation,
    Vectors,
    Words,
)
from jaxner.models.seq2seq import Seq2seqHead
from jaxner.models.transformer import Refinement, RelativeTransformer, TwoStream

ENCODERS = {
    "attention": SelfAttention,
    "bilstm": BiLSTM,
    "chain": Chain,
    "grn": GRN,
    "identity": Identity,
    "idcnn": IDCNN,
    "lan": LabelAttention,
    "projection": Projection,
    "transformer": RelativeTransformer,
}
HEADS = {
    "crf": functools.partial(Head, transitions=True),
    "direction": DirectionHead,
    "scores": ScoresHead,
    "seq2seq": Seq2seqHead,
    "softmax": functools.partial(Head, transitions=False),
}
CHARACTERS = {"cnn": CharacterCNN, "intnet": IntNet, "lstm": CharacterLSTM}
TABLES = {"encoder": ENCODERS, "head": HEADS, "chars": CHARACTERS}
"""What a config's `encoder=`, `head=` and `chars=` choose from."""

_PARTS = (BERT, DeBERTa, ModernBERT, WordPieces, Capitalisation, Vectors, Words)
_PARTS += (Representation, Refinement, TwoStream, LanguageModel, Model, MCDropout)
_TABLES = [*ENCODERS.values(), *HEADS.values(), *CHARACTERS.values()]
MODULES = {
    kind.__name__: kind for kind in (Head, *_TABLES, *_PARTS) if isinstance(kind, type)
}
"""The modules that models of this library consist of, by name."""

from jaxner.models.options import build as build  # noqa: E402  reads the tables
from jaxner.models.options import describe as describe  # noqa: E402
from jaxner.models.options import restore as restore  # noqa: E402
