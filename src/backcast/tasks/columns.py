"""Streams whose tasks come from a column of the data: centre, year, device."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from backcast.data import DataError
from backcast.tasks import chance, transforms
from backcast.tasks.assemble import assemble
from backcast.tasks.lazy import LazyStream
from backcast.tasks.partition import Partition, at_most, strata

Percentages = Sequence[Mapping[str, float]]


def by_column(
    partition: Partition,
    column: str,
    tasks: int | None = None,
    order: Sequence[str | int | float] | None = None,
    examples: int | None = None,
    seed: int = 0,
) -> LazyStream:
    """A task for each value of a column, in order of the values.

    Where the values are numbers they are also the tasks' times.

    Args:
        partition: the examples. Hold data out within the column, so that each task has some.
        column: its name.
        tasks: joins neighbouring values (years, dates as numbers) into this many tasks of about
            equal size, at the median of their times. None keeps one task per value.
        order: the values to use, in order; their times are then 0, 1, 2 ...
        examples: how many training examples each task has; None gives it all there are.
        seed: what the draw of examples depends on.
    """
    dataset = partition.dataset
    values = dataset.column(column)
    numeric = values.dtype.kind in "uif"
    found, position = np.unique(values, return_inverse=True)
    _refuse_constant(partition, column, found)
    if tasks is not None and order is not None:
        raise DataError("Give `tasks` or `order`, not both.")
    if order is not None:
        position = _ordered(values, order, column)
        names = [f"{column} {value}" for value in order]
        times = list(range(len(order)))
    elif tasks is not None:
        if not numeric:
            raise DataError(
                f"Column '{column}' is text, whose values cannot be joined; give their `order`."
            )
        position = _joined(position, tasks, column)
        bins = [values[position == t] for t in range(tasks)]
        names = [f"{column} {b.min()} to {b.max()}" for b in bins]
        times = [float(np.median(b)) for b in bins]
    else:
        names = [f"{column} {value}" for value in found]
        times = found.tolist() if numeric else list(range(len(found)))
    parts = [partition.keep(position == t) for t in range(len(names))]
    if examples is not None:
        for part, name in zip(parts, names, strict=True):
            at_most(examples, len(part.train), f"training (of '{name}')")
        parts = [part.limit(train=examples, seed=seed) for part in parts]
    finish = transforms.usual_finish(dataset)
    return assemble(names, parts, [finish] * len(names), times)


def mixed(
    partition: Partition,
    column: str,
    percentages: Percentages,
    examples: int | None = None,
    seed: int = 0,
) -> LazyStream:
    """Each task mixes the values of a column in percentages of its own: hospitals that change.

    Tasks are of equal size, and no training example is in two of them. Validation and test
    examples are mixed alike, and may be shared between tasks.

    Args:
        partition: the examples. Hold data out within the column.
        column: its name (``center``).
        percentages: for each task, of its examples, how many per cent come from each value; see
            `crossfade`.
        examples: how many training examples each task has; None takes as many as there can be.
        seed: what the draw depends on.
    """
    shares = _shares(partition, column, percentages)
    for t, share in enumerate(shares):
        if abs(share.sum() - 1) > 1e-6:
            raise DataError(
                f"The percentages of task {t} add up to {100 * share.sum():g}; they must make 100."
            )
    pools = _pools(partition, column, seed)
    with np.errstate(divide="ignore"):
        most = int(min(_sizes(pools["train"]) / shares.sum(axis=0)))
    if examples is None:
        # Room for the rounding of each task's counts.
        examples = max(most - len(shares), 0)
    at_most(examples, most, f"training (for each of {len(shares)} tasks, so mixed)")
    counts = [np.array([_whole(examples, share) for share in shares])]
    for part in ("validation", "test"):
        sizes = _sizes(pools[part])
        with np.errstate(divide="ignore", invalid="ignore"):
            fits = np.nanmin(np.where(shares > 0, sizes / shares, np.nan), axis=1)
        counts.append(np.array([_whole(int(n), s) for n, s in zip(fits, shares, strict=True)]))
    return _from_counts(partition, column, pools, percentages, *counts)


def imbalanced(
    partition: Partition, column: str, percentages: Percentages, seed: int = 0
) -> LazyStream:
    """Each task has some per cent *of the examples of each value*: hospitals of unequal size.

    Tasks are then as unequal in size as the values are. No training example is in two tasks, so
    over the tasks the percentages of a value add up to at most 100. Validation and test examples
    are taken in the same percentages, and may be shared between tasks.
    """
    shares = _shares(partition, column, percentages)
    pools = _pools(partition, column, seed)
    for value, total in zip(pools["train"], shares.sum(axis=0), strict=True):
        if total > 1 + 1e-6:
            raise DataError(
                f"Over the tasks, the percentages of '{value}' add up to {100 * total:g}; no "
                "example is in two tasks, so at most 100."
            )
    counts = [np.floor(shares * _sizes(pools[part]) + 1e-6).astype(int) for part in pools]
    return _from_counts(partition, column, pools, percentages, *counts)


def crossfade(first: str, second: str, tasks: int = 5) -> tuple[dict[str, float], ...]:
    """Percentages that go evenly from all of one value to all of another."""
    if tasks < 2:
        raise DataError(f"Going from '{first}' to '{second}' takes at least 2 tasks, not {tasks}.")
    steps = [100 * t / (tasks - 1) for t in range(tasks)]
    return tuple({first: 100 - step, second: step} for step in steps)


def _shares(partition: Partition, column: str, percentages: Percentages) -> np.ndarray:
    """Percentages as a matrix of shares (tasks, values)."""
    found = np.unique(partition.dataset.column(column))
    _refuse_constant(partition, column, found)
    values = [str(v) for v in found]
    for t, task in enumerate(percentages):
        unknown = [str(v) for v in task if str(v) not in values]
        if unknown:
            raise DataError(
                f"Task {t} mixes the unknown {column} '{unknown[0]}'; there are {_listed(values)}."
            )
        if not all(0 <= p <= 100 for p in task.values()):
            raise DataError(f"A percentage of task {t} is not between 0 and 100: {dict(task)}.")
    texts = [{str(v): p for v, p in task.items()} for task in percentages]
    return np.array([[task.get(v, 0) / 100 for v in values] for task in texts])


def _pools(partition: Partition, column: str, seed: int) -> dict[str, dict[str, np.ndarray]]:
    """For each part and each value, its rows in random order, the classes in proportion."""
    values = partition.dataset.column(column)
    return {
        part: {
            str(value): chance.spread(
                own := rows[values[rows] == value],
                strata(partition.dataset, own),
                seed,
                "pool",
                part,
                str(value),
            )
            for value in np.unique(values)
        }
        for part, rows in partition.parts.items()
    }


def _from_counts(
    partition: Partition,
    column: str,
    pools: dict[str, dict[str, np.ndarray]],
    percentages: Percentages,
    train: np.ndarray,
    validation: np.ndarray,
    test: np.ndarray,
) -> LazyStream:
    """The stream with so many examples (tasks, values) of each value in each part."""
    starts = np.cumsum(train, axis=0) - train
    nothing = np.zeros_like(train)
    where = {"train": (starts, train), "validation": (nothing, validation), "test": (nothing, test)}
    parts = [
        replace(
            partition,
            **{
                part: np.concatenate(
                    [
                        pool[start : start + count]
                        for pool, start, count in zip(
                            pools[part].values(), begin[t], counts[t], strict=True
                        )
                    ]
                )
                for part, (begin, counts) in where.items()
            },
        )
        for t in range(len(train))
    ]
    names = [
        f"{column} " + " + ".join(f"{p:g}% {value}" for value, p in task.items() if p)
        for task in percentages
    ]
    finish = transforms.usual_finish(partition.dataset)
    return assemble(names, parts, [finish] * len(parts), range(len(parts)))


def _whole(total: int, shares: np.ndarray) -> np.ndarray:
    """Whole numbers that add up to ``total``, nearly in these shares (largest remainders)."""
    exact = total * shares
    counts = np.floor(exact + 1e-9).astype(int)
    short = total - counts.sum()
    counts[np.argsort(counts - exact, kind="stable")[:short]] += 1
    return counts


def _sizes(pool: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.array([len(rows) for rows in pool.values()])


def _ordered(values: np.ndarray, order: Sequence[str | int | float], column: str) -> np.ndarray:
    """The place of each value in the order given; -1 where it is not used."""
    texts = values.astype(str)
    position = np.full(len(values), -1)
    for t, value in enumerate(order):
        same = texts == str(value)
        if not same.any():
            raise DataError(
                f"Column '{column}' has no value '{value}'; there are {_listed(np.unique(texts))}."
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
    part = np.floor(middle * tasks).astype(int)
    # Each task keeps at least one value, however large some values are.
    lowest = np.maximum.accumulate(np.minimum(part, np.arange(len(sizes))))
    for i in range(len(sizes)):
        floor = lowest[i - 1] if i else 0
        needed = tasks - (len(sizes) - i)
        lowest[i] = min(max(lowest[i], floor, needed), floor + 1 if i else 0)
    return lowest[position]


def _refuse_constant(partition: Partition, column: str, found: np.ndarray) -> None:
    if len(found) < 2:
        others = sorted(
            name for name, values in partition.dataset.columns.items() if len(np.unique(values)) > 1
        )
        raise DataError(
            f"Column '{column}' is {found[0]} throughout {partition.dataset.name}, which makes one "
            f"task; a stream needs two. Columns that vary: {_listed(others)}."
        )


def _listed(values: Sequence[str] | np.ndarray) -> str:
    shown = [str(v) for v in values[:8]]
    more = f" and {len(values) - 8} more" if len(values) > 8 else ""
    return (", ".join(shown) or "none") + more
