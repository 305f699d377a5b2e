"""The history of a learner: what the filter left behind for every task, in memory or on disk."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from backcast.inference import Belief, Step, predict
from backcast.learning.files import LoadError, load_arrays, save_arrays
from backcast.linalg import DiagLowRank, tree
from backcast.model import Likelihood


@final
@dataclass(frozen=True)
class Record:
    """What one task leaves behind: all that smoothing, prediction and continuing need.

    Attributes:
        name: what the user calls the task.
        time: when it was.
        filtered: the belief after it.
        curvature: what it added to the precision, ``lambda H_t``.
        q: the variance of the drift that led to it.
        state: the network's state after it, such as batch statistics.
        likelihood: the likelihood, with what it learned.
        report: how it went, in plain numbers.
    """

    name: str
    time: float
    filtered: Belief
    curvature: DiagLowRank
    q: PyTree
    state: PyTree
    likelihood: Likelihood
    report: dict[str, Any]

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, by names that say what they are."""
        parts = {
            "mean": self.filtered.mean,
            "diag": self.filtered.precision.diag,
            "factor": self.filtered.precision.factor,
            "curvature_diag": self.curvature.diag,
            "curvature_factor": self.curvature.factor,
            "q": self.q,
            "state": self.state,
            "likelihood": self.likelihood,
        }
        return {k: v for part, values in parts.items() for k, v in named(part, values).items()}


@final
@dataclass(frozen=True)
class Shape:
    """What records of one network look like: trees that give structure, shapes and types."""

    params: PyTree
    state: PyTree
    likelihood: Likelihood


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

        filtered = Belief(
            part("mean", params),
            DiagLowRank(part("diag", params), restored_rows("factor", params, arrays, self.path)),
        )
        curvature = DiagLowRank(
            part("curvature_diag", params),
            restored_rows("curvature_factor", params, arrays, self.path),
        )
        return Record(
            self.name,
            self.time,
            filtered,
            curvature,
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


def named(part: str, values: PyTree) -> dict[str, np.ndarray]:
    """The leaves of a tree as host arrays, by their names after that of the part."""
    names = (f"{part}:{name}" for name in tree.names(values))
    return {n: np.asarray(x) for n, x in zip(names, jax.tree.leaves(values), strict=True)}


def restored(part: str, like: PyTree, arrays: dict[str, np.ndarray], path: Path) -> PyTree:
    """The tree that `named` took apart, of the structure and shapes of ``like``."""
    return _filled(part, like, arrays, path, lambda found, wanted: found == wanted)


def restored_rows(part: str, like: PyTree, arrays: dict[str, np.ndarray], path: Path) -> PyTree:
    """A factor: ``like`` with a leading axis of any length."""
    return _filled(part, like, arrays, path, lambda found, wanted: found[1:] == wanted)


def restored_levels(part: str, like: PyTree, arrays: dict[str, np.ndarray], path: Path) -> PyTree:
    """A tree of which each leaf is like that of ``like``, or one number."""
    return _filled(part, like, arrays, path, lambda found, wanted: found in ((), wanted))


def _filled(part, like, arrays, path, fits) -> PyTree:
    leaves, structure = jax.tree.flatten(like)
    found = []
    for name, leaf in zip(tree.names(like), leaves, strict=True):
        array = arrays.get(f"{part}:{name}")
        if array is None or not fits(array.shape, leaf.shape):
            raise LoadError(
                f"{path} was saved from another network: its {part} has "
                f"{'no leaf' if array is None else f'shape {array.shape} in leaf'} '{name}', where "
                f"this network has shape {leaf.shape}. Load it with the network it was saved from."
            )
        if array.dtype != leaf.dtype:
            raise LoadError(
                f"{path}: leaf '{name}' of its {part} is {array.dtype}, and this network has "
                f"{leaf.dtype}. Load it with the network it was saved from, in the same precision "
                "(see jax_enable_x64)."
            )
        found.append(jnp.asarray(array))
    return jax.tree.unflatten(structure, found)
