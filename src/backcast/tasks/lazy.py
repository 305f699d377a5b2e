"""A stream whose tasks are made when they are reached."""

from collections.abc import Callable, Iterator, Sequence
from typing import final

from backcast.data import DataError
from backcast.tasks.task import Task


@final
class LazyStream:
    """Tasks made on demand, so that no more than those in use are in memory.

    ``stream[3]`` and iteration make tasks anew each time; the inputs of a task are made when they
    are first asked for, and are gone with it. A list of all tasks keeps the inputs of all that were
    used.

    Args:
        names: one for each task.
        make: gives the task at a position, the same each time.
    """

    def __init__(self, names: Sequence[str], make: Callable[[int], Task]):
        self.names = tuple(names)
        self._make = make
        if len(self.names) < 2:
            raise DataError(
                f"A stream needs at least two tasks, and this one has {len(self.names)}: there "
                "would be nothing to remember and nothing to look back on."
            )
        repeated = sorted({name for name in self.names if self.names.count(name) > 1})
        if repeated:
            raise DataError(
                f"Two tasks of a stream are named alike: {', '.join(repeated)}. Give each its own."
            )

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, position: int) -> Task:
        return self._make(range(len(self))[position])

    def __iter__(self) -> Iterator[Task]:
        return map(self._make, range(len(self)))

    def select(self, positions: Sequence[int]) -> "LazyStream":
        """Some of the tasks, at their own times: ``select([0, 2, 4])`` leaves gaps to infer."""
        kept = [range(len(self))[p] for p in positions]
        if kept != sorted(set(kept)):
            raise DataError(f"Tasks are selected in order of time, each once; not {positions}.")
        return LazyStream([self.names[p] for p in kept], lambda i: self._make(kept[i]))

    def __repr__(self) -> str:
        return f"LazyStream({', '.join(self.names)})"
