"""Rank reduction: the only lossy step of the filter, and an account of what it loses."""

from typing import Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from backcast.linalg import checks, tree
from backcast.linalg.diag_low_rank import DiagLowRank

Remainder = Literal["drop", "diagonal"]


@final
class Spectrum(eqx.Module):
    """The eigenvalues of ``W^T W``, largest first, split by whether compression kept them.

    They tell how much of its capacity a belief uses and whether its rank is enough.
    """

    retained: Float[Array, " k"]
    deflated: Float[Array, " r_minus_k"]

    def kept_fraction(self) -> Float[Array, ""]:
        """The share of the trace of ``W^T W`` that was kept as rows; 1 for an empty factor."""
        kept, lost = jnp.sum(self.retained), jnp.sum(self.deflated)
        return jnp.where(kept + lost > 0, kept / jnp.where(kept + lost > 0, kept + lost, 1), 1)


def compress(
    precision: DiagLowRank, rank: int, remainder: Remainder = "diagonal"
) -> tuple[DiagLowRank, Spectrum]:
    """Keep the ``rank`` leading eigenvectors of ``W^T W``; account for the rest or drop it.

    They are the leading eigenvectors ``U_k`` of the Gram matrix ``W W^T``, applied to the rows:
    ``W' = U_k^T W`` (the truncated SVD of the paper, after eq. 9), in ``O(r^2 D)`` for ``r`` rows.
    A factor with no more rows than asked for is returned as it is.

    Args:
        precision: the precision to compress.
        rank: how many rows to keep.
        remainder: ``"diagonal"`` adds the deflated rows' squares to the diagonal, so that
            ``diag(P)`` stays what it was; ``"drop"`` forgets them, as the paper does.

    Returns:
        The compressed precision, positive definite if the given one was, and its `Spectrum`.
    """
    rank = checks.count(rank, "The rank")
    if remainder not in ("drop", "diagonal"):
        raise ValueError(f'`remainder` must be "drop" or "diagonal", but {remainder!r} was given.')
    small = tree.gram(precision.factor)
    if small.size == 0:
        empty = jnp.zeros(0, small.dtype)
        return precision, Spectrum(empty, empty)
    values, vectors = _eigh(small)
    values, vectors = jnp.maximum(values[::-1], 0), vectors[:, ::-1]
    spectrum = Spectrum(values[:rank], values[rank:])
    if rank >= precision.rank:
        return precision, spectrum
    leading = tree.recombine(vectors[:, :rank].T, precision.factor)
    factor = tree.cast_like(precision.factor, leading)
    if remainder == "drop":
        return DiagLowRank(precision.diag, factor), spectrum
    diag = jax.tree.map(
        lambda d, before, after: d + jnp.maximum(before - after, 0).astype(d.dtype),
        precision.diag,
        tree.column_norms(precision.factor),
        tree.column_norms(factor),
    )
    return DiagLowRank(diag, factor), spectrum


@jax.custom_jvp
def _eigh(matrix: Float[Array, "r r"]) -> tuple[Float[Array, " r"], Float[Array, "r r"]]:
    values, vectors = jnp.linalg.eigh(matrix)
    return values, vectors


@_eigh.defjvp
def _eigh_derivative(primals: tuple, tangents: tuple) -> tuple:
    """The derivative where eigenvalues meet, too: vectors that only turn among equals stay.

    What compression returns does not depend on that turn, for which the usual formula is infinite.
    """
    (matrix,), (change,) = primals, tangents
    values, vectors = _eigh(matrix)
    turned = vectors.T @ ((change + change.T) / 2) @ vectors
    gaps = values[None, :] - values[:, None]
    equal = jnp.abs(gaps) <= len(values) * jnp.finfo(values.dtype).eps * jnp.max(jnp.abs(values))
    rotation = jnp.where(equal, 0, turned / jnp.where(equal, 1, gaps))
    return (values, vectors), (jnp.diagonal(turned), vectors @ rotation)
