"""The card of a trained tagger: a README.md in the form of the model hubs.

Mitchell et al., "Model Cards for Model Reporting", FAccT 2019.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from jaxner.data import schemes
from jaxner.data.vocabulary import SEPARATOR
from jaxner.evaluation import predictions, scoring
from jaxner.runs import CALIBRATION, Workdir

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
_LIMITS = """\
The scores are of the data above: on text of another genre, time or language they are
lower. Probabilities are exact under the model, which does not make them right: see
Calibration. Names that the training text lacks are found less often, and names of some
groups may be missed more often than others: measure it on your text before you rely on
it, above all to remove personal data.
"""


def card(run: Workdir) -> str:
    """Returns the card of a finished run: data, scores, settings, limits, citation."""
    config, result = run.read_json("config.json"), run.read_json("result.json")
    about = run.read_json("environment.json")
    labels = [x for x in run.vocabulary().label_names if x != SEPARATOR]
    tags, data = run.vocabulary().scheme == schemes.TAGS, config["data"]
    main, name = "accuracy" if tags else "f1", run.path.resolve().name
    splits = [split for split in ("dev", "test") if split in result]
    figures = [main] if tags else ["precision", "recall", "f1"]
    measured = [
        {
            "task": {"type": "token-classification"},
            "dataset": {"name": data["name"], "type": data["name"], "split": split},
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
        "model-index": [{"name": name, "results": measured}],
    }
    types = labels if tags else schemes.label_types(labels).names
    files = {**about["data"], **{split: result[split] for split in splits}}
    versions = about["versions"].items()
    calibration = ""
    if (run.path / CALIBRATION).is_file():
        calibration = f"\n## Calibration\n\n{_calibration(run.read_json(CALIBRATION))}"
    return (
        "---\n"
        # JSON is YAML, and needs no quoting of ours.
        + "".join(f"{key}: {_json(value)}\n" for key, value in head.items())
        + f"---\n\n# {name}\n\nA tagger of {', '.join(types)}.\n\n"
        + "```python\nimport jaxner\n\n"
        + f'tagger = jaxner.load("{name}")  # of its one file: jaxner.load_exported\n'
        + 'labels = tagger.tag(["A", "sentence"])\n'
        + "```\n\n## Data\n\n"
        + _table(
            ("split", "corpus", "SHA-256"),
            (
                (split, data["name"], f"`{file['sha256']}`")
                for split, file in files.items()
            ),
        )
        + f"\n## Scores\n\nThe best epoch on dev, {result['best_epoch']}.\n\n"
        + "\n".join(_scores(run, split, tags) for split in splits)
        + calibration
        + f"\n## Training\n\nSeed {config['seed']}, {result['seconds']:,} s on "
        + f"{', '.join(sorted({*about['devices']}))}; "
        + ", ".join(f"{package} {version}" for package, version in versions)
        + ". All settings stand in `config.json`.\n"
        + f"\n## Limits\n\n{_LIMITS}\n## Citation\n\nPlease cite jaxner"
        + "".join(f"; {paper}" for paper in _papers(config["model"]))
        + ".\n"
    )


def _scores(run: Workdir, split: str, tags: bool) -> str:
    """Returns tables of a split's figures by type, and F1 by each rule."""
    gold, predicted = predictions.read(run.predictions(split))
    scheme = run.vocabulary().scheme
    first, *rest = (
        scoring.score(gold, predicted, rule=rule, scheme=scheme)
        for rule in (("conlleval",) if tags else scoring.RULES)
        if tags or scoring.reads(rule, scheme)
    )
    if tags:
        return f"{split}: accuracy {_percent(first.accuracy)}\n"
    rows = [
        (kind, *map(_percent, (x.precision, x.recall, x.f1)), f"{x.gold:,}")
        for kind, x in [*first.by_type.items(), ("all", first.overall)]
    ]
    head = (split, "precision", "recall", "F1", "gold")
    rules = ", ".join(f"{x.rule} {_percent(x.f1)}" for x in (first, *rest))
    return f"{_table(head, rows)}\nF1 on {split} by rule: {rules}.\n"


def _calibration(fitted: Any) -> str:
    kept, best = fitted["temperature"], fitted.get("fitted", fitted["temperature"])
    lines = [f"Temperature {best:.4g}, fitted on dev.\n"]
    if kept != best:
        lines = [f"Temperature {kept:.4g}; {best:.4g} made entities worse on dev.\n"]
    for row in fitted.get("guarantees", {"types": ()})["types"]:
        promise = f"{row['of']} of {row['type']} at most {100 * row['risk']:g} percent"
        test = f"; {_percent(row['test'])} percent on test" if "test" in row else ""
        lines.append(
            f"- {promise} on text like dev, from {row['threshold']:.4f}{test}\n"
        )
    for split in ("dev", "test"):
        for side in ("tokens", "entities") if split in fitted else ():
            both = [fitted[split][x][side] for x in ("before", "after")]
            if all(both):
                errors = [_percent(x["expected_calibration_error"]) for x in both]
                what = f"expected calibration error of {side} on {split}, percent"
                lines.append(f"- {what}: {' → '.join(errors)}\n")
    return "".join(lines)


def _papers(model: Any) -> list[str]:
    """Returns the papers of the parts of a model."""
    papers = []
    for key, value in model.items():
        is_part = key == "name" and value in _PAPERS
        is_part |= key == "num_units" and value > 1
        if is_part or (key == "refinement" and value):
            papers.append(_PAPERS[value if key == "name" else key])
        if isinstance(value, dict):
            papers += _papers(value)
    return sorted({*papers})


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
