"""The card of a trained tagger: a README.md in the form of the model hubs.

Mitchell et al., "Model Cards for Model Reporting", FAccT 2019.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxner.data import schemes
from jaxner.evaluation import predictions, report, scoring
from jaxner.evaluation.report import Table
from jaxner.runs import CALIBRATION, Workdir
from jaxner.wording import markdown, printable

_PAPERS = {
    "grn": "Chen et al., GRN: Gated Relation Network, AAAI 2019",
    "idcnn": "Strubell et al., Fast and Accurate Entity Recognition with Iterated "
    "Dilated Convolutions, EMNLP 2017",
    "refinement": "Gui et al., Uncertainty-Aware Label Refinement, EMNLP 2020",
    "num_units": "Žukov-Gregorič et al., Named Entity Recognition With Parallel "
    "Recurrent Neural Networks, ACL 2018",
    "attention": "Li et al., Why Attention? Analyze BiLSTM Deficiency, AAAI 2020",
    "lan": "Cui and Zhang, Hierarchically-Refined Label Attention Network, EMNLP 2019",
}
_CARD = """\
---
{head}---

# {name}

A tagger of {types}.

```python
import jaxner

tagger = jaxner.load({folder!r})  # of its one file: jaxner.load_exported
labels = tagger.tag(["A", "sentence"])
```

## Data

{data}
## Scores

{epoch}.

{scores}
## Training

Seed {seed}, {seconds:,} s on {devices}; {versions}.
All settings stand in `config.json`.

## Limits

The scores are of the data above: on text of another genre, time or language they are
lower. Probabilities are exact under the model, which does not make them right: see
Calibration. Names that the training text lacks are found less often, and names of some
groups may be missed more often than others: measure it on your text before you rely on
it, above all to remove personal data.

## Citation

Please cite {papers}.
"""

_EPOCHS = ("The best epoch on dev", "The last epoch, as dev could not choose another")


def card(run: Workdir) -> str:
    """Returns the card of a finished run: data, scores, settings, limits, citation."""
    config, result = run.read_json("config.json"), run.read_json("result.json")
    environment, options = run.read_json("environment.json"), config["data"]
    # As `corpora.load` calls it.
    data = Path(options["dir"] or options["name"]).resolve().name
    vocabulary, name = run.vocabulary(), run.path.resolve().name
    tags = vocabulary.scheme == schemes.TAGS
    splits = [split for split in ("dev", "test") if split in result]
    figures = ["accuracy"] if tags else ["precision", "recall", "f1"]
    results = [
        {
            "task": {"type": "token-classification"},
            "dataset": {"name": data, "type": data, "split": split},
            "metrics": [
                {"type": figure, "value": round(result[split][figure] or 0.0, 2)}
                for figure in figures
            ],
        }
        for split in splits
    ]
    head = {
        "library_name": "jaxner",
        "pipeline_tag": "token-classification",
        "tags": ["jax", "part-of-speech" if tags else "named-entity-recognition"],
        "model-index": [{"name": name, "results": results}],
    }
    is_last = result.get("chosen_by") == "last epoch"
    # JSON is YAML, and needs no quoting of ours.
    lines = (f"{x}: {json.dumps(y, ensure_ascii=False)}\n" for x, y in head.items())
    files = {**environment["data"], **{split: result[split] for split in splits}}
    rows = [(split, data, file["sha256"]) for split, file in files.items()]
    rule = config["evaluation"].get("rule", "conlleval")
    scores = "\n".join(_scores(run, x, vocabulary.scheme, rule) for x in splits)
    fit = run.read_json(CALIBRATION) if (run.path / CALIBRATION).is_file() else {}
    steps = [x["step"] for x in run.metrics() if x["epoch"] == result["best_epoch"]]
    if fit.get("step") in steps:  # else it is of an earlier checkpoint
        scores += "\n## Calibration\n\n" + "\n".join(_calibration(fit))
    return _CARD.format(
        head=printable("".join(lines)),
        name=markdown(name),
        folder=name,
        types=markdown(", ".join(vocabulary.types)),
        data=Table(("split", "corpus", "SHA-256"), rows).markdown(),
        epoch=f"{_EPOCHS[is_last]}, {result['best_epoch']}",
        scores=scores,
        seed=config["seed"],
        seconds=result["seconds"],
        devices=markdown(", ".join(sorted({*environment["devices"]}))),
        versions=", ".join(map(" ".join, environment["versions"].items())),
        papers="; ".join(["jaxner", *_papers(config["model"])]),
    )


def _scores(run: Workdir, split: str, scheme: str, rule: str) -> str:
    """Returns tables of a split's figures by type and by rule; of tags, accuracy."""
    sides = predictions.read(run.predictions(split))
    scores = scoring.score(*sides, rule=rule, scheme=scheme)
    if scores.has_tags:
        return f"On {split}: {report.short_line(scores)}\n"
    facts = {"scores": scores.to_dict(), "by_rule": report.by_rule(*sides, scheme)}
    tables = report.types_table(facts), report.rules_table(facts)
    return "\n".join([f"On {split}:\n", *(x.markdown() for x in tables)])


def _calibration(calibration: Any) -> Iterator[str]:
    temperature, best = calibration["temperature"], calibration["fitted"]
    if temperature == best:
        yield f"Temperature {best:.4g}, fitted on dev.\n"
    else:
        yield f"Temperature {temperature:.4g}; dev's best, {best:.4g}, was not kept.\n"
    yield report.fitted_table(calibration).markdown()
    if guarantees := calibration.get("guarantees"):
        yield report.guarantees_table(guarantees["types"]).markdown()


def _papers(model: Any) -> list[str]:
    papers = set()
    for key, value in model.items():
        if key == "name":
            papers.add(_PAPERS.get(value))
        elif (key == "num_units" and value > 1) or (key == "refinement" and value):
            papers.add(_PAPERS[key])
        if isinstance(value, dict):
            papers.update(_papers(value))
    return sorted(filter(None, papers))
