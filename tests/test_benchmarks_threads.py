"""PyTorch's threads in the benchmarks; PyTorch itself is needed by few of these."""

import ast
import doctest
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import corpus, crf, crf_rivals, peers, tagging, torch_kernels, training
from benchmarks.peers import threads

ROOT = Path(__file__).parents[1]


class Torch:
    """Only has a number of threads."""

    def __init__(self, count):
        self.count = count
        self.get_num_threads = lambda: self.count
        self.set_num_threads = lambda count: setattr(self, "count", count)


@pytest.fixture
def torch(monkeypatch):
    """A PyTorch with 7 threads, on a machine of 4 cores."""
    made = Torch(7)
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    return made


@pytest.mark.parametrize(("times", "best"), [((1.0, 3.0), 1), ((3.0, 2.0), 4)])
def test_the_faster_number_of_threads_is_kept(times, best, torch, monkeypatch):
    now, used = [0.0], []
    clock = SimpleNamespace(perf_counter=lambda: now[0], sleep=lambda seconds: None)
    monkeypatch.setattr(threads, "time", clock)

    def run():
        used.append(torch.count)
        now[0] += dict(zip((1, 4), times, strict=True))[torch.count]

    assert threads.pilot(run) == (best, min(times))
    assert set(used) == {1, 4}
    assert torch.count == 7  # as before


def test_a_short_run_is_called_several_times(torch, monkeypatch):
    now, used = [0.0], []
    clock = SimpleNamespace(perf_counter=lambda: now[0], sleep=lambda seconds: None)
    monkeypatch.setattr(threads, "time", clock)

    def run():
        used.append(torch.count)
        now[0] += 0.001

    assert threads.pilot(run).seconds == pytest.approx(0.001)
    assert len(used) > 2 * 3 * 20


def test_threads_are_given_back_and_those_of_a_run_are_set(torch):
    used = []
    with pytest.raises(IndexError), threads.using(2):
        used[torch.count]
    with threads.using(2):
        used.append(torch.count)
    assert used == [2]
    assert torch.count == 7
    assert threads.on(3, lambda: torch.count)() == 3


def test_each_kind_of_work_has_its_own_choice(torch, monkeypatch):
    seen = []
    monkeypatch.setattr(
        threads, "pilot", lambda run: (run(), threads.Pilot(len(seen), 1.0))[1]
    )
    choices = threads.Choices()

    def work(name):
        with choices.of(name):
            seen.append(torch.count)

    work("a")  # no pilot, no choice
    choices.choose("a", lambda: work("a"))
    choices.choose("b", lambda: work("b"))
    choices.choose("a", lambda: work("a"))  # a new pilot is not bound by the old one
    assert seen == [7, 7, 7, 7]
    work("a")
    work("b")
    assert seen[4:] == [4, 3]


@pytest.mark.parametrize(
    ("text", "size", "found"),
    [
        ("", 2, []),
        ("abc", 5, ["abc"]),
        ("abcde", 2, ["ab", "cd", "e"]),
        ("abcdefghijkl", 2, ["cd", "gh", "kl"]),
    ],
)
def test_a_few_batches_are_spread(text, size, found):
    assert threads.some_batches(text, size) == found
    assert doctest.testmod(threads).attempted
    assert not doctest.testmod(threads).failed


def test_peers_do_not_import_jax():
    """Else their first answers and memory would hold it."""
    for path in (ROOT / "benchmarks" / "peers").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in getattr(node, "names", ())]
            names.append(getattr(node, "module", None) or "")
            tops = {name.split(".")[0] for name in names}
            assert not tops & {"jax", "jaxner"}, path
            if isinstance(node, ast.ImportFrom) and node.module == "benchmarks":
                assert names[:-1] == ["peers"], path


# --- Where they are used -------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # of their packages
@pytest.mark.parametrize("name", ["PyTorch", "Flair"])
def test_a_peer_has_the_threads_of_its_pilots(name, monkeypatch):
    train = corpus.load("sample", "train", 12)
    try:
        peer = peers.build(name, corpus.labelled(train))
    except peers.MissingError as error:
        pytest.skip(str(error))
    import torch  # pyright: ignore[reportMissingImports]

    used, tried, forward = [], [], torch.nn.Linear.forward

    def spy(*arguments):
        used.append(torch.get_num_threads())
        return forward(*arguments)

    def pilot(run):
        run()
        tried.append(len(used))
        return threads.Pilot(3 + len(tried), 1.0)

    monkeypatch.setattr(torch.nn.Linear, "forward", spy)
    monkeypatch.setattr(threads, "pilot", pilot)
    sentences = [e.tokens for e in train.examples]
    before = torch.get_num_threads()
    peer.tune(4)
    peer.tune(6, sentences)
    assert 0 < tried[0] < tried[1]  # both tried what is to be timed
    assert set(used) == {before}
    for run, count in (
        (lambda: peer.epoch(4), 4),
        (lambda: peer.tag(sentences, 6), 5),
        (lambda: peer.tag(sentences, 2), before),  # had no pilot
    ):
        used.clear()
        run()
        assert set(used) == {count}
        assert torch.get_num_threads() == before


def test_peers_are_tuned_before_they_are_timed(monkeypatch):
    calls = []
    peer = SimpleNamespace(
        tune=lambda *given: calls.append(("tune", *given)),
        epoch=lambda batch: calls.append(("epoch", batch)),
        tag=lambda text, batch: calls.append(("tag", text, batch)),
    )
    train = corpus.load("sample", "train", 2)
    training.speeds(train, {}, {"A": peer}, 4, rounds=1)
    assert calls[0] == ("tune", 4)
    assert set(calls[1:]) == {("epoch", 4)}
    calls.clear()
    tagging.speeds({}, {"A": peer}, "ab", tagging.WHOLE, 1)
    assert calls[0] == ("tune", None, "ab")
    assert set(calls[1:]) == {("tag", "ab", None)}


def test_the_rivals_of_the_crf_have_the_threads_of_their_pilot(torch, monkeypatch):
    used = []
    monkeypatch.setattr(threads, "pilot", lambda run: (run(), threads.Pilot(5, 0.5))[1])

    def rival(potentials):
        (run, *_) = crf_rivals.RIVALS[crf_rivals.OURS](potentials)
        return [lambda: (used.append((torch.count, potentials.emissions.shape)), run())]

    monkeypatch.setitem(crf_rivals.RIVALS, crf_rivals.PYTORCH, rival)
    monkeypatch.setattr(crf, "check", lambda *_: None)
    assert crf.estimate(crf_rivals.PYTORCH, 0, (3, 64, 2)) == (1.0, 5)
    used.clear()
    names = [crf_rivals.OURS, crf_rivals.PYTORCH]
    crf.compare((3, 64, 2), 0, names, crf.Limits(1))
    assert used[0] == (7, (2, 32, 3))  # the pilot
    assert set(used[1:]) == {(5, (2, 64, 3))}


@pytest.mark.skipif(not torch_kernels.AVAILABLE, reason="needs the extra 'benchmarks'")
def test_kernels_of_pytorch_have_the_threads_of_their_pilot(monkeypatch):
    import torch  # pyright: ignore[reportMissingImports]

    used, forward = [], torch.nn.Conv1d.forward

    def spy(*arguments):
        used.append(torch.get_num_threads())
        return forward(*arguments)

    monkeypatch.setattr(torch.nn.Conv1d, "forward", spy)
    monkeypatch.setattr(threads, "pilot", lambda run: (run(), threads.Pilot(3, 1.0))[1])
    x, kernel = np.ones((2, 5, 4), np.float32), np.ones((12, 4), np.float32)
    with threads.using(2):
        run, tell = torch_kernels.convolution(3, 1)(True, [x, kernel], x)
        run()
    assert used == [2, 3]
    assert tell()[0].shape == x.shape
