"""A trained tagger learns a new type, from data in which only this type is labelled.

    python examples/learn_on.py FOLDER --new ORG --workdir runs/learn-on

FOLDER has train, dev and test files. The first half of train keeps the labels of all
types but the new one, and the second half those of the new one. Prints F1 on test, by
type, of: the first tagger; what continues without and with the terms that keep the old
types; and what trains on all labels at once.
"""

import argparse
from pathlib import Path

import jaxner
from jaxner.data import corpora


def labelled(examples, keep):
    """Pairs of tokens and labels, with O in the place of other types."""
    return [
        (e.tokens, [x if x != "O" and keep(x[2:]) else "O" for x in e.labels])
        for e in examples
    ]


def main():
    """Trains four taggers and prints their scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--new", default="ORG")
    parser.add_argument("--types", default="PER,LOC,ORG", help="others become O")
    parser.add_argument("--config", default="grn")
    parser.add_argument("--workdir", type=Path, default=Path("runs/learn-on"))
    parser.add_argument("--share", type=float, default=1.0, help="of the training data")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--num-epochs", type=int, default=30)
    parser.add_argument("--vectors", default="")
    options = parser.parse_args()
    types = {*options.types.split(",")}
    splits = {
        name: corpora.load(None, name, directory=options.folder).examples
        for name in ("train", "dev", "test")
    }
    count = round(options.share * len(splits["train"]))
    halves = {
        "old": (splits["train"][: count // 2], types - {options.new}),
        "new": (splits["train"][count // 2 : count], {options.new}),
        "both": (splits["train"][:count], types),
    }
    test = labelled(splits["test"], types.__contains__)

    def train(name, part, **changes):
        rows, kinds = halves[part]
        data = {
            "train": labelled(rows, kinds.__contains__),
            "dev": labelled(splits["dev"], kinds.__contains__),
        }
        values = {"seed": options.seed, "num_epochs": options.num_epochs, **changes}
        if options.vectors:
            values["data.vectors"] = options.vectors
        workdir = options.workdir / name
        tagger = jaxner.train(options.config, data, workdir=workdir, **values)
        scores = jaxner.evaluate(tagger, test).by_type
        return {kind: scores[kind].f1 for kind in sorted(types)}

    start = {"init_from": options.workdir / "old"}
    terms = {"objective.retain": 1.0, "objective.partial": True}
    rows = {
        "old": train("old", "old"),
        "continued": train("continued", "new", **start),
        "continued, old types kept": train("kept", "new", **start, **terms),
        "all at once": train("both", "both"),
    }
    print(f"{'F1 on test':28}", *(f"{kind:>8}" for kind in sorted(types)))
    for name, scores in rows.items():
        print(f"{name:28}", *(f"{100 * (f1 or 0):8.2f}" for f1 in scores.values()))


if __name__ == "__main__":
    main()
