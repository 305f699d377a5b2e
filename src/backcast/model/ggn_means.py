"""Means of products and squares over all batches, gone through one by one."""

import functools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from backcast.model.batch import Batch
from backcast.model.ggn_sums import Diagonal, products, squares
from backcast.model.likelihood import Likelihood
from backcast.model.network import Model
from backcast.model.output_root import Fisher
from backcast.model.reduction import example_count


class Extent(NamedTuple):
    """What there is to go through.

    Attributes:
        examples: How many examples ``N``.
        outputs: The shape and type of each batch's outputs.
    """

    examples: Float[Array, ""]
    outputs: list[jax.ShapeDtypeStruct]


def check_batches(model: Model, likelihood: Likelihood, batches: Any) -> Extent:
    """Refuse batches that cannot be used, before any work starts; else, how much they are."""
    kind = type(batches).__name__
    if not isinstance(batches, Iterable):
        raise TypeError(f"batches are a {kind}; give a list of Batch(x, y)")
    if isinstance(batches, Iterator):
        raise TypeError(
            f"batches are a {kind}, which can be gone through only once, and finding the curvature "
            "takes several passes. Give list(batches), or an object whose __iter__ starts anew"
        )
    counts, shapes = [], []
    for index, batch in enumerate(batches):
        if not isinstance(batch, Batch):
            raise TypeError(
                f"batches[{index}] is a {type(batch).__name__}; give Batch(x, y) or "
                "Batch(x, y, weights)"
            )
        outputs = jax.eval_shape(_outputs, model, batch.x)
        likelihood.check(outputs, batch.y, batch.weights)
        counts.append(_count(model, batch))
        shapes.append(outputs)
    if not counts:
        raise ValueError("there are no batches: give at least one")
    # On the host, so that nothing is compiled for the number of batches.
    return Extent(jnp.asarray(np.sum(jax.device_get(counts)), counts[0].dtype), shapes)


def mean_products(
    model: Model,
    likelihood: Likelihood,
    batches: Iterable[Batch],
    examples: Float[Array, ""],
    block: PyTree,
    fisher: Fisher,
    key: Key[Array, ""],
) -> PyTree:
    """``H v`` for every row ``v`` of a block, with the GGN ``H`` of the mean loss."""
    total = _wide_zeros(block)
    for index, batch in enumerate(batches):
        total = _add_products(total, model, likelihood, batch, block, fisher, key, np.uint32(index))
    return _divide(total, examples)


def mean_squares(
    model: Model,
    likelihood: Likelihood,
    batches: Iterable[Batch],
    examples: Float[Array, ""],
    diagonal: Diagonal,
    fisher: Fisher,
    key: Key[Array, ""],
) -> PyTree:
    """``diag(H)``."""
    total = _wide_zeros(model.params)
    for index, batch in enumerate(batches):
        total = _add_squares(
            total, model, likelihood, batch, diagonal, fisher, key, np.uint32(index)
        )
    return _divide(total, examples)


@jax.jit
def _outputs(model: Model, x: PyTree) -> PyTree:
    return model.apply(model.params, model.state, x)[0]


@jax.jit
def _count(model: Model, batch: Batch) -> Float[Array, ""]:
    return example_count(_outputs(model, batch.x), batch.weights)


@jax.jit
def _wide_zeros(like: PyTree) -> PyTree:
    return jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.promote_types(x.dtype, jnp.float32)), like)


@functools.partial(jax.jit, static_argnames="fisher", donate_argnums=0)
def _add_products(total, model, likelihood, batch, block, fisher, key, index):
    key = jax.random.fold_in(key, index)
    with jax.default_matmul_precision("highest"):
        more = products(model, likelihood, batch, block, fisher, key)
    return jax.tree.map(jnp.add, total, more)


@functools.partial(jax.jit, static_argnames=("diagonal", "fisher"), donate_argnums=0)
def _add_squares(total, model, likelihood, batch, diagonal, fisher, key, index):
    key = jax.random.fold_in(key, index)
    with jax.default_matmul_precision("highest"):
        return squares(total, model, likelihood, batch, diagonal, fisher, key)


@functools.partial(jax.jit, donate_argnums=0)
def _divide(total: PyTree, examples: Float[Array, ""]) -> PyTree:
    return jax.tree.map(lambda x: x / examples.astype(x.dtype), total)
