"""The fence: what the library did before it was rebuilt, it does after.

The golden files were made by `make_fence.py` of 6c7bfba, from the library of that day.
A change that breaks one of these tests breaks a promise to users: saved runs load and
answer the same, the systems of the tables have the same weights and the same losses,
and no public name, command or option is lost. Of systems that differ only in rates and
in numbers of layers, blocks or units, one stands for all; five of a later day have
weights alone, and Seq2seq's losses are later, of SGD with momentum. The fast tests take
a few; whoever changes models, training or inference runs all: `pytest -m "slow or not
slow"`.
"""

import functools

import numpy as np
import pytest

import jaxner
import train
from jaxner import cli, spellings, tagging
from jaxner.checkpoints import Checkpoints
from tests import fence
from tests.marks import slow
from tests.training import runs

FAST = "grn.py:conll2003"
SLOW = [system for system in fence.SYSTEMS if system != FAST]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A corpus of a few sentences, and what configs read beside it, by dimension."""
    folder = tmp_path_factory.mktemp("fence")
    corpus = fence.write_corpus(folder / "corpus", fence.CORPUS)

    @functools.cache
    def of(dim):
        return corpus, fence.write_inputs(corpus, folder / str(dim), dim)

    return of


@pytest.fixture
def plain_training(monkeypatch):
    """Takes the right labels for the tagger's, and saves no state to resume from.

    Compiling the prediction takes as long as training. No loss depends on a score, and
    stored runs tell what taggers answer.
    """

    def label_split(tagger, split, **options):
        labels = [e.labels for e in split.to_scheme(tagger.vocabulary.scheme)]
        return labels, labels

    def save_best(series, *arguments):
        if series.path.name == "best":
            save(series, *arguments)

    save = Checkpoints.save
    monkeypatch.setattr(Checkpoints, "save", save_best)
    monkeypatch.setattr(tagging, "label_split", label_split)


@pytest.mark.usefixtures("plain_training")
@pytest.mark.parametrize("system", [FAST, *slow(*SLOW)])
def test_a_system_has_its_weights_and_first_losses(system, inputs, tmp_path):
    words = fence.config_of(system).model.representation.words
    config = fence.small(system, *inputs(100 if words is None else words.dim))
    golden = fence.SYSTEMS[system]
    tree = golden["weights"]
    if isinstance(tree, str):  # the name of a system with the same
        tree = fence.SYSTEMS[tree]["weights"]
    if "losses" not in golden:
        assert fence.shapes(fence.untrained(config)) == tree
        return
    train.main_run(config, tmp_path)
    assert fence.shapes(jaxner.load(tmp_path).weights) == tree
    np.testing.assert_allclose(runs.losses(tmp_path), golden["losses"], rtol=2e-4)


@pytest.mark.parametrize("name", fence.CASES)
def test_a_stored_run_answers_as_on_the_day_it_was_saved(name, tmp_path):
    fence.check(name, tmp_path)


def test_no_public_name_is_lost():
    assert set(fence.DOORS["jaxner"]) <= set(jaxner.__all__)


@pytest.mark.parametrize("command", fence.DOORS["commands"])
def test_no_option_of_a_command_is_lost(command):
    """Options with another spelling now are taken, too; `test_spellings` has lines."""
    old = *spellings._ARGUMENTS, *spellings._NAMES
    flags = cli.parser_of(cli.function_of(command))._option_string_actions
    names = {flag[2:].replace("_", "-") for flag in (*flags, *old)}
    assert set(fence.DOORS["commands"][command]) <= names
