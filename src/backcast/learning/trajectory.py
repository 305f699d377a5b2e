"""The history of a learner: what the filter left behind for every task, in memory or on disk."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final, overload

import numpy as np
from jaxtyping import PyTree

from backcast.inference import Belief, Step, predict
from backcast.learning.files import load_arrays, save_arrays
from backcast.learning.parts import (
    named,
    named_precision,
    restored,
    restored_levels,
    restored_precision,
)
from backcast.linalg import Precision
from backcast.model import Likelihood


@final
@dataclass(frozen=True)
class Record:
    """What one task leaves behind: all that smoothing, prediction and continuing need.

    Attributes:
        name: what the user calls the task.
        time: when it was.
        params: the parameters it was left with.
        filtered: the belief after it; its mean is ``params`` unless penalties have centres of
            their own.
        curvature: what it added to the precision, ``lambda H_t``.
        q: the variance of the drift that led to it.
        state: the network's state after it, such as batch statistics.
        likelihood: the likelihood, with what it learned.
        report: how it went, in plain numbers.
    """

    name: str
    time: float
    params: PyTree
    filtered: Belief
    curvature: Precision
    q: PyTree
    state: PyTree
    likelihood: Likelihood
    report: dict[str, Any]

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, by names that say what they are."""
        return {
            **named("mean", self.filtered.mean),
            **({} if self.params is self.filtered.mean else named("params", self.params)),
            **named_precision("", self.filtered.precision),
            **named_precision("curvature_", self.curvature),
            **named("q", self.q),
            **named("state", self.state),
            **named("likelihood", self.likelihood),
        }


@final
@dataclass(frozen=True)
class Shape:
    """What records of one network look like: trees that give structure, shapes and types."""

    params: PyTree
    state: PyTree
    likelihood: Likelihood
    precision: Precision


@final
@dataclass(frozen=True)
class Stored:
    """A record on disk, read when it is needed.

    Attributes:
        path: the safetensors file.
        digest: the SHA-256 of its bytes.
        name: as in `Record`.
        time: as in `Record`.
        report: as in `Record`.
        shape: what it must look like.
    """

    path: Path
    digest: str
    name: str
    time: float
    report: dict[str, Any]
    shape: Shape

    @classmethod
    def write(cls, record: Record, folder: Path, index: int, shape: Shape) -> "Stored":
        """Put a record on disk."""
        path, digest = save_arrays(folder, f"task-{index:04d}", record.arrays())
        return cls(path, digest, record.name, record.time, record.report, shape)

    def read(self) -> Record:
        """Take it back into memory, if it is what was written and fits the network."""
        arrays = load_arrays(self.path, self.digest)
        params = self.shape.params

        def part(name, like):
            return restored(name, like, arrays, self.path)

        mean = part("mean", params)
        apart = any(name.startswith("params:") for name in arrays)
        filtered = Belief(mean, restored_precision("", self.shape.precision, arrays, self.path))
        return Record(
            self.name,
            self.time,
            part("params", params) if apart else mean,
            filtered,
            restored_precision("curvature_", self.shape.precision, arrays, self.path),
            restored_levels("q", params, arrays, self.path),
            part("state", self.shape.state),
            part("likelihood", self.shape.likelihood),
            self.report,
        )


@final
class Trajectory:
    """The records of all tasks so far, and the prior they began from."""

    def __init__(self, prior: Belief, entries: Sequence[Record | Stored] = ()):
        """Begin from the belief before the first task."""
        self.prior = prior
        self.entries: list[Record | Stored] = list(entries)

    def snapshot(self) -> "Trajectory":
        """The same records, whatever is observed later."""
        return Trajectory(self.prior, self.entries)

    def __len__(self) -> int:
        """The number of tasks."""
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        """A task's record, read from disk if that is where it is."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        entry = self.entries[index]
        return entry.read() if isinstance(entry, Stored) else entry

    def __iter__(self) -> Iterator[Record]:
        """The tasks' records, from the first to the last."""
        return (self[index] for index in range(len(self)))

    def steps(self) -> "Steps":
        """The tasks as the smoother wants them."""
        return Steps(self, range(len(self)))

    def backwards(self) -> Iterator[tuple[Record, Step]]:
        """The tasks from the last to the first; no more than two records are held at a time."""
        record = self[-1]
        for index in range(len(self) - 1, -1, -1):
            earlier = self[index - 1] if index > 0 else None
            before = self.prior if earlier is None else earlier.filtered
            predicted = predict(before, record.q)
            yield record, Step(predicted, record.filtered, record.curvature, record.q)
            if earlier is not None:
                record = earlier


@final
class Steps(Sequence):
    """The tasks of a trajectory as the smoother wants them, each read when it is asked for."""

    def __init__(self, trajectory: Trajectory, tasks: range):
        """Take some of the tasks."""
        self._trajectory = trajectory
        self._tasks = tasks

    def __len__(self) -> int:
        """The number of tasks."""
        return len(self._tasks)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> "Steps": ...
    def __getitem__(self, index: int | slice) -> "Step | Steps":
        """A task's step, or some of the tasks."""
        if isinstance(index, slice):
            return Steps(self._trajectory, self._tasks[index])
        task = self._tasks[index]
        record = self._trajectory[task]
        before = self._trajectory[task - 1].filtered if task > 0 else self._trajectory.prior
        return Step(predict(before, record.q), record.filtered, record.curvature, record.q)
