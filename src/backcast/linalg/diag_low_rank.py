"""Diagonal plus low rank: the precision of LR-LGF, and with rank 0 that of EWC."""

import math
from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from backcast.linalg import checks, tree
from backcast.linalg.precision import Precision
from backcast.linalg.spectrum import Remainder, Spectrum, leading_rows
from backcast.linalg.whitening import Whitened


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
        rank = checks.count(rank, "The rank")
        precision = checks.nonnegative(jnp.asarray(precision), "The precision", "Give one >= 0.")
        diag = jax.tree.map(lambda x: jnp.full_like(x, precision, tree.accumulator(x)), params)
        return cls(diag, tree.no_rows(diag, rank))

    @property
    def rank(self) -> int:
        """The number ``k`` of rows of the factor."""
        return tree.rank(self.factor)

    def compressed(self, rank: int | None, remainder: Remainder) -> "tuple[DiagLowRank, Spectrum]":
        """The ``rank`` leading eigenvectors of ``W^T W`` as rows, see `leading_rows`.

        With ``remainder="diagonal"`` the squares of the deflated rows go to the diagonal, and
        ``diag(P)`` stays what it was.
        """
        factor, spectrum = leading_rows(self.factor, self.rank if rank is None else rank)
        if factor is self.factor:
            return self, spectrum
        if remainder == "drop":
            return DiagLowRank(self.diag, factor), spectrum
        diag = jax.tree.map(
            lambda d, before, after: d + jnp.maximum(before - after, 0).astype(d.dtype),
            self.diag,
            tree.column_norms(self.factor),
            tree.column_norms(factor),
        )
        return DiagLowRank(diag, factor), spectrum

    def mv(self, x: PyTree) -> PyTree:
        """``P x = d x + W^T (W x)``, in ``O(k D)``."""
        self._check_vector(x)
        low_rank = tree.combine(tree.project(self.factor, x), self.factor)
        return jax.tree.map(lambda d, v, u: d * v + u, self.diag, x, low_rank)

    def quad(self, x: PyTree) -> Float[Array, ""]:
        """``x^T P x = sum d x^2 + |W x|^2``, in ``O(k D)``."""
        self._check_vector(x)
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
        root = jnp.sqrt(strength)
        return type(self)(
            jax.tree.map(lambda d: (d * strength).astype(d.dtype), self.diag),
            jax.tree.map(lambda w: (w * root).astype(w.dtype), self.factor),
        )

    def drift(self, q: PyTree) -> "DiagLowRank":
        """``(P^-1 + diag q)^-1``, exactly and of the same rank, in ``O(k^2 D)`` (paper, eq. 8).

        With ``s = 1 / (1 + q d)``: ``d' = s d`` and ``W' = L^-1 (W s)``, where
        ``L L^T = I + W diag(q s) W^T``. Nothing is subtracted and nothing but ``1 + q d`` divides.
        """
        keep, noise = self._noise(q)
        rows = tree.scale_columns(Whitened.by(self.factor, noise).rows, keep)
        return type(self)(
            jax.tree.map(jnp.multiply, self.diag, keep), tree.cast_like(self.factor, rows)
        )

    def gain(self, q: PyTree, x: PyTree) -> PyTree:
        """``(I + diag(q) P)^-1 x = s x - q s W^T M^-1 W (s x)``, ``s`` and ``M`` as in `drift`."""
        self._check_vector(x)
        keep, noise = self._noise(q)
        return _subtract_seen(jax.tree.map(jnp.multiply, keep, x), noise, self.factor)

    def solve(self, y: PyTree) -> PyTree:
        """``P^-1 y = y/d - (W/d)^T (I + W (W/d)^T)^-1 (W/d) y``, in ``O(k^2 D)``."""
        self._check_vector(y)
        spread = self._spread()
        return _subtract_seen(jax.tree.map(jnp.multiply, spread, y), spread, self.factor)

    def logdet(self) -> Float[Array, ""]:
        """``log det P = sum log d + log det(I + W (W/d)^T)``, in ``O(k^2 D)``."""
        small = Whitened.by(self.factor, self._spread()).logdet()
        return small + sum(jnp.sum(jnp.log(d)) for d in jax.tree.leaves(self.diag))

    def variance(self) -> PyTree:
        """``diag(P^-1) = 1/d - diag((W/d)^T (I + W (W/d)^T)^-1 (W/d))``, in ``O(k^2 D)``.

        Exact to rounding relative to ``1/d``, the variance before the factor, and never below
        ``1 / P_ii``: the bound is attained where the factor outweighs the diagonal so far that
        rounding would leave nothing, or less.
        """
        spread = self._spread()
        return jax.tree.map(
            lambda d, c, seen, w: jnp.maximum(c * (1 - c * seen), 1 / (d + w)),
            self.diag,
            spread,
            tree.column_norms(Whitened.by(self.factor, spread).rows),
            tree.column_norms(self.factor),
        )

    def sample(self, key: PRNGKeyArray) -> PyTree:
        """One draw from ``N(0, P^-1)``, exact, in ``O(k^2 D)``: a root of ``P^-1`` times noise."""
        leaves, structure = jax.tree.flatten(self.diag)
        keys = jax.random.split(key, len(leaves))
        noise = [jax.random.normal(k, d.shape, d.dtype) for k, d in zip(keys, leaves, strict=True)]
        return self.color(jax.tree.unflatten(structure, noise))

    def color(self, noise: PyTree) -> PyTree:
        """``R z`` with ``R R^T = P^-1``: ``z/d^(1/2) - (Y/d)^T (I + T)^-1 Y z/d^(1/2)``.

        ``Y`` and ``T`` are the rows whitened by ``I + W (W/d)^T`` and what whitens them.
        """
        self._check_vector(noise)
        spread = self._spread()
        wide = jax.tree.map(lambda c, z: jnp.sqrt(c) * z, spread, noise)
        white = Whitened.by(self.factor, spread)
        shrunk = tree.combine(white.shrink(tree.project(white.rows, wide)), white.rows)
        return jax.tree.map(lambda z, c, u: z - c * u, wide, spread, shrunk)

    def diagonal(self) -> PyTree:
        """``diag(P) = d + diag(W^T W)``."""
        return jax.tree.map(jnp.add, self.diag, tree.column_norms(self.factor))

    def as_dense(self) -> Float[Array, "D D"]:
        """The whole matrix, in the order of flattening; for tests and tiny problems only."""
        diag = jnp.concatenate([jnp.ravel(d) for d in jax.tree.leaves(self.diag)])
        rows = jnp.concatenate(
            [w.reshape(self.rank, math.prod(w.shape[1:])) for w in jax.tree.leaves(self.factor)],
            axis=1,
        )
        return jnp.diag(diag) + rows.T @ rows

    def _check_vector(self, x: PyTree) -> None:
        checks.same_tree(self.diag, x, "The vector given to the precision")

    def _noise(self, q: PyTree) -> tuple[PyTree, PyTree]:
        """``s = 1 / (1 + q d)`` and ``q s``."""
        q = checks.broadcasts(self.diag, q, "The noise q")
        keep = jax.tree.map(lambda d, v: 1 / (1 + v * d), self.diag, q)
        return keep, jax.tree.map(jnp.multiply, q, keep)

    def _spread(self) -> PyTree:
        """``1 / d``, refused where ``P`` may be singular."""
        positive = checks.positive(
            self.diag,
            "The diagonal of the precision",
            "This operation needs a positive definite precision: add a prior, however weak.",
        )
        return jax.tree.map(lambda d: 1 / d, positive)


def _subtract_seen(x: PyTree, weight: PyTree, factor: PyTree) -> PyTree:
    """``x - a W^T (I + W diag(a) W^T)^-1 W x``: what is left of ``x`` once the rows were seen."""
    rows = Whitened.by(factor, weight).rows
    seen = tree.combine(tree.project(rows, x), rows)
    return jax.tree.map(lambda v, a, u: v - a * u, x, weight, seen)
