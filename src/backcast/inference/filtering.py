"""The filter: predict how a belief ages between tasks, and absorb what a task taught."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from backcast.inference.belief import Belief
from backcast.linalg import Precision, Remainder, Spectrum, checks, compress, tree


@final
class Update(eqx.Module):
    """What absorbing a task gives.

    Attributes:
        belief: ``N(m_t, P_t^-1)``, the filtered belief.
        curvature: ``lambda H_t``, what the task added before compression; the smoother needs it.
        spectrum: the eigenvalues that compression retained and deflated, where the structure has
            them.
    """

    belief: Belief
    curvature: Precision
    spectrum: Spectrum | None


def predict(belief: Belief, q: PyTree) -> Belief:
    """The belief after a drift of the weights: ``N(m, (P^-1 + diag q)^-1)`` (paper, eqs. 4, 8).

    Args:
        belief: the filtered belief of the task before.
        q: the variance of each weight's drift; see `Noise.variance`. A leaf may be one number.
    """
    q = accepted_noise(belief, q)
    return checks.finite(
        _predict(belief, q), "The predicted belief", "Check the belief it was predicted from."
    )


@eqx.filter_jit
def _predict(belief: Belief, q: PyTree) -> Belief:
    return Belief(belief.mean, belief.precision.drift(q))


def update(
    predicted: Belief,
    mode: PyTree,
    curvature: Precision,
    strength: float | Float[Array, ""] = 1.0,
    rank: int | None = None,
    remainder: Remainder = "diagonal",
) -> Update:
    """The belief after a task: ``N(m_t, P_t^-1)``, ``P_t = P_t^- + lambda H_t`` (paper, eqs. 7, 9).

    Args:
        predicted: the belief before the task.
        mode: ``m_t``, the parameters that minimise mean loss plus ``predicted.penalty``.
        curvature: ``H_t``, the generalised Gauss-Newton matrix of the mean loss at the mode.
        strength: ``lambda``; it scales the curvature as it is added and is no part of the loss.
        rank: how many rows to keep, or products of a `Kronecker`; all of them if None.
        remainder: what becomes of the rest; see `compress`.
    """
    rows = None if rank is None else checks.count(rank, "The rank")
    checks.same_tree(predicted.mean, mode, "The mode")
    checks.same_tree(predicted.mean, curvature.diag, "The curvature")
    mode = checks.finite(mode, "The mode", "Training has diverged: lower the learning rate.")
    diag = checks.nonnegative(curvature.diag, "The curvature's diagonal", "It is a sum of squares.")
    curvature = DiagLowRank(diag, curvature.factor)
    weight = checks.nonnegative(jnp.asarray(strength), "The strength", "Give one >= 0.")
    return checks.finite(
        _update(predicted, mode, curvature, weight, rows, remainder),
        "The updated belief",
        "Lower the strength, or check the curvature.",
    )


@eqx.filter_jit
def _update(
    predicted: Belief,
    mode: PyTree,
    curvature: Precision,
    strength: Float[Array, ""],
    rank: int | None,
    remainder: Remainder,
) -> Update:
    absorbed = curvature.scale(strength)
    precision = predicted.precision.add(absorbed)
    precision, spectrum = compress(precision, rank, remainder)
    precision = tree.cast_like(predicted.precision, precision)
    return Update(Belief(mode, precision), absorbed, spectrum)


def accepted_noise(belief: Belief, q: PyTree) -> PyTree:
    """``q`` if it can be the drift of this belief: a tree like the mean, finite and >= 0."""
    return checks.nonnegative(
        checks.broadcasts(belief.mean, q, "The noise q"),
        "The noise q",
        "It is a variance: square what is a standard deviation.",
    )
