"""What a network's layers are given and what comes back to them, example by example."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from backcast.linalg import tree
from backcast.linalg.blocks import Block
from backcast.model.batch import Batch
from backcast.model.flat import Flat
from backcast.model.ggn_means import mean_squares
from backcast.model.layers import Use, columns, rows, uses
from backcast.model.likelihood import Likelihood
from backcast.model.network import Model
from backcast.model.output_root import Fisher


@final
class Passage(NamedTuple):
    """One pass through a network, with its layers looked at.

    Attributes:
        uses: every product of a weight, in the order of the computation.
        outputs: what the network returns.
        rows: for each use, what the weight was multiplied by: a row for each place.
        gradients: from a gradient in the outputs, those in each product, a row for each place.
    """

    uses: Sequence[Use]
    outputs: Array
    rows: list[Float[Array, "r m"]]
    gradients: Callable[[Array], list[Float[Array, "r n"]]]


def passage(model: Model, x: PyTree) -> Passage:
    """Go through the network as in prediction."""
    flat, found = _computation(model, x)
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
        outputs = flat(model.params, x, taps=taps)
        return outputs, [inputs[position] for position in range(len(found))]

    results: list[Any] = [equation.outvars[0].aval for equation in equations]
    still = [jnp.zeros(result.shape, result.dtype) for result in results]
    outputs, pull, inputs = jax.vjp(run, still, has_aux=True)

    def gradients(cotangent):
        (found_gradients,) = pull(cotangent)
        return [columns(*each) for each in zip(equations, found, found_gradients, strict=True)]

    return Passage(found, outputs, inputs, gradients)


def layers_of(model: Model, x: PyTree) -> dict[Block, int]:
    """Each layer of a network, for inputs of these shapes, and in how many places it is used."""
    _, found = _computation(model, x)
    examples = jax.tree.leaves(x)[0].shape[0]
    places: dict[Block, int] = {}
    for use in found:
        places[use.block] = places.get(use.block, 0) + use.count // examples
    return places


def blocks_of(model: Model, x: PyTree) -> tuple[Block, ...]:
    """The layers of a network, for inputs of these shapes: what gets matrices of its own."""
    return tuple(layers_of(model, x))


def diagonal_elsewhere(
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


def _computation(model: Model, x: PyTree) -> tuple[Flat, list[Use]]:
    def outputs(params, x):
        return model.apply(params, model.state, x)[0]

    more = jax.tree.map(lambda v: jax.ShapeDtypeStruct((2 * len(v), *v.shape[1:]), v.dtype), x)
    flat = Flat(outputs, model.params, x)
    count = len(jax.tree.leaves(model.params))
    return flat, uses(flat, Flat(outputs, model.params, more), count)
