"""The filter: predict how a belief ages between tasks, and absorb what a task taught."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
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
    return _absorbed(_at_mode, predicted, mode, curvature, strength, rank, remainder)


def update_by_penalties(
    predicted: Belief,
    mode: PyTree,
    curvature: Precision,
    strength: float | Float[Array, ""] = 1.0,
    rank: int | None = None,
    remainder: Remainder = "diagonal",
) -> Update:
    """The belief after a task, if every task has a penalty of its own, centred at its own mode.

    So elastic weight consolidation has it, with a penalty per task (Kirkpatrick et al. 2017):
    ``sum_k lambda/2 (theta - theta_k)^T H_k (theta - theta_k)``. The sum is one quadratic, and this
    is it: the precision of `update`, with the mean

        m_t = m_t^- + P_t^-1 lambda H_t (theta_t - m_t^-).

    Arguments as in `update`. The mean is not the mode that was found: predict by that.
    """
    return _absorbed(_between_modes, predicted, mode, curvature, strength, rank, remainder)


Centre = Callable[[Belief, PyTree, Precision, Precision], PyTree]
"""The new mean, from the predicted belief, the mode, what was absorbed and the new precision."""


def _at_mode(predicted: Belief, mode: PyTree, absorbed: Precision, precision: Precision) -> PyTree:
    return mode


def _between_modes(
    predicted: Belief, mode: PyTree, absorbed: Precision, precision: Precision
) -> PyTree:
    offset = jax.tree.map(jnp.subtract, mode, predicted.mean)
    step = precision.solve(absorbed.mv(offset))
    return jax.tree.map(lambda m, s: m + s.astype(m.dtype), predicted.mean, step)


def _absorbed(
    centre: Centre,
    predicted: Belief,
    mode: PyTree,
    curvature: Precision,
    strength: float | Float[Array, ""],
    rank: int | None,
    remainder: Remainder,
) -> Update:
    rows = None if rank is None else checks.count(rank, "The rank")
    checks.same_tree(predicted.mean, mode, "The mode")
    checks.same_tree(predicted.mean, curvature.diag, "The curvature")
    mode = checks.finite(mode, "The mode", "Training has diverged: lower the learning rate.")
    diag = checks.nonnegative(curvature.diag, "The curvature's diagonal", "It is a sum of squares.")
    curvature = eqx.tree_at(lambda precision: precision.diag, curvature, diag)
    weight = checks.nonnegative(jnp.asarray(strength), "The strength", "Give one >= 0.")
    return checks.finite(
        _update(centre, predicted, mode, curvature, weight, rows, remainder),
        "The updated belief",
        "Lower the strength, or check the curvature.",
    )


@eqx.filter_jit
def _update(
    centre: Centre,
    predicted: Belief,
    mode: PyTree,
    curvature: Precision,
    strength: Float[Array, ""],
    rank: int | None,
    remainder: Remainder,
) -> Update:
    absorbed = curvature.scale(strength)
    precision, spectrum = compress(predicted.precision.add(absorbed), rank, remainder)
    precision = tree.cast_like(predicted.precision, precision)
    mean = centre(predicted, mode, absorbed, precision)
    return Update(Belief(mean, precision), absorbed, spectrum)


def accepted_noise(belief: Belief, q: PyTree) -> PyTree:
    """``q`` if it can be the drift of this belief: a tree like the mean, finite and >= 0."""
    return checks.nonnegative(
        checks.broadcasts(belief.mean, q, "The noise q"),
        "The noise q",
        "It is a variance: square what is a standard deviation.",
    )
