"""Contextual inputs from files to labels: vectors of each token, and a small BERT."""

import itertools
import shutil
from contextlib import nullcontext

import jax
import numpy as np
import pytest

import jaxner
import train
from jaxner.data import batching
from jaxner.data import vectors as token_vectors
from jaxner.errors import InputError
from jaxner.models import pretrained
from jaxner.runs import Workdir
from jaxner.serving.programs import Programs
from jaxner.training import corpus as training_corpus
from jaxner.training import step
from tests import fence, tiny
from tests.sentences import content, row_of
from tests.training.runs import sentences


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A corpus of a few sentences, in documents."""
    folder = tmp_path_factory.mktemp("short")
    return tiny.write_corpus(folder, sentences=12, documents=True)


@pytest.fixture(scope="module")
def vectors(short, tmp_path_factory):
    """A folder with random vectors of three layers for each split, and a small BERT."""
    pytest.importorskip("tokenizers")
    return fence.write_inputs(short, tmp_path_factory.mktemp("inputs") / "8", dim=8)


def bert_config(corpus, inputs):
    config = fence.small("bert.py:sample", corpus, inputs)
    config.num_epochs = 1
    config.model.representation.bert.update(dropout=0.2, attention_dropout=None)
    return config


@pytest.mark.slow
def test_a_trained_bert_needs_its_folder_no_more(vectors, short, tmp_path, monkeypatch):
    config = bert_config(short, vectors)
    train.main_run(config, tmp_path)
    for function in ("sizes", "read"):
        monkeypatch.setattr(pretrained, function, None)
    params = jaxner.load(tmp_path)
    encoder = params.model.representation.bert.encoder
    assert encoder.hidden_dropout_prob == 0.2  # the config's, ...
    assert encoder.attention_probs_dropout_prob == 0.1  # ... and the folder's
    text = sentences(short, "test")
    windows = [params.vocabulary.encode(tokens).pieces.windows for tokens in text]
    assert max(map(len, windows)) > 1
    assert list(map(len, jaxner.tag(params, text))) == list(map(len, text))
    record = Workdir(tmp_path).read_json("environment.json")["data"]
    assert "pretrained model.safetensors" in record
    # Nor does a run that learns on, and resumes.
    config.init_from, config.data.pretrained = str(tmp_path), None
    sections = [config.optimizer, *(config.optimizer.parts or {}).values()]
    for section in sections:
        section.warmup = None  # else the epochs must stay
    for config.num_epochs in (1, 2):
        train.main_run(config, tmp_path / "on")
    assert jaxner.load(tmp_path / "on").vocabulary.pieces == params.vocabulary.pieces


def vector_config(corpus, folder, layer="mix"):
    config = tiny.config(corpus, 1, "sample,encoder=projection")
    config.data.contextual = f"{folder}/{{split}}.npz"
    config.model.representation.vectors = {"layer": layer}
    return config


@pytest.fixture(scope="module")
def vector_run(short, vectors, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "vectors"
    train.main_run(vector_config(short, vectors), folder)
    return folder


@pytest.mark.slow
def test_streamed_vectors_train_as_those_on_the_device(tmp_path, monkeypatch):
    """A later step has blocks of a shape that the first lacks: it compiles then."""
    text = tiny.write_corpus(tmp_path, sentences=24, lengths=range(3, 17))
    config = vector_config(text, tmp_path)
    config.update(batch_size=2, num_epochs=2)
    config.data.num_shapes, config.model.representation.chars = 2, None
    for split in ("train", "dev", "test"):
        tokens, rng = sentences(text, split), np.random.default_rng(0)
        arrays = [rng.normal(size=(2, len(row), 5)) for row in tokens]
        token_vectors.write_contextual(tmp_path / f"{split}.npz", arrays, tokens)
    for cost in ("_BLOCK", "_PROGRAM"):  # else there is one shape
        monkeypatch.setattr(batching, cost, 0)
    losses, traces, take = [], [], step.take

    def taking(*operands):
        shape, vectors = operands[3:5]
        traces.append((shape, vectors is None))
        return take(*operands)

    monkeypatch.setattr(step, "take", taking)
    for config.data.vectors_on_device in (False, True):
        folder = tmp_path / str(config.data.vectors_on_device)
        train.main_run(config, folder)
        losses.append([epoch["loss"] for epoch in Workdir(folder).metrics()])
        shapes, are_absent = map(set, zip(*traces, strict=True))
        assert len(shapes) > 1
        assert are_absent == {config.data.vectors_on_device}
        traces.clear()
    np.testing.assert_allclose(*losses, rtol=1e-6)


def test_files_are_scored_and_old_types_are_kept_by_vectors(
    vector_run, vectors, short, answer, monkeypatch
):
    file, vectors_of_dev = short / "dev.conll", ("--contextual", vectors / "dev.npz")
    dev = Workdir(vector_run).read_json("result.json")["dev"]
    for split in (("--split", file), ()):
        scores = answer("evaluate", vector_run, *split, *vectors_of_dev)
        assert (scores["gold"], scores["correct"]) == (dev["gold"], dev["correct"])
    for wrong in (("--contextual", vectors / "test.npz"), ()):  # of another text
        with pytest.raises(ValueError, match="vectors"):
            answer("evaluate", vector_run, "--split", file, *wrong)
    output = vector_run / "output.json"
    writing = ("tag", "-o", output), ("select", "-o", output)
    card = vector_run / "README.md"  # a text
    for name, *options in (*writing, ("check",), ("show",)):
        with pytest.raises(InputError, match="which a text has none of"):
            answer(name, vector_run, card if name == "show" else file, *options)
    with pytest.raises(InputError, match="which a text has none of"):
        Programs(jaxner.load(vector_run))
    assert not [*vector_run.glob("output*")]
    config = vector_config(short, vectors)
    config.init_from, config.objective.retain = str(vector_run), 1.0
    monkeypatch.setattr(training_corpus, "Corpus", None)  # what comes after
    with pytest.raises(TypeError, match="not callable"):
        train.main_run(config, vector_run / "on")


def test_vectors_that_do_not_suit_the_sentences(vector_run, params):
    tagger = jaxner.load(vector_run)
    right = np.zeros((3, 2, 5))
    for vectors in (None, right[:, :1], right[:2], right[0], right + np.inf):
        with pytest.raises(ValueError, match=r"vectors|layers"):
            jaxner.tag(tagger, ["a", "b"], vectors=vectors)
    with pytest.raises(ValueError, match="one array of vectors per sentence"):
        jaxner.tag(tagger, [["a"], ["b"]], vectors=[right])
    batch = jaxner.encode(tagger, ["a", "b"], vectors=right)
    with pytest.raises(TypeError, match="vectors"):
        jaxner.tag(tagger, batch, vectors=right)
    with pytest.raises(ValueError, match="takes no vectors"):
        jaxner.tag(params, ["a", "b"], vectors=np.zeros((2, 5)))


def vocabulary_of(config):
    data = config.data.to_dict()
    split = training_corpus.load_split(data, "train")
    return split, training_corpus.build_vocabulary(data, split, None, print)[0]


def corpus_of(config, **options):
    split, vocabulary = vocabulary_of(config)
    model = jaxner.build(vocabulary, **config.model.to_dict())
    items, labels = training_corpus.encode_split(split, vocabulary)
    return training_corpus.Corpus(items, labels, model, **options), items


def test_a_run_warns_of_dev_sentences_that_are_in_train(short, tmp_path, monkeypatch):
    for name in ("train", "dev"):
        shutil.copy(short / "train.conll", tmp_path / f"{name}.conll")
    monkeypatch.setattr(training_corpus, "Corpus", None)  # what comes after
    warning = pytest.warns(UserWarning, match=r"sentences of dev \(100.0% .* in train")
    with warning, pytest.raises(TypeError, match="not callable"):
        train.main_run(tiny.config(tmp_path), tmp_path / "run")


@pytest.mark.parametrize(("head", "warns"), [("crf", True), ("softmax", False)])
def test_a_crf_of_many_labels_warns_of_its_time(
    head, warns, short, tmp_path, monkeypatch
):
    monkeypatch.setattr("jaxner.training.train._MANY_LABELS", 5)
    monkeypatch.setattr(training_corpus, "Corpus", None)  # what comes after
    config = tiny.config(short)
    config.model.head = {"name": head}
    warning = pytest.warns(UserWarning, match="labels: a CRF takes time and memory")
    with (
        warning if warns else nullcontext(),
        pytest.raises(TypeError, match="callable"),
    ):
        train.main_run(config, tmp_path / "run")


@pytest.mark.parametrize(
    ("labels", "types"), [("O B-O", "O"), ("S-S-Bahn O", "S-Bahn")]
)
def test_types_may_look_like_labels(labels, types, tmp_path):
    rows = zip("ab", labels.split(), strict=True)
    text = "".join(f"{token} {label}\n" for token, label in rows)
    (tmp_path / "train.conll").write_text(text)
    _, vocabulary = vocabulary_of(tiny.config(tmp_path))
    assert vocabulary.types == (types,)


@pytest.mark.parametrize("kind", ["pieces", "vectors", "vectors on the device"])
def test_blocks_have_all_of_their_sentences(kind, vectors, short):
    """As a step takes the blocks."""
    take = jax.jit(training_corpus.take, static_argnums=3)
    has_pieces, shapes, count = kind == "pieces", {}, 0
    config = (bert_config if has_pieces else vector_config)(short, vectors)
    options = {"batch_size": 5, "num_blocks": 2, "num_shapes": 3}
    options["vectors_on_device"] = "device" in kind
    corpus, items = corpus_of(config, **options)
    epoch = corpus.batches.epoch(0, 0)  # what a loop of one's own gets
    plan, _ = corpus.batches.plan([0], 0)
    plan = jax.tree.map(lambda array: jax.numpy.asarray(array[0]), plan)
    blocks = itertools.chain(*(blocks for _, blocks, _ in corpus.epoch([0], 0)))
    for number, (size, rows) in enumerate(blocks):
        rows = None if rows is None else rows[0]
        batch, _, _ = take(corpus.arrays, plan, number, size, rows)
        batch = jax.tree.map(np.asarray, batch)
        shape = jax.tree.map(np.shape, batch)
        jax.tree.map(np.testing.assert_array_equal, next(epoch)[0].pieces, batch.pieces)
        assert shapes.setdefault(size, shape) == shape
        start, length = plan.blocks[:, number]
        members = [items[i] for i in plan.rows[start : start + length]]
        count += len(members)
        for i, sentence in enumerate(members):
            row, expected = row_of(batch, i), content(sentence)
            if has_pieces:
                expected["chars"] = [()] * len(sentence.words)  # its model reads none
                mask = row.pieces.mask
                assert mask.shape == (size.pieces.windows, size.pieces.pieces)
                assert mask.sum() == sentence.pieces.mask.sum()
            assert content(row, row.mask) == expected
        assert has_pieces or not batch.vectors[~batch.mask].any()
    assert count == 12


@pytest.mark.parametrize("split", ["dev", "test"])
def test_all_splits_have_vectors_of_the_same_sizes(split, vectors, short, tmp_path):
    """A test split without vectors is not scored."""
    for path in vectors.glob("*.npz"):
        shutil.copy(path, tmp_path)
    text = sentences(short, split)
    arrays = [np.zeros((2, len(tokens), 5), np.float32) for tokens in text]
    token_vectors.write_contextual(tmp_path / f"{split}.npz", arrays, text)
    options, lines = vector_config(short, tmp_path).data.to_dict(), []
    with pytest.raises(InputError) as error:
        training_corpus.load_data(options, word_dim=None, log=print)
    assert error.value.path == tmp_path / f"{split}.npz"
    assert training_corpus.splits_to_score(options, lines.append) == ("dev", "test")
    (tmp_path / f"{split}.npz").unlink()
    if split == "dev":
        with pytest.raises(FileNotFoundError, match="dev"):
            training_corpus.load_data(options, word_dim=None, log=print)
    else:
        data = training_corpus.load_data(options, word_dim=None, log=print)
        assert data.vocabulary.vector_sizes == (3, 5)
        assert training_corpus.splits_to_score(options, lines.append) == ("dev",)
        assert "test" in lines[0]
