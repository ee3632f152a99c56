r"""Sentences per second of UANet and its rivals (its Table 6 and Figure 3).

    python -m benchmarks.decoding
    python -m benchmarks.decoding --dataset conll2003 --limit 1000 --rounds 7

The first table is the time from encoded sentences to labels, of the dev split of a
corpus, in batches of similar length, with the sizes of each system's config for
CoNLL-2003. Weights are drawn, since speed does not depend on them. The second is the
time of decoding alone, from the features of the encoder that all share, for sentences
of one length: a layer and an argmax, the same and Viterbi, the same and the tag LSTM,
or the whole refinement (whose words are read anew). In the third M = 8 passes at once
are compared with eight single ones; without a mask below the LSTM, the LSTM is run once
for all of them.

All systems are run in turn in every round, after a first round that compiles. Ratios
are medians of the rounds' ratios to BiLSTM-CRF.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from configs import lan, ncrfpp, seq2seq, uanet
from jaxner import inference, models, tagging
from jaxner.data import corpora, vocab
from jaxner.types import Potentials, Sentence

RIVAL = "CRF"
LENGTHS = (8, 16, 32, 64, 128)


def changed(config: Any, **options: Any) -> dict[str, Any]:
    model = config.model.to_dict()
    for path, value in options.items():
        section, name = path.split("__")
        model[section][name] = value
    return model


SYSTEMS: dict[str, Callable[[], dict[str, Any]]] = {
    "Softmax": lambda: changed(ncrfpp.get_config("conll2003")),
    RIVAL: lambda: changed(ncrfpp.get_config("conll2003,crf")),
    "LAN": lambda: changed(lan.get_config("conll2003")),
    "Seq2seq": lambda: changed(seq2seq.get_config("conll2003")),
    "Seq2seq, beam 4": lambda: changed(seq2seq.get_config("conll2003,beam=4")),
    "UANet, M = 1": lambda: changed(
        uanet.get_config("conll2003"), sampling__num_samples=1
    ),
    "UANet, M = 8": lambda: changed(uanet.get_config("conll2003")),
}


def build(model: dict[str, Any], lexicon: vocab.Lexicon) -> tagging.Params:
    built = tagging.build_model(lexicon, model)
    return tagging.Params(models.init(built, 0), built, lexicon)


def medians(
    runs: dict[str, Callable[[], Any]], rounds: int, rival: str
) -> dict[str, tuple[float, float]]:
    """Seconds of each, and how many times as fast as the rival it is."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            jax.block_until_ready(run())
            if round_:  # the first one compiles
                seconds[name].append(time.perf_counter() - start)
    return {
        name: (
            statistics.median(its),
            statistics.median(a / b for a, b in zip(seconds[rival], its, strict=True)),
        )
        for name, its in seconds.items()
    }


def whole(dataset: str, limit: int, rounds: int) -> Table:
    """Times whole taggers on a corpus."""
    train, dev = (corpora.load(dataset, split) for split in ("train", "dev"))
    lexicon, _ = vocab.build(
        [example.tokens for example in train.examples], train.types()
    )
    examples = dev.examples[: limit or None]
    encoded = [lexicon.encode(example.tokens) for example in examples]
    runs = {}
    for name, model in SYSTEMS.items():
        params = build(model(), lexicon)
        runs[name] = lambda p=params: tagging.label_ids(p, encoded)
    tokens = sum(len(s.words) for s in encoded)
    table = Table(
        title=f"{len(encoded):,} sentences of {dataset} dev, {tokens:,} tokens"
    )
    for column in ("system", "sentences / s", f"× {RIVAL}"):
        table.add_column(column, justify="right")
    for name, (seconds, ratio) in medians(runs, rounds, RIVAL).items():
        table.add_row(name, f"{len(encoded) / seconds:,.0f}", f"{ratio:.2f}")
    return table


def decoders(length: int, batch: int, num_labels: int) -> dict[str, Callable[[], Any]]:
    """Decoding alone, of a batch of sentences of one length."""
    rng = np.random.default_rng(0)
    sizes = {"num_trained_words": 1000, "num_frozen_words": 0, "num_chars": 90}
    mask = jnp.ones((batch, length), bool)

    def ready(name, one, features, weights):
        compiled = jax.jit(jax.vmap(one, in_axes=(0, 0, None)))
        return lambda: compiled(features, mask, weights)

    runs = {}
    for name in ("Softmax", RIVAL, "Seq2seq", "UANet"):
        key = "UANet, M = 8" if name == "UANet" else name
        model = models.build(num_labels=num_labels, **sizes, **SYSTEMS[key]())
        weights = models.init(model, 0)
        if name == "UANet":
            runs[name] = refining(model, weights, rng, batch, length, num_labels)
            continue
        x = jnp.asarray(rng.normal(size=(batch, length, 200)), jnp.float32)

        def one(x, mask, params, head=model.head):
            potentials: Any = head.apply({"params": params}, x, train=False)
            return inference.viterbi(potentials, mask)

        runs[name] = ready(name, one, x, weights["params"]["head"])
    return runs


def refining(model, weights, rng, batch, length, num_labels) -> Callable[[], Any]:
    """The refinement of a draft, and Γ."""
    words = jnp.asarray(rng.integers(2, 1000, (batch, length)), jnp.int32)
    chars = jnp.asarray(rng.integers(1, 90, (batch, length, 8)), jnp.int32)
    sentences = Sentence(words, chars, jnp.ones((batch, length), bool))
    scores = jnp.asarray(rng.normal(size=(batch, length, num_labels)), jnp.float32)

    def one(sentence, draft, weights):
        chances = jax.nn.softmax(draft)
        refined = models.refine(model, weights, sentence, chances)
        uncertain = inference.entropy(chances) > model.refinement.threshold
        mixed = models.mix(Potentials(draft), refined, uncertain, sentence.mask)
        return inference.viterbi(mixed, sentence.mask)

    compiled = jax.jit(jax.vmap(one, in_axes=(0, 0, None)))
    return lambda: compiled(sentences, scores, weights)


def by_length(batch: int, rounds: int, num_labels: int) -> Table:
    """Times decoding alone, by the length of sentences."""
    table = Table(
        title=f"decoding alone, batches of {batch}: sentences / s (× {RIVAL})"
    )
    table.add_column("tokens", justify="right")
    for i, length in enumerate(LENGTHS):
        found = medians(decoders(length, batch, num_labels), rounds, RIVAL)
        if not i:
            for name in found:
                table.add_column(name, justify="right")
        cells = [
            f"{batch / seconds:,.0f} ({ratio:.2f})" for seconds, ratio in found.values()
        ]
        table.add_row(str(length), *cells)
    return table


def drawing(length: int, batch: int, **options: Any) -> Callable[[int, int], Any]:
    """Returns what draws passes of UANet's draft, from one number to another."""
    rng = np.random.default_rng(0)
    sentences = Sentence(
        jnp.asarray(rng.integers(2, 1000, (batch, length)), jnp.int32),
        jnp.asarray(rng.integers(1, 90, (batch, length, 8)), jnp.int32),
        jnp.ones((batch, length), bool),
    )
    model = models.build(
        num_labels=17,
        num_trained_words=1000,
        num_frozen_words=0,
        num_chars=90,
        **changed(uanet.get_config("conll2003,model=variational"), **options),
    )
    weights = models.init(model, 0)
    keys = models.pass_keys(jax.random.key(0), 8)

    @jax.jit
    def sample(weights, keys):
        def one(sentence):
            return models.sample(model, weights, sentence, keys).emissions

        return jax.vmap(one)(sentences)

    return lambda first, last: sample(weights, keys[first:last])


def passes(length: int, rounds: int) -> Table:
    """Times M = 8 passes of the draft at once against eight single passes."""
    rival = "8 single"
    table = Table(title=f"passes of UANet's draft, {length} tokens: ms (× {rival})")
    columns = ("sentences", "1 single", rival, "M = 8", "M = 8, no mask below the LSTM")
    for column in columns:
        table.add_column(column, justify="right")
    for batch in (1, 8, 32):
        draw = drawing(length, batch)
        hoisted = drawing(length, batch, encoder__input_dropout=0.0)
        runs = {
            "1 single": lambda d=draw: d(0, 1),
            rival: lambda d=draw: [d(i, i + 1) for i in range(8)],
            "M = 8": lambda d=draw: d(0, 8),
            "hoisted": lambda d=hoisted: d(0, 8),
        }
        found = medians(runs, rounds, rival).values()
        cells = [f"{1e3 * seconds:.1f} ({ratio:.2f})" for seconds, ratio in found]
        table.add_row(str(batch), *cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="sample", help="a known corpus")
    parser.add_argument("--limit", type=int, default=0, help="sentences; 0: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32, help="for one length")
    parser.add_argument("--labels", type=int, default=17, help="for one length")
    options = parser.parse_args()
    console = Console(highlight=False)
    console.print(f"{jax.devices()[0].device_kind}, {options.rounds} rounds")
    console.print(whole(options.dataset, options.limit, options.rounds))
    console.print(by_length(options.batch, options.rounds, options.labels))
    console.print(passes(32, options.rounds))


if __name__ == "__main__":
    main()
