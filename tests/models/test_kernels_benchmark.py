"""The benchmark of kernels; no test depends on how long anything takes."""

import importlib.util

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import kernels, plain_kernels, torch_kernels
from benchmarks.measure import Interval, Timing

SIZES = (3, 5, 4, 2)  # sentences, tokens, features, state


def arguments(units):
    batch, length, dim, size = SIZES
    cells = (2, units)
    shapes = (*cells, dim, 4, size), (*cells, size, 4, size), (*cells, 4, size)
    return kernels.draw((batch, length, dim), *shapes)


@pytest.mark.parametrize("units", [1, 3])
def test_both_forms_of_the_lstm_are_one_function(units):
    forms = {kernels.OURS: kernels.our_lstm, kernels.PLAIN: plain_kernels.lstm}
    rows = kernels.measure({"T": 5}, forms, arguments(units), rounds=1)
    assert [row["pass"] for row in rows] == list(kernels.PASSES)
    for row in rows:
        assert row["T"] == 5
        assert row[kernels.OURS].seconds.median > 0
        assert row["ours, MiB"] > 0


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs the extra 'benchmarks'"
)
def test_rivals_of_pytorch_have_the_same_results():
    forms = {kernels.OURS: kernels.our_lstm, kernels.PLAIN: plain_kernels.lstm}
    rows = kernels.measure({}, forms, arguments(1), 1, torch_kernels.lstm)
    assert all(kernels.TORCH in row for row in rows)


def test_different_results_are_not_timed():
    forms = {kernels.OURS: jnp.sin, kernels.PLAIN: lambda x: 1.01 * jnp.sin(x)}
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        kernels.measure({}, forms, kernels.draw((4,)), rounds=1)
    kernels.check({"a": {"x": np.ones(2)}, "b": {"x": np.ones(2) + 1e-4}})


def test_targets_tell_what_is_met():
    def timing(ratio):
        return Timing(1.0, Interval(1.0, 1.0, 1.0), Interval(ratio, ratio, ratio))

    forward, backward = kernels.PASSES

    def row(batch, length, ratio, *others, name=backward):
        timings = dict.fromkeys((kernels.OURS, *others), timing(ratio))
        return {"B": batch, "T": length, "pass": name, **timings}

    tables = {
        "relation": [
            row(1, 64, 2.0),
            row(1, 128, 12.0, name=forward),
            row(1, 128, 9.0),
            row(1, 512, 8.0, name=forward),
            row(1, 512, 11.0),
        ],
        "lstm": [row(b, 32, 0.9, kernels.TORCH) for b in (1, 10, 32)],
    }
    tables["lstm"].append(row(10, 32, 2.0, kernels.TORCH, name=forward))
    found = kernels.targets(tables)
    assert [row["met"] for row in found] == ["yes", "no", "no", "yes", "no", "yes"]
    assert [row["target"] for row in found[:4]] == [
        f"relation, {name}: ≥ 10 × the plain form" for name in kernels.PASSES * 2
    ]


def test_unknown_parts_are_refused():
    with pytest.raises(
        ValueError, match=r"'lstms' of benchmarks\.kernels; known: lstm,"
    ):
        kernels.main(["--only", "lstms"])
