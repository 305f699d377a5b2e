"""Streams in which each task has classes of its own."""

from collections.abc import Sequence

import numpy as np

from backcast.data import DataError, Dataset
from backcast.tasks.assemble import assemble
from backcast.tasks.lazy import LazyStream
from backcast.tasks.partition import Partition, at_most
from backcast.tasks.transforms import Transform


def by_class(
    partition: Partition,
    groups: Sequence[Sequence[int]],
    examples: int | None = None,
    finish: Transform | None = None,
    seed: int = 0,
) -> LazyStream:
    """Task ``t`` has the examples of classes ``groups[t]``, under their own labels.

    Args:
        partition: the examples.
        groups: the classes of each task; no class is in two.
        examples: how many training examples each task has; None gives it all of its classes.
        finish: what to do with inputs at last; see `drifting`.
        seed: what the draw of examples depends on.
    """
    dataset = partition.dataset
    count = _count_classes(dataset)
    listed = [c for group in groups for c in group]
    if not all(groups):
        raise DataError(f"Each task needs at least one class; {groups} was given.")
    if not all(0 <= c < count for c in listed) or len(set(listed)) != len(listed):
        raise DataError(
            f"{dataset.name} has classes 0 ... {count - 1}, and each may be in one task; "
            f"{[list(group) for group in groups]} was given."
        )
    chosen = [partition.keep(np.isin(dataset.y, list(group))) for group in groups]
    if examples is not None:
        for part in chosen:
            at_most(examples, len(part.train), "training")
        chosen = [part.limit(train=examples, seed=seed) for part in chosen]
    names = [_name([dataset.classes[c] for c in group]) for group in groups]
    return assemble(names, chosen, range(len(groups)), finish)


def disjoint(
    partition: Partition,
    tasks: int = 2,
    examples: int | None = None,
    finish: Transform | None = None,
    seed: int = 0,
) -> LazyStream:
    """The classes in order, cut into as many parts as there are tasks.

    Disjoint MNIST is digits 0-4, then 5-9 (the paper's text says 1-4, its authors' code 0-4).
    """
    count = _count_classes(partition.dataset)
    if not 2 <= tasks <= count:
        raise DataError(
            f"{partition.dataset.name} has {count} classes, so 2 to {count} tasks with classes of "
            f"their own, but {tasks} were asked for."
        )
    groups = [part.tolist() for part in np.array_split(np.arange(count), tasks)]
    return by_class(partition, groups, examples, finish, seed)


def pairs(
    partition: Partition,
    examples: int | None = None,
    finish: Transform | None = None,
    seed: int = 0,
) -> LazyStream:
    """The classes in order, two to a task (split MNIST)."""
    count = _count_classes(partition.dataset)
    if count % 2:
        raise DataError(
            f"{partition.dataset.name} has {count} classes, which do not make pairs; use by_class."
        )
    return disjoint(partition, count // 2, examples, finish, seed)


def _count_classes(dataset: Dataset) -> int:
    if not dataset.classes:
        raise DataError(
            f"{dataset.name} has numbers to predict and no classes; take its tasks from a column "
            "(by_column) or from changes of its inputs (drifting)."
        )
    return len(dataset.classes)


def _name(classes: Sequence[str]) -> str:
    shown = classes if len(classes) <= 5 else [*classes[:2], "...", classes[-1]]
    return f"classes {', '.join(shown)}"
