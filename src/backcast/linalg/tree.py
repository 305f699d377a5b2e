"""The vector space of pytrees: what the rest of the house needs of linear algebra.

A *vector* is a pytree of float arrays shaped like the parameters. A *factor* is a stack of ``k``
vectors: the same pytree, each leaf with a leading axis of length ``k``. It stands for a ``k x D``
matrix whose rows are contiguous in memory and which is never formed as one array.

Sums over parameters accumulate in at least float32 and at full matrix-multiply precision, so that
half-precision storage and accelerators with fast, short products give the same answers.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree, Shaped

def names(tree: PyTree) -> list[str]:
    """The name of each leaf: its path, such as ``"layers/0/weight"``, in the order of flattening."""
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    return [jax.tree_util.keystr(path, simple=True, separator="/") or "." for path in paths]


def rank(factor: PyTree) -> int:
    """The number ``k`` of rows of a factor."""
    return jax.tree.leaves(factor)[0].shape[0]


def _accumulator(*arrays: Array) -> jnp.dtype:
    return jnp.promote_types(jnp.result_type(*arrays), jnp.float32)


def _sum_over_leaves(function: Callable[..., Array], *trees: PyTree) -> Array:
    first, *others = jax.tree.leaves(jax.tree.map(function, *trees))
    return sum(others, start=first)


def dot(a: PyTree, b: PyTree) -> Float[Array, ""]:
    """Inner product of two vectors."""
    return _sum_over_leaves(
        lambda x, y: lax.dot_general(
            x,
            y,
            ((tuple(range(x.ndim)),) * 2, ((), ())),
            precision=lax.Precision.HIGHEST,
            preferred_element_type=_accumulator(x, y),
        ),
        a,
        b,
    )


def project(factor: PyTree, x: PyTree) -> Float[Array, " k"]:
    """``W x``: the inner product of each row with a vector."""
    return _sum_over_leaves(
        lambda w, v: lax.dot_general(
            w,
            v,
            ((tuple(range(1, w.ndim)), tuple(range(v.ndim))), ((), ())),
            precision=lax.Precision.HIGHEST,
            preferred_element_type=_accumulator(w, v),
        ),
        factor,
        x,
    )


def gram(factor: PyTree) -> Float[Array, "k k"]:
    """``W W^T``: the inner products of all pairs of rows."""
    return _sum_over_leaves(
        lambda w: lax.dot_general(
            w,
            w,
            ((tuple(range(1, w.ndim)),) * 2, ((), ())),
            precision=lax.Precision.HIGHEST,
            preferred_element_type=_accumulator(w),
        ),
        factor,
    )


def combine(coefficients: Shaped[Array, "... k"], factor: PyTree) -> PyTree:
    """``C W``: linear combinations of rows; a vector for ``k`` coefficients, a factor for ``j x k``.

    The result is stored in the factor's own type.
    """
    return jax.tree.map(
        lambda w: lax.dot_general(
            coefficients,
            w,
            (((coefficients.ndim - 1,), (0,)), ((), ())),
            precision=lax.Precision.HIGHEST,
            preferred_element_type=_accumulator(coefficients, w),
        ).astype(w.dtype),
        factor,
    )


def scale_columns(factor: PyTree, weight: PyTree) -> PyTree:
    """``W diag(w)``: every row multiplied by a vector, element by element."""
    return jax.tree.map(lambda w, a: w * a, factor, weight)


def column_norms(factor: PyTree) -> PyTree:
    """``diag(W^T W)``: for each parameter, the sum of squares over the rows."""
    return jax.tree.map(lambda w: jnp.sum(w * w, axis=0, dtype=_accumulator(w)), factor)


def stack(*factors: PyTree) -> PyTree:
    """The rows of all the factors, in order."""
    return jax.tree.map(lambda *w: jnp.concatenate(w), *factors)


def no_rows(vector: PyTree, count: int = 0) -> PyTree:
    """A factor of ``count`` zero rows over the space of ``vector``."""
    return jax.tree.map(lambda x: jnp.zeros((count, *x.shape), x.dtype), vector)
