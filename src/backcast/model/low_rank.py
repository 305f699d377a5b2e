"""The leading eigenvectors of a positive semi-definite matrix known by its products.

Block Krylov iteration with full orthogonalisation: a random block ``V``, then the orthonormal basis
of ``V, H V, H^2 V, ...``, one product with a block for each step. Where the spectrum is flat, as of
a freshly initialised network, this takes half the products of subspace iteration or fewer (Musco &
Musco, 2015), and little more memory.

The factor is Nystrom's. With ``K`` the basis of all blocks but the last, ``K H`` lies in the span
of the whole basis, and

    F^T F = (H K^T) (K H K^T)^-1 (K H).

It never exceeds ``H`` in the semi-definite order, so nothing in it is false, however few the steps,
and it is one multiplication by ``H`` more accurate than what lies within ``K``. A shift by the size
of the rounding errors keeps both true of the computed one (Frangella, Tropp & Udell, 2023).
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Key, PyTree

from backcast.linalg import tree

_ROUNDING = 10.0  # errors of products and inner products, in units of the type's epsilon
_MAX_SWEEPS = 5


class LowRank(NamedTuple):
    """A factor, and how well its rows are known.

    Attributes:
        factor: ``F``: eigenvectors, each as long as the root of its eigenvalue, longest first.
        eigenvalues: The squares of their lengths.
        residuals: ``|H u - s u| / s_1`` for the best eigenpairs ``(s, u)`` *within* the basis, of
            which the rows are an improvement. Some eigenvalue is within ``s_1`` times this of
            ``s``.
    """

    factor: PyTree
    eigenvalues: Float[Array, " k"]
    residuals: Float[Array, " k"]


def leading(
    product: Callable[[PyTree], PyTree],
    like: PyTree,
    rank: int,
    key: Key[Array, ""],
    *,
    passes: int,
    oversampling: int,
) -> LowRank:
    """``F`` of ``rank`` rows with ``F^T F`` close to ``H`` and not above it.

    Args:
        product: ``X -> X H`` for a block of rows. A block is passed on as it is donated.
        like: A vector of the space.
        rank: How many eigenvectors; where ``H`` has fewer, the last rows are zero.
        key: For the random block.
        passes: How often ``product`` is called.
        oversampling: How many rows a block has beyond ``rank``.

    Returns:
        The factor, in the types of ``like``, and its account.
    """
    if rank == 0:
        return _nothing(like)
    size = min(rank + oversampling, sum(leaf.size for leaf in jax.tree.leaves(like)))
    basis, block = _start(like, key, size, (passes + 1) * size)
    basis, block, _ = _extend(basis, block, 0)
    images = []
    for step in range(passes):
        basis, block, image = _extend(basis, product(block), (step + 1) * size)
        images.append(image)
    return _nystrom(basis, jnp.concatenate(images), like, rank, _rounding(like))


def leading_by_root(
    push: Callable[[PyTree], PyTree],
    pull: Callable[[PyTree], PyTree],
    columns: PyTree,
    like: PyTree,
    rank: int,
    key: Key[Array, ""],
    *,
    passes: int,
    oversampling: int,
) -> LowRank:
    """The same for ``H = R^T R``, found in the space of the images ``R v``, where that is smaller.

    With the rows of ``P`` the leading eigenvectors of ``R R^T``, ``F = P R``. That is a factor
    that does not exceed ``H``, however good or bad ``P`` is, and another half of a multiplication
    more accurate. No more than two blocks of vectors like ``like`` are ever held.

    Args:
        push: ``V -> V R^T`` for a block of rows.
        pull: ``C -> C R`` for a block of rows.
        columns: An image.
        like: A vector of the space.
        rank: As for `leading`, and so are the rest; a pass is a push and a pull.
        key: For the random block of images.
        passes: How often ``R R^T`` is applied.
        oversampling: How many rows a block has beyond ``rank``.
    """
    if rank == 0:
        return _nothing(like)
    left = leading(
        lambda rows: push(pull(rows)), columns, rank, key, passes=passes, oversampling=oversampling
    )
    return _principal(pull(_unit_rows(left.factor)), like, left.residuals, _rounding(columns, like))


def _nothing(like: PyTree) -> LowRank:
    nothing = tree.no_rows(like)
    return LowRank(nothing, *jnp.zeros((2, 0), tree.accumulator(nothing)))


@jax.jit
def _unit_rows(factor: PyTree) -> PyTree:
    """Every row divided by its length; rows of zeros as they are."""
    wide = jax.tree.map(lambda w: w.astype(tree.accumulator(w)), factor)
    lengths = jnp.sqrt(tree.row_norms(wide))
    scale = jnp.where(lengths > 0, 1 / jnp.where(lengths > 0, lengths, 1), 0)
    return jax.tree.map(lambda w: jnp.expand_dims(scale, range(1, w.ndim)) * w, wide)


@functools.partial(jax.jit, static_argnums=3)
def _principal(
    factor: PyTree, like: PyTree, residuals: Float[Array, " k"], rounding: float
) -> LowRank:
    """The factor turned so that its rows are orthogonal, longest first."""
    values, vectors = jnp.linalg.eigh(tree.gram(factor))
    values, vectors = values[::-1], vectors[:, ::-1]
    present = values > rounding * jnp.max(values, initial=0)
    rows = tree.recombine(jnp.where(present[:, None], vectors.T, 0), factor)
    return LowRank(tree.cast_like(like, rows), jnp.where(present, values, 0), residuals)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _start(like: PyTree, key: Key[Array, ""], size: int, capacity: int) -> tuple[PyTree, PyTree]:
    """An empty basis, and a random first block."""
    leaves, structure = jax.tree.flatten(like)
    keys = jax.random.split(key, len(leaves))
    kinds = [jnp.promote_types(x.dtype, jnp.float32) for x in leaves]
    block = jax.tree.unflatten(
        structure,
        [
            jax.random.normal(k, (size, *x.shape), kind)
            for k, x, kind in zip(keys, leaves, kinds, strict=True)
        ],
    )
    return jax.tree.map(lambda b: jnp.zeros((capacity, *b.shape[1:]), b.dtype), block), block


@functools.partial(jax.jit, donate_argnums=(0, 1))
def _extend(
    basis: PyTree, block: PyTree, position: int | Array
) -> tuple[PyTree, PyTree, Float[Array, "b m"]]:
    """Add to the basis what a block brings; also the block's coordinates in the longer basis."""
    largest = functools.reduce(jnp.maximum, [jnp.max(jnp.abs(x)) for x in jax.tree.leaves(block)])
    scale = jnp.where(largest > 0, largest, 1)
    fresh = _orthonormal_complement(jax.tree.map(lambda x: x / scale.astype(x.dtype), block), basis)
    basis = jax.tree.map(
        lambda k, x: lax.dynamic_update_slice_in_dim(k, x, position, axis=0), basis, fresh
    )
    return basis, fresh, _cross(block, basis)


def _orthonormal_complement(block: PyTree, basis: PyTree) -> PyTree:
    """An orthonormal basis of the block's rows less their parts in ``basis``; spare rows are zero.

    Each sweep projects out ``basis`` and rotates what is left to its principal axes. A sweep that
    finds the rows nearly orthonormal already leaves them so to rounding: usually the second. What
    is still not orthonormal in the last one lies in the basis, for no more directions are left.
    """
    rounding = _rounding(block)

    def sweep(carry):
        block, _, count = carry
        before = jnp.sqrt(tree.row_norms(block))
        inside = tree.recombine(_cross(block, basis), basis)
        block = jax.tree.map(jnp.subtract, block, inside)
        gram = tree.gram(block)
        after = jnp.sqrt(jnp.diagonal(gram))
        last = count == _MAX_SWEEPS - 1
        present = after > jnp.where(last, before / 2, rounding * jnp.max(before))
        scale = jnp.where(present, 1 / jnp.where(present, after, 1), 0)
        values, vectors = jnp.linalg.eigh(scale[:, None] * gram * scale)
        absent = jnp.arange(len(values)) < len(values) - jnp.sum(present)
        ready = jnp.all((after > before / 2) | ~present) & jnp.all((values > 1 / 4) | absent)
        length = jnp.where(last & (values < 1 / 4), 0, lax.rsqrt(jnp.maximum(values, rounding)))
        block = tree.recombine(length[:, None] * vectors.T * scale, block)
        return block, ready, count + 1

    def unfinished(carry):
        _, ready, count = carry
        return ~ready & (count < _MAX_SWEEPS)

    return lax.while_loop(unfinished, sweep, (block, jnp.asarray(False), 0))[0]


@functools.partial(jax.jit, static_argnums=(3, 4))
def _nystrom(
    basis: PyTree, images: Float[Array, "l m"], like: PyTree, rank: int, rounding: float
) -> LowRank:
    """The factor from the rows of ``K H`` in the coordinates of the basis, ``K`` its first rows."""
    count, capacity = images.shape
    inner = images[:, :count]
    values, vectors = jnp.linalg.eigh((inner + inner.T) / 2)
    values, vectors = jnp.maximum(values[::-1], 0), vectors[:, ::-1]
    largest = values[0]
    turned = vectors.T @ images
    within = jnp.pad(values[:, None] * vectors.T, ((0, 0), (0, capacity - count)))
    residuals = jnp.linalg.norm(turned - within, axis=1) / jnp.where(largest > 0, largest, 1)

    shift = rounding * largest
    root = lax.rsqrt(jnp.where(largest > 0, values + shift, 1))
    _, lengths, axes = jnp.linalg.svd(root[:, None] * turned, full_matrices=False)
    eigenvalues = jnp.where(lengths**2 > shift, lengths**2, 0)
    kept = min(rank, count)
    coefficients = jnp.sqrt(eigenvalues[:kept, None]) * axes[:kept]
    spare = rank - kept
    factor = tree.recombine(jnp.pad(coefficients, ((0, spare), (0, 0))), basis)
    return LowRank(
        jax.tree.map(lambda f, x: f.astype(x.dtype), factor, like),
        jnp.pad(eigenvalues[:kept], (0, spare)),
        jnp.pad(residuals[:kept], (0, spare)),
    )


def _cross(rows: PyTree, others: PyTree) -> Float[Array, "j k"]:
    """The inner products of the rows of one factor with those of another."""
    return jax.vmap(lambda row: tree.project(others, row))(rows)


def _rounding(*trees: PyTree) -> float:
    """The errors of products and inner products, relative to the largest."""
    return _ROUNDING * max(float(jnp.finfo(x.dtype).eps) for x in jax.tree.leaves(trees))
