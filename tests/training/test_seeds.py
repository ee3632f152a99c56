"""Restarts, in turn or in one program, give the same runs as each alone."""

import functools
import gc
import signal

import jax
import numpy as np
import pytest

import jaxner
from jaxner.data import schemes
from jaxner.errors import InputError
from jaxner.runs import Workdir
from jaxner.training import environment, seeds, train
from tests import tiny
from tests.training import runs


def config_of(corpus, **options):
    config = tiny.plain_config(corpus)
    config.num_seeds, config.seed = 2, 3
    config.update_from_flattened_dict(options)
    return config


@pytest.fixture(scope="module")
def restarts(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "together"
    return folder, train.main_run(config_of(corpus, restarts="together"), folder)


@pytest.fixture(scope="module")
def solo(corpus, tmp_path_factory):
    """The folder of the second seed's run alone."""
    folder = tmp_path_factory.mktemp("runs") / "alone"
    train.main_run(config_of(corpus, num_seeds=1, seed=4), folder)
    return folder


def assert_same(folder, solo, rtol=1e-3, atol=1e-5):
    assert runs.metrics_of(folder, "loss") == runs.metrics_of(solo, "loss")
    runs.assert_close(folder, solo, rtol=rtol, atol=atol)


def test_a_seed_of_one_program_is_that_seed_alone(restarts, solo):
    """Batches of other lengths run beside it, so its padding differs."""
    folder, _ = restarts
    assert_same(folder / "seed-4", solo)
    assert runs.losses(folder / "seed-3") != pytest.approx(runs.losses(solo), rel=1e-2)


def test_a_summary_of_all_seeds_is_written(restarts, solo):
    folder, result = restarts
    assert result == Workdir(folder).read_json("result.json")
    results = [Workdir(folder / f"seed-{s}").read_json("result.json") for s in (3, 4)]
    test = Workdir(solo).read_json("result.json")["test"]
    assert results[1]["test"]["f1"] == test["f1"]
    for split in ("dev", "test"):
        scores = [run[split]["f1"] for run in results]
        assert [result["seeds"][s][split] for s in ("3", "4")] == scores
        assert [result[split][x] for x in ("min", "max")] == sorted(scores)
        low, high = result[split]["interval"]
        assert min(scores) <= low <= result[split]["mean"] <= high <= max(scores)
    assert result["seeds"]["3"]["best_epoch"] == results[0]["best_epoch"]


def test_restarts_in_turn_are_runs_of_their_own(corpus, solo, tmp_path, capsys):
    config = config_of(corpus)
    assert not seeds.is_together(config)  # on a CPU
    assert list(train.main_run(config, tmp_path / "run")["seeds"]) == ["3", "4"]
    assert_same(tmp_path / "run" / "seed-4", solo, rtol=0, atol=0)
    assert "mean ± std" in capsys.readouterr().out


def test_only_restarts_in_turn_can_become_more(corpus, restarts, solo, tmp_path):
    more, fewer = (config_of(corpus, num_seeds=n).to_dict() for n in (3, 1))
    Workdir(tmp_path).write_json("config.json", config_of(corpus).to_dict())
    environment.check_same_config(Workdir(tmp_path), more)
    with pytest.raises(ValueError, match="num_seeds: 2 there, 1 now"):
        environment.check_same_config(Workdir(tmp_path), fewer)
    for folder in (restarts[0], solo):
        with pytest.raises(ValueError, match=r"num_seeds: \d there, 3 now"):
            environment.check_same_config(Workdir(folder), more)


def test_a_run_that_ends_in_its_first_seed_keeps_its_config(
    corpus, tmp_path, monkeypatch
):
    monkeypatch.setattr(train.Program, "score", lambda *_: signal.raise_signal(2))
    with pytest.raises(SystemExit):
        train.main_run(config_of(corpus), tmp_path / "run")
    for option, value in (("num_seeds", 1), ("seed", 5)):
        with pytest.raises(InputError, match=f"{option}: . there, {value} now"):
            train.main_run(config_of(corpus, **{option: value}), tmp_path / "run")


def test_a_seed_that_goes_on_after_others_keeps_count_of_epochs(corpus, tmp_path):
    options = {"seed": 1, "restarts": "together", "num_epochs": 6}
    for patience in (1, 0):
        train.main_run(config_of(corpus, patience=patience, **options), tmp_path)
    epochs = Workdir(tmp_path).seed(2).metrics()
    assert len(epochs) < 6  # it had stopped before the other
    assert [12 * epoch["epoch"] for epoch in epochs] == [x["step"] for x in epochs]


@pytest.mark.slow
def test_restarts_with_their_own_frozen_weights_resume(corpus, tmp_path, monkeypatch):
    """Vectors are divided by a deviation to which drawn vectors add."""
    config = config_of(corpus, restarts="together", num_epochs=2)
    words = ["the", "of", "said", *(f"w{i}" for i in range(40))]
    config.data.vectors = runs.write_vectors(tmp_path, words)
    config.data.min_vector_match = 0.0
    config.data.standardise_vectors = True
    # Within the first epoch, and within the second.
    runs.stop_before(monkeypatch, (3, 15), signal.SIGTERM)
    for _ in range(2):
        with pytest.raises(SystemExit) as stop:
            train.main_run(config, tmp_path / "run")
        assert stop.value.code == 143
    train.main_run(config, tmp_path / "run")
    train.main_run(seeds.configs_of(config)[1], tmp_path / "alone")
    assert_same(tmp_path / "run" / "seed-4", tmp_path / "alone")
    trees = [jaxner.load(tmp_path / "run" / f"seed-{s}").weights for s in (3, 4)]
    tables = [jax.tree.leaves(weights["frozen"])[0] for weights in trees]
    assert abs(tables[0] - tables[1]).max() > 1e-4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* distinct training words are known")
@pytest.mark.parametrize(
    ("standardise", "train_words"), [(True, True), (False, True), (True, False)]
)
def test_restarts_hold_frozen_tables_once(
    standardise, train_words, corpus, tmp_path, monkeypatch
):
    """Or one each, if these differ and the training text has words in them."""
    config = config_of(corpus, num_seeds=3, restarts="together", num_epochs=2)
    words = ["the", *(f"w{i}" for i in range(997 - (not train_words)))]
    config.data.vectors = runs.write_vectors(tmp_path, words)
    config.data.min_vector_match = 0.0
    config.data.standardise_vectors = standardise
    config.data.train_words = train_words
    monitor, counts = train.monitor.Monitor, []
    build, advance = train.initial_weights, monitor.advance

    def count(call, *arguments, **options):
        answer = call(*arguments, **options)
        if len(counts) < 3:  # a traceback that was caught may hold arrays of its frames
            gc.collect()
        tables = [array for array in jax.live_arrays() if 997 in array.shape]
        sizes = {table.unsafe_buffer_pointer(): table.size for table in tables}
        counts.append(sum(sizes.values()) / (997 * 8))
        return answer

    monkeypatch.setattr(train, "initial_weights", functools.partial(count, build))
    monkeypatch.setattr(monitor, "advance", lambda *args: count(advance, *args))
    train.main_run(config, tmp_path / "run")
    assert max(counts[:3]) <= 2  # while they are drawn
    assert {*counts[3:]} == {1 if train_words else 3}


def test_an_ensemble_averages_the_marginals_of_its_members(restarts, corpus):
    """`test_entities` compares mixtures with enumeration, temperatures included."""
    folder, dev = restarts[0], runs.sentences(corpus, "dev")[:3]
    pair = jaxner.load(folder, seed="all")
    members = [jaxner.load(folder, seed=seed) for seed in (3, 4)]
    for number, member in enumerate(members):
        assert jaxner.tag(pair.member(number), dev) == jaxner.tag(member, dev)
    answers = zip(*(jaxner.marginals(member, dev) for member in members), strict=True)
    means = [np.mean(rows, axis=0) for rows in answers]
    for marginals, mean in zip(jaxner.marginals(pair, dev), means, strict=True):
        np.testing.assert_allclose(marginals, mean, atol=1e-5)
    decode = pair.vocabulary.decode
    expected = [decode(mean.argmax(axis=1).tolist()) for mean in means]
    assert jaxner.tag(pair, dev) == expected
    ids = jax.jit(jaxner.tag)(pair, jaxner.encode(pair, dev)).tolist()
    assert [decode(r[: len(x)]) for r, x in zip(ids, expected, strict=True)] == expected
    for row_labels in jaxner.tag(pair, dev, constrained=True):
        assert not schemes.violations(row_labels, "BIOES")
