"""The small matrix of diagonal-plus-low-rank algebra, factored so that it never fails."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, PyTree

from backcast.linalg import tree

# Three passes improve float32 rows that differ by less than their rounding; more change nothing.
_PASSES = 3
# The Gram matrix is off by a few roundings for each row; its shifted Cholesky factor exists.
_SHIFT = 4.0

_State = tuple[PyTree, Array, Array]


@final
class Whitened(eqx.Module):
    """The rows of a factor, whitened by ``M = I + W diag(a) W^T`` for ``a >= 0``.

    Every formula with ``M^-1`` in it needs no more than ``Y = T W`` and the lower triangular ``T``
    with ``T M T^T = I``, since ``W^T M^-1 W = Y^T Y``.

    Rows that are long and nearly parallel in the metric ``a`` make the *computed* ``M`` singular
    once ``a W^2`` passes the reciprocal of the rounding error, and lose half of the digits long
    before. Such rows are first improved, as in shifted Cholesky QR (Fukaya et al., 2020): each pass
    divides their condition by about the root of the rounding error, and starts from the rows that
    the one before has left. Each row counts relative to its own length, whatever the others'.

    Attributes:
        rows: ``Y``, in the type in which sums over parameters are taken.
        transform: ``T``.
    """

    rows: PyTree
    transform: Float[Array, "k k"]

    @classmethod
    def by(cls, factor: PyTree, weight: PyTree) -> "Whitened":
        """Whiten ``factor`` by ``I + W diag(weight) W^T``, in ``O(k^2 D)``."""
        transform = jnp.eye(tree.rank(factor), dtype=tree.accumulator(factor))
        rows = jax.tree.map(lambda w: w.astype(transform.dtype), factor)
        if len(transform) == 0:
            return cls(rows, transform)
        small = transform + tree.gram(rows, weight)

        def improve(state: _State) -> _State:
            rows, transform, small = state
            step = _inverse_root(small, _root(small, _SHIFT))
            rows, transform = tree.recombine(step, rows), step @ transform
            return rows, transform, transform @ transform.T + tree.gram(rows, weight)

        def improve_if_needed(state: _State, _: None) -> tuple[_State, None]:
            return jax.lax.cond(_is_well_conditioned(state[2]), lambda s: s, improve, state), None

        def improve_and_finish(state: _State) -> tuple[PyTree, Array]:
            return _finish(jax.lax.scan(improve_if_needed, state, length=_PASSES)[0])

        # Rows as good as they are skip the loop, which would copy them in every pass.
        state = (rows, transform, small)
        well = _is_well_conditioned(small)
        return cls(*jax.lax.cond(well, _finish, improve_and_finish, state))

    def logdet(self) -> Float[Array, ""]:
        """``log det M``."""
        return -2 * jnp.sum(jnp.log(jnp.diagonal(self.transform)))

    def shrink(self, c: Float[Array, " k"]) -> Float[Array, " k"]:
        """``(I + T)^-1 c``, from which a square root of ``(I + V^T V)^-1`` is made.

        With ``V = W diag(a)^(1/2)``, the matrix ``A = I - (T V)^T (I + T)^-1 T V`` satisfies
        ``A A^T = (I + V^T V)^-1`` (Andrews' square-root form of the Kalman update).
        """
        grown = jnp.eye(len(c), dtype=self.transform.dtype) + self.transform
        return solve_triangular(grown, c, lower=True) if c.size else c


def _finish(state: _State) -> tuple[PyTree, Array]:
    rows, transform, small = state
    step = _inverse_root(small, _root(small))
    return tree.recombine(step, rows), step @ transform


def _is_well_conditioned(matrix: Float[Array, "k k"]) -> Bool[Array, ""]:
    """Whether no row is nearly a combination of those before it, so that rounding can be borne."""
    return jnp.min(jnp.diagonal(_root(matrix, _SHIFT))) > 0.3


def _root(matrix: Float[Array, "k k"], shift: float = 0.0) -> Float[Array, "k k"]:
    """Cholesky's ``L`` of the matrix scaled to a diagonal of ones, plus ``shift`` roundings."""
    scale = 1 / jnp.sqrt(jnp.diagonal(matrix))
    correlation = matrix * scale[:, None] * scale[None, :]
    rounding = shift * len(matrix) * jnp.finfo(matrix.dtype).eps
    return jnp.linalg.cholesky(correlation + rounding * jnp.eye(len(matrix), dtype=matrix.dtype))


def _inverse_root(matrix: Float[Array, "k k"], root: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Lower triangular ``T`` with ``T M T^T = I``, from the root of the scaled ``M``."""
    scale = 1 / jnp.sqrt(jnp.diagonal(matrix))
    return solve_triangular(root, jnp.diag(scale), lower=True)
