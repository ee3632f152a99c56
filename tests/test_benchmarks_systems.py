"""The commands that compare whole systems; no test depends on how long they take.

Commands that compile many programs or start processes are marked slow.
"""

import doctest
import json
import subprocess
import sys
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from benchmarks import (
    alone,
    corpus,
    decoding,
    growth,
    long_sentences,
    loop,
    ours,
    papers,
    peers,
    tagging,
    training,
)
from benchmarks.measure import Interval, Report, Timing, compare

LIMIT = 24


@pytest.fixture(scope="module")
def train():
    return corpus.load("sample", "train", LIMIT)


def run(main, tmp_path, *arguments):
    """Runs a command in this process; returns its tables."""
    path = tmp_path / "found.json"
    main([*arguments, "--quick", "--json", str(path)])
    found = json.loads(path.read_text())
    assert found.pop("machine")["device"]
    return found


def tokens_in(split, limit=LIMIT):
    """Counts tokens in the file itself."""
    from jaxner.data import corpora

    lines = corpora.find("sample", split).read_text(encoding="utf-8").splitlines()
    count = sentences = 0
    is_inside = False
    for line in [*lines, ""]:
        if line.strip() and not line.startswith("-DOCSTART-"):
            count, is_inside = count + 1, True
        elif is_inside:
            sentences, is_inside = sentences + 1, False
            if sentences == limit:
                break
    return count


# --- Figures -------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_the_exponent_of_a_power_is_found(power):
    sizes = [3, 10, 40, 100]
    assert growth.exponent(sizes, [7.0 * s**power for s in sizes]) == pytest.approx(
        power, abs=1e-9
    )


def test_the_exponent_of_noise_is_the_slope_of_least_squares():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0, 5, 9), rng.normal(size=9)
    slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    assert growth.exponent(np.exp(x), np.exp(y)) == pytest.approx(slope)


def test_examples_in_docstrings():
    assert not doctest.testmod(growth).failed
    assert doctest.testmod(growth).attempted


def test_sizes_that_were_left_out_do_not_enter_an_exponent():
    assert growth.exponent([1, 2, 4], [3.0, 12.0, None]) == pytest.approx(2.0)
    assert growth.exponent([1, 2], [3.0, None]) is None
    assert growth.exponent([1, 2], [0.0, 0.0]) is None


def test_exponents_are_of_each_system_and_of_its_largest_sizes():
    rows = [
        {"system": name, "T": t, "step, s": Interval(t**e, 0.0, 9.0), "tag, s": None}
        for name, e in (("one", 1.0), ("two", 2.0))
        for t in (1, 2, 4, 8)
    ]
    rows[0]["step, s"] = Interval(100.0, 100.0, 100.0)
    fitted = {(row["system"], row["sizes"]): row for row in growth.exponents("T", rows)}
    assert fitted["one", "largest 3"]["step, s"] == pytest.approx(1.0)
    assert fitted["one", "all"]["step, s"] < 0.5
    assert fitted["two", "all"]["step, s"] == pytest.approx(2.0)
    assert fitted["two", "all"]["tag, s"] is None


def test_throughput_is_of_the_median_and_its_bounds_are_swapped():
    timing = Timing(9.0, Interval(2.0, 1.0, 4.0), Interval(1.0, 1.0, 1.0))
    assert corpus.throughput(100, timing) == Interval(50.0, 25.0, 100.0)


def test_a_target_is_met_or_not_or_was_not_measured():
    def timing(seconds):
        return Timing(0.0, Interval.of(seconds), Interval.of([1.0]), tuple(seconds))

    timings = {"ours": timing([1.0, 1.0, 2.0]), "theirs": timing([3.0, 4.0, 8.0])}
    row = corpus.verdict("tagging", timings, "ours", "theirs", 4.0)
    assert (row["measured"].median, row["verdict"]) == (4.0, "met")
    row = corpus.verdict("tagging", timings, "ours", "theirs", 4.1)
    assert row["verdict"] == "not met"
    row = corpus.verdict("tagging", timings, "ours", "spaCy", 2.0)
    assert row == {
        "target": "tagging: ours ≥ 2 × spaCy",
        "measured": None,
        "verdict": "not measured",
    }


def test_speedups_are_of_the_same_rounds():
    timings = compare({"a": int, "b": int}, "b", rounds=3)
    assert timings["a"].speedup(timings["b"]) == timings["a"].ratio
    assert timings["a"].speedup(timings["a"]) == Interval(1.0, 1.0, 1.0)


def test_published_ratios_are_those_of_the_papers():
    assert decoding.published("UANet, M = 1", 0) == pytest.approx(1.137, abs=1e-3)
    assert decoding.published("UANet, M = 1", 1) == pytest.approx(1.328, abs=1e-3)
    assert decoding.published("UANet, M = 1", 2) == pytest.approx(1.488, abs=1e-3)
    assert decoding.published("Seq2seq, beam 4", 0) is None
    assert set(decoding.PUBLISHED) <= decoding.SYSTEMS.keys()


# --- Systems -------------------------------------------------------------------------


@pytest.mark.parametrize("system", ours.SYSTEMS)
def test_what_quick_shrinks_is_there(system):
    published, small = ours.config_of(system), ours.config_of(system, quick=True)
    assert published.model.representation.words.dim >= 100
    assert small.model.representation.words.dim == 8
    assert small.data.num_shapes == 1
    assert published.model.encoder != small.model.encoder


def test_labels_may_be_those_of_other_types(train):
    config = ours.config_of("GRN", quick=True)
    params = ours.tagger(config, train, ours.ONTONOTES_TYPES)
    assert len(params.vocabulary.label_names) == 73
    assert set(params.vocabulary.words) >= {word.lower() for word in train.words()}
    weights = params.weights["params"]["head"]
    assert 73 in {n for leaf in jax.tree.leaves(weights) for n in leaf.shape}


def test_an_epoch_trains_on_each_token_once(train):
    assert corpus.count_tokens(train) == tokens_in("train")
    epoch = ours.epoch_of(ours.config_of("GRN", quick=True), train, 4)
    assert epoch() == tokens_in("train") == epoch()


def test_a_stored_run_tags_as_before(train, tmp_path):
    import jaxner

    config = ours.config_of("GRN", quick=True)
    params = ours.tagger(config, train)
    ours.write_run(config, params, tmp_path / "run")
    sentences = [e.tokens for e in train.examples[:5]]
    assert jaxner.tag(jaxner.load(tmp_path / "run"), sentences) == jaxner.tag(
        params, sentences
    )
    assert tagging.in_calls(params, sentences, 2) == jaxner.tag(params, sentences)


def test_each_run_of_tagging_encodes_its_tokens_anew(train, monkeypatch, caplog):
    """And compiles nothing again."""
    params = ours.tagger(ours.config_of("GRN", quick=True), train)
    sentences = [e.tokens for e in train.examples[:6]]
    first = tagging.in_calls(params, sentences, 4)
    looked_up, normalise = [], type(params.vocabulary).normalise

    def spy(vocabulary, token):
        looked_up.append(token)
        return normalise(vocabulary, token)

    monkeypatch.setattr(type(params.vocabulary), "normalise", spy)
    caplog.clear()
    with jax.log_compiles():
        assert tagging.in_calls(params, sentences, 4) == first
    # Each token once, though calls are several.
    assert sorted(looked_up) == sorted({t for tokens in sentences for t in tokens})
    assert "Compiling" not in caplog.text


def test_a_corpus_can_be_repeated(train):
    assert corpus.count_tokens(growth.repeated(train, 4)) == 4 * tokens_in("train")


# --- Peers ---------------------------------------------------------------------------


def test_a_missing_peer_is_told_and_left_out(train, capsys, monkeypatch):
    def missing(name, train):
        return peers.need("no_such_package")

    monkeypatch.setattr(peers, "build", missing)
    assert corpus.build_peers(["Flair"], train, Report()) == {}
    told = " ".join(capsys.readouterr().out.split())
    assert "Skipped Flair. no_such_package is not installed" in told
    assert "pip install -e '.[benchmarks]'" in told


@pytest.mark.filterwarnings("ignore")  # of their packages
@pytest.mark.parametrize("name", peers.NAMES)
def test_a_peer_learns_and_tags_as_before_when_it_is_loaded(name, train, tmp_path):
    try:
        peer = peers.build(name, corpus.labelled(train))
    except peers.MissingError as error:
        pytest.skip(str(error))
    assert peer.epoch(4) == tokens_in("train")
    sentences = [e.tokens for e in train.examples]
    labels = peer.tag(sentences, 4)
    assert [len(its) for its in labels] == [len(tokens) for tokens in sentences]
    known = {label[2:] for its in labels for label in its if label != "O"}
    assert known <= set(train.types())
    assert peer.tag(sentences, 1) == labels
    can_be_stored = isinstance(peer, peers.StoredPeer)
    assert can_be_stored == (not name.startswith("Flair"))
    if can_be_stored:
        peer.save(tmp_path / "peer")
        assert peers.tagger(name).load(tmp_path / "peer").tag(sentences) == labels
        files = [file for file in (tmp_path / "peer").rglob("*") if file.is_file()]
        assert not {file.suffix for file in files} & {".pt", ".pkl"}
        for file in files:
            if file.suffix == ".bin":  # spaCy's tables, in MessagePack
                import srsly  # pyright: ignore[reportMissingImports]

                srsly.read_msgpack(file)


def test_no_first_answer_comes_from_a_pickle(capsys):
    methods = dict.fromkeys(
        ("tune", "first_step", "epoch", "tag", "save", "load"), print
    )
    stored = SimpleNamespace(**methods)
    del methods["load"]
    rivals = {"A": stored, "B": SimpleNamespace(**methods)}
    assert list(tagging.that_store(rivals, Report())) == ["A"]
    told = capsys.readouterr().out
    assert "No first answer of B" in told
    assert "No first answer of A" not in told


# --- Processes of their own ----------------------------------------------------------


def test_memory_is_of_the_process_alone():
    """A process that is started by a large one is not as large for it."""
    held = np.ones((300, 2**20), np.uint8)
    assert alone.peak_mb() > held.nbytes / 2**20
    found = alone.call("benchmarks.alone:environment", {"JAXNER_NUMBER": "3"})
    assert found["JAXNER_NUMBER"] == "3"
    assert 0 < found["peak_mb"] < 100  # no JAX in it


def test_a_process_that_fails_is_told():
    with pytest.raises(alone.FailedError, match="has no attribute 'no_such_name'"):
        alone.call("benchmarks.alone:no_such_name", {})


def test_the_clock_of_an_answer_stops_at_its_first_line():
    """The process sleeps before it and after it; only the first sleep is counted."""
    code = (
        "import sys, time; sys.stderr.write('x' * 200_000); time.sleep(0.3); "
        "print('B-LOC', flush=True); time.sleep(1.5); print('more')"
    )
    start = time.perf_counter()
    label, seconds = tagging.answer([sys.executable, "-c", code])
    passed = time.perf_counter() - start  # the process has ended
    assert label == "B-LOC"
    assert seconds >= 0.3
    assert passed - seconds >= 1.4


@pytest.mark.parametrize("code", ["raise SystemExit('no weights')", "pass"])
def test_a_process_without_an_answer_is_told(code):
    with pytest.raises(subprocess.CalledProcessError) as caught:
        tagging.answer([sys.executable, "-c", code])
    assert ("no weights" in caught.value.stderr) == (code != "pass")


def test_a_process_that_fails_after_its_answer_is_told():
    code = "print('B-LOC', flush=True); raise SystemExit('late')"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        tagging.answer([sys.executable, "-c", code])
    assert caught.value.stdout == "B-LOC\n"
    assert "late" in caught.value.stderr


def test_a_first_answer_is_timed_by_its_own_clock():
    rows = {}
    report = SimpleNamespace(table=lambda title, its: rows.update({title: its}))
    runs = {"a": lambda: tagging.Answer("O", 5.0), "b": lambda: tagging.Answer("O", 7)}
    tagging.tell_first(runs, 2, report)
    (found,) = rows.values()
    assert [row["seconds"].median for row in found] == [5.0, 7.0]


# --- Commands ------------------------------------------------------------------------


def test_training(tmp_path):
    found = run(
        training.main,
        tmp_path,
        *("--systems", "GRN", "--batch", "4", "--peers", "--skip-memory"),
    )
    (title,) = (name for name in found if name.startswith("training, batch 4"))
    assert f"{LIMIT} sentences, {tokens_in('train')} tokens" in title
    (row,) = found[title]
    assert row["system"] == "GRN"
    assert row["tokens / s"]["median"] > 0
    assert {row["verdict"] for row in found["targets of training"]} == {"not measured"}


def test_tagging(tmp_path):
    found = run(
        tagging.main,
        tmp_path,
        *("--systems", "GRN", "--batch", "0", "--peers", "--first"),
    )
    (title,) = (name for name in found if name.startswith("tagging, the whole"))
    assert f"{LIMIT} sentences, {tokens_in('dev')} tokens" in title
    assert [row["system"] for row in found[title]] == ["GRN"]


@pytest.mark.slow
def test_papers(tmp_path):
    found = run(papers.main, tmp_path, "--tables", "idcnn-2")
    rows = found["ID-CNN, Table 2: sentences"]
    assert [row["system"] for row in rows] == ["Bi-LSTM-CRF", "Bi-LSTM"]
    assert [row["published"] for row in rows] == [1.0, 9.92]
    assert rows[0]["× Bi-LSTM-CRF"]["median"] == 1.0


@pytest.mark.slow
def test_growth(tmp_path):
    found = run(growth.main, tmp_path, "--axes", "B")
    rows = found["B: sentences of 32 tokens"]
    assert [row["B"] for row in rows] == [1, 2]
    scratch = [row["step scratch, MiB"] for row in rows]
    assert scratch[1] > scratch[0] > 0
    assert {row["axis"] for row in found["exponents"]} == {"B"}


def test_rows_are_added_to_the_table(train):
    config = ours.config_of("GRN", quick=True)
    small = ours.tagger(config, train)
    count = len(small.vocabulary.words)
    large = ours.with_rows(config, small, count + 3, 5)
    tables = {
        part: tree["representation"]["words"] for part, tree in large.weights.items()
    }
    assert len(tables["params"]["trained"]) == count + 3
    assert len(tables["frozen"]["vectors"]) == 5
    assert large.vocabulary.words[:count] == small.vocabulary.words
    with pytest.raises(ValueError, match=f"all {count} words of the text, got 7"):
        ours.with_rows(config, small, 7, 5)


@pytest.mark.slow
def test_loop(tmp_path):
    options = ("--systems", "GRN", "--batch", "4")
    found = run(loop.main, tmp_path, *options)
    (words,) = found.values()
    assert list(words[0])[2:] == [
        "2,000 trained",
        "2,000 trained, 2,000 frozen",
        "4,000 trained",
    ]


def test_growth_with_the_corpus_is_of_the_first_system(monkeypatch):
    asked = []
    monkeypatch.setattr(
        growth, "both_of", lambda *_: {name: lambda: None for name in ("step", "tag")}
    )
    monkeypatch.setattr(
        growth.alone, "call", lambda name, given: asked.append(given) or {"peak_mb": 7}
    )
    options = SimpleNamespace(
        systems=["GRN", "UANet"], copies=[1, 2], rounds=1,
        dataset="sample", limit=4, quick=True,
    )  # fmt: skip
    rows = growth.by_corpus(options)
    assert [(row["system"], row["peak, MiB"]) for row in rows] == [("GRN", 7)] * 2
    assert rows[1]["C"] == 2 * rows[0]["C"]
    assert [given["system"] for given in asked] == ["GRN", "GRN"]


def test_a_program_that_exceeds_the_memory_is_not_run():
    arguments = {"system": "GRN", "dataset": "sample", "limit": LIMIT}
    row = growth.one_length(**arguments, length=16, memory=1e-3, quick=True)
    assert row["step, s"] is None
    assert row["tag, s"] is None
    assert row["step scratch, MiB"] > 0
    assert row["left out"].startswith(" tag: ")


@pytest.mark.slow
@pytest.mark.parametrize("axis", "TLC")
def test_growth_along_other_axes(axis, tmp_path):
    found = run(growth.main, tmp_path, "--axes", axis)
    (title,) = (name for name in found if name.startswith(f"{axis}: "))
    assert len(found[title]) == 2
    assert all(row["step, s"] for row in found[title])


@pytest.mark.slow
def test_long_sentences(tmp_path):
    arguments = "--systems", "GRN", "--tokens", "16", "32"
    found = run(long_sentences.main, tmp_path, *arguments)
    rows = found["GRN, one sentence"]
    assert [row["tokens"] for row in rows] == [16, 32]
    assert all(row["seconds"] > 0 and row["peak, MiB"] > 100 for row in rows)
    assert found["exponents"][0]["scratch, MiB"] > 0


@pytest.mark.slow  # starts four processes
def test_first_answers_and_peak_memory(tmp_path):
    found = run(tagging.main, tmp_path, "--systems", "--peers", "--first", "GRN")
    rows = found["from the start of a process to its first label"]
    assert [row["system"] for row in rows] == ["GRN, cold", "GRN, cached"]
    found = run(training.main, tmp_path, "--systems", "GRN", "--batch", "4", "--peers")
    (row,) = found["peak memory of training, MiB"]
    assert row["peak"] >= row["start"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("table", papers.TABLES[1:])
def test_other_tables_of_the_papers(table, tmp_path):
    found = run(papers.main, tmp_path, "--tables", table)
    ((_, rows),) = found.items()
    assert rows


@pytest.mark.slow
def test_decoding(tmp_path):
    found = run(decoding.main, tmp_path)
    assert len(found) == 3
    first = next(iter(found.values()))
    assert [row["published, CoNLL-2003"] for row in first] == pytest.approx(
        [3443 / 1433, 1.0, 1474 / 1433]
    )
