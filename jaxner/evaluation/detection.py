"""Detection of errors by uncertainty, and changes by a refinement."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

Labels = Sequence[Sequence[str]]


class Detection(NamedTuple):
    """How well an uncertainty separates wrong from right tokens.

    Attributes:
        wrong: Number of wrong tokens.
        right: Number of right tokens.
        mean_wrong: Mean uncertainty of wrong tokens, in the unit of the input; nan
            without wrong tokens.
        mean_right: Mean uncertainty of right tokens; nan without right tokens.
        auroc: Area under the ROC curve: the probability that a wrong token is more
            uncertain than a right one, ties counting half; nan unless both exist.
    """

    wrong: int
    right: int
    mean_wrong: float
    mean_right: float
    auroc: float

    @property
    def ratio(self) -> float:
        """Mean uncertainty of wrong tokens over that of right tokens."""
        return self.mean_wrong / self.mean_right if self.mean_right else np.nan


class Changes(NamedTuple):
    """Counts of tokens whose label changed (Gui et al., 2020, Table 1).

    Attributes:
        mended: Wrong before, right after.
        broken: Right before, wrong after.
        moved: Wrong before and after, with different labels.
        mended_uncertainty: Mean uncertainty of mended tokens; nan without any.
        broken_uncertainty: Mean uncertainty of broken tokens; nan without any.
    """

    mended: int
    broken: int
    moved: int
    mended_uncertainty: float
    broken_uncertainty: float


def detect(uncertainty: np.ndarray, wrong: np.ndarray) -> Detection:
    """Returns how well uncertainty detects wrong tokens.

    Args:
        uncertainty: Uncertainty of each token, `[N]`, in any unit.
        wrong: Whether each token's label is wrong, `[N]`.

    Raises:
        ValueError: The lengths differ.

    Example:
        >>> found = detect(np.array([0.9, 0.1, 0.2]), np.array([True, False, False]))
        >>> round(found.ratio, 2), found.auroc
        (6.0, 1.0)
    """
    wrong = np.asarray(wrong, bool)
    if len(uncertainty) != len(wrong):
        raise ValueError(
            f"Expected as many uncertainties as tokens, got {len(uncertainty)} and "
            f"{len(wrong)}"
        )
    both = 0 < wrong.sum() < len(wrong)
    return Detection(
        int(wrong.sum()),
        int((~wrong).sum()),
        _mean(uncertainty[wrong]),
        _mean(uncertainty[~wrong]),
        float(roc_auc_score(wrong, uncertainty)) if both else float("nan"),
    )


def changes(
    gold: Labels, before: Labels, after: Labels, uncertainty: np.ndarray
) -> Changes:
    """Returns the changes between two labellings.

    Args:
        gold: The gold labels of each sentence.
        before: The labels before the change.
        after: The labels after it.
        uncertainty: Uncertainty of each token of all sentences, `[N]`.

    Raises:
        ValueError: The numbers of tokens differ.

    Example:
        >>> gold, before, after = ["ABC"], ["ACB"], ["BBA"]
        >>> changes(gold, before, after, np.array([0.1, 0.9, 0.5]))[:3]
        (1, 1, 1)
    """
    right, old, new = (
        np.array(list(chain(*side)), object) for side in (gold, before, after)
    )
    sizes = [len(side) for side in (right, old, new)] + [np.size(uncertainty)]
    if len(set(sizes)) > 1:
        raise ValueError(
            "Expected as many gold labels, labels before and after, and uncertainties, "
            f"got {', '.join(map(str, sizes))}"
        )
    mended = (old != right) & (new == right)
    broken = (old == right) & (new != right)
    moved = (old != right) & (new != right) & (old != new)
    return Changes(
        int(mended.sum()),
        int(broken.sum()),
        int(moved.sum()),
        _mean(uncertainty[mended]),
        _mean(uncertainty[broken]),
    )


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
