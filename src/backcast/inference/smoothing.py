"""The smoother: go back and improve earlier beliefs with what later tasks taught, without data."""

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
class Smoothed(eqx.Module):
    """A smoothed belief and the message from the future that made it.

    Attributes:
        belief: ``N(m_t^s, (P_t^s)^-1)``.
        message: ``Lambda_t``, the precision that tasks ``t, ..., T`` bring to ``theta_t``.
    """

    belief: Belief
    message: Precision


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
    later: Step | None = None
    smoothed: Smoothed | None = None
    for step in steps:
        if later is None or smoothed is None:
            smoothed = Smoothed(step.filtered, _limit(step.curvature, rank, remainder))
        else:
            checks.same_tree(later.filtered.mean, step.filtered.mean, "A step of the filter")
            smoothed = _step_back(step, later, smoothed, rank, remainder)
        later = step
        yield checks.finite(smoothed, "The smoothed belief", "Check the steps it was made from.")


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
    *_, later = smooth_backwards(reversed(steps[index + 1 :]), rank, remainder)
    return checks.finite(
        _between(steps[index].filtered, steps[index + 1], later, jnp.asarray(fraction)),
        "The belief between two tasks",
        "Check the steps it was made from.",
    )


@eqx.filter_jit
def _limit(message: Precision, rank: int | None, remainder: Remainder) -> Precision:
    return message if rank is None else compress(message, rank, remainder)[0]


def _informed(
    earlier: Belief, predicted_mean: PyTree, q: PyTree, later: Smoothed
) -> tuple[Belief, Precision]:
    """An earlier belief with what is known later, a drift of ``q`` away, and the message it got."""
    message = later.message.drift(q)
    surprise = jax.tree.map(jnp.subtract, later.belief.mean, predicted_mean)
    mean = jax.tree.map(jnp.add, earlier.mean, earlier.precision.gain(q, surprise))
    mean = tree.cast_like(earlier.mean, mean)
    return Belief(mean, earlier.precision.add(message)), message


@eqx.filter_jit
def _step_back(
    step: Step, later: Step, smoothed: Smoothed, rank: int | None, remainder: Remainder
) -> Smoothed:
    belief, message = _informed(step.filtered, later.predicted.mean, later.q, smoothed)
    return Smoothed(belief, _limit(step.curvature.add(message), rank, remainder))


@eqx.filter_jit
def _between(earlier: Belief, step: Step, later: Smoothed, fraction: Float[Array, ""]) -> Belief:
    so_far = jax.tree.map(lambda q: q * fraction.astype(q.dtype), step.q)
    to_come = jax.tree.map(lambda q: q * (1 - fraction).astype(q.dtype), step.q)
    meanwhile = Belief(earlier.mean, earlier.precision.drift(so_far))
    return _informed(meanwhile, step.predicted.mean, to_come, later)[0]
