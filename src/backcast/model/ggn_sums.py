"""Sums over the examples of one batch: products with its curvature, and its diagonal.

With ``J`` the Jacobian of the outputs in the parameters and ``S S^T`` the curvature of the loss in
the outputs, the curvature is ``J^T S S^T J``. Neither ``J`` nor ``S`` is formed.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Key, PyTree

from backcast.linalg import tree
from backcast.model.batch import Batch
from backcast.model.likelihood import Likelihood
from backcast.model.network import Model
from backcast.model.output_root import Fisher, output_root

Diagonal = Literal["exact", "sampled"]


def products(
    model: Model,
    likelihood: Likelihood,
    batch: Batch,
    block: PyTree,
    fisher: Fisher,
    key: Key[Array, ""],
) -> PyTree:
    """``J^T S S^T J v`` for every row ``v`` of a block.

    The network is linearised once for all rows: a row costs about as much as a gradient. They are
    taken one after the other, in the memory of one. (On a CPU this is also twice as fast as all
    at once, where the products of batches of matrices come out in an order to be rearranged.)
    """
    root = linear_root(model, likelihood, batch, fisher, key)

    def product(row):
        image = root.pull(root.push(row))
        return jax.tree.map(lambda u, v: u.astype(v.dtype), image, row)

    return lax.map(product, block)


class LinearRoot(NamedTuple):
    """``R = S^T J``, with the curvature ``R^T R``: a row for each of the batch's columns of ``S``.

    Attributes:
        push: ``v -> R v``, from parameters to columns.
        pull: ``c -> R^T c``, its transpose.
        columns: The shape and type of ``c``.
    """

    push: Callable[[PyTree], Float[Array, "n *columns"]]
    pull: Callable[[Float[Array, "n *columns"]], PyTree]
    columns: jax.ShapeDtypeStruct


def linear_root(
    model: Model, likelihood: Likelihood, batch: Batch, fisher: Fisher, key: Key[Array, ""]
) -> LinearRoot:
    """The root of a batch's curvature, the network linearised once for all that it is given."""
    outputs, push = jax.linearize(lambda params: _outputs(model, params, batch.x), model.params)
    pull = jax.linear_transpose(push, model.params)
    root = output_root(likelihood, outputs, batch, fisher, _target_key(key))
    return LinearRoot(
        lambda v: root.gather(push(tree.cast_like(model.params, v))),
        lambda c: pull(root.spread(c.astype(root.columns.dtype)))[0],
        root.columns,
    )


def squares(
    total: PyTree,
    model: Model,
    likelihood: Likelihood,
    batch: Batch,
    diagonal: Diagonal,
    fisher: Fisher,
    key: Key[Array, ""],
) -> PyTree:
    """``total + diag(J^T S S^T J)``: the sum over examples and columns of squared gradients.

    ``"sampled"`` takes one gradient per example, of its columns with random signs. Its square is
    the diagonal plus products of different columns, which average out.
    """
    outputs = _outputs(model, model.params, batch.x)
    root = output_root(likelihood, outputs, batch, fisher, _target_key(key))

    def add(total, cotangents):
        return _add_squared_gradients(total, model, batch.x, cotangents)

    if diagonal == "sampled":
        signs = jax.random.rademacher(
            jax.random.fold_in(key, 1), root.columns.shape, root.columns.dtype
        )
        return add(total, root.spread(signs))
    indices = jnp.arange(root.column_count)
    return lax.scan(lambda t, index: (add(t, root.column(index)), None), total, indices)[0]


def _add_squared_gradients(
    total: PyTree, model: Model, x: PyTree, cotangents: Float[Array, "n *rest C"]
) -> PyTree:
    """Add the square of every example's pulled-back cotangent.

    One example at a time, in the memory of one parameter vector. (On a CPU this is also 20 times
    faster than several at a time: the square of a single outer product is fused with it.)
    """

    def add_square(total, example):
        x, cotangent = jax.tree.map(lambda leaf: leaf[None], example)
        _, pull = jax.vjp(lambda params: _outputs(model, params, x), model.params)
        (gradient,) = pull(cotangent)
        return jax.tree.map(lambda t, g: t + jnp.square(g.astype(t.dtype)), total, gradient), None

    return lax.scan(add_square, total, (x, cotangents))[0]


def _outputs(model: Model, params: PyTree, x: PyTree) -> Float[Array, "n *rest C"]:
    return model.apply(params, model.state, x)[0]


def _target_key(key: Key[Array, ""]) -> Key[Array, ""]:
    return jax.random.fold_in(key, 0)
