"""The curvature of a task as Kronecker products in each layer (K-FAC; Martens and Grosse 2015).

For a weight that multiplies rows ``a`` and whose products get the gradients ``g``,

    H ~ E[a a^T] x E[sum g g^T],

with the first mean over all places in which the weight is used and the second sum over the places
of an example: exact for one place and gradients that do not depend on the inputs, and for
convolutions the factors of Grosse and Martens (2016).
"""

import functools
from collections.abc import Iterable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from backcast.linalg import checks, tree
from backcast.linalg.blocks import Block
from backcast.linalg.kronecker import Kronecker
from backcast.model.batch import Batch
from backcast.model.flat import Flat
from backcast.model.ggn_means import check_batches, mean_squares
from backcast.model.layers import Use, columns, rows, uses
from backcast.model.likelihood import Likelihood
from backcast.model.network import Model
from backcast.model.output_root import Fisher, output_root
from backcast.model.reduction import over_entries


@final
class KroneckerCurvature(eqx.Module):
    """What a task tells about the parameters, layer by layer.

    Attributes:
        precision: the products, and the exact diagonal for what is in no layer.
        examples: how many examples ``N`` the mean is over.
    """

    precision: Kronecker
    examples: Float[Array, ""]


@final
class _Sums(eqx.Module):
    """``sum a a^T`` and ``sum g g^T`` of each layer."""

    left: list[Array]
    right: list[Array]


def kronecker_ggn(
    model: Model,
    likelihood: Likelihood,
    batches: Iterable[Batch],
    *,
    key: Key[Array, ""],
    fisher: Fisher = "exact",
) -> KroneckerCurvature:
    """The GGN of the mean loss at the model's parameters, in Kronecker products.

    Args:
        model: the network, at the parameters and the state wanted.
        likelihood: the likelihood of the targets.
        batches: batches of examples, as for `backcast.ggn`.
        key: randomness for sampled targets.
        fisher: ``"exact"`` follows a gradient for every output; ``"sampled"`` and ``"empirical"``
            one for every example, at targets drawn from the model or at its own.
    """
    checks.parameters(model.params)
    examples = check_batches(model, likelihood, batches).examples
    layers = _layers(model, next(iter(batches)).x)
    sums = _nothing(model, layers)
    for index, batch in enumerate(batches):
        sums = _add_sums(sums, model, likelihood, batch, fisher, key, np.uint32(index))
    blocks = tuple(block for block, _ in layers)
    places = np.array([count for _, count in layers], float)
    left = tuple((a / (examples * n))[None] for a, n in zip(sums.left, places, strict=True))
    right = tuple((g / examples)[None] for g in sums.right)
    diag = _diagonal_elsewhere(model, likelihood, batches, examples, blocks, fisher, key)
    precision = Kronecker(diag, left, right, blocks)
    checks.finite(
        precision,
        "The curvature",
        "The network's outputs or their derivatives are not finite at these parameters: look at "
        "the inputs and at the fit.",
    )
    return KroneckerCurvature(precision, examples)


def blocks_of(model: Model, x: PyTree) -> tuple[Block, ...]:
    """The layers of a network, for inputs of these shapes: what gets Kronecker products."""
    return tuple(block for block, _ in _layers(model, x))


def _layers(model: Model, x: PyTree) -> list[tuple[Block, int]]:
    """Each layer once, and in how many places of an example it is used."""
    _, found = _computation(model, x)
    examples = jax.tree.leaves(x)[0].shape[0]
    places: dict[Block, int] = {}
    for use in found:
        places[use.block] = places.get(use.block, 0) + use.count // examples
    return list(places.items())


def _computation(model: Model, x: PyTree) -> tuple[Flat, list[Use]]:
    def outputs(params, x):
        return model.apply(params, model.state, x)[0]

    more = jax.tree.map(lambda v: jax.ShapeDtypeStruct((2 * len(v), *v.shape[1:]), v.dtype), x)
    flat = Flat(outputs, model.params, x)
    count = len(jax.tree.leaves(model.params))
    return flat, uses(flat, Flat(outputs, model.params, more), count)


def _nothing(model: Model, layers: list[tuple[Block, int]]) -> _Sums:
    leaves, kind = jax.tree.leaves(model.params), tree.accumulator(model.params)
    shapes = [block.shape(leaves) for block, _ in layers]
    return _Sums(
        [jnp.zeros((m, m), kind) for m, _ in shapes], [jnp.zeros((n, n), kind) for _, n in shapes]
    )


@eqx.filter_jit
def _add_sums(
    sums: _Sums,
    model: Model,
    likelihood: Likelihood,
    batch: Batch,
    fisher: Fisher,
    key: Key[Array, ""],
    index: Array | np.uint32,
) -> _Sums:
    flat, found = _computation(model, batch.x)
    equations = [flat.equations[use.equation] for use in found]

    def run(nudges):
        """The outputs, with something added to every product; and the rows of its inputs."""
        inputs: dict[int, Array] = {}

        def tap(position, operands, product):
            use = found[position]
            bias = use.block.bias is not None
            inputs[position] = rows(equations[position], use, operands, bias)
            return product + nudges[position]

        taps = {use.equation: functools.partial(tap, i) for i, use in enumerate(found)}
        outputs = flat(model.params, batch.x, taps=taps)
        return outputs, [inputs[position] for position in range(len(found))]

    results: list[Any] = [equation.outvars[0].aval for equation in equations]
    still = [jnp.zeros(result.shape, result.dtype) for result in results]
    with jax.default_matmul_precision("highest"):
        outputs, pull, inputs = jax.vjp(run, still, has_aux=True)
        root = output_root(likelihood, outputs, batch, fisher, jax.random.fold_in(key, index))
        weights = _example_weights(outputs, batch)

        def add_column(right, column):
            right = list(right)
            (gradients,) = pull(root.column(column))
            for use, equation, gradient in zip(found, equations, gradients, strict=True):
                g = columns(equation, use, gradient)
                where = order.index(use.block)
                right[where] += (g.T @ g).astype(right[where].dtype)
            return right, None

        order = list(dict.fromkeys(use.block for use in found))
        left = list(sums.left)
        for use, a in zip(found, inputs, strict=True):
            where = order.index(use.block)
            weighted = a * use.spread(weights).astype(a.dtype)[:, None]
            left[where] += (weighted.T @ a).astype(left[where].dtype)
        right, _ = jax.lax.scan(add_column, list(sums.right), jnp.arange(root.column_count))
    return _Sums(left, right)


def _example_weights(outputs: Array, batch: Batch) -> Float[Array, " n"]:
    weights = over_entries(batch.weights, outputs)
    return jnp.max(weights, axis=tuple(range(1, weights.ndim)))


def _diagonal_elsewhere(
    model: Model,
    likelihood: Likelihood,
    batches: Iterable[Batch],
    examples: Array,
    blocks: tuple[Block, ...],
    fisher: Fisher,
    key: Key[Array, ""],
) -> PyTree:
    """The exact diagonal of what is in no layer, and zeros elsewhere."""
    leaves, structure = jax.tree.flatten(model.params)
    inside = {index for block in blocks for index in block.leaves}
    zeros = [jnp.zeros(leaf.shape, tree.accumulator(leaf)) for leaf in leaves]
    if len(inside) == len(leaves):
        return jax.tree.unflatten(structure, zeros)
    alone = jax.tree.unflatten(structure, [i not in inside for i in range(len(leaves))])
    params, others = eqx.partition(model.params, alone)
    frozen = {**model.frozen, "weights": eqx.combine(model.frozen["weights"], others)}
    part = Model(params, model.state, frozen, model.adapter)
    squares = mean_squares(part, likelihood, batches, examples, "exact", fisher, key)
    return eqx.combine(squares, jax.tree.unflatten(structure, zeros))
