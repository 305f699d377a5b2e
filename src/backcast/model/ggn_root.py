"""A root of the whole GGN, gone through batch by batch: ``H = R^T R``."""

import functools
import math
from collections.abc import Iterable
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Key, PyTree

from backcast.linalg import tree
from backcast.model.batch import Batch
from backcast.model.ggn_means import Extent
from backcast.model.ggn_sums import linear_root
from backcast.model.likelihood import Likelihood
from backcast.model.network import Model
from backcast.model.output_root import Fisher, columns_of


@final
class GgnRoot:
    """``R = N^(-1/2) S^T J``: a row for each column that each example has in ``S``.

    Its columns are one array for all batches. That array is as long as the next power of two, the
    spare ones zero, so that other numbers of examples rarely compile anything again.
    """

    def __init__(
        self,
        model: Model,
        likelihood: Likelihood,
        batches: Iterable[Batch],
        extent: Extent,
        fisher: Fisher,
        key: Key[Array, ""],
    ):
        """Take the batches and how much they are."""
        self._batches = batches
        self._given = model, likelihood, fisher, key
        self._scale = lax.rsqrt(extent.examples)
        self._columns = column_space(model, extent, fisher)
        counts = [math.prod(columns_of(outputs, fisher).shape) for outputs in extent.outputs]
        self._starts = np.cumsum([0, *counts[:-1]], dtype=np.int32)

    def pull(self, rows: Float[Array, "j columns"]) -> PyTree:
        """``c -> R^T c`` for every row, summed over the batches."""
        rows = rows * self._scale.astype(rows.dtype)
        parts = (_pull(rows, batch, *where) for batch, *where in self._parts())
        return functools.reduce(_add, parts)

    def push(self, block: PyTree) -> Float[Array, "j columns"]:
        """``v -> R v`` for every row of a block."""
        images = jnp.zeros((tree.rank(block), self._columns.size), tree.accumulator(block))
        for batch, *where in self._parts():
            images = _push(images, block, batch, *where)
        return images * self._scale.astype(images.dtype)

    def _parts(self):
        model, likelihood, fisher, key = self._given
        for index, (batch, start) in enumerate(zip(self._batches, self._starts, strict=True)):
            yield batch, start, model, likelihood, fisher, key, np.uint32(index)


def column_space(model: Model, extent: Extent, fisher: Fisher) -> jax.ShapeDtypeStruct:
    """The shape of all columns, in the least exact of the types they are computed with."""
    counts = [math.prod(columns_of(outputs, fisher).shape) for outputs in extent.outputs]
    kinds = [leaf.dtype for leaf in (*extent.outputs, *jax.tree.leaves(model.params))]
    kind = max(kinds, key=lambda kind: float(jnp.finfo(kind).eps))
    return jax.ShapeDtypeStruct((1 << (sum(counts) - 1).bit_length(),), kind)


@functools.partial(jax.jit, static_argnames="fisher")
def _pull(rows, batch, start, model, likelihood, fisher, key, index):
    with jax.default_matmul_precision("highest"):
        root = linear_root(model, likelihood, batch, fisher, jax.random.fold_in(key, index))
        own = lax.dynamic_slice_in_dim(rows, start, root.columns.size, axis=1)

        def pulled(row):
            image = root.pull(row.reshape(root.columns.shape))
            return jax.tree.map(lambda u: u.astype(tree.accumulator(u)), image)

        return lax.map(pulled, own)


@functools.partial(jax.jit, static_argnames="fisher", donate_argnums=0)
def _push(images, block, batch, start, model, likelihood, fisher, key, index):
    with jax.default_matmul_precision("highest"):
        root = linear_root(model, likelihood, batch, fisher, jax.random.fold_in(key, index))
        own = lax.map(lambda v: jnp.ravel(root.push(v)).astype(images.dtype), block)
        return lax.dynamic_update_slice_in_dim(images, own, start, axis=1)


@functools.partial(jax.jit, donate_argnums=0)
def _add(total: PyTree, more: PyTree) -> PyTree:
    return jax.tree.map(jnp.add, total, more)
