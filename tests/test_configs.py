"""Configs: arguments, overrides, and that each builds what the paper describes."""

import itertools

import jax
import pytest

from configs import common, grn
from jaxner import models
from jaxner.data import corpora
from jaxner.models.grn import CONTEXTS, RELATIONS


def test_arguments():
    defaults = {"dataset": "sample", "seed": 0, "quick": False}
    parse = common.parse_arg
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
        "seed=x": "Expected seed=<int>, got 'x'",
        "quick=x": "Expected quick=true or quick=false",
    }.items():
        with pytest.raises(ValueError, match=message):
            parse(arg, **defaults)


def test_data_sets_are_the_known_corpora_and_ones_own():
    assert set(common.DATASETS) == {*corpora.CORPORA, "files"}


def test_unknown_data_sets_name_the_known_ones():
    with pytest.raises(ValueError, match=r"known: sample, conll2003.*data\.dir"):
        common.base("conll03")


@pytest.mark.parametrize("dataset", common.DATASETS)
def test_grn_has_the_papers_hyper_parameters(dataset):
    config = grn.get_config(dataset)
    assert config.batch_size == 10
    assert config.optimizer.to_dict() == {
        "name": "sgd",
        "learning_rate": 0.02,
        "momentum": 0.9,
        "decay": 0.02,
        "clip_norm": 5.0,
    }
    assert config.objective.reduction == "sentence"
    assert config.data.scheme == "BIOES"
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
    encoder = jax.eval_shape(lambda: models.init(model, 0))["params"].get("encoder", {})
    convs = {"all": 3, "branch3": 1, "none": 0}[context]
    assert sum(name.startswith("conv") for name in encoder) == convs
    width = 130 if context == "none" else 400
    if relation == "none":
        assert "from" not in encoder
    else:
        outputs = 1 if relation == "attention" else width
        assert encoder["from"]["kernel"].shape == (width, outputs)
