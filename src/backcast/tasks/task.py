"""What a stream is made of, and what may be a stream."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Shaped

from backcast.data import DataError


@final
class Examples:
    """Inputs and targets. ``x, y = examples``.

    Args:
        x: inputs, (n, ...), or a function that makes them: called when they are first asked for,
            so that a stream costs nothing until its tasks are reached.
        y: targets, (n, ...).
    """

    def __init__(self, x: np.ndarray | Callable[[], np.ndarray], y: np.ndarray):
        self._source = x if callable(x) else lambda: x
        self.y = y
        if not callable(x):
            _ = self.x  # made already, so looked at now

    @cached_property
    def x(self) -> Shaped[np.ndarray, "n ..."]:
        """The inputs, kept as long as these examples are."""
        x = self._source()
        if len(x) != len(self.y):
            raise DataError(
                f"There are {len(x):,} inputs and {len(self.y):,} targets; give one each."
            )
        return x

    def __len__(self) -> int:
        return len(self.y)

    def __iter__(self) -> Iterator[np.ndarray]:
        yield self.x
        yield self.y

    def counts(self) -> dict[int, int]:
        """How many examples there are of each class."""
        classes, counts = np.unique(self.y, return_counts=True)
        return {int(c): int(n) for c, n in zip(classes, counts, strict=True)}

    def __repr__(self) -> str:
        return f"Examples({len(self):,})"


@final
@dataclass(frozen=True, eq=False)
class Task:
    """What is to be learned at one time.

    Attributes:
        name: what to call it in tables and figures.
        train: what to learn from.
        validation: held out of the training data, to choose settings by.
        test: never chosen by, only reported.
        time: when it is, in units of its stream; the weights drift in proportion to time.
    """

    name: str
    train: Examples
    validation: Examples
    test: Examples
    time: float


@runtime_checkable
class Stream(Protocol):
    """Tasks in order of time. A stream of one's own needs no more than this.

    It must give the same tasks each time it is iterated over. `LazyStream` makes one from a
    function.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tasks, known before any of them is made."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Task]: ...
