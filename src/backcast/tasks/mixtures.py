"""Streams whose tasks mix the values of a column: hospitals in changing proportions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from backcast.data import DataError
from backcast.tasks import chance
from backcast.tasks.assemble import assemble, distinct
from backcast.tasks.columns import listed, refuse_constant
from backcast.tasks.lazy import LazyStream
from backcast.tasks.partition import Partition, at_most, strata
from backcast.tasks.transforms import Transform

Percentages = Sequence[Mapping[str, float]]


def mixed(
    partition: Partition,
    column: str,
    percentages: Percentages,
    examples: int | None = None,
    finish: Transform | None = None,
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
        finish: what to do with inputs at last; see `drifting`.
        seed: what the draw depends on.
    """
    shares = _shares(partition, column, percentages)
    for t, share in enumerate(shares):
        if abs(share.sum() - 1) > 1e-6:
            raise DataError(
                f"The percentages of task {t} add up to {100 * share.sum():g}; they must make 100."
            )
    pools = _pools(partition, column, seed)
    most = _most(_sizes(pools["train"]), shares)
    examples = most if examples is None else examples
    at_most(examples, most, f"training (for each of {len(shares)} tasks, so mixed)")
    counts = {"train": _whole(examples, shares)}
    for part in ("validation", "test"):
        sizes = _sizes(pools[part])
        counts[part] = np.concatenate([_whole(_most(sizes, s[None]), s[None]) for s in shares])
    return _from_counts(partition, column, pools, percentages, counts, finish)


def imbalanced(
    partition: Partition,
    column: str,
    percentages: Percentages,
    finish: Transform | None = None,
    seed: int = 0,
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
    counts = {
        part: np.floor(shares * _sizes(pool) + 1e-6).astype(int) for part, pool in pools.items()
    }
    return _from_counts(partition, column, pools, percentages, counts, finish)


def crossfade(first: str, second: str, tasks: int = 5) -> tuple[dict[str, float], ...]:
    """Percentages that go evenly from all of one value to all of another."""
    if tasks < 2:
        raise DataError(f"Going from '{first}' to '{second}' takes at least 2 tasks, not {tasks}.")
    steps = [100 * t / (tasks - 1) for t in range(tasks)]
    return tuple({first: 100 - step, second: step} for step in steps)


def _shares(partition: Partition, column: str, percentages: Percentages) -> np.ndarray:
    """Percentages as a matrix of shares (tasks, values)."""
    found = np.unique(partition.dataset.column(column))
    refuse_constant(partition, column, found)
    values = [str(v) for v in found]
    for t, task in enumerate(percentages):
        unknown = [str(v) for v in task if str(v) not in values]
        if unknown:
            raise DataError(
                f"Task {t} mixes the unknown {column} '{unknown[0]}'; there are {listed(values)}."
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
    counts: dict[str, np.ndarray],
    finish: Transform | None,
) -> LazyStream:
    """The stream with so many examples (tasks, values) of each value in each part."""
    # Training examples are used up from task to task; validation and test examples are not.
    starts = {part: np.zeros_like(count) for part, count in counts.items()}
    starts["train"] = np.cumsum(counts["train"], axis=0) - counts["train"]
    parts = [
        replace(
            partition,
            **{
                part: _interleave(
                    [
                        rows[start : start + count]
                        for rows, start, count in zip(
                            pool.values(), starts[part][t], counts[part][t], strict=True
                        )
                    ]
                )
                for part, pool in pools.items()
            },
        )
        for t in range(len(percentages))
    ]
    names = distinct(
        [
            f"{column} " + " + ".join(f"{p:g}% {value}" for value, p in task.items() if p)
            for task in percentages
        ]
    )
    return assemble(names, parts, range(len(parts)), finish)


def _interleave(pieces: list[np.ndarray]) -> np.ndarray:
    """All rows, those of each piece spread evenly."""
    position = np.concatenate([(np.arange(len(p)) + 0.5) / max(len(p), 1) for p in pieces])
    return np.concatenate(pieces)[np.argsort(position, kind="stable")]


def _most(sizes: np.ndarray, shares: np.ndarray) -> int:
    """The most examples each task can have, if there are so many of each value for all of them."""
    needed = shares.sum(axis=0)
    most = int(min(size / need for size, need in zip(sizes, needed, strict=True) if need) + 1)
    while most and (_whole(most, shares).sum(axis=0) > sizes).any():
        most -= 1
    return most


def _whole(total: int, shares: np.ndarray) -> np.ndarray:
    """Whole numbers that add up to ``total`` in each row, nearly in the row's shares."""
    exact = total * shares
    counts = np.floor(exact + 1e-9).astype(int)
    for t, short in enumerate(total - counts.sum(axis=1)):
        counts[t, np.argsort(counts[t] - exact[t], kind="stable")[:short]] += 1
    return counts


def _sizes(pool: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.array([len(rows) for rows in pool.values()])
