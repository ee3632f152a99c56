"""Arguments of every config: another encoder, head or character reader."""

import itertools
import sys
from pathlib import Path

import pytest

from jaxner import configuration, models
from jaxner.errors import InputError
from jaxner.training import schema

ENCODERS = sorted(models.ENCODERS.keys() - {"chain"})
HEADS = sorted(models.HEADS.keys() - {"scores"})
READERS = ("cnn", "intnet", "lstm", "none")


def load(text):
    config = configuration.load(text)
    if text.startswith(("bert", "encoder")):
        config.data.pretrained = str(Path(__file__).parent)
    return config


@pytest.mark.slow
@pytest.mark.parametrize("name", configuration.names())
def test_every_config_takes_every_part(name):
    """Each encoder with each head; both meet each reader of characters."""
    pairs = itertools.product(enumerate(ENCODERS), enumerate(HEADS))
    for (i, encoder), (j, head) in pairs:
        chars = READERS[(i + j) % len(READERS)]
        config = load(f"{name}:conll2003,encoder={encoder},head={head},chars={chars}")
        config.objective.orthogonality = 0.0  # of units of LSTMs
        if head == "seq2seq":
            config.objective.dropout_penalty = 0.0
            config.model.mc_dropout.num_samples = 0
            config.model.refinement = None
        schema.check(config.to_dict())
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
    ours, expected = load(argument), load(switch)
    if "baseline" not in switch and "direction" in switch:
        expected.model.encoder = ours.model.encoder  # model= picks the encoder, too
    assert ours.to_dict() == expected.to_dict()


def test_a_part_keeps_dropout_and_how_weights_are_drawn():
    chars = load("ncrfpp:sample,chars=lstm").model.representation.chars
    assert (chars.initializer, chars.table_initializer) == ("torch", "lecun")
    assert (chars.dropout, chars.hidden_dim) == (0.5, 25)
    encoder = load("ncrfpp:sample,encoder=idcnn").model.encoder
    assert encoder.initializer == "identity"  # it knows no "torch"
    head = load("idcnn:conll2003,head=direction").model.head
    assert (head.dropout, head.initializer) == (0.15, "glorot")


# --- Overrides ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("optimizer.learning-rate", "1", 1.0),
        ("optimizer.clip_norm", "None", None),
        ("data.lowercase", "0", False),
        ("data.dir", "~/data", str(Path.home() / "data")),
        ("model.representation.chars.width", "(3,5)", (3, 5)),
        ("model.mc_dropout.parts", "('encoder', 'head')", ("encoder", "head")),
    ],
)
def test_an_option_is_set(name, text, value):
    config = load("grn")
    configuration.override(config, name, text)
    for part in name.replace("-", "_").split("."):
        config = config[part]
    assert config == value
    assert type(config) is type(value)


def test_every_option_is_listed_with_default_meaning_and_range():
    text = configuration.describe("grn:conll2003,context=none")
    assert text.startswith("Gated relation network")
    assert "--config.model.encoder.context=none" in text
    line = "--config.num_epochs=200\n    Number of epochs (whole number at least 1)"
    assert line in text
    for section in schema.sections(load("grn:conll2003")):
        for option in section.fields:
            assert f"{section.flag(option)}=" in text


# --- A config of one's own ------------------------------------------------------------


def test_a_config_imports_what_lies_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    tmp_path /= ":1 (2), [b]"
    tmp_path.mkdir()
    (tmp_path / "sizes_of_mine.py").write_text("SIZE = 7\n")
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("root:x:0:0\n", r"mine\.py:1: cannot be run: SyntaxError: invalid syntax"),
        ("\n1 / 0\n", r"mine\.py:2: cannot be run: ZeroDivisionError: division by"),
        ("\ndef get_config(arg):\n    return arg.x\n", r"mine\.py:3: cannot be run"),
        ("", "cannot be run: AttributeError: .*get_config"),
    ],
)
def test_a_config_that_cannot_be_run_is_told_with_its_line(text, message, tmp_path):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(InputError, match=message):
        configuration.load(str(tmp_path / "mine.py"))
