"""Filtering again, with other process noise and without data: what the tasks taught is kept."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from backcast.inference.belief import Belief
from backcast.inference.smoothing import Step
from backcast.linalg import Precision, Remainder, compress, tree


@final
class Site(eqx.Module):
    """What one task taught: what led the filter from its predicted to its filtered belief.

    Up to a constant the logarithm of the task's likelihood is ::

        g^T (theta - a) - 1/2 (theta - a)^T H (theta - a)

    around the filtered mean ``a = m_t``, with ``g = P_t^- (m_t - m_t^-)``. So it is exactly where
    the model is linear and the noise Gaussian, and a Gauss-Newton approximation for a network. The
    natural parameters ``eta = H a + g`` are the same, but a network has directions without
    curvature, which ``eta`` says nothing of; in this form they stay where they were found.

    Attributes:
        centre: ``a``.
        pull: ``g``.
        curvature: ``H``, with its strength.
    """

    centre: PyTree
    pull: PyTree
    curvature: Precision


@final
class Refiltered(eqx.Module):
    """A task, filtered again.

    Attributes:
        step: what the filter would have left behind.
        evidence: the logarithm of the probability of the task's data given all tasks before, up to
            a constant of the task.
    """

    step: Step
    evidence: Float[Array, ""]


@eqx.filter_jit
def site(step: Step) -> Site:
    """What a task taught the filter."""
    moved = jax.tree.map(jnp.subtract, step.filtered.mean, step.predicted.mean)
    return Site(step.filtered.mean, step.predicted.precision.mv(moved), step.curvature)


def refilter(
    prior: Belief,
    sites: Sequence[Site],
    qs: Sequence[PyTree],
    rank: int | None = None,
    remainder: Remainder = "diagonal",
) -> list[Refiltered]:
    """The filter's steps, had the noise been ``qs``.

    With the noise they were filtered with the same means are found again. With far more noise the
    means of a network may go where the approximation is worth nothing; see `Site`.

    Args:
        prior: the belief before the first task.
        sites: what the tasks taught, first task first.
        qs: the variance of the drift that leads to each task.
        rank: how many rows to keep; see `update`.
        remainder: what becomes of the rest.
    """
    found, belief = [], prior
    for taught, q in zip(sites, qs, strict=True):
        found.append(_again(belief, taught, q, rank, remainder))
        belief = found[-1].step.filtered
    return found


@eqx.filter_jit
def _again(
    belief: Belief, taught: Site, q: PyTree, rank: int | None, remainder: Remainder
) -> Refiltered:
    """``m = a + (P^- + H)^-1 (g - P^- (a - m^-))``, and the evidence.

    ``log p = 1/2 log det P^- - 1/2 log det (P^- + H) + log-likelihood(m) - penalty(m)``.
    """
    predicted = Belief(belief.mean, belief.precision.drift(q))
    before = predicted.precision
    full = before.add(taught.curvature)
    residual = jax.tree.map(jnp.subtract, taught.pull, predicted.gradient(taught.centre))
    change = full.solve(residual)
    mean = tree.cast_like(taught.centre, jax.tree.map(jnp.add, taught.centre, change))
    likelihood = tree.dot(taught.pull, change) - taught.curvature.quad(change) / 2
    evidence = likelihood - predicted.penalty(mean) + (before.logdet() - full.logdet()) / 2
    precision = tree.cast_like(before, compress(full, rank, remainder)[0])
    return Refiltered(Step(predicted, Belief(mean, precision), taught.curvature, q), evidence)
