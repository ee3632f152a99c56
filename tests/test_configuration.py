"""Arguments of every config: another encoder, head or character reader."""

import itertools
import sys

import pytest

import jaxner
from jaxner import configuration, models
from jaxner.errors import InputError
from jaxner.runs import Workdir
from jaxner.training import schema
from jaxner.training.corpus import fit_width
from jaxner.training.train import Program
from tests.tiny import pretrained_folder

ENCODERS = sorted(models.ENCODERS.keys() - {"chain"})
HEADS = sorted(models.HEADS.keys() - {"scores"})
READERS = ("cnn", "intnet", "lstm", "none")


def load(text):
    config = configuration.load(text)
    if text.startswith(("bert", "encoder")):
        config.data.pretrained = pretrained_folder()
    return config


@pytest.mark.slow
@pytest.mark.parametrize("name", configuration.names())
def test_every_config_takes_every_part(name):
    """Each encoder with each head, over three configs; both meet each character reader.

    Attention and the head of two directions divide the features that they read.
    """
    pairs = itertools.product(enumerate(ENCODERS), enumerate(HEADS))
    number = configuration.names().index(name)
    for (i, encoder), (j, head) in pairs:
        if (i + j + number) % 3:
            continue
        chars = READERS[(i + j) % len(READERS)]
        config = load(f"{name}:conll2003,encoder={encoder},head={head},chars={chars}")
        config.objective.orthogonality = 0.0  # of units of LSTMs
        if head == "seq2seq":
            config.objective.dropout_penalty = 0.0
            config.model.mc_dropout.num_samples = 0
            config.model.refinement = None
            if name == "uanet":
                configuration.override(config, "optimizer.parts.refinement", "None")
        message = ""
        try:
            schema.check(config.to_dict())
        except ValueError as error:
            message = str(error)
        divides = encoder == "attention" or head == "direction"
        assert not message or ("features" in message and divides)
        model = config.model
        assert encoder in (model.encoder.name, "lan")
        assert head in (model.head.name, *(("crf", "softmax") * (name == "lan")))
        reader = model.representation.chars
        assert chars == ("none" if reader is None else reader.name)


@pytest.mark.parametrize(
    ("argument", "switch"),
    [
        ("ncrfpp:sample,head=crf", "ncrfpp:sample,crf"),
        ("cnn_bilstm_crf:sample,head=softmax", "cnn_bilstm_crf:sample,softmax"),
        ("lan:sample,head=crf", "lan:sample,crf"),
        ("bert:sample,head=crf", "bert:sample,model=crf"),
        ("cross_bilstm:sample,head=direction", "cross_bilstm:sample,model=direction"),
        ("uanet:sample,encoder=grn", "uanet:sample,draft=grn"),
        ("parallel_rnn:sample,chars=none", "parallel_rnn:sample,chars=false"),
        ("grn:sample,encoder=grn,head=crf,chars=cnn", "grn:sample"),
        *((f"cnn_bilstm_crf:{x},encoder=grn", f"grn:{x}") for x in schema.DATASETS),
    ],
)
def test_an_argument_means_what_the_configs_own_option_means(argument, switch):
    actual, expected = load(argument), load(switch)
    if "baseline" not in switch and "direction" in switch:
        expected.model.encoder = actual.model.encoder  # model= picks the encoder, too
    assert actual.to_dict() == expected.to_dict()


def test_a_part_keeps_dropout_and_how_weights_are_drawn():
    chars = load("ncrfpp:sample,chars=lstm").model.representation.chars
    assert (chars.initializer, chars.table_initializer) == ("torch", "lecun")
    assert (chars.dropout, chars.hidden_dim) == (0.5, 25)
    encoder = load("ncrfpp:sample,encoder=idcnn").model.encoder
    assert encoder.initializer == "identity"  # it knows no "torch"
    # It reads the directions of LSTMs.
    assert load("own:sample,encoder=idcnn").model.language_model is None
    head = load("idcnn:conll2003,head=direction").model.head
    assert (head.dropout, head.initializer) == (0.15, "glorot")


def test_another_optimizer_drops_what_only_the_former_one_knows():
    config = configuration.load("grn")
    assert config.optimizer.momentum == 0.9
    options = {"optimizer.b1": "0.8", "optimizer.name": "adam"}
    with pytest.warns(UserWarning, match=r"learning_rate=0\.02 was chosen for sgd"):
        configuration.override_all(config, options)
    schema.check(config.to_dict())
    assert config.optimizer.momentum is None
    assert (config.optimizer.b1, config.optimizer.learning_rate) == (0.8, 0.02)
    for part in ("encoder", "head/transitions"):
        config, path = configuration.load("grn"), f"optimizer.parts.{part}"
        with pytest.warns(UserWarning, match=f"{path}.learning_rate=0.02 was chosen"):
            configuration.override_all(config, {f"{path}.name": "adamw"})
    # With a rate of its own, or among Adam's family, there is no warning.
    options = {"optimizer.name": "sgd", "optimizer.learning-rate": "0.01"}
    configuration.override_all(configuration.load("own"), options)
    configuration.override_all(configuration.load("own"), {"optimizer.name": "adam"})


def test_a_part_that_a_config_lacks_is_added_with_its_defaults():
    config = configuration.load("ncrfpp")
    configuration.override(config, "model.representation.caps.dim", "4")
    configuration.override(config, "model.language_model.weight", "0.2")
    assert config.model.representation.caps.rule == "shape"
    assert config.model.language_model.num_words == 1000
    schema.check(config.to_dict())
    with pytest.raises(InputError, match=r"Unknown option .*refinement\.height"):
        configuration.override(config, "model.refinement.height", "2")
    assert "refinement" not in config.model


def test_a_part_of_the_optimizer_is_added_and_may_be_one_array():
    config = load("grn")
    path = "optimizer.parts.head/transitions"
    configuration.override(config, f"{path}.learning-rate", "1")
    schema.check(config.to_dict())
    rates = {"name": "sgd", "learning_rate": 1.0, "momentum": 0.9, "decay": 0.02}
    (part,) = config.optimizer.parts.items()
    assert {k: v for k, v in part[1].items() if v is not None} == rates
    messages = dict.fromkeys(("head.b1", "head.clip_norm"), "of sgd")
    for name, message in {"hed.decay": "'hed'.* encoder, head", **messages}.items():
        config = load("grn")
        configuration.override(config, f"optimizer.parts.{name}", "0.5")
        with pytest.raises(ValueError, match=message):
            schema.check(config.to_dict())


def test_the_file_of_a_config_is_its_name_where_there_is_no_such_file():
    assert configuration.load("grn.py:wnut17") == configuration.load("grn:wnut17")


def test_a_config_may_have_no_words(tmp_path):
    config = load("grn")
    del config.model.representation.words
    fit_width(config)
    schema.check(config.to_dict())
    program = Program(config, Workdir(tmp_path), None)
    assert [*program.state.params["representation"]] == ["chars"]


def test_vectors_set_the_length_unless_they_have_none(tmp_path):
    """A file without numbers is for its reader to refuse."""
    config = configuration.load("grn:files")
    for text, dim in (("ann\nsaw\n", 100), ("ann 1 2 3\nsaw 1 2 3\n", 3)):
        (tmp_path / "vectors.txt").write_text(text)
        config.data.vectors = str(tmp_path / "vectors.txt")
        fit_width(config)
        assert config.model.representation.words.dim == dim


def test_every_option_is_listed_with_default_meaning_and_range():
    text = configuration.describe("grn:conll2003,context=none")
    assert text.startswith("Gated relation network")
    assert "--config.model.encoder.context=none" in text
    lines = (
        "--config.num_epochs=200\n    Number of epochs; None for 2,000 steps, in 8 to "
        "20 epochs; with few\n    sentences, for 500, in up to 50 (whole number at "
        "least 1 or None)\n"
    )
    assert lines in text
    for section in schema.sections(load("grn:conll2003")):
        for option in section.fields:
            assert f"{section.flag(option)}=" in text


def test_a_config_imports_what_lies_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    tmp_path /= ":1 (2), [b]"
    tmp_path.mkdir()
    text = "import numpy\nSIZE = numpy.int64(7)\n"  # which JSON does not have
    (tmp_path / "sizes_of_mine.py").write_text(text)
    (tmp_path / "mine.py").write_text(
        "from sizes_of_mine import SIZE\n"
        "from jaxner import configuration, families\n"
        "@configuration.options()\n"
        "def get_config(config, arg):\n"
        "    families.chen(config)\n"
        "    config.model.encoder = {'name': 'grn', 'hidden_dim': SIZE}\n"
        "    config.model.head = {'name': 'crf'}\n"
    )
    config = configuration.load(f"{tmp_path / 'mine.py'}:conll2003")
    assert (config.model.encoder.hidden_dim, config.data.name) == (7, "conll2003")
    assert type(config.model.encoder.hidden_dim) is int


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("root:x:0:0\n", r"mine\.py:1: cannot be run: SyntaxError: invalid syntax"),
        ("\n1 / 0\n", r"mine\.py:2: cannot be run: ZeroDivisionError: division by"),
        ("\ndef get_config(arg):\n    return arg.x\n", r"mine\.py:3: cannot be run"),
        ("", "cannot be run: AttributeError: .*get_config"),
        ("def get_config(arg):\n    pass\n", r"mine\.py: expected .* got None"),
        ("get_config = dict\n", r"mine\.py: "),
        ("\nraise SystemExit(3)\n", r"mine\.py:2: cannot be run: SystemExit: 3"),
    ],
)
def test_a_config_that_cannot_be_run_is_told_with_its_line(
    text, message, tmp_path, monkeypatch
):
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    for name in (str(tmp_path / "mine.py"), "mine.py"):
        with pytest.raises(InputError, match=message):
            configuration.load(name)


@pytest.mark.parametrize("file", ["config.json", "model.json"])  # of `jaxner.save`
def test_a_run_that_learns_on_looks_words_up_as_the_old_one(file, tmp_path):
    rules = {"scheme": "BIO", "lowercase": True, "zero_digits": True}
    texts = {"vectors": "a.txt", "tokenizer": "characters"}
    vocabulary, _ = jaxner.build_vocabulary([["Rome"]], ["LOC"], **rules)
    Workdir(tmp_path).write_text("vocabulary.json", vocabulary.to_json())
    Workdir(tmp_path).write_json(file, {"data": texts})
    config, start = load("grn:files"), {"init_from": str(tmp_path)}
    options = config.data.to_dict()
    assert {name: options[name] for name in rules} != rules
    hyphens = {"data.zero-digits": "False", "init-from": start["init_from"]}
    configuration.override_all(config, hyphens)
    expected = {**options, "scheme": "BIO", "lowercase": True, "zero_digits": False}
    assert config.data.to_dict() == expected | texts
    choice = {"data.vectors": "b.txt", "data.tokenizer": "words"}
    for name, more, vectors in (("grn", choice, "b.txt"), ("encoder", {}, None)):
        configuration.override_all(config := load(f"{name}:files"), start | more)
        assert config.data.vectors == vectors
        assert config.data.tokenizer == more.get("data.tokenizer", "characters")
    config = load("grn:files")  # the run is not there: reading its weights will say so
    configuration.override_all(config, {"init_from": str(tmp_path / "nowhere")})
    assert config.data.to_dict() == options
