"""Configs: arguments, overrides, and that each builds what the paper describes."""

import functools
import itertools
import math
import re
import string

import jax
import pytest

from configs import (
    bert,
    bilstm,
    cnn_bilstm_crf,
    cross_bilstm,
    grn,
    idcnn,
    lan,
    ncrfpp,
    parallel_rnn,
    seq2seq,
    uanet,
)
from jaxner import configuration, models
from jaxner.data import corpora
from jaxner.data import vocabulary as vocab
from jaxner.models.grn import CONTEXTS, RELATIONS
from jaxner.training import optim, schema
from jaxner.training.objectives import Objective
from reproduce.plan import Published


def test_arguments():
    defaults = {"dataset": "sample", "seed": 0, "quick": False}
    parse = configuration.parse_arg
    assert parse("", **defaults).to_dict() == defaults
    assert parse(None, **defaults).to_dict() == defaults
    assert parse("wnut17,quick,seed=3", **defaults).to_dict() == {
        "dataset": "wnut17",
        "seed": 3,
        "quick": True,
    }
    assert parse("quick", **defaults).dataset == "sample"
    for arg, message in {
        "sample,sead=3": "Unknown config option 'sead'.*Did you mean 'seed'",
        "sample,fast": "Unknown config option 'fast'",
        "seed=x": "seed after the colon must be a whole number, got 'x'",
        "quick=x": "quick after the colon must be true or false, got 'x'",
    }.items():
        with pytest.raises(ValueError, match=message):
            parse(arg, **defaults)


def test_data_sets_are_the_known_corpora_and_ones_own():
    assert set(schema.DATASETS) == {*corpora.CORPORA, "files"}


def test_unknown_data_sets_name_the_known_ones():
    with pytest.raises(ValueError, match="known: sample, conll2003"):
        configuration.base("conll03")


def given(section):
    """The options of a section that are set."""
    return {k: v for k, v in section.to_dict().items() if v is not None}


@pytest.mark.parametrize("dataset", schema.DATASETS)
def test_grn_has_the_papers_hyper_parameters(dataset):
    config = grn.get_config(dataset)
    assert config.batch_size == 10
    assert given(config.optimizer) == {
        "name": "sgd",
        "learning_rate": 0.02,
        "momentum": 0.9,
        "decay": 0.02,
        "clip_norm": 5.0,
    }
    assert config.objective.reduction == "sentence"
    assert config.data.scheme == ("tags" if dataset in schema.TAGGED else "BIOES")
    if dataset != "sample":
        assert config.num_epochs == 200
        assert config.data.vectors == "glove.6B.100d.txt"
        assert config.data.lowercase
        assert config.data.min_count == 3


@pytest.mark.parametrize(
    ("context", "relation"),
    [*itertools.product(CONTEXTS, RELATIONS)],
)
def test_every_ablation_builds(context, relation):
    config = grn.get_config(f"sample,context={context},relation={relation}")
    sizes = {
        "num_labels": 17,
        "num_trained_words": 50,
        "num_frozen_words": 0,
        "num_chars": 30,
    }
    model = models.build(**sizes, **config.model.to_dict())
    encoder = jax.eval_shape(lambda: models.init(model, jax.random.key(0)))[
        "params"
    ].get("encoder", {})
    convs = {"all": 3, "branch3": 1, "none": 0}[context]
    assert sum(name.startswith("conv") for name in encoder) == convs
    width = 130 if context == "none" else 400
    if relation == "none":
        assert "from" not in encoder
    else:
        outputs = 1 if relation == "attention" else width
        assert encoder["from"]["kernel"].shape == (width, outputs)


# --- All systems ----------------------------------------------------------------------

MODULES = {
    module.__name__.removeprefix("configs."): module
    for module in (
        *(bilstm, cnn_bilstm_crf, cross_bilstm, grn, idcnn, parallel_rnn),
        *(uanet, ncrfpp, lan, seq2seq, bert),
    )
}


SMALL_BERT = {
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}


def shapes_of(config, num_labels=17, words=50, chars=30):
    """Sizes of the parameters; the whole run of each system can be built."""
    tx = optim.build(config.optimizer.to_dict(), 10, 5)
    Objective.of(config.objective.to_dict())
    frozen = config.data.train_words is False
    bert = config.model.representation.get("bert")
    model = models.build(
        vector_sizes=(3, 8) if config.data.contextual else None,
        encoder_sizes=SMALL_BERT if bert else None,
        num_labels=num_labels,
        num_trained_words=2 if frozen else words,
        num_frozen_words=words if frozen else 0,
        num_chars=chars,
        char_types=(0,) * chars,
        **config.model.to_dict(),
    )
    params = shapes_of_model(model)
    assert jax.eval_shape(tx.init, params)
    return params


@functools.cache  # many rows and data sets have the same model
def shapes_of_model(model):
    return jax.eval_shape(lambda: models.init(model, jax.random.key(0)))["params"]


def count(tree):
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize(
    ("name", "arg"),
    [cell.config.split(":", 1) for cell in Published.load().cells.values()],
)
def test_every_cell_of_the_tables_builds(name, arg):
    config = MODULES[name].get_config(arg)
    assert config.data.name == arg.partition(",")[0]
    assert shapes_of(config)
    assert config.optimizer.learning_rate > 0


@pytest.mark.parametrize("dataset", schema.DATASETS)
@pytest.mark.parametrize("name", MODULES)
def test_every_system_has_every_data_set(name, dataset):
    config = MODULES[name].get_config(dataset)
    assert config.data.name == dataset
    assert shapes_of(config)
    assert config.data.dir is None
    if dataset == "sample":
        assert MODULES[name].get_config() == config
        assert config.data.vectors is None  # there are none in the package
        assert config.num_epochs <= 30
    else:
        assert config.data.vectors or config.model.representation.words is None
    with pytest.raises(ValueError, match="Unknown data set 'conll'; known: sample, "):
        MODULES[name].get_config("conll")
    with pytest.raises(ValueError, match="Unknown config option 'x'"):
        MODULES[name].get_config(f"{dataset},x=1")


def test_unknown_values_name_the_known_ones():
    for module, arg, message in (
        (idcnn, "sample,block=cnn6", "Unknown block 'cnn6'; known: idcnn, cnn4, cnn5"),
        (idcnn, "conll2003,block=x", "Unknown block 'x'; known: idcnn, cnn4, cnn5"),
        (cross_bilstm, "sample,model=x", "Unknown model 'x'; known: att, cross, base"),
        (parallel_rnn, "sample,init=x", "Unknown init 'x'; known: glorot, normal"),
        (parallel_rnn, "sample,size=7", "size must be even, .* got 7"),
    ):
        with pytest.raises(ValueError, match=message):
            module.get_config(arg)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_say_what_the_options_are(name):
    module, found = MODULES[name], 0
    assert f"configs/{name}.py" in module.__doc__
    assert module.get_config.__doc__
    for line in module.__doc__.splitlines():
        option = re.match(r" {4}([a-z]+(=[a-z0-9.]+)?) {2,}\S", line)
        if option and not option[1].startswith("python"):
            module.get_config(f"sample,{option[1].replace('=N', '=2')}")
            found += 1
    assert found


# --- Strubell et al. (2017) -----------------------------------------------------------

# Their files of settings: learning rate, β2, ε; what is KEPT of inputs, features and
# words; batch size, clip norm, weight of the dropout penalty, blocks.
FILES = {
    # idcnn
    "conll2003": (5e-4, 0.9, 1e-6, 0.65, 0.85, 0.85, 128, 5, 1e-4, 1),
    "conll2003,crf": (5e-4, 0.9, 1e-6, 0.65, 0.85, 0.85, 128, 5, 1e-4, 1),
    "conll2003,document": (1e-3, 0.999, 1e-4, 0.75, 0.75, 0.75, 32, None, 1e-4, 3),
    "conll2003,block=cnn4": (5e-4, 0.9, 1e-8, 0.85, 0.65, 0.65, 128, None, 1e-4, 1),
    "conll2003,block=cnn5": (5e-4, 0.9, 1e-6, 0.85, 1.0, 0.75, 128, None, 1e-4, 1),
    "ontonotes5": (1e-4, 0.99, 1e-6, 0.65, 0.25, 0.85, 64, None, 1e-6, 3),
    "ontonotes5,crf": (1e-4, 0.999, 1e-6, 0.65, 0.25, 0.85, 32, None, 1e-6, 1),
    "ontonotes5,document": (5e-4, 0.99, 1e-8, 0.75, 0.5, 0.75, 32, None, 1e-6, 4),
}
BILSTM_FILES = {
    "conll2003": (5e-4, 0.9, 1e-4, 0.5, 0.75, 0.75, 64, 1, 1e-5),
    "conll2003,crf": (5e-4, 0.9, 1e-4, 0.5, 0.75, 0.75, 64, 1, 1e-5),
    "conll2003,document,crf": (1e-3, 0.9, 1e-4, 0.65, 0.65, 0.75, 32, 10, 1e-4),
    "ontonotes5": (5e-4, 0.999, 1e-4, 0.5, 0.75, 0.75, 32, 5, 1e-6),
    "ontonotes5,crf": (5e-4, 0.999, 1e-4, 0.5, 0.75, 0.75, 32, 5, 1e-6),
    "ontonotes5,document,crf": (1e-3, 0.9, 1e-4, 0.75, 0.5, 0.75, 32, 5, 1e-8),
}


def settings_of(config):
    model, optimizer = config.model, config.optimizer
    assert optimizer.name == "adam_eps_hat"
    assert optimizer.b1 == 0.9
    return (
        *(optimizer.learning_rate, optimizer.b2, optimizer.eps),
        1 - model.representation.dropout,
        1 - model.head.dropout,
        1 - model.representation.word_dropout,
        *(config.batch_size, optimizer.clip_norm, config.objective.dropout_penalty),
    )


@pytest.mark.parametrize("arg", FILES)
def test_idcnn_has_the_authors_settings(arg):
    config = idcnn.get_config(arg)
    *expected, blocks = FILES[arg]
    assert settings_of(config) == pytest.approx(tuple(expected))
    encoder = config.model.encoder
    assert encoder.num_blocks == blocks
    assert encoder.share
    assert encoder.hidden_dim == (400 if arg == "ontonotes5,crf" else 300)
    kinds = {"block=cnn4": (1, 1, 1), "block=cnn5": (1, 1, 1, 1)}
    assert encoder.dilations == kinds.get(arg.partition(",")[2], (1, 2, 1))
    document = "document" in arg
    assert config.objective.stages == ("sum" if document else "last")
    check_strubell(config, arg)


@pytest.mark.parametrize("arg", BILSTM_FILES)
def test_bilstm_has_the_authors_settings(arg):
    config = bilstm.get_config(arg)
    assert settings_of(config) == pytest.approx(BILSTM_FILES[arg])
    check_strubell(config, arg)


def check_strubell(config, arg):
    """What all their systems share."""
    assert config.num_epochs == 100
    assert config.patience == 0
    data, crf = config.data, arg.endswith("crf")
    assert data.unit == ("document" if "document" in arg else "sentence")
    assert (data.scheme, data.zero_digits, data.lowercase) == ("BILOU", True, False)
    assert (data.min_count, data.vectors) == (4, "lample-embeddings-pre.txt")
    assert data.train_words
    assert not data.lowercase_fallback
    assert config.optimizer.name == "adam_eps_hat"
    assert config.model.representation.words.dim == 100
    caps = config.model.representation.caps
    assert (caps.rule, caps.dim, caps.unknown) == ("shape", 5, False)
    assert config.model.representation.chars is None
    assert config.model.head.name == ("crf" if crf else "softmax")
    assert config.objective.reduction == ("sentence" if crf else "token")
    assert config.objective.dropout_penalty_form == "strubell"
    assert config.model.head.bias == 0.01


def test_options_of_strubell_change_what_they_name():
    for module in (idcnn, bilstm):
        changed = module.get_config("conll2003,dr=false")
        assert changed.objective.dropout_penalty == 0
        changed.objective.dropout_penalty = 1e-5 if module is bilstm else 1e-4
        assert changed == module.get_config("conll2003")
    last = idcnn.get_config("conll2003,document,loss=last")
    assert last.objective.stages == "last"
    noshare = idcnn.get_config("conll2003,document,noshare")
    assert noshare.objective.stages == "sum"
    heads = {name for name in shapes_of(noshare) if "head" in name}
    assert heads == {"head", "earlier_heads_0", "earlier_heads_1"}
    assert idcnn.get_config("ontonotes5,blocks=1").model.encoder.num_blocks == 1


@pytest.mark.parametrize(
    ("arg", "size", "layers", "blocks"),
    [
        ("conll2003", 300, 3, 1),
        ("conll2003,document", 300, 3, 1),  # three, which share their weights
        ("conll2003,document,noshare", 300, 3, 3),
        ("conll2003,block=cnn4", 300, 3, 1),
        ("conll2003,block=cnn5", 300, 4, 1),
        ("ontonotes5,crf", 400, 3, 1),
    ],
)
def test_parameters_of_idcnn(arg, size, layers, blocks):
    shapes = shapes_of(idcnn.get_config(arg))
    first = 105 * 3 * size + size
    block = layers * (3 * size * size + size)
    assert count(shapes["encoder"]) == first + blocks * block
    pairs = 17 * 17 if arg.endswith("crf") else 0
    assert count(shapes["head"]) == 17 * size + 17 + pairs
    assert count(shapes["representation"]) == 50 * 100 + 5 * 5


@pytest.mark.parametrize("arg", ["conll2003", "conll2003,crf"])
def test_parameters_of_strubells_bilstm(arg):
    shapes = shapes_of(bilstm.get_config(arg))
    n, m = 150, 105
    one_direction = 4 * (n * m + n * n) + 4 * n
    dense = 300 * 150 + 150
    assert count(shapes["encoder"]["first"]) == 2 * one_direction
    assert count(shapes["encoder"]["then"]) == dense
    assert count(shapes["head"]) == 150 * 17 + 17 + (289 if "crf" in arg else 0)


# --- Chen et al. (2019) ---------------------------------------------------------------


def test_cnn_bilstm_crf_is_grn_but_for_the_encoder():
    """With GRN's sizes and training, which its own tests compare with the paper."""
    for dataset in schema.DATASETS:
        one, other = (m.get_config(dataset) for m in (cnn_bilstm_crf, grn))
        one.model.encoder = other.model.encoder
        assert one == other
    n, m = 200, 130
    shapes = shapes_of(cnn_bilstm_crf.get_config("conll2003"))
    lstm = 2 * (4 * (n * m + n * n) + 4 * n)
    assert count(shapes["encoder"]) == lstm
    assert shapes["head"]["emissions"]["kernel"].shape == (400, 17)
    shapes = shapes_of(cnn_bilstm_crf.get_config("conll2003,attention"))
    assert count(shapes["encoder"]["first"]) == lstm
    assert count(shapes["encoder"]["then"]) == 3 * 400 * 400
    assert shapes["head"]["emissions"]["kernel"].shape == (800, 17)
    softmax = shapes_of(cnn_bilstm_crf.get_config("conll2003,softmax"))
    assert set(softmax["head"]) == {"emissions"}


# --- Žukov-Gregorič et al. (2018) -----------------------------------------------------


def test_parallel_rnn_has_the_papers_hyper_parameters():
    config = parallel_rnn.get_config("conll2003")
    encoder = config.model.encoder
    assert (encoder.num_units, encoder.hidden_dim, encoder.pool) == (16, 32, "concat")
    assert (encoder.input_dropout, encoder.state_dropout) == (0.1, 0.1)
    assert config.objective.orthogonality == 0.01
    # By measurement, not by the paper's letter; its docstring has the figures.
    assert config.objective.orthogonality_form == "pairs"
    assert config.optimizer.clip_norm == 5
    assert not config.data.train_words
    assert parallel_rnn.get_config("sample").data.train_words  # there are no vectors
    assert config.model.representation.singleton_dropout == 0.5
    assert config.objective.reduction == "sentence"
    assert config.optimizer.name == "adam"
    assert 1e-3 <= config.optimizer.learning_rate <= 5e-3
    assert config.model.head.name == "softmax"
    representation = config.model.representation
    assert representation.words.dim == 100
    assert representation.chars.hidden_dim * 2 == 50
    assert config.data.vectors == "lample-embeddings-pre.txt"
    assert config.data.zero_digits
    assert not config.data.lowercase
    for arg, (section, name, value) in {
        "orthogonal=false": ("objective", "orthogonality", 0.0),
        "pool=mean": ("encoder", "pool", "mean"),
        "init=normal": ("encoder", "initializer", "normal"),
        "dropout=false": ("encoder", "state_dropout", 0.0),
    }.items():
        changed = parallel_rnn.get_config(f"conll2003,{arg}")
        part = changed.objective if section == "objective" else changed.model[section]
        assert part[name] == value
        assert changed != config
    dropped = parallel_rnn.get_config("conll2003,dropout=false").model.encoder
    assert dropped.input_dropout == 0
    without = parallel_rnn.get_config("conll2003,chars=false")
    assert without.model.representation.chars is None


@pytest.mark.parametrize(
    ("units", "size"), [(16, 64), (1, 1024), (2, 512), (32, 32), (128, 8), (16, 8)]
)
def test_parameters_of_parallel_rnn(units, size):
    config = parallel_rnn.get_config(f"conll2003,units={units},size={size}")
    shapes = shapes_of(config)
    n, m = size // 2, 100 + 50
    cell = 4 * (n * m + n * n) + 4 * n
    assert count(shapes["encoder"]) == 2 * units * cell
    assert shapes["head"]["emissions"]["kernel"].shape == (units * size, 17)
    characters = shapes["representation"]["chars"]
    assert count(characters["lstm"]) == 2 * (4 * (25 * 25 + 25 * 25) + 4 * 25)
    mean = shapes_of(
        parallel_rnn.get_config(f"conll2003,units={units},size={size},pool=mean")
    )
    assert mean["head"]["emissions"]["kernel"].shape == (size, 17)


# --- Li, Fu and Ma (2020) -------------------------------------------------------------


@pytest.mark.parametrize("model", ["att", "cross", "baseline", "direction"])
@pytest.mark.parametrize(
    ("dataset", "dim", "epochs", "labels"),
    [("ontonotes5", 300, 400, 73), ("wnut17", 400, 1600, 25)],
)
def test_cross_bilstm_has_the_papers_hyper_parameters(
    model, dataset, dim, epochs, labels
):
    config = cross_bilstm.get_config(f"{dataset},model={model}")
    assert (config.batch_size, config.num_epochs) == (32, epochs)
    assert given(config.optimizer) == {"name": "nadam", "learning_rate": 1e-3}
    assert config.objective.reduction == "token"
    data = config.data
    assert (data.lowercase, data.zero_digits, data.train_words) == (False,) * 3
    assert not data.lowercase_fallback
    assert config.evaluation.rule == "strict"
    assert config.model.representation.singleton_dropout == 0
    assert data.scheme == "BIOES"
    files = {300: "glove.840B.300d.txt", 400: "word2vec_twitter_tokens.txt"}
    assert data.vectors == files[dim]
    representation = config.model.representation
    assert (representation.dropout, config.model.head.dropout) == (0, 0)
    lstm = config.model.encoder.get("first", config.model.encoder)
    assert (lstm.hidden_dim, lstm.num_layers, lstm.dropout_scope) == (100, 2, "batch")
    for name in ("input_dropout", "state_dropout", "output_dropout"):
        assert 1 - lstm[name] == pytest.approx(0.65)
    assert lstm.cross == (model == "cross")

    # 20 filters of each width on 25 + 4 dimensions, 4 classes of capitals.
    inputs = dim + 4 + 60
    shapes = shapes_of(config, num_labels=labels, chars=87)
    characters = shapes["representation"]["chars"]
    assert characters["table"].shape == (87, 25)
    kernels = [characters[f"conv{w}"]["kernel"].shape for w in (1, 2, 3)]
    assert kernels == [(29, 20), (58, 20), (87, 20)]
    # One trained vector in the place of a word's vector and capitals: 304 or 404.
    assert shapes["representation"]["words"]["trained"].shape == (2, dim)
    assert shapes["representation"]["caps"]["unknown"].shape == (1, 4)
    n, below = 100, 200 if model == "cross" else 100
    lstm_size = sum(2 * (4 * (n * m + n * n) + 4 * n) for m in (inputs, below))
    encoder = shapes["encoder"]
    assert count(encoder.get("first", encoder)) == lstm_size
    first = encoder.get("first", encoder)["layer1"]["input"]
    assert first.shape[2] == inputs == {300: 364, 400: 464}[dim]
    if model == "att":
        assert count(encoder["then"]) == 3 * 5 * 200 * 40
        assert count(shapes["head"]) == 400 * labels + labels
    elif model == "direction":
        assert count(shapes["head"]) == 2 * (100 * labels + labels)
    else:
        assert count(shapes["head"]) == 200 * labels + labels


def test_alphabet_of_li_fu_and_ma():
    """87 symbols, two of which are padding and the unknown one."""
    alphabet = cross_bilstm.get_config("wnut17").data.alphabet
    assert len(set(alphabet)) == len(alphabet) == 85
    assert set(string.ascii_letters + string.digits) < set(alphabet)
    assert sum(char in string.punctuation for char in alphabet) == 23


def test_punctuation_beyond_that_alphabet_is_punctuation():
    """Nine characters, which the authors' code types by what they are."""
    options = cross_bilstm.get_config("wnut17").data
    vocabulary, _ = vocab.build(
        [["x"]],
        ["LOC"],
        alphabet=options.alphabet,
        typed_unknowns=options.typed_unknowns,
    )
    beyond = sorted(set(string.punctuation) - set(options.alphabet))
    assert beyond == sorted("_|~^\\<>{}")
    chars = vocabulary.encode(["".join(beyond)]).chars[1]
    assert {vocabulary.char_types[char] for char in chars} == {4}
    assert (chars >= len(vocabulary.chars)).all()  # with the unknown one's vector


# --- Gui et al. (2020) ----------------------------------------------------------------


def test_uanet_has_the_flags_of_the_authors_readme():
    config = uanet.get_config("conll2003")
    model = config.model.to_dict()
    representation, encoder = model["representation"], model["encoder"]
    assert representation["words"]["dim"] == 100
    chars = representation["chars"]
    assert (chars["dim"], chars["num_filters"], chars["width"]) == (30, 50, 3)
    assert (chars["dropout"], representation["dropout"]) == (0.5, 0.5)
    assert (encoder["name"], encoder["hidden_dim"], encoder["num_layers"]) == (
        *("bilstm", 200),
        1,
    )
    rates = [encoder[f"{kind}_dropout"] for kind in ("input", "state", "output")]
    assert rates == [0.01, 0.0, 0.25]
    head = [model["head"][name] for name in ("name", "dropout", "initializer")]
    assert head == ["softmax", 0.0, "torch"]
    assert model["mc_dropout"]["num_samples"] == 8
    assert model["mc_dropout"]["parts"] == ("encoder",)
    assert model["mc_dropout"]["average"] == "scores"
    refinement = model["refinement"]
    assert {name: refinement[name] for name in ("threshold", "soft", "labels")} == {
        "threshold": 0.45,
        "soft": True,
        "labels": True,
    }
    assert (refinement["num_layers"], refinement["num_heads"]) == (2, 7)
    assert (refinement["head_dim"], refinement["label_dim"]) == (160, 400)
    assert refinement["label_scale"] == 600
    assert (refinement["dropout"], refinement["attention_dropout"]) == (0.15, 0.05)
    assert refinement["head"]["dropout"] == 0.15
    assert (config.objective.reduction, config.objective.stages) == ("sum", "sum")
    assert (config.batch_size, config.num_epochs) == (10, 100)
    assert config.data.zero_digits
    assert config.data.standardise_vectors
    assert config.data.scheme == "BIOES"
    assert given(config.optimizer) | {"parts": None} == {
        "name": "sgd",
        "learning_rate": 0.015,
        "momentum": 0.9,
        "decay": 0.05,
        "weight_decay": 1e-6,
        "clip_norm": 5.0,
        "parts": None,
    }
    assert given(config.optimizer.parts.refinement) == {
        "name": "adamw",
        "learning_rate": 1e-4,
        "eps": 1e-6,
        "weight_decay": 1e-6,
        "warmup": 0.1,
    }
    assert uanet.get_config("wsj").optimizer.learning_rate == 0.2
    assert uanet.get_config("ontonotes5").model.refinement.num_layers == 3


def test_the_letter_of_uanets_paper():
    model = uanet.get_config("conll2003,form=paper").model
    encoder, refinement = model.encoder, model.refinement
    assert (encoder.input_dropout, encoder.state_dropout) == (0.01, 0.25)
    assert encoder.output_dropout == 0
    assert model.mc_dropout.average == "probabilities"
    assert (refinement.soft, refinement.form) == (False, "paper")
    assert refinement.threshold == 0.35


def test_parameters_of_uanet():
    """Sizes from the equations, for 17 labels, 50 words and 30 characters."""
    params = shapes_of(uanet.get_config("conll2003"))
    words = 50 * 100 + 30 * 30 + (3 * 30 * 50 + 50)
    lstm = 2 * (150 * 800 + 200 * 800 + 800)
    assert count({k: v for k, v in params.items() if k != "refinement"}) == (
        words + lstm + 400 * 17 + 17
    )
    d, one = 1120, 160
    attention = 3 * d * d + one * one + 2 * d
    layer = attention + (d * 2 * d + 2 * d) + (2 * d * d + d) + 4 * d
    streams = (150 * d + d) + (400 * d + d) + 2 * layer + attention
    assert count(params["refinement"]) == (words + 17 * 400 + streams + 2 * d * 17 + 17)


def test_options_of_uanet_change_what_they_name():
    model = uanet.get_config("conll2003,model=variational,crf").model
    assert "refinement" not in model
    assert model.head.name == "crf"
    assert model.mc_dropout.num_samples == 8
    transformer = uanet.get_config("conll2003,model=transformer")
    assert transformer.model.encoder.name == "transformer"
    assert transformer.model.mc_dropout.num_samples == 0
    assert transformer.optimizer.name == "adamw"
    assert transformer.optimizer.clip_norm == 5
    assert not uanet.get_config("conll2003,labels=false").model.refinement.labels
    chars = uanet.get_config("conll2003,chars=intnet").model.representation.chars
    assert chars.name == "intnet"
    grn_draft = uanet.get_config("conll2003,draft=grn").model
    assert grn_draft.encoder.name == "grn"
    assert grn_draft.mc_dropout.parts == ("head",)
    assert grn_draft.head.dropout > 0
    for arg, message in (
        ("sample,model=x", "Unknown model 'x'; known: uanet, variational, transformer"),
        ("sample,draft=x", "Unknown draft 'x'; known: bilstm, grn, idcnn"),
        ("sample,form=x", "Unknown form 'x'; known: code, paper"),
        ("sample,chars=x", "Unknown chars 'x'; known: cnn, intnet"),
        ("sample,model=variational,labels=false", "options of model=uanet"),
        ("sample,model=transformer,draft=grn", "has no draft"),
    ):
        with pytest.raises(ValueError, match=message):
            uanet.get_config(arg)


def test_bert_is_tuned_with_a_rate_of_its_own():
    for arg in ("softmax", "crf", "uanet"):
        config = bert.get_config(f"conll2003,model={arg}")
        rate = config.optimizer.parts.bert.learning_rate
        assert rate < config.optimizer.learning_rate
        params = shapes_of(config)
        assert "bert" in params["representation"]
        if arg == "uanet":
            assert "representation" not in params["refinement"]
            assert "refinement" in config.optimizer.parts
    assert bert.get_config("sample,pool=mean").model.representation.bert.pool == "mean"
    with pytest.raises(ValueError, match="Unknown pool 'last'; known: first, mean"):
        bert.get_config("sample,pool=last")


def test_grn_with_elmo_reads_vectors_beside_the_words():
    config = grn.get_config("conll2003,elmo")
    assert config.data.contextual == "elmo/{split}.hdf5"
    assert config.model.representation.vectors.layer == "mix"
    plain, rich = (
        shapes_of(grn.get_config(a)) for a in ("conll2003", "conll2003,elmo")
    )
    kernels = [p["encoder"]["conv1"]["kernel"].shape for p in (plain, rich)]
    assert kernels == [(130, 400), (138, 400)]


@pytest.mark.parametrize(
    ("name", "arg"),
    [
        *(("ncrfpp", "conll2003"), ("ncrfpp", "conll2003,chars=intnet")),
        *(("uanet", "conll2003"), ("uanet", "conll2003,model=transformer")),
        *(("uanet", "conll2003,chars=intnet"), ("seq2seq", "conll2003")),
        ("lan", "conll2003"),
    ],
)
def test_ncrfpps_family_draws_characters_as_pytorch_does(name, arg):
    """Filters or LSTMs U(±1/√fan-in); vectors of words and characters U(±√(3/dim))."""
    representation = MODULES[name].get_config(arg).model.representation
    assert representation.chars.initializer == "torch"
    assert representation.chars.table_initializer == "lecun"
    assert representation.chars.dropout == 0.5
    assert representation.words.initializer == "lecun"


def test_the_rivals_have_their_authors_settings():
    crf = ncrfpp.get_config("conll2003,crf")
    assert crf.model.head.name == "crf"
    assert crf.model.encoder.hidden_dim == 100
    assert given(crf.optimizer) == {
        "name": "sgd",
        "learning_rate": 0.015,
        "decay": 0.05,
        "weight_decay": 1e-8,
    }
    net = lan.get_config("conll2003")
    encoder = net.model.encoder
    assert (encoder.num_layers, encoder.hidden_dim, encoder.num_heads) == (3, 200, 5)
    assert (encoder.dropout, encoder.weight_dropout) == (0.5, 0.5)
    assert encoder.label_bound == 0.0025
    chars = net.model.representation.chars
    assert (chars.hidden_dim * 2, chars.pool, chars.forget_bias) == (50, "last", 0.0)
    assert given(net.optimizer) == {
        "name": "sgd",
        "learning_rate": 0.01,
        "momentum": 0.9,
        "decay": 0.035,
        "weight_decay": 1e-8,
        "clip_norm": 5.0,
    }
    assert net.patience == 10
    assert lan.get_config("conll2003,crf").model.head.transitions
    assert lan.get_config("conll2003,layers=2").model.encoder.num_layers == 2
    head = seq2seq.get_config("conll2003,fusion=joint,beam=4").model.head
    assert (head.name, head.fusion, head.beam_size) == ("seq2seq", "joint", 4)
    with pytest.raises(ValueError, match="Unknown fusion 'x'; known: shared"):
        seq2seq.get_config("conll2003,fusion=x")
    for config in (crf, net, seq2seq.get_config("conll2003")):
        assert config.objective.reduction == "sum"
        assert config.batch_size == 10
        assert config.data.zero_digits
