"""A warning before a sentence that a GRN would take very long for."""

import warnings

import pytest

import jaxner
from jaxner import batched, models
from jaxner.models import waits
from tests.models import test_product as product


@pytest.mark.parametrize("encoder", ["grn", "idcnn", "bilstm", "grn without relation"])
def test_only_a_gated_relation_layer_is_measured(encoder, monkeypatch):
    measured = []
    monkeypatch.setattr(waits, "_seconds", lambda size: measured.append(size) or 0.0)
    model = product.build(encoder, "crf", "words")
    models.warn_of_long(model, 20_000)
    assert measured == ([product.DIM] if encoder == "grn" else [])
    measured.clear()
    models.warn_of_long(model, 1000)
    assert not measured


def test_the_expected_time_grows_with_the_square_of_the_length(monkeypatch):
    monkeypatch.setattr(waits, "_seconds", lambda size: 0.5)
    model = product.build("grn", "crf", "words")
    with pytest.warns(UserWarning, match=r"20,480 tokens takes a GRN about 200 s"):
        models.warn_of_long(model, 20_480)
    with pytest.warns(UserWarning, match="about 1,600 s"):
        models.warn_of_long(model, 20_480, passes=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        models.warn_of_long(model, 4096)  # 8 s


def test_the_measured_time_is_one():
    assert 0 < waits._seconds(2) < 60


def test_tagging_warns_of_its_longest_sentence(monkeypatch):
    model = product.build("grn", "crf", "words")
    tagger = jaxner.Tagger(product.draw_weights(model), model, product.LEXICON)
    sentences = [tagger.vocabulary.encode(["EU"] * n) for n in (5000, 1)]
    monkeypatch.setattr(waits, "_seconds", lambda size: 1.0)
    monkeypatch.setattr(batched, "over", lambda *a: [])
    with pytest.warns(UserWarning, match="of 6,144 tokens"):
        batched.over_documents(tagger, lambda batch: None, sentences)
