"""The smoother: go back and improve earlier beliefs with what later tasks taught, without data."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from backcast.inference.belief import Belief
from backcast.linalg import Precision, Remainder, checks, compress, tree


@final
class Step(eqx.Module):
    """What the filter leaves behind for one task, and all that the smoother needs.

    Attributes:
        predicted: the belief before the task.
        filtered: the belief after it.
        curvature: ``lambda H_t``, what the task added; see `Update`. The difference of the two
            precisions is not it once compressed, and need not be positive.
        q: the variance of the drift that led to this task from the one before.
    """

    predicted: Belief
    filtered: Belief
    curvature: Precision
    q: PyTree


@final
class _Later(eqx.Module):
    """What of a smoothed step the one before it needs.

    Attributes:
        predicted: the mean ``m_{t+1}^-``.
        q: the drift that leads to it.
        mean: ``m_{t+1}^s``.
        message: ``Lambda_{t+1}``.
    """

    predicted: PyTree
    q: PyTree
    mean: PyTree
    message: Precision


@final
class Smoothed(eqx.Module):
    """A smoothed belief, its precision still in two parts, and the message that goes further back.

    Attributes:
        mean: ``m_t^s``.
        filtered: ``P_t``.
        received: ``drift(Lambda_{t+1})``, what later tasks say; None for the last task.
        message: ``Lambda_t``, the precision that tasks ``t, ..., T`` bring to ``theta_t``.
    """

    mean: PyTree
    filtered: Precision
    received: Precision | None
    message: Precision

    @property
    def belief(self) -> Belief:
        """``N(m_t^s, (P_t^s)^-1)``, put together when it is asked for."""
        if self.received is None:
            return Belief(self.mean, self.filtered)
        return Belief(self.mean, self.filtered.add(self.received))


def smooth(
    steps: Sequence[Step], rank: int | None = None, remainder: Remainder = "diagonal"
) -> list[Belief]:
    """The smoothed belief of every task: means and precisions (paper, eq. 12).

    From the last task backwards, with ``G_t = (I + Q_{t+1} P_t)^-1``::

        m_t^s    = m_t + G_t (m_{t+1}^s - m_{t+1}^-)
        P_t^s    = P_t + drift(Lambda_{t+1}, Q_{t+1})
        Lambda_t = lambda H_t + drift(Lambda_{t+1}, Q_{t+1})

    ``drift`` keeps the structure exactly, so a smoothed precision *is* diagonal plus low-rank.

    Args:
        steps: what the filter left behind, first task first.
        rank: how many rows the message from the future may have; all of them if None, which is
            exact and grows by one task's curvature with each step back.
        remainder: what becomes of the rest; see `compress`.
    """
    backwards = smooth_backwards(reversed(steps), rank, remainder)
    return [smoothed.belief for smoothed in backwards][::-1]


def smooth_backwards(
    steps: Iterable[Step], rank: int | None = None, remainder: Remainder = "diagonal"
) -> Iterator[Smoothed]:
    """Smooth one step at a time, from the *last* task to the first.

    Only two steps are looked at together, so the steps may be read from disk as they are needed.
    Arguments as in `smooth`, but for the order of the steps.
    """
    later: _Later | None = None
    for step in steps:
        if later is None:
            message = _limit(step.curvature, rank, remainder)
            smoothed = Smoothed(step.filtered.mean, step.filtered.precision, None, message)
        else:
            checks.same_tree(later.predicted, step.filtered.mean, "A step of the filter")
            parts = _step_back(step.filtered, step.curvature, later, rank, remainder)
            smoothed = Smoothed(parts[0], step.filtered.precision, *parts[1:])
            del parts
        later = _Later(step.predicted.mean, step.q, smoothed.mean, smoothed.message)
        del step  # as large as all the rest; the next one comes before this name is given away
        yield checks.finite(smoothed, "The smoothed belief", "Check the steps it was made from.")
        del smoothed


def between(
    steps: Sequence[Step],
    index: int,
    fraction: float,
    rank: int | None = None,
    remainder: Remainder = "diagonal",
) -> Belief:
    """The smoothed belief at an unobserved time between tasks ``index`` and ``index + 1``.

    The drift is split: ``fraction * Q`` leads from the earlier task to the time asked for, and
    ``(1 - fraction) * Q`` from there to the later one.

    Args:
        steps: what the filter left behind, first task first.
        index: the earlier of the two tasks, counted from 0.
        fraction: how far the time is towards the later task, from 0 to 1.
        rank: as in `smooth`.
        remainder: as in `smooth`.
    """
    if not 0 <= index < len(steps) - 1:
        raise ValueError(
            f"There is no pair of tasks {index} and {index + 1}: {len(steps)} tasks were filtered, "
            f"so index goes from 0 to {len(steps) - 2}."
            if len(steps) > 1
            else f"Between needs two tasks at least, but {len(steps)} were filtered."
        )
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be from 0 (the earlier task) to 1, but is {fraction!r}.")
    backwards = smooth_backwards(reversed(steps[index + 1 :]), rank, remainder)
    [later] = deque(backwards, maxlen=1)
    return checks.finite(
        _between(steps[index].filtered, steps[index + 1], later, jnp.asarray(fraction)),
        "The belief between two tasks",
        "Check the steps it was made from.",
    )


@eqx.filter_jit
def _limit(message: Precision, rank: int | None, remainder: Remainder) -> Precision:
    return message if rank is None else compress(message, rank, remainder)[0]


def _informed(earlier: Belief, later: _Later) -> tuple[PyTree, Precision]:
    """The mean of an earlier belief, with what is known later, and the message it got."""
    surprise = jax.tree.map(jnp.subtract, later.mean, later.predicted)
    mean = jax.tree.map(jnp.add, earlier.mean, earlier.precision.gain(later.q, surprise))
    return tree.cast_like(earlier.mean, mean), later.message.drift(later.q)


@eqx.filter_jit
def _step_back(
    filtered: Belief, curvature: Precision, later: _Later, rank: int | None, remainder: Remainder
) -> tuple[PyTree, Precision, Precision]:
    """The smoothed mean, the message received, and the one that goes further back."""
    mean, received = _informed(filtered, later)
    return mean, received, _limit(curvature.add(received), rank, remainder)


@eqx.filter_jit
def _between(earlier: Belief, step: Step, smoothed: Smoothed, fraction: Float[Array, ""]) -> Belief:
    so_far = jax.tree.map(lambda q: q * fraction.astype(q.dtype), step.q)
    to_come = jax.tree.map(lambda q: q * (1 - fraction).astype(q.dtype), step.q)
    meanwhile = Belief(earlier.mean, earlier.precision.drift(so_far))
    later = _Later(step.predicted.mean, to_come, smoothed.mean, smoothed.message)
    mean, received = _informed(meanwhile, later)
    return Belief(mean, meanwhile.precision.add(received))
