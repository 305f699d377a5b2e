"""What a run goes through: the stream of its spec, and in which steps it is learned."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from backcast.experiments.errors import SpecError
from backcast.experiments.folder import Facts
from backcast.experiments.method_spec import Joint
from backcast.experiments.spec import Spec
from backcast.tasks import Examples, LazyStream, Task


@final
@dataclass(frozen=True, eq=False)
class Step:
    """Something to learn.

    Attributes:
        position: of the last task in it.
        name: what is learned.
        task: makes it, when it is reached.
    """

    position: int
    name: str
    task: Callable[[], Task]


@final
@dataclass(frozen=True, eq=False)
class Itinerary:
    """A stream and the way through it.

    Attributes:
        stream: all tasks.
        steps: what to learn, in order.
        facts: what is known of the stream.
        class_shares: each class's share of the training data.
    """

    stream: LazyStream
    steps: tuple[Step, ...]
    facts: Facts
    class_shares: np.ndarray


def itinerary(spec: Spec, root: Path | None) -> Itinerary:
    """The way of a run, with the data found below this folder."""
    partition = spec.data.partition(root, spec.seed)
    if spec.training.patience is not None and not len(partition.validation):
        raise SpecError(
            "training.patience stops by the loss on validation data, and there are none: set "
            "data.validation, or leave patience out."
        )
    stream = spec.stream.stream(partition, spec.seed)
    learned = _learned(spec.stream.learn, len(stream))
    tasks = [stream[position] for position in range(len(stream))]
    dataset = partition.dataset
    facts = Facts(
        stream.names,
        tuple(task.time for task in tasks),
        learned,
        tuple(len(task.train) for task in tasks),
        dataset.x.shape[1:],
        dataset.classes,
        dataset.fingerprint(),
    )
    if isinstance(spec.method, Joint):
        steps = [Step(learned[-1], "all tasks", lambda: joined([stream[p] for p in learned]))]
    else:
        steps = [Step(p, stream.names[p], lambda p=p: stream[p]) for p in learned]
    counts = np.bincount(dataset.y[partition.train], minlength=len(dataset.classes))
    return Itinerary(stream, tuple(steps), facts, counts / counts.sum())


def joined(tasks: list[Task]) -> Task:
    """One task with the data of all of these."""

    def all_of(parts: list[Examples]) -> Examples:
        return Examples(
            lambda: np.concatenate([part.x for part in parts]),
            np.concatenate([part.y for part in parts]),
        )

    return Task(
        "all tasks",
        all_of([task.train for task in tasks]),
        all_of([task.validation for task in tasks]),
        all_of([task.test for task in tasks]),
        tasks[-1].time,
    )


def _learned(wanted: tuple[int, ...] | None, tasks: int) -> tuple[int, ...]:
    if wanted is None:
        return tuple(range(tasks))
    if list(wanted) != sorted(set(wanted)) or wanted[-1] >= tasks:
        raise SpecError(
            f"stream.learn: give positions of tasks in order, each once, from 0 to {tasks - 1}; "
            f"{list(wanted)} was given."
        )
    return wanted
