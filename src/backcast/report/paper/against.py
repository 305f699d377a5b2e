"""One kind of model against others on the same tasks, with a paired test over the seeds."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from backcast.experiments import Group, Spread
from backcast.experiments.gain import Gain
from backcast.experiments.paper import Line
from backcast.report.tables import Column, Table

Values = Float[np.ndarray, "S T"]
Models = Callable[[Group, str], dict[str, Values]]
"""For each kind of model a metric on each task, for each seed."""

_BETTER = {"balanced_accuracy": 1, "accuracy": 1, "nll": -1, "ece": -1}
"""What is compared, and whether more of it is better."""


def groups_of(lines: Sequence[Line]) -> list[tuple[str, Group]]:
    """The lines that have runs: what they are called, and their runs."""
    return [(line.plan.label, line.group) for line in lines if line.group is not None]


def gains(found: Sequence[tuple[str, Group]], models: Models, which: str) -> Table:
    """What the first kind of model is better by than the others.

    Args:
        found: the runs, by what they are called.
        models: gives the metrics of each kind.
        which: the tasks that the mean is over.
    """
    rows = tuple(
        (label, metric.replace("_", " "), *cells)
        for label, group in found
        for metric, sign in _BETTER.items()
        for cells in _compared(models(group, metric), sign)
    )
    columns = (
        *map(Column, ("settings", "metric", "model", "against")),
        Column("the one", 4),
        Column("the other", 4),
        Column("gain", 4),
        Column("better in"),
        Column("p", 4),
    )
    caption = (
        f"Means over {which}, on test data: mean ± standard deviation over the seeds. A gain is "
        "positive where the one is better, whatever the metric; p is of the exact paired "
        "permutation test, to both sides."
    )
    return Table("gains", "One model against the others", caption, columns, rows)


def _compared(kinds: dict[str, Values], sign: int):
    """A row for each of the other kinds."""
    (first, ours), *others = kinds.items()
    for kind, theirs in others:
        gain = Gain.of(sign * ours, sign * theirs)
        means = (Spread.of(values.mean(axis=1)) for values in (ours, theirs))
        yield (first, kind, *means, gain.difference, f"{gain.wins} of {len(ours)}", gain.p)


def by_task(
    found: Sequence[tuple[str, Group]], models: Models, tasks: Callable[[Group], list[int]]
) -> Table:
    """The balanced accuracy of every kind of model, task by task.

    Args:
        found: the runs, by what they are called.
        models: gives the metrics of each kind.
        tasks: gives the positions of the tasks that it is given for.
    """
    heads = list(models(found[0][1], "balanced_accuracy")) if found else []
    rows = []
    for label, group in found:
        kinds = models(group, "balanced_accuracy")
        for index, position in enumerate(tasks(group)):
            spreads = [Spread.of(kinds[kind][:, index]) for kind in heads]
            rows.append((label, group.facts.tasks[position], *spreads))
    columns = (*map(Column, ("settings", "task")), *(Column(head, 4) for head in heads))
    caption = (
        "Balanced accuracy on each task's test data: mean ± standard deviation over the seeds."
    )
    return Table("tasks", "Task by task", caption, columns, tuple(rows))
