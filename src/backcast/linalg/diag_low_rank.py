"""Diagonal plus low rank: the precision of LR-LGF, and with rank 0 that of EWC."""

from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from backcast.linalg import checks, tree
from backcast.linalg.capacitance import Capacitance
from backcast.linalg.precision import Precision


@final
class DiagLowRank(Precision):
    """``P = diag(d) + W^T W`` with ``d >= 0``.

    In the paper's letters ``D = diag(d)`` and ``W = Sigma^(1/2) U^T``. The square-root form needs
    no inverse of ``Sigma``: rank 0, rows of zeros and more rows than parameters are all ordinary.

    Attributes:
        diag: the diagonal ``d``, a pytree like the parameters.
        factor: the rows of ``W``, the same pytree with a leading axis of length ``k`` on each leaf.
    """

    diag: PyTree
    factor: PyTree

    def __check_init__(self):
        """Refuse a diagonal or factor that cannot belong to one precision."""
        checks.parameters(self.diag, "The diagonal")
        checks.parameters(self.factor, "The factor")
        leading = [jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(self.factor)]
        if leading[0] == ():
            raise ValueError("The factor's leaves need a leading axis: one entry for each row.")
        checks.same_tree(self.diag, self.factor, "The factor", rows=leading[0][0])

    @classmethod
    def isotropic(cls, params: PyTree, precision: float | Array, rank: int = 0) -> "DiagLowRank":
        """``precision * I`` over the space of ``params``, with ``rank`` rows of zeros.

        Rows of zeros change nothing but the shape: a filter that starts with as many rows as it
        will keep has the same shapes in every task, and compiles once.
        """
        checks.parameters(params)
        checks.count(rank, "The rank")
        precision = checks.nonnegative(jnp.asarray(precision), "The precision", "Give one >= 0.")
        diag = jax.tree.map(lambda x: jnp.full_like(x, precision), params)
        return cls(diag, tree.no_rows(diag, rank))

    @property
    def rank(self) -> int:
        """The number ``k`` of rows of the factor."""
        return tree.rank(self.factor)

    def mv(self, x: PyTree) -> PyTree:
        """``P x = d x + W^T (W x)``, in ``O(k D)``."""
        low_rank = tree.combine(tree.project(self.factor, x), self.factor)
        return jax.tree.map(lambda d, v, u: d * v + u, self.diag, x, low_rank)

    def quad(self, x: PyTree) -> Float[Array, ""]:
        """``x^T P x = sum d x^2 + |W x|^2``, in ``O(k D)``."""
        inner = tree.project(self.factor, x)
        return tree.dot(jax.tree.map(jnp.multiply, self.diag, x), x) + inner @ inner

    def add(self, other: Precision) -> "DiagLowRank":
        """``P + other``: the diagonals are added, the rows stacked."""
        if not isinstance(other, DiagLowRank):
            raise TypeError(
                f"Only a DiagLowRank can be added to a DiagLowRank, not a {type(other).__name__}: "
                "use one structure for the belief and the curvature it absorbs."
            )
        checks.same_tree(self.diag, other.diag, "The added precision")
        diag = jax.tree.map(jnp.add, self.diag, other.diag)
        return type(self)(diag, tree.stack(self.factor, other.factor))

    def scale(self, strength: float | Float[Array, ""]) -> "DiagLowRank":
        """``strength * P = diag(strength d) + (strength^(1/2) W)^T (strength^(1/2) W)``."""
        weight = jnp.asarray(strength)
        root = jnp.sqrt(weight)
        return type(self)(
            jax.tree.map(lambda d: d * weight.astype(d.dtype), self.diag),
            jax.tree.map(lambda w: w * root.astype(w.dtype), self.factor),
        )

    def drift(self, q: PyTree) -> "DiagLowRank":
        """``(P^-1 + diag q)^-1``, exactly and of the same rank, in ``O(k^2 D)`` (paper, eq. 8).

        With ``s = 1 / (1 + q d)``: ``d' = s d`` and ``W' = L^-1 (W s)``, where
        ``L L^T = I + W diag(q s) W^T``. Nothing is subtracted and nothing but ``1 + q d`` divides.
        """
        keep = jax.tree.map(lambda d, v: 1 / (1 + v * d), self.diag, q)
        noise = jax.tree.map(jnp.multiply, q, keep)
        whitener = Capacitance.of(self.factor, noise).whitener()
        rows = jax.tree.map(lambda w, s: (w * s).astype(w.dtype), self.factor, keep)
        return type(self)(
            jax.tree.map(jnp.multiply, self.diag, keep), tree.recombine(whitener, rows)
        )

    def gain(self, q: PyTree, x: PyTree) -> PyTree:
        """``(I + diag(q) P)^-1 x = s x - q s W^T M^-1 W (s x)``, ``s`` and ``M`` as in `drift`."""
        keep = jax.tree.map(lambda d, v: 1 / (1 + v * d), self.diag, q)
        noise = jax.tree.map(jnp.multiply, q, keep)
        kept = jax.tree.map(jnp.multiply, keep, x)
        inner = Capacitance.of(self.factor, noise).solve(tree.project(self.factor, kept))
        return jax.tree.map(
            lambda v, n, u: v - n * u, kept, noise, tree.combine(inner, self.factor)
        )

    def solve(self, y: PyTree) -> PyTree:
        """``P^-1 y = y/d - (W/d)^T (I + W (W/d)^T)^-1 (W/d) y``, in ``O(k^2 D)``."""
        spread = self._spread()
        scaled = jax.tree.map(jnp.multiply, spread, y)
        inner = Capacitance.of(self.factor, spread).solve(tree.project(self.factor, scaled))
        correction = tree.combine(inner, self.factor)
        return jax.tree.map(lambda v, c, u: v - c * u, scaled, spread, correction)

    def logdet(self) -> Float[Array, ""]:
        """``log det P = sum log d + log det(I + W (W/d)^T)``, in ``O(k^2 D)``."""
        small = Capacitance.of(self.factor, self._spread()).logdet()
        return small + sum(jnp.sum(jnp.log(d)) for d in jax.tree.leaves(self.diag))

    def variance(self) -> PyTree:
        """``diag(P^-1)``, in ``O(k^2 D)``.

        ``1 / P_ii`` bounds each entry from below. The bound is attained where the factor
        outweighs the diagonal so far that rounding would leave nothing, or less.
        """
        spread = self._spread()
        whitener = Capacitance.of(self.factor, spread).whitener()
        explained = tree.column_norms(tree.recombine(whitener, self.factor))
        return jax.tree.map(
            lambda d, c, h, w: jnp.maximum(c * (1 - h * c), 1 / (d + w)),
            self.diag,
            spread,
            explained,
            tree.column_norms(self.factor),
        )

    def sample(self, key: PRNGKeyArray) -> PyTree:
        """One draw from ``N(0, P^-1)``, exact: ``x = z/d^(1/2) - W^T c / d``, in ``O(k^2 D)``."""
        spread = self._spread()
        leaves, structure = jax.tree.flatten(spread)
        keys = jax.random.split(key, len(leaves))
        draws = [
            jax.random.normal(k, c.shape, c.dtype) * jnp.sqrt(c)
            for k, c in zip(keys, leaves, strict=True)
        ]
        white = jax.tree.unflatten(structure, draws)
        inner = Capacitance.of(self.factor, spread).shrink(tree.project(self.factor, white))
        return jax.tree.map(
            lambda z, c, u: z - c * u, white, spread, tree.combine(inner, self.factor)
        )

    def diagonal(self) -> PyTree:
        """``diag(P) = d + diag(W^T W)``."""
        return jax.tree.map(jnp.add, self.diag, tree.column_norms(self.factor))

    def as_dense(self) -> Float[Array, "D D"]:
        """The whole matrix, in the order of flattening; for tests and tiny problems only."""
        diag = jnp.concatenate([jnp.ravel(d) for d in jax.tree.leaves(self.diag)])
        rows = jnp.concatenate(
            [w.reshape(self.rank, -1) for w in jax.tree.leaves(self.factor)], axis=1
        )
        return jnp.diag(diag) + rows.T @ rows

    def _spread(self) -> PyTree:
        """``1 / d``, refused where ``P`` may be singular."""
        positive = checks.positive(
            self.diag,
            "The diagonal of the precision",
            "This operation needs a positive definite precision: add a prior, however weak.",
        )
        return jax.tree.map(lambda d: 1 / d, positive)
