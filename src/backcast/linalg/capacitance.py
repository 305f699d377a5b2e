"""The small matrix of diagonal-plus-low-rank algebra, factored so that it never fails."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PyTree

from backcast.linalg import tree


@final
class Capacitance(eqx.Module):
    """``M = I + W diag(a) W^T`` for ``a >= 0``, as ``U^T M U = L L^T`` with ``U`` orthogonal.

    ``M`` is positive definite, but rows of ``W`` that are long and nearly parallel in the metric
    ``a`` make the *computed* ``M`` singular once ``a W^2`` passes the reciprocal of the rounding
    error. Rotating the rows to their principal axes first and only then taking inner products keeps
    each entry's error relative to its own row and column, which Cholesky's factorisation preserves:
    the error grows with the condition of ``W``, not with its square.
    """

    axes: Float[Array, "k k"]
    root: Float[Array, "k k"]

    @classmethod
    def of(cls, factor: PyTree, weight: PyTree) -> "Capacitance":
        """Factor ``I + W diag(weight) W^T``."""
        first = tree.gram(factor, weight)
        if first.size == 0:
            return cls(first, first)
        # Any orthogonal axes give the same M; as constants they need no derivative, which does
        # not exist where two eigenvalues meet.
        axes = jax.lax.stop_gradient(jnp.linalg.eigh(first)[1])
        rotated = tree.recombine(axes.T, factor)
        identity = jnp.eye(len(first), dtype=first.dtype)
        return cls(axes, jnp.linalg.cholesky(identity + tree.gram(rotated, weight)))

    def whitener(self) -> Float[Array, "k k"]:
        """``T = L^-1 U^T``, for which ``T M T^T = I`` and ``T^T T = M^-1``."""
        if self.axes.size == 0:
            return self.axes
        return solve_triangular(self.root, self.axes.T, lower=True)

    def solve(self, c: Float[Array, " k"]) -> Float[Array, " k"]:
        """``M^-1 c``."""
        whitener = self.whitener()
        return whitener.T @ (whitener @ c)

    def logdet(self) -> Float[Array, ""]:
        """``log det M``."""
        return 2 * jnp.sum(jnp.log(jnp.diagonal(self.root)))

    def shrink(self, c: Float[Array, " k"]) -> Float[Array, " k"]:
        """``U L^-T (L + I)^-1 U^T c``, from which a square root of ``(I + V^T V)^-1`` is made.

        With ``V = W diag(a)^(1/2)``, the matrix ``A = I - V^T U L^-T (L + I)^-1 U^T V`` satisfies
        ``A A^T = (I + V^T V)^-1`` (Andrews' square-root form of the Kalman update).
        """
        if self.axes.size == 0:
            return c
        identity = jnp.eye(len(self.root), dtype=self.root.dtype)
        inner = solve_triangular(self.root + identity, self.axes.T @ c, lower=True)
        return self.axes @ solve_triangular(self.root, inner, lower=True, trans="T")
