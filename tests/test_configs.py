"""Each system of the papers: it builds on every data set, with the papers' settings.

`tests/test_fence.py` has the weights and the first losses of each, and
`tests/test_reproduce.py` builds every row of the tables.
"""

import contextlib
import functools
import itertools
import json
import re

import jax
import pytest

from jaxner import configuration, models
from jaxner.data import schemes
from jaxner.errors import InputError
from jaxner.training import optimizers, schema
from jaxner.training.objectives import Objective
from tests.golden import make_encoders

NAMES = configuration.names()


def shapes_of(config):
    """Shapes of the weights; the whole run can be built, and its model described."""
    tx = optimizers.build(config.optimizer.to_dict(), 10, 5)
    Objective(**config.objective.to_dict())
    frozen = config.data.train_words is False
    has_bert = config.model.representation.get("bert")
    model = models.build(
        vector_sizes=(3, 8) if config.data.contextual else None,
        encoder_sizes=make_encoders.SMALL if has_bert else None,
        num_labels=17,
        num_trained=2 if frozen else 50,
        num_frozen=50 if frozen else 0,
        num_chars=30,
        types=(0,) * 30,
        grammar=("BIOES", *schemes.label_names("ABCD", "BIOES")),
        **config.model.to_dict(),
    )
    description = json.dumps(models.describe(model))
    assert models.restore(json.loads(description)) == model
    params = shapes_of_model(model)
    assert jax.eval_shape(tx.init, params)
    return params


@functools.cache  # many rows and data sets have the same model
def shapes_of_model(model):
    return jax.eval_shape(lambda: models.init(model, jax.random.key(0)))["params"]


@pytest.mark.parametrize("dataset", schema.DATASETS)
@pytest.mark.parametrize("name", NAMES)
def test_every_system_has_every_data_set(name, dataset):
    config = configuration.load(f"{name}:{dataset}")
    assert config.data.name == dataset
    assert shapes_of(config)
    assert (config.data.scheme == "tags") == (dataset in ("ud_ewt", "wsj"))
    if dataset == "sample":
        assert configuration.load(name) == config
        assert (config.num_epochs or 0) <= 30
    if dataset in ("sample", "files"):
        assert config.data.vectors is None  # there are none in the package
    else:
        assert config.data.vectors or config.model.representation.words is None


def arguments_of(name):
    """The arguments that a config's docstring lists, a number being 2."""
    docstring = configuration.describe(name).partition("--config.seed")[0]
    names = re.findall(r"^ {4}([a-z]+(?:=[a-z0-9.]+)?) {2,}\S", docstring, re.M)
    return [a.replace("=N", "=2") for a in names if not a.startswith("python")]


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_say_what_the_arguments_are(name):
    assert f"jaxner train {name}" in configuration.describe(name)
    assert arguments_of(name)
    for argument in arguments_of(name):
        configuration.load(f"{name}:sample,{argument}")


def flat(section, path=()):
    """The options of a config by their paths."""
    if not isinstance(section, dict):
        return {path: section}
    inner = (flat(value, (*path, name)) for name, value in section.items())
    return dict(itertools.chain.from_iterable(map(dict.items, inner)))


@pytest.mark.parametrize("name", NAMES)
def test_no_variant_loses_settings(name):
    """Each argument has an effect in all variants, or is refused; so has the sample."""
    words = {}
    for argument in arguments_of(name):
        words.setdefault(argument.partition("=")[0], [()]).append((argument,))
    sample, corpus = {}, {}
    for choice in itertools.product(*words.values()):
        variant = sum(choice, ())
        with contextlib.suppress(InputError):
            for dataset, configs in (("sample", sample), ("conll2003", corpus)):
                config = configuration.load(",".join([f"{name}:{dataset}", *variant]))
                configs[variant] = flat(config.to_dict())
    plain = sample[()]
    paths = [path for path in plain if plain[path] != corpus[()].get(path, plain[path])]
    assert ("data", "name") in paths
    for variant, options in sample.items():
        for path in paths:
            is_own = options.get(path) != corpus[variant].get(path, ())
            assert is_own or options.get(path) in (None, plain[path]), (variant, path)
        for argument in variant:
            rest = tuple(part for part in variant if part != argument)
            is_default = sample[(argument,)] == plain
            assert is_default or sample[rest] != options, (variant, argument)


# The authors' files of settings: learning rate, β2, ε; what is KEPT of inputs, features
# and words; batch size, clip norm, weight of the dropout penalty; blocks.
STRUBELL = {
    "idcnn:conll2003": (5e-4, .9, 1e-6, .65, .85, .85, 128, 5, 1e-4, 1),
    "idcnn:conll2003,crf": (5e-4, .9, 1e-6, .65, .85, .85, 128, 5, 1e-4, 1),
    "idcnn:conll2003,document": (1e-3, .999, 1e-4, .75, .75, .75, 32, None, 1e-4, 3),
    "idcnn:conll2003,block=cnn4": (5e-4, .9, 1e-8, .85, .65, .65, 128, None, 1e-4, 1),
    "idcnn:conll2003,block=cnn5": (5e-4, .9, 1e-6, .85, 1.0, .75, 128, None, 1e-4, 1),
    "idcnn:ontonotes5": (1e-4, .99, 1e-6, .65, .25, .85, 64, None, 1e-6, 3),
    "idcnn:ontonotes5,crf": (1e-4, .999, 1e-6, .65, .25, .85, 32, None, 1e-6, 1),
    "idcnn:ontonotes5,document": (5e-4, .99, 1e-8, .75, .5, .75, 32, None, 1e-6, 4),
    "bilstm:conll2003": (5e-4, .9, 1e-4, .5, .75, .75, 64, 1, 1e-5),
    "bilstm:conll2003,crf": (5e-4, .9, 1e-4, .5, .75, .75, 64, 1, 1e-5),
    "bilstm:conll2003,document,crf": (1e-3, .9, 1e-4, .65, .65, .75, 32, 10, 1e-4),
    "bilstm:ontonotes5": (5e-4, .999, 1e-4, .5, .75, .75, 32, 5, 1e-6),
    "bilstm:ontonotes5,crf": (5e-4, .999, 1e-4, .5, .75, .75, 32, 5, 1e-6),
    "bilstm:ontonotes5,document,crf": (1e-3, .9, 1e-4, .75, .5, .75, 32, 5, 1e-8),
}  # fmt: skip
SETTINGS = """
num_epochs=100 patience=0 optimizer: name=adam_eps_hat b1=0.9 model.head: bias=0.01
model.representation.caps: rule=shape dim=5 unknown=False data: scheme=BILOU min_count=4
zero_digits=True lowercase=False lowercase_fallback=False train_words=True
vectors=lample-embeddings-pre.txt
"""


def assert_settings(arg, settings):
    """Setting these options changes nothing of a config."""
    section, papers = "", configuration.load(arg)
    for word in settings.split():
        name, _, value = word.partition("=")
        if word.endswith(":"):
            section = word.replace(":", ".")
        else:
            configuration.override(papers, section + name, value)
    assert configuration.load(arg).to_dict() == papers.to_dict()


@pytest.mark.parametrize("arg", STRUBELL)
def test_strubells_systems_have_the_authors_settings(arg):
    config = configuration.load(arg)
    model, optimizer = config.model, config.optimizer
    expected, (blocks, *_) = STRUBELL[arg][:9], (*STRUBELL[arg][9:], None)
    assert (
        *(optimizer.learning_rate, optimizer.b2, optimizer.eps),
        1 - model.representation.dropout,
        1 - model.head.dropout,
        1 - model.representation.word_dropout,
        *(config.batch_size, optimizer.clip_norm, config.objective.dropout_penalty),
    ) == pytest.approx(expected)
    is_document, has_crf = "document" in arg, arg.endswith("crf")
    if blocks:
        encoder = model.encoder
        assert (encoder.num_blocks, encoder.share) == (blocks, True)
        assert encoder.hidden_dim == (400 if arg == "idcnn:ontonotes5,crf" else 300)
        kinds = {"block=cnn4": (1, 1, 1), "block=cnn5": (1, 1, 1, 1)}
        assert encoder.dilations == kinds.get(arg.partition(",")[2], (1, 2, 1))
        assert config.objective.stages == ("sum" if is_document else "last")
    assert config.data.unit == ("document" if is_document else "sentence")
    assert model.head.name == ("crf" if has_crf else "softmax")
    assert config.objective.reduction == ("sentence" if has_crf else "token")
    assert_settings(arg, SETTINGS)


# Options by section, as for the command; a config begins a line.
PAPERS = """
grn:conll2003 batch_size=10 num_epochs=200 data: vectors=glove.6B.100d.txt
  lowercase=True min_count=3 scheme=BIOES objective: reduction=sentence
  optimizer: name=sgd learning_rate=0.02 momentum=0.9 decay=0.02 clip_norm=5.0
  model.encoder: hidden_dim=400 model.head: dropout=0.5
grn:conll2003,elmo data: contextual=elmo/{split}.npz
  model.representation.vectors: layer=mix
cnn_bilstm_crf:conll2003 model.encoder: hidden_dim=200 forget_bias=2.0
grn:conll2003,encoder=idcnn model.encoder: dilations=1,2,1 num_blocks=1
parallel_rnn:conll2003 model.encoder: num_units=16 hidden_dim=32 pool=concat
  input_dropout=0.1 state_dropout=0.1 objective: orthogonality=0.01
  orthogonality_form=pairs optimizer: clip_norm=5.0 name=adam data: train_words=False
  model.head: name=softmax model.representation: singleton_dropout=0.5
parallel_rnn:conll2003,orthogonal=false objective: orthogonality=0.0
parallel_rnn:conll2003,pool=mean model.encoder: pool=mean
parallel_rnn:conll2003,init=normal model.encoder: initializer=normal
parallel_rnn:conll2003,dropout=false model.encoder: state_dropout=0.0
parallel_rnn:conll2003,chars=false model.representation: chars=None
cross_bilstm:ontonotes5,model=cross batch_size=32 num_epochs=400
  data: vectors=glove.840B.300d.txt train_words=False lowercase_fallback=False
  model.representation.words: dim=300 evaluation: rule=strict
  model.encoder: hidden_dim=100 num_layers=2 cross=True state_dropout=0.35
  dropout_scope=batch optimizer: name=nadam learning_rate=0.001
  objective: reduction=token
cross_bilstm:wnut17,model=cross batch_size=32 num_epochs=1600
  data: vectors=word2vec_twitter_tokens.txt model.representation.words: dim=400
uanet:conll2003 batch_size=10 num_epochs=100 objective: reduction=sum stages=sum
  data: zero_digits=True standardise_vectors=True
  model.representation.words: initializer=lecun optimizer: name=sgd learning_rate=0.015
  decay=0.05 momentum=0.9 clip_norm=5.0 weight_decay=1e-6 model.encoder: hidden_dim=200
  input_dropout=0.01 state_dropout=0.0 output_dropout=0.25
  model.mc_dropout: num_samples=8 average=scores model.refinement: threshold=0.45
  soft=True num_layers=2 num_heads=7 head_dim=160 label_dim=400 label_scale=600
  dropout=0.15 optimizer.parts.refinement: name=adamw learning_rate=0.0001 warmup=0.1
uanet:conll2003,form=paper model.encoder: state_dropout=0.25 output_dropout=0.0
  model.mc_dropout: average=probabilities model.refinement: soft=False threshold=0.35
uanet:wsj optimizer: learning_rate=0.2
uanet:ontonotes5 model.refinement: num_layers=3
uanet:conll2003,labels=false model.refinement: labels=False
uanet:conll2003,draft=grn model.encoder: name=grn
uanet:conll2003,model=transformer model.encoder: name=transformer optimizer: name=adamw
  clip_norm=5.0 model.mc_dropout: num_samples=0
ncrfpp:conll2003,crf batch_size=10 objective: reduction=sum data: zero_digits=True
  model.representation.words: initializer=lecun optimizer: name=sgd learning_rate=0.015
  decay=0.05 clip_norm=None model.encoder: hidden_dim=100 model.head: name=crf
  model.representation.chars: initializer=torch table_initializer=lecun
lan:conll2003 batch_size=10 patience=10 objective: reduction=sum data: zero_digits=True
  model.representation.words: initializer=lecun optimizer: learning_rate=0.01
  decay=0.035 model.encoder: num_layers=3 hidden_dim=200 num_heads=5 label_bound=0.0025
  model.representation.chars: hidden_dim=25 pool=last
lan:conll2003,crf model.head: transitions=True
seq2seq:conll2003,fusion=joint,beam=4 batch_size=10 objective: reduction=sum
  data: zero_digits=True model.representation.words: initializer=lecun
  model.head: fusion=joint beam_size=4
bert:conll2003,model=uanet optimizer.parts.bert: learning_rate=3e-5
  model.refinement: own_representation=False
"""


@pytest.mark.parametrize(
    "line", re.split(r"\n(?=\S)", PAPERS.strip()), ids=lambda line: line.split()[0]
)
def test_a_system_has_the_papers_settings(line):
    assert_settings(*line.split(maxsplit=1))
