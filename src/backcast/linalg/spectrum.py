"""The leading directions of a factor, and an account of the others."""

from typing import Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from backcast.linalg import tree

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


def leading_rows(factor: PyTree, rank: int) -> tuple[PyTree, Spectrum]:
    """``U_k^T W``: the rows along the leading eigenvectors of ``W^T W``, in ``O(r^2 D)``.

    ``U_k`` are the leading eigenvectors of the Gram matrix ``W W^T`` (the truncated SVD of the
    paper, after eq. 9). A factor with no more rows than asked for is returned as it is.
    """
    small = tree.gram(factor)
    if small.size == 0:
        empty = jnp.zeros(0, small.dtype)
        return factor, Spectrum(empty, empty)
    values, vectors = _eigh(small)
    values, vectors = jnp.maximum(values[::-1], 0), vectors[:, ::-1]
    spectrum = Spectrum(values[:rank], values[rank:])
    if rank >= tree.rank(factor):
        return factor, spectrum
    return tree.cast_like(factor, tree.recombine(vectors[:, :rank].T, factor)), spectrum


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
