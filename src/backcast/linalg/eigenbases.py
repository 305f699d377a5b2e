"""A layer's precision in a rotated basis: one eigenvalue for each pair of directions.

The *reduced* form of the eigenvalues has one entry for each pair of the directions that are stored,
and one more on a side whose other directions are not: those share an eigenvalue.
"""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


@final
class Eigenbases(eqx.Module):
    """``P X = sum_ij s_ij u_i (u_i^T X v_j) v_j^T`` for a layer's matrix ``X`` of ``m x n``.

    Attributes:
        left: the leading directions ``u_i`` among the ``m`` rows, orthonormal, as rows.
        right: the leading directions ``v_j`` among the ``n`` columns, alike.
        values: ``s >= 0``, the same for all directions that are not stored.
    """

    left: Float[Array, "_r _m"]
    right: Float[Array, "_s _n"]
    values: Float[Array, "_m _n"]

    def product(self, x: Float[Array, "_m _n"]) -> Float[Array, "_m _n"]:
        """``P X``, with ``O((r + s) m n)`` operations."""
        columns = len(self.right)
        inner = _contract(x, self.right.T)
        image = _contract(_stretched(self.left, self.values[:, :columns], inner), self.right)
        if columns == x.shape[1]:
            return image
        rest = x - _contract(inner, self.right)
        return image + _stretched(self.left, self.values[:, -1:], rest)

    def diagonal(self) -> Float[Array, "_m _n"]:
        """``diag(P) = (U * U)^T s (V * V)``."""
        sizes = self.left.shape[1], self.right.shape[1]
        return self.turned(*(jnp.eye(size, dtype=self.values.dtype) for size in sizes)).values

    def reduced(self) -> Float[Array, "_a _b"]:
        """The eigenvalues, those of directions that are not stored but once."""
        m, n = self.values.shape
        return self.values[: min(len(self.left) + 1, m), : min(len(self.right) + 1, n)]

    def traces(self) -> "tuple[Side, Side]":
        """The partial traces: ``sum_j v_j^T P v_j`` over the columns, and the same over the rows.

        Of a Kronecker product ``A x G`` they are ``tr(G) A`` and ``tr(A) G``.
        """
        return (
            Side(self.left, jnp.sum(self.values, axis=1)),
            Side(self.right, jnp.sum(self.values, axis=0)),
        )

    def turned(self, left: Float[Array, "_k _m"], right: Float[Array, "_l _n"]) -> "Eigenbases":
        """The diagonal of ``P`` in bases that span at least its own, and nothing else.

        ``s'_ij = sum_kl (u'_i^T u_k)^2 s_kl (v_l^T v'_j)^2``. What lies off that diagonal is lost;
        the diagonal, and with it the trace, is exact.
        """
        m, n = self.values.shape
        values = _contract(
            _overlaps(left, self.left), _contract(self.reduced(), _overlaps(right, self.right).T)
        )
        return Eigenbases(left, right, expanded(values, m, n))

    def plus(self, other: "Eigenbases") -> "Eigenbases":
        """The diagonal of the sum, in the eigenbases of its partial traces, which stay exact."""
        left, right = (
            ours.plus(theirs) for ours, theirs in zip(self.traces(), other.traces(), strict=True)
        )
        ours, theirs = self.turned(left, right), other.turned(left, right)
        return Eigenbases(left, right, ours.values + theirs.values)

    def cut(self, rank: int) -> "Eigenbases":
        """At most ``rank`` directions on each side; of the others, the mean eigenvalue."""
        values, (m, n) = self.values, self.values.shape
        if rank < m:
            values = values.at[rank:].set(jnp.mean(values[rank:], axis=0))
        if rank < n:
            values = values.at[:, rank:].set(jnp.mean(values[:, rank:], axis=1, keepdims=True))
        return Eigenbases(self.left[:rank], self.right[:rank], values)


@final
class Side(eqx.Module):
    """A symmetric matrix of one side: ``sum_i w_i u_i u_i^T``.

    Attributes:
        directions: the ``u_i`` that are stored, orthonormal, as rows.
        weights: ``w``, the same for all that are not.
    """

    directions: Float[Array, "_r _m"]
    weights: Float[Array, " _m"]

    def plus(self, other: "Side") -> Float[Array, "_k _m"]:
        """The eigenvectors of the sum, the largest eigenvalue first.

        All of them, or as many as both have directions: on the rest the sum is a multiple of the
        identity, as its parts are.
        """
        m = len(self.weights)
        both = jnp.concatenate([self.directions, other.directions])
        if len(both) == 0:
            return both
        few = len(both) < m
        span = jnp.linalg.qr(both.T)[0].T if few else jnp.eye(m, dtype=self.weights.dtype)
        _, vectors = jnp.linalg.eigh(self._within(span) + other._within(span))
        return _contract(vectors[:, ::-1].T, span)

    def _within(self, span: Float[Array, "_k _m"]) -> Float[Array, "_k _k"]:
        stored = len(self.directions)
        level = self.weights[-1] if stored < len(self.weights) else jnp.zeros_like(self.weights[0])
        shared = _contract(span, self.directions.T)
        return level * jnp.eye(len(span), dtype=level.dtype) + _contract(
            shared * (self.weights[:stored] - level), shared.T
        )


def shares(directions: Float[Array, "_r _m"], x: Float[Array, "_m _k"]) -> Float[Array, "_a _k"]:
    """Of each column its squared coordinates; and of directions that are not stored, their mean."""
    return folded(directions, coordinates(directions, x) ** 2)


def coordinates(
    directions: Float[Array, "_r _m"], x: Float[Array, "_m _k"]
) -> Float[Array, "_a _k"]:
    """``U X``, and the rest of ``X`` if directions are missing: in all, a tight frame."""
    inner = _contract(directions, x)
    if len(directions) == len(x):
        return inner
    return jnp.concatenate([inner, x - _contract(directions.T, inner)])


def folded(
    directions: Float[Array, "_r _m"], squares: Float[Array, "_a _k"]
) -> Float[Array, "_b _k"]:
    """Squares of `coordinates`, with the mean in place of those along no stored direction."""
    stored, size = directions.shape
    if stored == size:
        return squares
    rest = jnp.sum(squares[stored:], axis=0, keepdims=True) / (size - stored)
    return jnp.concatenate([squares[:stored], rest])


def expanded(reduced: Float[Array, "_a _b"], m: int, n: int) -> Float[Array, "{m} {n}"]:
    """All eigenvalues, from their reduced form."""
    rows = jnp.minimum(jnp.arange(m), len(reduced) - 1)
    columns = jnp.minimum(jnp.arange(n), reduced.shape[1] - 1)
    return reduced[rows][:, columns]


def _overlaps(new: Float[Array, "_k _m"], old: Float[Array, "_r _m"]) -> Float[Array, "_a _b"]:
    """How much of each new direction lies along each old one; the last ones stand for the rest."""
    squares = _contract(new, old.T) ** 2
    size = new.shape[1]
    if len(old) < size:
        rest = jnp.maximum(1 - jnp.sum(squares, axis=1, keepdims=True), 0)
        squares = jnp.concatenate([squares, rest], axis=1)
    if len(new) < size:
        beyond = jnp.zeros_like(squares[:1]).at[0, -1].set(1)
        squares = jnp.concatenate([squares, beyond])
    return squares


def _stretched(
    directions: Float[Array, "_r _m"], values: Float[Array, "_m _k"], x: Float[Array, "_m _n"]
) -> Float[Array, "_m _n"]:
    """``sum_i u_i values_i (u_i^T X)``, over the directions that are not stored, too."""
    stored = len(directions)
    inner = _contract(directions, x)
    if stored == len(x):
        return _contract(directions.T, values * inner)
    rest = values[-1:]
    return rest * x + _contract(directions.T, (values[:stored] - rest) * inner)


def _contract(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision="highest")
