"""Lines of results, and the files of finished runs, without any training."""

from jaxner.data import corpora, vocab
from jaxner.evaluation import predictions
from jaxner.reproduce import published, record
from jaxner.reproduce.plan import Job
from jaxner.workdir import Workdir

KNOWN = published.load()


def line(cell, seed=0, status="done", overrides=None, **fields):
    """One line; dev and test are dictionaries by rule."""
    its = KNOWN.cell(cell)
    begin = {
        **{"cell": cell, "seed": seed, "status": status, "config": its.config},
        "overrides": overrides or {},
    }
    if status == "failed":
        return {**begin, **fields}
    return {
        **begin,
        **{"figure": its.figure, "rule": its.rule, "dev": {its.rule: 90.0}},
        **{"best_epoch": 7, "epochs": 22, "num_epochs": 100, "patience": 15},
        "seconds": 60.0,
        **fields,
    }


def finish(folder, missed=1):
    """Writes the files of a finished run that misses some spans of test."""
    run = Workdir(folder)
    run.write_json("config.json", {"num_epochs": 9, "patience": 2})
    run.write_text("vocabulary.json", vocabulary().to_json())
    data = {name: {"sha256": name, "path": "x"} for name in ("train", "dev", "vectors")}
    run.write_json(
        "environment.json",
        {"versions": dict.fromkeys(record._VERSIONS, "1"), "devices": ["cpu"]}
        | {"data": data},
    )
    run.log({"epoch": 5})
    result = {"best_epoch": 4, "seconds": 1.5}
    for name in ("dev", "test"):
        split = corpora.load("sample", name)
        gold = [list(e.labels) for e in split.to_scheme("BIOES")]
        predicted = [list(labels) for labels in gold]
        found = entities = split.sizes()[2]
        if name == "test":
            broken = [labels for labels in predicted if labels.count("S-PER") == 1]
            for labels in broken[:missed]:
                labels[labels.index("S-PER")] = "O"
            found -= missed
        predictions.write(run.predictions(name), split, gold, predicted)
        f1 = 100 * 2 * found / (found + entities)
        result[name] = {"f1": f1, "sha256": name, "ill_formed": 0}
    run.write_json("result.json", result)


def counted(cell, seed, folder, missed):
    """Returns the line of such a run, with the counts of each sentence."""
    finish(folder, missed)
    return record.done(Job(KNOWN.cell(cell), seed), {}, folder, "cpu", "0")


def vocabulary():
    return vocab.build([["a"]], ["PER"], scheme="BIOES")[0]
