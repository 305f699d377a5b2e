"""Streams in which the same kind of inputs changes its looks from task to task."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from backcast.data import DataError
from backcast.tasks import chance, transforms
from backcast.tasks.assemble import assemble, distinct
from backcast.tasks.lazy import LazyStream
from backcast.tasks.partition import Partition, at_most
from backcast.tasks.transforms import Transform


def drifting(
    partition: Partition,
    names: Sequence[str],
    changes: Sequence[Transform],
    examples: int | None = None,
    finish: Transform | None = None,
    seed: int = 0,
) -> LazyStream:
    """Task ``t`` sees its inputs through ``changes[t]``.

    All tasks are tested (and validated) on the same examples, each through its own change.

    Args:
        partition: the examples.
        names: one for each task.
        changes: one for each task, of inputs in [0, 1].
        examples: how many training examples each task has *of its own*: no example is in two
            tasks, so what one task gains from another is not memory of the same images. (The
            paper states 5,000 or 750 a task and not whether they are shared; its authors' code
            draws anew for each task, from a set large enough that few are.) None gives every
            task all of them, as permuted MNIST has it; ``partition.limit(750)`` the same few.
        finish: what to do after the change; None standardises colour images by ImageNet's mean
            and deviation, as the paper does, and leaves all else in [0, 1].
        seed: what the draw of examples depends on.
    """
    if len(names) != len(changes):
        raise DataError(f"There are {len(names)} names for {len(changes)} changes; give one each.")
    parts = _deal(partition, len(names), examples, seed)
    return assemble(names, parts, range(len(names)), finish, changes)


def permuted(
    partition: Partition,
    tasks: int = 5,
    examples: int | None = None,
    finish: Transform | None = None,
    seed: int = 0,
) -> LazyStream:
    """Each task has its own random order of the pixels; the first leaves them as they are."""
    count = transforms.positions(partition.dataset)
    orders = [
        chance.permutation(count, seed, "pixels", t) if t else np.arange(count)
        for t in range(tasks)
    ]
    return drifting(
        partition,
        [f"permutation {t}" for t in range(tasks)],
        [transforms.permute(order) for order in orders],
        examples,
        finish,
        seed,
    )


def rotated(
    partition: Partition,
    degrees: Sequence[float] = (0.0, 20.0, 40.0, 60.0, 80.0),
    examples: int | None = None,
    finish: Transform | None = None,
    seed: int = 0,
) -> LazyStream:
    """Images turn, counter-clockwise."""
    transforms.require_images(partition.dataset)
    return drifting(
        partition,
        distinct([f"rotation {angle:g}" for angle in degrees]),
        [transforms.rotate(angle) for angle in degrees],
        examples,
        finish,
        seed,
    )


def brightness(
    partition: Partition,
    shifts: Sequence[float] = (-0.24, -0.12, 0.0, 0.12, 0.24),
    examples: int | None = None,
    finish: Transform | None = None,
    seed: int = 0,
) -> LazyStream:
    """Images become brighter; by default ``0.6 (0.1 t - 0.1 (4 - t))``, the paper's Gradual."""
    transforms.require_images(partition.dataset)
    return drifting(
        partition,
        distinct([f"brightness {shift:+g}" for shift in shifts]),
        [transforms.brighten(shift) for shift in shifts],
        examples,
        finish,
        seed,
    )


def blurred(
    partition: Partition,
    sigmas: Sequence[float] = (0.0, 0.5, 1.0, 1.5, 2.0),
    examples: int | None = None,
    finish: Transform | None = None,
    seed: int = 0,
) -> LazyStream:
    """Images go out of focus; the deviations are in pixels."""
    transforms.require_images(partition.dataset)
    side = min(partition.dataset.x.shape[1:3])
    if not all(sigma <= side for sigma in sigmas):
        raise DataError(
            f"Blurs of at most {side} pixels make sense for {partition.dataset.name}, whose images "
            f"are of that size, but {max(sigmas)} was given."
        )
    return drifting(
        partition,
        distinct([f"blur {sigma:g}" for sigma in sigmas]),
        [transforms.blur(sigma) for sigma in sigmas],
        examples,
        finish,
        seed,
    )


def stained(
    partition: Partition,
    strengths: Sequence[float] = (-0.5, -0.25, 0.0, 0.25, 0.5),
    examples: int | None = None,
    finish: Transform | None = None,
    seed: int = 0,
) -> LazyStream:
    """The stain of histology shifts from eosin (pink) to haematoxylin (blue)."""
    transforms.require_images(partition.dataset, colour=True)
    return drifting(
        partition,
        distinct([f"stain {strength:+g}" for strength in strengths]),
        [transforms.stain(strength) for strength in strengths],
        examples,
        finish,
        seed,
    )


def _deal(partition: Partition, tasks: int, examples: int | None, seed: int) -> list[Partition]:
    if examples is None:
        return [partition] * tasks
    available = len(partition.train) // max(tasks, 1)
    at_most(examples, available, f"training (for each of {tasks} tasks)")
    order = partition.spread("train", seed, "tasks")
    return [
        replace(partition, train=order[t * examples : (t + 1) * examples]) for t in range(tasks)
    ]
