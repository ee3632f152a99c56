"""The benchmarks: stored programs, and that each command runs."""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxner
from benchmarks import deviceless, host, hub, measure, orders, tagging, training
from benchmarks.measure import Timing

FILE = measure.ROOT / "results" / "deviceless.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def test_the_page_shows_the_stored_programs():
    for text in deviceless.tables(ROWS).values():
        assert text in deviceless.PAGE.read_text("utf-8")


THUNKS = """\
000: kCommandBuffer [source       | next=003 (1)]
    001: kCopy         [source        | next=002 (1) ] kCopy
    002: kCustomKernel [prev=001 (1)  | sink         ] fusion grid: [1, 1, 1]
003: kWhile         [prev=000 (1) | next=009 (1)]
condition:
  body:
    000: kCommandBuffer [source | sink]
        004: kCustomKernel [source        | next=005 (1) ] fusion_1
        005: kWhile        [prev=004 (1)  | sink         ]
condition:
          body:
            006: kCustomKernel [source | sink] fusion_2
    007: kGemm          [prev=000 (1) | sink        ] dot
009: kCustomKernel  [prev=003 (1) | sink        ] fusion_3
"""


def test_what_the_host_starts():
    counts = deviceless.starts(THUNKS, {3: 4, 5: 10})
    assert counts["kernels"] == 2 + 4 * (1 + 10 + 1) + 1
    assert counts["buffers"] == 2
    assert counts["loops"] == 1
    assert counts["starts"] == 1 + 4 * 2 + 1


def test_which_arguments_keep_their_addresses():
    """Counted in the program; and each array lies where it lay a step before."""
    config = ("ncrfpp:conll2003,crf", 4, 8, ["LOC"], {"model.encoder.hidden_dim": 8})
    program, (sums, state, *rest) = deviceless.programs(*config)["train"]
    executable = program.lower(sums, state, *rest).compile()
    counts = deviceless.addresses(executable.as_text())
    assert counts["new"] == 0
    assert counts["in place"] == len(jax.tree.leaves(state))

    def places(state):
        return [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(state)]

    state, *rest = jax.device_put((state, *rest))
    state = executable(sums, state, *rest)
    addresses = places(state)
    assert places(executable(sums, state, *rest)) == addresses


@pytest.mark.slow
def test_programs_are_those_stored(tmp_path):
    pytest.importorskip("libtpu")  # the extra `deviceless` has it
    file = tmp_path / "rows.jsonl"
    command = [sys.executable, "-m", "benchmarks.deviceless", "--json", file]
    command += ["--systems", "GRN", "--tokens", "32"]
    # Without the flags of the tests, which make programs slow.
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("XLA_", "JAX_"))}
    subprocess.run(command, check=True, cwd=measure.ROOT, env=clean)
    for row in map(json.loads, file.read_text("utf-8").splitlines()):
        key = {k: row[k] for k in deviceless.KEY[:-1]}.items()
        (match,) = [x for x in ROWS if key <= x.items()]
        for unit in {"kernels", "starts", "collective MB", "MB"} & row.keys():
            assert row[unit] == pytest.approx(match[unit], rel=0.1)  # XLA changes


GRN = ("--peers", "--systems", "GRN", "--batch")
COMMANDS = {
    host: [],
    orders: [],
    tagging: [*GRN, "1", "--against", "."],
    training: [*GRN, "10", "--set", "model.dtype=bfloat16"],
}


@pytest.mark.slow
@pytest.mark.parametrize("module", COMMANDS)
def test_each_command_runs(module, tmp_path, monkeypatch):
    def once(runs, rounds):  # `compare` runs each three times
        for run in runs.values():
            run()
        return dict.fromkeys(runs, Timing(1.0, (1.0,)))

    monkeypatch.setattr(measure, "compare", once)
    file = tmp_path / "figures.json"
    module.main(["--quick", "--json", str(file), *COMMANDS[module]])
    assert all(json.loads(file.read_text()).values())


@pytest.mark.slow
def test_a_tagger_of_the_hub_is_compared_with_transformers(hub_run, tmp_path):
    for package in ("torch", "transformers"):
        pytest.importorskip(package)
    folder, text, file = (tmp_path / name for name in ("hub", "text", "figures.json"))
    jaxner.export_transformers(jaxner.load(hub_run), folder)
    text.write_text("ann lee left\n\n" + 20 * "rome fell " + "\nann, rome.\n")
    options = ["--text", text, "--quick", "--batch", "2", "--json", file]
    hub.main([*map(str, (folder, *options))])
    rows = json.loads(file.read_text())
    numbers = {row[""]: row["number"] for row in rows["agreement"]}
    assert (numbers["texts"], numbers["too long for the pipeline"]) == (3, 1)
    assert numbers["words"] == numbers["equal labels"] == 7
    assert float(numbers["largest difference of scores"]) < 5e-6
    speeds = rows["batch 2, 45 words"]
    assert [row["system"] for row in speeds[:2]] == ["jaxner", "pipeline"]
    assert all(row["peak, MiB"] > 50 for row in speeds)


def test_what_a_comparison_with_transformers_needs(monkeypatch):
    monkeypatch.setattr(hub.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="needs torch and transformers: pip install"):
        hub.main(["folder"])


def test_promises_over_random_splits_hold():
    from benchmarks.guarantees import coverage

    rng = np.random.default_rng(0)
    rows = [[(p, bool(rng.uniform() < p**0.3))] for p in rng.uniform(size=1200)]
    splits = rows[:200], rows[200:]
    risks = coverage(splits, "PER", 0.2, "misses", draws=40)
    assert len(risks) == 40
    assert 0.15 < risks.mean() <= 0.2 + 2 * risks.std() / 40**0.5
    risks = coverage(splits, "PER", 0.2, "errors", draws=40)
    assert np.mean(risks <= 0.2) >= 0.9
    assert risks.mean() > 0.1
