"""The result of a run: the scores of its best checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from jaxner import tagging
from jaxner.evaluation import predictions, report
from jaxner.evaluation.tasks import Task
from jaxner.training import cluster, environment, monitor, prepare
from jaxner.workdir import Workdir


def final_scores(
    config: Any,
    folder: Workdir,
    names: Sequence[str],
    task: Task,
    place: cluster.Placement,
    console: Console,
) -> dict[str, Any]:
    """Scores dev and test with the best checkpoint.

    Writes `result.json`, and the labels as `predictions-dev.conll` and `-test.conll`.
    The figures follow the run's rule; if that is "strict", `by_conlleval` is F1 by
    conlleval's rule.

    Args:
        config: Config of the run.
        folder: Folder of the run.
        names: Names of the splits.
        task: The scoring task.
        place: Placement of arrays.
        console: Shows lines and tables to the user.

    Returns:
        The content of `result.json`; figures in percent.
    """
    params = place.tagger(tagging.load(folder.path))
    with folder.best(read_only=True) as best:
        result: dict[str, Any] = {"best_epoch": best.progress()["epoch"]}
    result["seconds"] = round(sum(m["seconds"] for m in folder.metrics()), 1)
    for name in names:
        split = prepare.load_split(config.data.to_dict(), name)
        console.print(split.summary())
        prepare.log_unknown_tags(split, params.vocabulary, console.print)
        with monitor.waiting(console, f"Scoring {name}"):
            labels = tagging.label_split(
                params, split, constrained=config.evaluation.constrained
            )
        tokens = [example.tokens for example in split.examples]
        scores = task.score(tokens, *labels, rule="seqeval")
        about: dict[str, Any] = {"sha256": split.sha256, "notes": split.notes}
        if task.rule == "strict" and not task.has_tags:
            # So that figures of systems with different rules are comparable.
            about["by_conlleval"] = scores.to_dict()["f1"]
            scores = task.score(tokens, *labels)
        console.print(report.per_type_table(scores, f"{split.name} {name}"))
        result[name] = {**scores.to_dict(), **about}
        result["peak_memory_mb"] = environment.peak_memory_mb()
        folder.write_json("result.json", result)
        # Unchanged labels, so that other rules can score them later.
        if folder.writes:
            predictions.write(folder.predictions(name), split, *labels)
    return result
