"""A config whose data options are not those of the vocabulary is refused."""

import json
import shutil
from pathlib import Path

import pytest

import jaxner
from jaxner import fields, integrity
from jaxner.data import corpora
from jaxner.integrity import DamagedFileError
from jaxner.runs import Workdir
from jaxner.training import environment, schema
from tests import tiny


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def told(error):
    """Returns the message of an error: file, problem and remedy in one line."""
    text = str(error.value)
    assert len(text.splitlines()) == 1
    assert str(error.value.path) in text
    return text


# For each option of the section `data`, another value than the run's. The vocabulary
# was built with the first ones; the others change no label of a trained tagger.
_OF_THE_VOCABULARY = {
    "scheme": "BIO",
    "unit": "document",
    "lowercase": True,
    "lowercase_fallback": False,
    "zero_digits": True,
    "unescape": True,
    "alphabet": "abc",
    "typed_unknowns": True,
    "train_words": False,
    "contextual": "elmo/{split}.hdf5",
    "pretrained": "bert",
}
_WITHOUT_EFFECT = {
    "dir": "elsewhere",
    "split_dev": 0.5,
    "split_seed": 7,
    "format": "jsonl",
    "token_column": 3,
    "label_column": 2,
    "comments": "#",
    "encoding": "latin-1",
    "unfit": "drop",
    "min_count": 5,
    "min_count_without_vectors": 4,
    "vectors": "others.txt",
    "standardise_vectors": True,
    "min_vector_match": 0.25,
    "vectors_on_device": True,
    "num_shapes": 3,
}


def edit_data(run, **values):
    """Edits options in a run's config as a person would, who removes the checksum."""
    content = json.loads((run / "config.json").read_text())
    del content[integrity.CHECKSUM]
    assert all(repr(content["data"][k]) != repr(v) for k, v in values.items())
    content["data"].update(values)
    (run / "config.json").write_text(json.dumps(content))


def test_each_option_of_the_data_is_held_against_the_vocabulary_or_has_no_effect():
    known = {*_OF_THE_VOCABULARY, *_WITHOUT_EFFECT}
    assert known == set(fields.names(schema.Data))


@pytest.mark.parametrize("name", _OF_THE_VOCABULARY)
def test_an_option_that_the_vocabulary_was_not_built_with_is_refused(name, run, corpus):
    own = json.loads((run / "config.json").read_text())["data"][name]
    edit_data(run, **{name: _OF_THE_VOCABULARY[name]})
    with pytest.raises(DamagedFileError) as error:
        jaxner.load(run)
    assert error.value.path == run / "config.json"
    assert f"data.{name} is {_OF_THE_VOCABULARY[name]!r}, but" in told(error)
    assert f"was built with data.{name} = " in told(error)
    if name != "alphabet":  # None: the characters of train
        assert f"data.{name} = {own!r}" in told(error)
    config = tiny.config(corpus)
    config.data[name] = _OF_THE_VOCABULARY[name]  # the same edit in the command
    for given in (config, tiny.config(corpus)):
        with pytest.raises(DamagedFileError, match="but the tagger's vocabulary"):
            environment.check_same_config(Workdir(run), given.to_dict())


def test_options_that_leave_no_trace_in_the_vocabulary_change_no_label(run, params):
    edit_data(run, **_WITHOUT_EFFECT)
    sentences = [list(e.tokens) for e in corpora.load("sample", "dev").examples[:30]]
    assert jaxner.tag(jaxner.load(run), sentences) == jaxner.tag(params, sentences)


def test_a_config_without_its_section_data_is_refused(run):
    content = json.loads((run / "config.json").read_text())
    del content[integrity.CHECKSUM], content["data"]
    (run / "config.json").write_text(json.dumps(content))
    with pytest.raises(DamagedFileError, match="has no section data") as error:
        jaxner.load(run)
    told(error)


@pytest.mark.parametrize(
    ("name", "value"),
    [("alphabet", 5), ("alphabet", [[]]), ("train_words", "no"), ("lowercase", 0)],
)
def test_a_value_of_another_type_is_refused(name, value, run):
    edit_data(run, **{name: value})
    with pytest.raises(DamagedFileError, match=f"data.{name} is "):
        jaxner.load(run)
