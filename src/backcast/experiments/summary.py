"""What a run comes down to: numbers from the scores of every model on every task."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from backcast.experiments.log import Part, Score, Stage

Matrix = Float[np.ndarray, "T T"]

PARTS: tuple[Part, ...] = ("test", "validation")
METRICS = ("accuracy", "balanced_accuracy", "nll", "ece", "brier")


def matrix(
    scores: Iterable[Score], tasks: int, metric: str = "accuracy", part: Part = "test"
) -> Matrix:
    """``R[i, j]``: the metric on task ``j`` of the filtered model after task ``i``; NaN if none.

    After each task, the tasks up to the next one are tried.
    """
    found = np.full((tasks, tasks), np.nan)
    for score in scores:
        if score.stage == "filtered" and score.part == part:
            found[score.after, score.task] = score.metrics[metric]
    return found


def own(
    scores: Iterable[Score],
    tasks: int,
    stage: Stage,
    metric: str = "accuracy",
    part: Part = "test",
) -> Float[np.ndarray, " T"]:
    """The metric on each task of its own model of this stage; NaN where there is none."""
    found = np.full(tasks, np.nan)
    for score in scores:
        if score.stage == stage and score.part == part and score.model in (score.task, -1):
            found[score.task] = score.metrics[metric]
    return found


def average(R: Matrix, learned: Sequence[int]) -> float | None:  # noqa: N803
    """``mean_j R[T, j]``: the last model on all tasks learned."""
    return _mean(R[learned[-1], list(learned)])


def average_so_far(R: Matrix, learned: Sequence[int]) -> list[float | None]:  # noqa: N803
    """``mean_{j <= i} R[i, j]`` after each task ``i``: the model on the tasks it has learned."""
    return [_mean(R[i, [j for j in learned if j <= i]]) for i in learned]


def current(R: Matrix, learned: Sequence[int]) -> float | None:  # noqa: N803
    """``mean_i R[i, i]``: each model on the task it has just learned."""
    return _mean([R[i, i] for i in learned])


def forgetting(R: Matrix, learned: Sequence[int]) -> float | None:  # noqa: N803
    """``mean_{j < T} (max_{j <= i < T} R[i, j] - R[T, j])`` (Chaudhry et al. 2018)."""
    *earlier, last = learned
    return _mean([max(R[i, j] for i in earlier if i >= j) - R[last, j] for j in earlier])


def backward_transfer(R: Matrix, learned: Sequence[int]) -> float | None:  # noqa: N803
    """``mean_{j < T} (R[T, j] - R[j, j])`` (Lopez-Paz and Ranzato 2017)."""
    *earlier, last = learned
    return _mean([R[last, j] - R[j, j] for j in earlier])


def forward_transfer(
    R: Matrix,  # noqa: N803
    untrained: Float[np.ndarray, " T"],
    learned: Sequence[int],
) -> float | None:
    """``mean_{j > 1} (R[j-1, j] - b_j)``, with ``b`` of the untrained network (ibid.)."""
    pairs = itertools.pairwise(learned)
    return _mean([R[i, j] - untrained[j] for i, j in pairs])


def final(scores: Sequence[Score], tasks: int, learned: Sequence[int]) -> dict[str, Any]:
    """The final numbers for each part of the data; None where a number is not defined.

    Of the last model, averages over all tasks learned; of the sequence, transfer and forgetting;
    and of the filtered and the smoothed model of each task, on that task alone, the means.
    """
    return {part: _of_part(scores, tasks, learned, part) for part in PARTS}


def _of_part(
    scores: Sequence[Score], tasks: int, learned: Sequence[int], part: Part
) -> dict[str, float | None]:
    R = matrix(scores, tasks, "accuracy", part)  # noqa: N806
    numbers = {f"average_{m}": average(matrix(scores, tasks, m, part), learned) for m in METRICS}
    numbers |= {
        "current_accuracy": current(R, learned),
        "forgetting": forgetting(R, learned),
        "backward_transfer": backward_transfer(R, learned),
        "forward_transfer": forward_transfer(
            R, own(scores, tasks, "untrained", "accuracy", part), learned
        ),
    }
    numbers["predictive_nll"] = _known(own(scores, tasks, "predicted", "nll", part))
    for stage in ("smoothed", "between"):
        for metric in METRICS:
            numbers[f"{stage}_{metric}"] = _known(own(scores, tasks, stage, metric, part))
    return numbers


def _mean(values: Any) -> float | None:
    """The mean, if there are values and all of them are known."""
    values = np.asarray(values, float)
    return float(values.mean()) if values.size and np.isfinite(values).all() else None


def _known(values: Float[np.ndarray, " T"]) -> float | None:
    """The mean of those that are known."""
    return _mean(values[np.isfinite(values)])
