"""How often thresholds keep their promise, over random splits of a run's dev and test.

python -m benchmarks.guarantees runs/grn PER misses 0.1 10
"""

import sys

import numpy as np

import jaxner
from jaxner.answers.entities import predict
from jaxner.errors import InputError
from jaxner.evaluation.guarantees import bounded, losses, rows_of
from jaxner.runs import Workdir
from jaxner.training import corpus


def coverage(splits, kind, risk, of, draws=200):
    """Returns the risk on the second part of each draw, for a threshold of the first.

    `splits` are the rows of dev and test; draws that are refused have no risk.
    """
    rows, size = [*splits[0], *splits[1]], len(splits[0])
    rng, risks = np.random.default_rng(0), []
    for _ in range(draws):
        order = [rows[i] for i in rng.permutation(len(rows))]
        try:
            guarantee = bounded(order[:size], kind, risk, of)
        except InputError:
            continue
        risks.append(losses(order[size:], guarantee.threshold, of).mean())
    return np.array(risks)


def main(workdir, kind, of, risk, n_best="1"):
    tagger, options = jaxner.load(workdir), Workdir(workdir).read_json("config.json")
    parts = (corpus.load_split(options["data"], name) for name in ("dev", "test"))
    rows = [rows_of(predict(tagger, part, n_best=int(n_best)), kind) for part in parts]
    risks = coverage(rows, kind, float(risk), of)
    print(f"{len(risks)} of 200 splits not refused")
    if len(risks):
        share = np.mean(risks <= float(risk))
        print(f"mean risk {risks.mean():.4f}, held in {share:.1%} of them")


if __name__ == "__main__":
    main(*sys.argv[1:])
