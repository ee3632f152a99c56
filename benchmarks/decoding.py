r"""Sentences per second of UANet and its rivals (its Table 6 and Figure 3).

    python -m benchmarks.decoding
    python -m benchmarks.decoding --dataset conll2003 --limit 1000 --rounds 7

The first table has the time from encoded sentences to labels for the dev split of a
corpus, in batches of similar length, with the sizes of each system's config for
CoNLL-2003. Weights are random, since speed does not depend on them. The second table
has the time of decoding alone, from features of a shared encoder, for sentences of one
length: a layer and an argmax, with Viterbi, with the tag LSTM, or the whole refinement
(which reads the words again). The third compares M = 8 passes at once with eight single
passes; without a mask below the LSTM, the LSTM runs once for all passes. Ratios are
relative to BiLSTM-CRF; the published ratios come from a GPU. Rows of BERT are missing,
because they need its weights.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import corpus, ours
from benchmarks.measure import Report, Timing, compare
from configs import lan, ncrfpp, seq2seq, uanet
from jaxner import inference, models, tagging
from jaxner.data.splits import Split
from jaxner.types import Potentials, batch_axes

RIVAL = "CRF"
LENGTHS = (8, 16, 32, 64, 128)
# Sentences per second on the dev splits of CoNLL-2003, OntoNotes 5 and WSJ (Table 6).
CORPORA = ("CoNLL-2003", "OntoNotes 5", "WSJ")
PUBLISHED = {
    "Softmax": (3443, 2910, 3767),
    RIVAL: (1433, 950, 801),
    "LAN": (949, 773, 943),
    "Seq2seq": (1084, 842, 751),
    "UANet, M = 1": (1630, 1262, 1192),
    "UANet, M = 8": (1474, 1129, 1044),
}


def _single() -> Any:
    config = uanet.get_config("conll2003")
    config.model.mc_dropout.num_samples = 1
    return config


SYSTEMS: dict[str, Callable[[], Any]] = {
    "Softmax": lambda: ncrfpp.get_config("conll2003"),
    RIVAL: lambda: ncrfpp.get_config("conll2003,crf"),
    "LAN": lambda: lan.get_config("conll2003"),
    "Seq2seq": lambda: seq2seq.get_config("conll2003"),
    "Seq2seq, beam 4": lambda: seq2seq.get_config("conll2003,beam=4"),
    "UANet, M = 1": _single,
    "UANet, M = 8": lambda: uanet.get_config("conll2003"),
}


def published(system: str, column: int) -> float | None:
    """Returns the ratio of the paper's Table 6; None if the table has none."""
    if system not in PUBLISHED:
        return None
    return PUBLISHED[system][column] / PUBLISHED[RIVAL][column]


def ready(name: str, train: Split, quick: bool) -> tagging.Tagger:
    """Returns one of `SYSTEMS` with the labels of CoNLL-2003."""
    config = ours.shrunk(SYSTEMS[name]()) if quick else SYSTEMS[name]()
    return ours.tagger(config, train, ours.CONLL_TYPES)


def whole(
    train: Split, dev: Split, rounds: int, quick: bool = False
) -> list[dict[str, Any]]:
    """Returns timings of whole taggers on a corpus, as rows of Table 6."""
    names = ("Softmax", RIVAL, "UANet, M = 8") if quick else tuple(SYSTEMS)
    runs = {}
    for name in names:
        params = ready(name, train, quick)
        encoded = [params.vocabulary.encode(e.tokens) for e in dev.examples]
        runs[name] = functools.partial(tagging.label_ids, params, encoded)
    timings = compare(runs, RIVAL, rounds)
    return [
        {
            "system": name,
            "sentences / s": corpus.throughput(len(dev.examples), timing),
            f"× {RIVAL}": timing.ratio,
            **{f"published, {c}": published(name, i) for i, c in enumerate(CORPORA)},
        }
        for name, timing in timings.items()
    ]


def decoders(
    train: Split, length: int, batch: int, quick: bool
) -> dict[str, Callable[[], Any]]:
    """Returns functions that decode a batch of sentences of one length."""
    rng = np.random.default_rng(0)
    mask = jnp.ones((batch, length), bool)
    runs: dict[str, Callable[[], Any]] = {}
    for name in ("Softmax", RIVAL, "Seq2seq"):
        params = ready(name, train, quick)
        width = 2 * params.model.encoder.hidden_dim  # type: ignore[attr-defined]
        features = jnp.asarray(rng.normal(size=(batch, length, width)), jnp.float32)
        head = params.model.head

        def one(x, mask, weights, head=head):
            potentials: Any = head.apply({"params": weights}, x, train=False)
            return inference.viterbi(potentials, mask)

        compiled = jax.jit(jax.vmap(one, in_axes=(0, 0, None)))
        weights: Any = params.weights["params"]
        runs[name] = functools.partial(compiled, features, mask, weights["head"])
    runs["UANet"] = refining(train, length, batch, quick)
    return runs


def refining(train: Split, length: int, batch: int, quick: bool) -> Callable[[], Any]:
    """Returns a function that refines a draft and applies Γ."""
    params = ready("UANet, M = 8", train, quick)
    model: Any = params.model
    sentences = ours.batch_of(params, train, length, batch)
    rng = np.random.default_rng(0)
    shape = (*sentences.words.shape, len(params.vocabulary.label_names))
    scores = jnp.asarray(rng.normal(size=shape), jnp.float32)

    def one(sentence, draft, weights):
        chances = jax.nn.softmax(draft)
        refined = models.refine(model, weights, sentence, chances)
        uncertain = inference.entropy(chances) > model.refinement.threshold
        mixed = models.mix(Potentials(draft), refined, uncertain, sentence.mask)
        return inference.viterbi(mixed, sentence.mask)

    compiled = jax.jit(jax.vmap(one, in_axes=(0, 0, None)))
    return functools.partial(compiled, sentences, scores, params.weights)


def by_length(
    train: Split, batch: int, rounds: int, quick: bool = False
) -> list[dict[str, Any]]:
    """Returns timings of decoding by sentence length, as rows of Figure 3.

    The paper's text gives one figure: for sentences longer than 30 tokens, UANet labels
    nearly three times as many as the CRF.
    """
    rows = []
    for length in (8,) if quick else LENGTHS:
        timings = compare(decoders(train, length, batch, quick), RIVAL, rounds)
        row: dict[str, Any] = {"tokens": length}
        for name, timing in timings.items():
            row[f"{name}, sentences / s"] = batch / timing.seconds.median
            if name != RIVAL:
                row[f"{name} × {RIVAL}"] = timing.ratio
        row[f"published, UANet × {RIVAL}"] = "nearly 3" if length > 30 else None
        rows.append(row)
    return rows


def drawing(
    train: Split, length: int, batch: int, hoisted: bool, quick: bool
) -> Callable[[int, int], Any]:
    """Returns a function that runs a range of passes of UANet's draft."""
    config = uanet.get_config("conll2003,model=variational")
    if quick:
        config = ours.shrunk(config)
    if hoisted:
        config.model.encoder.input_dropout = 0.0
    params = ours.tagger(config, train, ours.CONLL_TYPES)
    sentences = ours.batch_of(params, train, length, batch)
    keys = models.pass_keys(jax.random.key(0), 8)

    @jax.jit
    def sample(weights, keys):
        def one(sentence):
            return models.sample(params.model, weights, sentence, keys).emissions

        return jax.vmap(one, in_axes=(batch_axes(sentences),))(sentences)

    return lambda first, last: sample(params.weights, keys[first:last])


def passes(
    train: Split, length: int, rounds: int, quick: bool = False
) -> list[dict[str, Any]]:
    """Returns timings of M = 8 passes of the draft at once and one by one."""
    rival, rows = "8 single", []
    for batch in (1,) if quick else (1, 8, 32):
        draw = drawing(train, length, batch, False, quick)
        hoisted = drawing(train, length, batch, True, quick)
        runs: dict[str, Callable[[], Any]] = {
            "1 single": lambda d=draw: d(0, 1),
            rival: lambda d=draw: [d(i, i + 1) for i in range(8)],
            "M = 8": lambda d=draw: d(0, 8),
            "M = 8, no mask below the LSTM": lambda d=hoisted: d(0, 8),
        }
        found: dict[str, Timing] = compare(runs, rival, rounds)
        rows.append({"sentences": batch, **found})
    return rows


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    made = corpus.parser(__doc__)
    made.add_argument(
        "--batch", type=int, default=32, help="sentences in a batch of one length"
    )
    options = corpus.parse(made, argv)
    report = Report(options.json)
    train = corpus.load(options.dataset, "train", options.limit if options.quick else 0)
    dev = corpus.load(options.dataset, "dev", options.limit)
    tokens = corpus.count_tokens(dev)
    about = (
        f"{len(dev.examples):,} sentences of {options.dataset} dev, {tokens:,} tokens"
    )
    report.table(
        f"UANet, Table 6: {about}", whole(train, dev, options.rounds, options.quick)
    )
    batch = 2 if options.quick else options.batch
    report.table(
        f"UANet, Figure 3: decoding alone, batches of {batch}",
        by_length(train, batch, options.rounds, options.quick),
    )
    length = 8 if options.quick else 32
    report.table(
        f"passes of UANet's draft, {length} tokens: time (× 8 single)",
        passes(train, length, options.rounds, options.quick),
    )


if __name__ == "__main__":
    main()
