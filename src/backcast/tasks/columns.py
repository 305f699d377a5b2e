"""Streams whose tasks come from a column of the data: centre, year, device."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Shaped

from backcast.data import DataError
from backcast.tasks.assemble import assemble
from backcast.tasks.lazy import LazyStream
from backcast.tasks.partition import Partition, at_most
from backcast.tasks.transforms import Transform


def by_column(
    partition: Partition,
    column: str,
    tasks: int | None = None,
    order: Sequence[str | int | float] | None = None,
    examples: int | None = None,
    finish: Transform | None = None,
    seed: int = 0,
) -> LazyStream:
    """A task for each value of a column, in order of the values.

    Where the values are numbers they are also the tasks' times; where they are dates, the times
    are days since the first.

    Args:
        partition: the examples. Hold data out within the column, so that each task has some.
        column: its name.
        tasks: joins neighbouring values (years, dates) into this many tasks of about equal size,
            at the median of their times. None keeps one task per value.
        order: the values to use, in order; their times are then 0, 1, 2 ...
        examples: how many training examples each task has; None gives it all there are.
        finish: what to do with inputs at last; see `drifting`.
        seed: what the draw of examples depends on.
    """
    dataset = partition.dataset
    values = dataset.column(column)
    clock = _clock(values)
    found, position = np.unique(values, return_inverse=True)
    refuse_constant(partition, column, found)
    if tasks is not None and order is not None:
        raise DataError("Give `tasks` or `order`, not both.")
    if order is not None:
        position = _ordered(values, order, column)
        names = [f"{column} {value}" for value in order]
        times = list(range(len(order)))
    elif tasks is not None:
        if clock is None:
            raise DataError(
                f"Column '{column}' is text, whose values cannot be joined: give their `order`, "
                "or write them as numbers or as dates (2024-05-31)."
            )
        position = _joined(position, tasks, column)
        bins = [position == t for t in range(tasks)]
        names = [f"{column} {values[b].min()} to {values[b].max()}" for b in bins]
        times = [float(np.median(clock[b])) for b in bins]
    else:
        names = [f"{column} {value}" for value in found]
        times = list(range(len(found))) if clock is None else np.unique(clock).tolist()
    parts = [partition.keep(position == t) for t in range(len(names))]
    if examples is not None:
        for part, name in zip(parts, names, strict=True):
            at_most(examples, len(part.train), f"training (of '{name}')")
        parts = [part.limit(train=examples, seed=seed) for part in parts]
    return assemble(names, parts, times, finish)


def refuse_constant(partition: Partition, column: str, found: np.ndarray) -> None:
    """Refuse a column with one value."""
    if len(found) < 2:
        others = sorted(
            name for name, values in partition.dataset.columns.items() if len(np.unique(values)) > 1
        )
        raise DataError(
            f"Column '{column}' is {found[0]} throughout {partition.dataset.name}, which makes one "
            f"task; a stream needs two. Columns that vary: {listed(others)}."
        )


def listed(values: Sequence[str] | np.ndarray) -> str:
    """Values for a message: the first few."""
    shown = [str(v) for v in values[:8]]
    more = f" and {len(values) - 8} more" if len(values) > 8 else ""
    return (", ".join(shown) or "none") + more


def _clock(values: np.ndarray) -> Shaped[np.ndarray, " n"] | None:
    """Values as times: numbers as they are, dates in days since the first, and text not at all."""
    if values.dtype.kind == "M":
        return (values - values.min()) / np.timedelta64(1, "D")
    return values if values.dtype.kind in "uif" else None


def _ordered(values: np.ndarray, order: Sequence[str | int | float], column: str) -> np.ndarray:
    """The place of each value in the order given; -1 where it is not used."""
    texts, wanted = values.astype(str), [str(value) for value in order]
    if len(set(wanted)) < len(wanted):
        raise DataError(f"The order {wanted} of column '{column}' has a value twice; give it once.")
    position = np.full(len(values), -1)
    for t, value in enumerate(wanted):
        same = texts == value
        if not same.any():
            raise DataError(
                f"Column '{column}' has no value '{value}'; there are {listed(np.unique(texts))}."
            )
        position[same] = t
    return position


def _joined(position: np.ndarray, tasks: int, column: str) -> np.ndarray:
    """Neighbouring values joined to parts of about equal size; a value is never divided."""
    sizes = np.bincount(position)
    if not 2 <= tasks <= len(sizes):
        raise DataError(
            f"Column '{column}' has {len(sizes)} values, so 2 to {len(sizes)} tasks, but {tasks} "
            "were asked for."
        )
    middle = (np.cumsum(sizes) - sizes / 2) / sizes.sum()
    part = np.zeros(len(sizes), int)
    for i in range(1, len(sizes)):
        # However large some values are, those that are left suffice for the tasks that are left.
        least = tasks - (len(sizes) - i)
        part[i] = min(part[i - 1] + 1, max(part[i - 1], int(middle[i] * tasks), least))
    return part[position]
