"""Several devices and processes train the same run as one, and resume it."""

import contextlib
import os
import re
import shutil
import signal
import socket

import jax
import pytest

import jaxner
from jaxner import devices, tagging
from jaxner.checkpoints import Checkpoints
from jaxner.errors import InputError
from jaxner.runs import Workdir
from jaxner.training import cluster, environment, train
from tests import fence, tiny
from tests.training.runs import assert_close, command, metrics_of, read_until, start

# Blocks of 3 and 2 sentences, and a last batch of 3.
# At higher rates the last bits of a sum change the fourth digit of a later loss.
ODD = {"batch_size": 5, "optimizer.learning_rate": 0.15}


# Each place adds the gradients in an order of its own. That alone, on one device and
# with another `num_blocks`, moves these weights by 9e-4 in four epochs, more than all
# moves do (5e-4).
TOLERANCE = {"atol": 2e-3}


def assert_same(folder, rival):
    """The same loss curve to a float's accuracy, the same scores and labels.

    Sums in another order differ in the last bit, and steps add to that: the maxima of
    characters may switch. `test_corpus` compares weights more closely.
    """
    assert_close(folder, rival, **TOLERANCE)
    assert metrics_of(folder, "loss") == metrics_of(rival, "loss")
    assert max(line["dev_f1"] or 0.0 for line in metrics_of(folder)) > 0
    for name in ("dev", "test"):
        texts = [Workdir(f).predictions(name).read_text() for f in (folder, rival)]
        assert texts[0] == texts[1]


@pytest.fixture(scope="module")
def vectors(corpus, tmp_path_factory):
    """Where the vectors of tokens are, which each process reads for its own rows."""
    folder = fence.write_inputs(corpus, tmp_path_factory.mktemp("inputs") / "8", dim=8)
    return {"data.contextual": f"{folder}/{{split}}.npz"}


def run_on(num_devices, corpus, vectors, folder, epochs=3, **options):
    config = tiny.config(corpus, epochs, "sample,encoder=projection,elmo")
    config.update_from_flattened_dict({**ODD, **vectors, **options})
    config.num_devices = num_devices
    train.main_run(config, folder)


@pytest.fixture(scope="module")
def solo(corpus, vectors, tmp_path_factory):
    """The folder of a run on one device."""
    folder = tmp_path_factory.mktemp("runs") / "alone"
    run_on(1, corpus, vectors, folder)
    return folder


def arguments_of(corpus, vectors, folder, epochs=3, **changes):
    """The command line of the same run."""
    options = {**ODD, **vectors, "num_epochs": epochs, **changes}
    return command("grn:sample,encoder=projection,elmo", corpus, folder, **options)


@pytest.fixture(scope="module")
def eight(corpus, vectors, tmp_path_factory):
    """The folder of the same run on eight devices."""
    folder = tmp_path_factory.mktemp("runs") / "eight"
    arguments = arguments_of(corpus, vectors, folder, num_devices=8)
    finish(start_on(8, ["-m", "jaxner", *arguments]))
    return folder


def in_two(arguments):
    """Starts a command in two processes, which simulate two devices each."""
    return start_on(2, ["examples/launch/local.py", 2, *arguments])


def start_on(count, arguments):
    """Starts a process that simulates several devices."""
    count = f"device_count={count}"
    xla = re.sub("device_count=[0-9]+", count, os.environ["XLA_FLAGS"])
    return start(arguments, XLA_FLAGS=xla)


def finish(process):
    try:
        output, _ = process.communicate(timeout=300)
    finally:  # what hangs would slow the tests that follow
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output
    return output


@pytest.mark.slow
def test_restarts_are_split_over_devices(solo, corpus, vectors, tmp_path):
    options = {"num_seeds": 2, "restarts": "together"}
    assert cluster.placement(2, num_seeds=2).mesh.shape == {"seed": 2, "data": 1}
    run_on(2, corpus, vectors, tmp_path / "run", **options)
    assert_same(tmp_path / "run" / "seed-0", solo)


def test_a_tagger_on_several_devices_tags_as_on_one(params, dev):
    spread = cluster.placement(2).tagger(params)
    assert devices.mesh_of(spread.weights).size == 2
    assert tagging.label_split(spread, dev) == tagging.label_split(params, dev)
    tokens = list(dev.examples[0].tokens)
    assert jaxner.tag(spread, tokens) == jaxner.tag(params, tokens)


def test_a_cpu_is_one_device_unless_more_are_asked_for():
    assert cluster.placement().mesh is None
    assert cluster.placement(2).mesh.shape == {"seed": 1, "data": 2}
    assert cluster.placement(2, num_seeds=3).mesh.shape == {"seed": 1, "data": 2}


@pytest.mark.slow
def test_a_part_of_the_arguments_of_a_cluster_is_refused():
    arguments = ["-m", "jaxner", "train", "grn", "--process_id=0"]
    output, _ = start(arguments).communicate(timeout=300)
    assert "Give all three, --coordinator=HOST:PORT" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_devices_and_processes_train_as_one(solo, eight, corpus, vectors, tmp_path):
    assert_same(eight, solo)
    output = finish(in_two(arguments_of(corpus, vectors, tmp_path / "2")))
    assert output.count("epoch   1") == 1  # one process tells
    assert_same(tmp_path / "2", solo)
    score = ["evaluate", tmp_path / "2", "--split=test", "--json"]
    result = Workdir(solo).read_json("result.json")
    assert finish(in_two(score)).count(f'"f1": {result["test"]["f1"]}') == 1


@pytest.mark.slow
def test_checkpoints_move_between_devices_and_processes(
    solo, eight, corpus, vectors, tmp_path
):
    """From eight devices to two processes and to one, and from one device to two."""
    runs = {"moved": eight, "more": solo, "whole": solo}
    first, second, whole = (shutil.copytree(runs[n], tmp_path / n) for n in runs)
    two = arguments_of(corpus, vectors, first, 4)
    assert "Resumed at step 30" in finish(in_two(two))
    for num_devices, folder in ((1, first), (2, second), (1, whole)):
        run_on(num_devices, corpus, vectors, folder, 5)
    assert_close(first, whole, **TOLERANCE)  # labels may be ties
    assert_close(second, whole, **TOLERANCE)


# Of two processes, the second has a slow clock, and would never look up by itself.
_TWO = """
import sys, time
from jaxner.__main__ import main
if sys.argv[-1] == "1":
    clock = time.perf_counter
    time.perf_counter = lambda: clock() / 10**4
main()
"""


@contextlib.contextmanager
def pair(arguments, changes=()):
    """Two processes, with two devices each, that run a command without a launcher.

    The second one has more arguments.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = ["-c", _TWO, *arguments, "--num_processes=2", f"--coordinator={address}"]
    ends = [("--process_id", 0), (*changes, "--process_id", 1)]
    processes = [start_on(2, [*words, *end]) for end in ends]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_at_the_same_step(corpus, vectors, tmp_path):
    """After epochs that saved two checkpoints each."""
    with pair(arguments_of(corpus, vectors, tmp_path / "run", 400)) as processes:
        output = read_until("epoch   8", processes[0])
        assert output.count("  *") > 2  # of the best series
        processes[1].send_signal(signal.SIGTERM)
        for process in processes:
            rest, _ = process.communicate(timeout=120)
            assert process.returncode == 128 + signal.SIGTERM, output + rest
    latest = Checkpoints(Workdir(tmp_path / "run").part("latest"))
    assert latest.step >= 80
    assert latest.check() is not None


@pytest.mark.slow
def test_all_processes_end_where_the_loss_diverges(corpus, vectors, tmp_path):
    """The first used to find it alone, and the second to wait for it."""
    options = {"optimizer.learning_rate": 1e30}
    with pair(arguments_of(corpus, vectors, tmp_path / "run", **options)) as processes:
        for process in processes:
            output, _ = process.communicate(timeout=60)
            assert process.returncode == 1, output
            assert "The loss is nan" in output


def test_processes_may_have_their_files_elsewhere(tiny_run, monkeypatch):
    folder = Workdir(tiny_run)
    config, record = map(folder.read_json, ("config.json", "environment.json"))
    facts = environment.shared(config, record)
    assert facts != environment.shared(config | {"seed": 7}, record)
    config["data"] |= {"dir": "elsewhere", "vectors": "elsewhere"}
    assert facts == environment.shared(config, record)
    with pytest.raises(ValueError, match="elsewhere' now"):
        environment.check_same_config(folder, config)
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    environment.check_same_config(folder, config)


@pytest.mark.parametrize(
    ("facts", "message"),
    [([1.0, 0.0, 0.0], "Another process has failed"), ([0.0, 3.0, -2.0], "have other")],
)
def test_processes_agree_or_end(facts, message, monkeypatch):
    monkeypatch.setattr(devices, "largest", lambda values: facts)
    with pytest.raises(InputError, match=message), cluster.agreement():
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ("--config.data.dir=none", ["Another process has failed", "no folder none"]),
        ("--config.seed=1", ["have other configs, data or versions"] * 2),
        ("--config.init_from={solo}", ["have other configs, data or versions"] * 2),
    ],
)
def test_all_processes_end_where_one_cannot_train(
    change, texts, solo, corpus, vectors, tmp_path
):
    """The others used to wait for it, or to train other weights without a word."""
    arguments = arguments_of(corpus, vectors, tmp_path / "run")
    with pair(arguments, [change.format(solo=solo)]) as processes:
        for process, text in zip(processes, texts, strict=True):
            output, _ = process.communicate(timeout=60)
            assert process.returncode == 1, output
            assert text in output
            assert "Traceback" not in output


@pytest.mark.slow
def test_the_launcher_passes_sigterm_on(corpus, vectors, tmp_path):
    """To all processes; outside the steps it ends them at once."""
    launcher = in_two(arguments_of(corpus, vectors, tmp_path / "run", 400))
    output = read_until("Building the model", launcher)
    launcher.send_signal(signal.SIGTERM)
    rest, _ = launcher.communicate(timeout=20)
    assert launcher.returncode == 128 + signal.SIGTERM, output + rest
    with Workdir(tmp_path / "run").locked():  # no process is left that trains
        assert Checkpoints(Workdir(tmp_path / "run").part("latest")).step is None
