"""The vector space of pytrees: what the rest of the house needs of linear algebra.

A *vector* is a pytree of float arrays shaped like the parameters. A *factor* is a stack of ``k``
vectors: the same pytree, each leaf with a leading axis of length ``k``. It stands for a ``k x D``
matrix whose rows are contiguous in memory and which is never formed as one array.

Sums over parameters accumulate in at least float32 and at full matrix-multiply precision, so that
half-precision storage and accelerators with fast, short products give the same answers.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree


def names(values: PyTree) -> list[str]:
    """Each leaf's path, such as ``"layers/0/weight"``, in the order of flattening."""
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(values)[0]]
    return [jax.tree_util.keystr(path, simple=True, separator="/") or "." for path in paths]


def rank(factor: PyTree) -> int:
    """The number ``k`` of rows of a factor."""
    return jax.tree.leaves(factor)[0].shape[0]


def dot(a: PyTree, b: PyTree) -> Float[Array, ""]:
    """Inner product of two vectors."""
    return _total(jax.tree.map(lambda x, y: _contract(x, range(x.ndim), y, range(y.ndim)), a, b))


def project(factor: PyTree, x: PyTree) -> Float[Array, " k"]:
    """``W x``: the inner product of each row with a vector."""
    return _total(
        jax.tree.map(lambda w, v: _contract(w, range(1, w.ndim), v, range(v.ndim)), factor, x)
    )


def gram(factor: PyTree, weight: PyTree | None = None) -> Float[Array, "k k"]:
    """``W diag(a) W^T``: the inner products of all pairs of rows, in the metric ``a`` if given."""
    weighted = factor if weight is None else scale_columns(factor, weight)
    return _total(
        jax.tree.map(
            lambda v, w: _contract(v, range(1, v.ndim), w, range(1, w.ndim)), weighted, factor
        )
    )


def combine(coefficients: Float[Array, " k"], factor: PyTree) -> PyTree:
    """``W^T c``: the vector that is the sum of the rows, each times its coefficient."""
    return jax.tree.map(lambda w: _contract(coefficients, [0], w, [0]), factor)


def recombine(coefficients: Float[Array, "j k"], factor: PyTree) -> PyTree:
    """``C W``: the factor of ``j`` combinations of the rows."""
    return jax.tree.map(lambda w: _contract(coefficients, [1], w, [0]), factor)


def scale_columns(factor: PyTree, weight: PyTree) -> PyTree:
    """``W diag(w)``: every row multiplied by a vector, element by element."""
    return jax.tree.map(lambda w, a: w * a, factor, weight)


def column_norms(factor: PyTree) -> PyTree:
    """``diag(W^T W)``: for each parameter, the sum of squares over the rows."""
    return jax.tree.map(_sum_of_squares, factor)


def row_norms(factor: PyTree) -> Float[Array, " k"]:
    """``diag(W W^T)``: for each row, the sum of squares over the parameters."""
    return _total(
        jax.tree.map(
            lambda w: jnp.sum(jnp.square(w.astype(accumulator(w))), axis=tuple(range(1, w.ndim))),
            factor,
        )
    )


def cast_like(reference: PyTree, values: PyTree) -> PyTree:
    """``values``, each leaf stored in the type of the reference's."""
    return jax.tree.map(lambda r, v: v.astype(r.dtype), reference, values)


def stack(*factors: PyTree) -> PyTree:
    """The rows of all the factors, in order."""
    return jax.tree.map(lambda *w: jnp.concatenate(w), *factors)


def no_rows(vector: PyTree, count: int = 0) -> PyTree:
    """A factor of ``count`` zero rows over the space of ``vector``."""
    return jax.tree.map(lambda x: jnp.zeros((count, *x.shape), x.dtype), vector)


def _contract(x: Array, x_axes: Sequence[int], y: Array, y_axes: Sequence[int]) -> Array:
    return lax.dot_general(
        x,
        y,
        ((tuple(x_axes), tuple(y_axes)), ((), ())),
        precision=lax.Precision.HIGHEST,
        preferred_element_type=accumulator(x, y),
    )


def accumulator(*values: PyTree) -> jnp.dtype:
    """The type in which sums over these arrays are taken: their own, but at least float32."""
    return jnp.promote_types(jnp.result_type(*jax.tree.leaves(values)), jnp.float32)


def _sum_of_squares(w: Array) -> Array:
    # Row by row: XLA's own reduction over a leading axis is a hundred times slower on a CPU.
    def add_row(sums: Array, row: Array) -> tuple[Array, None]:
        return sums + jnp.square(row.astype(sums.dtype)), None

    return lax.scan(add_row, jnp.zeros(w.shape[1:], accumulator(w)), w)[0]


def _total(terms: PyTree) -> Array:
    return functools.reduce(jnp.add, jax.tree.leaves(terms))
