"""From rows and transforms to a stream."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from backcast.data import DataError, Dataset
from backcast.tasks.lazy import LazyStream
from backcast.tasks.partition import Partition, warn_missing
from backcast.tasks.task import Examples, Task
from backcast.tasks.transforms import Transform, chain, identity, usual_finish

_CHUNK = 256  # examples transformed at a time, which bounds the memory beyond the result


def assemble(
    names: Sequence[str],
    partitions: Sequence[Partition],
    times: Sequence[int | float],
    finish: Transform | None,
    changes: Sequence[Transform] | None = None,
) -> LazyStream:
    """A stream whose task ``t`` has these rows, changed and finished so, at that time."""
    changes = changes or [identity] * len(names)
    for name, partition in zip(names, partitions, strict=True):
        for part in ("train", "test"):
            if not len(partition.parts[part]):
                raise DataError(
                    f"Task '{name}' has no {part} examples. If it is a value of a column, hold "
                    "data out within it: holdout(..., within=<that column>)."
                )
        warn_missing(partition, f"Task '{name}'")

    def make(t: int) -> Task:
        dataset = partitions[t].dataset
        transform = chain(changes[t], finish or usual_finish(dataset))
        parts = {
            part: Examples(
                lambda rows=rows: render(dataset, rows, transform), dataset.targets(rows)
            )
            for part, rows in partitions[t].parts.items()
        }
        return Task(names[t], parts["train"], parts["validation"], parts["test"], float(times[t]))

    return LazyStream(names, make)


def distinct(names: Sequence[str]) -> list[str]:
    """The names, numbered where they repeat: a stream may come back to where it was."""
    count = Counter()
    found = []
    for name in names:
        count[name] += 1
        found.append(name if count[name] == 1 else f"{name} ({count[name]})")
    return found


def render(dataset: Dataset, rows: np.ndarray, transform: Transform) -> np.ndarray:
    """The inputs of these rows, transformed."""
    example = transform(dataset.inputs(np.zeros(1, int)))
    inputs = np.empty((len(rows), *example.shape[1:]), np.float32)
    # In the order of the file, which may be larger than memory.
    order = np.argsort(rows, kind="stable")
    for start in range(0, len(rows), _CHUNK):
        chunk = order[start : start + _CHUNK]
        inputs[chunk] = transform(dataset.inputs(rows[chunk]))
    return inputs
