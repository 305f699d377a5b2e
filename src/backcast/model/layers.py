"""A network's matrices, found in its computation: weights that inputs are multiplied by.

Every library writes a dense or convolutional layer as the same two primitives, so the equations are
looked through for products of a parameter with something that is none; nobody has to say where the
layers are. A parameter that is also used in another way (as a scale, turned around, in a table that
is looked up, inside a loop) is in no layer.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn, Var
from jaxtyping import Array, Float

from backcast.linalg.blocks import Block
from backcast.model.flat import Flat, variables
from backcast.model.rearranging import REARRANGING, Labels, shape_of


@final
@dataclass(frozen=True)
class Use:
    """One product of inputs and a weight.

    Attributes:
        equation: its position in the computation.
        block: the weight, and the bias if one is added to this product alone.
        inputs: the position of the other operand.
        places: the lengths of the axes of the places in which the weight is used.
        examples: which of them runs over the examples, first of all if over more.
    """

    equation: int
    block: Block
    inputs: int
    places: tuple[int, ...]
    examples: int = 0

    @property
    def count(self) -> int:
        """In how many places the weight is used, over all examples."""
        return math.prod(self.places)

    def spread(self, weights: Float[Array, " n"]) -> Float[Array, " r"]:
        """What each example has, for each place."""
        along = jnp.repeat(weights, self.places[self.examples] // len(weights))
        others = [axis for axis in range(len(self.places)) if axis != self.examples]
        return jnp.broadcast_to(jnp.expand_dims(along, others), self.places).reshape(-1)

    def by_example(self, values: Float[Array, "r w"], count: int) -> Float[Array, "n p w"]:
        """What each place has, for each of ``count`` examples."""
        apart = jnp.moveaxis(values.reshape(*self.places, values.shape[1]), self.examples, 0)
        return apart.reshape(count, -1, values.shape[1])


@final
@dataclass(frozen=True)
class _Parameter:
    """A value that is a parameter, rearranged."""

    leaf: int
    labels: Labels


@final
@dataclass(frozen=True)
class _Product:
    """A value that is a product, rearranged; axes that are not columns of the weight are empty."""

    use: int
    labels: Labels


_Known = _Parameter | _Product


def uses(flat: Flat, twice: Flat, count: int) -> list[Use]:
    """All products of a parameter and something else, of parameters that are used in no other way.

    Args:
        flat: the computation of outputs from parameters and inputs, in this order.
        twice: the same for twice as many examples, which shows the axis over them.
        count: how many leaves the parameters have.
    """
    search = _Search(flat, count)
    for index, equation in enumerate(flat.equations):
        search.look(index, equation)
    return search.settled(twice)


def rows(
    equation: JaxprEqn, use: Use, operands: Sequence[Array], bias: bool
) -> Float[Array, "r m"]:
    """What the weight is multiplied by: one row for each place, with a one for the bias."""
    inputs = operands[use.inputs]
    if equation.primitive.name == "dot_general":
        contracted, free = _axes(equation, use.inputs)
        size = math.prod(inputs.shape[axis] for axis in contracted)
        found = inputs.transpose(*free, *contracted).reshape(-1, size)
    else:
        found = _patches(equation, inputs, operands[1 - use.inputs])
    return jnp.pad(found, ((0, 0), (0, 1)), constant_values=1) if bias else found


def columns(equation: JaxprEqn, use: Use, values: Float[Array, "..."]) -> Float[Array, "r n"]:
    """A product's values, or their gradients: one row for each place."""
    if equation.primitive.name == "dot_general":
        free = len(_axes(equation, use.inputs)[1])
        first = values if use.inputs == 0 else jnp.moveaxis(values, range(-free, 0), range(free))
        return first.reshape(math.prod(first.shape[:free]), -1)
    batch, feature, *space = equation.params["dimension_numbers"].out_spec
    return values.transpose(batch, *space, feature).reshape(-1, values.shape[feature])


@final
class _Search:
    """What is known of the values while going through the equations."""

    def __init__(self, flat: Flat, count: int):
        self.known: dict[Var, _Known] = {}
        self.found: list[Use] = []
        self.spoiled: set[int] = set()  # leaves that are used otherwise
        self.biases: Counter[int | None] = Counter()
        self.equations = flat.equations
        self.readers = Counter(v for equation in flat.equations for v in variables(equation.invars))
        self.readers.update(variables(flat.outputs))
        self.shapes: list[tuple[int, ...]] = []
        for leaf, variable in enumerate(flat.inputs[:count]):
            shape = shape_of(variable)
            self.known[variable] = _Parameter(leaf, tuple((axis,) for axis in range(len(shape))))
            self.shapes.append(shape)
        self.returned = set(variables(flat.outputs))

    def look(self, index: int, equation: JaxprEqn) -> None:
        """Take one more equation into account."""
        operands = [self.known.get(v) if isinstance(v, Var) else None for v in equation.invars]
        if not any(operands):
            return
        name = equation.primitive.name
        if name in REARRANGING and operands[0] is not None:
            labels = REARRANGING[name](equation, operands[0].labels)
            if labels is not None:
                self.known[equation.outvars[0]] = replace(operands[0], labels=labels)
                return
        elif name in ("dot_general", "conv_general_dilated"):
            if self._product(index, equation, operands):
                return
        elif name in ("add", "add_any") and self._biased(equation, operands):
            return
        self._spoil(operands)

    def settled(self, twice: Flat) -> list[Use]:
        """The products that count, once all equations have been seen."""
        self._spoil([self.known.get(variable) for variable in self.returned])
        found = [self._over_examples(use, twice) for use in self.found]
        times = Counter(use.block.weight for use in self.found)
        ways = {(use.block.weight, use.block.rows, use.block.columns) for use in self.found}
        turned = Counter(weight for weight, _, _ in ways)
        self.spoiled.update(weight for weight, count in turned.items() if count > 1)
        self.spoiled.update(times.keys() & self.biases.keys())
        kept = []
        for use in found:
            block = use.block
            if block.weight in self.spoiled:
                continue
            alone = times[block.weight] == 1 and self.biases[block.bias] == 1
            if not alone or block.bias in self.spoiled:
                use = replace(use, block=replace(block, bias=None, bias_axes=()))
            kept.append(use)
        return kept

    def _over_examples(self, use: Use, twice: Flat) -> Use:
        """The use, with the axis found that is twice as long for twice as many examples."""
        if len(twice.equations) != len(self.equations):
            self.spoiled.add(use.block.weight)
            return use
        more = _places(twice.equations[use.equation], use.inputs)
        longer = [axis for axis, size in enumerate(more) if size == 2 * use.places[axis]]
        if len(longer) != 1 or math.prod(more) != 2 * math.prod(use.places):
            self.spoiled.add(use.block.weight)
            return use
        return replace(use, examples=longer[0])

    def _spoil(self, operands: Sequence[_Known | None]) -> None:
        self.spoiled.update(known.leaf for known in operands if isinstance(known, _Parameter))

    def _product(self, index: int, equation: JaxprEqn, operands: Sequence[_Known | None]) -> bool:
        """Whether this is a product of one parameter and something that is none."""
        weights = [i for i, known in enumerate(operands) if isinstance(known, _Parameter)]
        if len(weights) != 1:
            return False
        (position,) = weights
        weight = operands[position]
        assert isinstance(weight, _Parameter)
        take = _dense if equation.primitive.name == "dot_general" else _convolutional
        taken = take(equation, position, weight)
        if taken is None:
            return False
        block, labels = taken
        self.known[equation.outvars[0]] = _Product(len(self.found), labels)
        self.found.append(Use(index, block, 1 - position, _places(equation, 1 - position)))
        return True

    def _biased(self, equation: JaxprEqn, operands: Sequence[_Known | None]) -> bool:
        """Whether a parameter is added to a product, one entry for each column."""
        pair = sorted(operands, key=lambda known: isinstance(known, _Parameter))
        product, bias = pair
        if not isinstance(product, _Product) or not isinstance(bias, _Parameter):
            return False
        source = equation.invars[operands.index(product)]
        if not self._read_once(product.use, source):
            return False
        use, shape = self.found[product.use], self.shapes[bias.leaf]
        pairs = [
            # An axis of length one that stands beside the columns is no entry of its own.
            (place, () if not place and all(shape[axis] == 1 for axis in axes) else axes)
            for place, axes in zip(product.labels, bias.labels, strict=True)
        ]
        if any(bool(place) != bool(axes) for place, axes in pairs):
            return False
        order = [axis for _, axes in pairs for axis in axes]
        if tuple(axis for place, _ in pairs for axis in place) != use.block.columns:
            return False
        order += [axis for axis in range(len(shape)) if axis not in order]
        if any(shape[axis] > 1 for axis in order[len(use.block.columns) :]):
            return False
        self.found[product.use] = replace(
            use, block=replace(use.block, bias=bias.leaf, bias_axes=tuple(order))
        )
        self.biases[bias.leaf] += 1
        return True

    def _read_once(self, use: int, last: Any) -> bool:
        """Whether nothing but the sum reads the product, rearranged or not."""
        chain = [
            v for v, known in self.known.items() if isinstance(known, _Product) and known.use == use
        ]
        return last in chain and all(self.readers[v] == 1 for v in chain)


def _dense(equation: JaxprEqn, position: int, weight: _Parameter) -> tuple[Block, Labels] | None:
    (contracted, batched) = equation.params["dimension_numbers"]
    if any(batched):
        return None
    rows = tuple(axis for place in contracted[position] for axis in weight.labels[place])
    free = [i for i in range(len(weight.labels)) if i not in contracted[position]]
    columns = tuple(axis for place in free for axis in weight.labels[place])
    others = len(shape_of(equation.invars[1 - position])) - len(contracted[1 - position])
    kept, empty = tuple(weight.labels[i] for i in free), ((),) * others
    labels = kept + empty if position == 0 else empty + kept
    return Block(weight.leaf, rows, columns), labels


def _convolutional(
    equation: JaxprEqn, position: int, weight: _Parameter
) -> tuple[Block, Labels] | None:
    params = equation.params
    if position != 1 or params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
        return None
    out, into, *space = params["dimension_numbers"].rhs_spec
    rows = tuple(axis for place in (into, *space) for axis in weight.labels[place])
    labels: list[tuple[int, ...]] = [()] * len(weight.labels)
    labels[params["dimension_numbers"].out_spec[1]] = weight.labels[out]
    return Block(weight.leaf, rows, weight.labels[out]), tuple(labels)


def _patches(equation: JaxprEqn, inputs: Array, kernel: Array) -> Float[Array, "r m"]:
    params = equation.params
    numbers = params["dimension_numbers"]
    patches = lax.conv_general_dilated_patches(
        inputs,
        [kernel.shape[axis] for axis in numbers.rhs_spec[2:]],
        params["window_strides"],
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
        dimension_numbers=numbers,
    )
    batch, feature, *space = numbers.out_spec
    return patches.transpose(batch, *space, feature).reshape(-1, patches.shape[feature])


def _axes(equation: JaxprEqn, inputs: int) -> tuple[tuple[int, ...], list[int]]:
    """The axes of the inputs of a dense product that are summed over, and the others."""
    contracted = equation.params["dimension_numbers"][0][inputs]
    dimensions = len(shape_of(equation.invars[inputs]))
    return contracted, [axis for axis in range(dimensions) if axis not in contracted]


def _places(equation: JaxprEqn, inputs: int) -> tuple[int, ...]:
    """The lengths of the axes of the places in which a weight is used."""
    if equation.primitive.name == "dot_general":
        shape = shape_of(equation.invars[inputs])
        return tuple(shape[axis] for axis in _axes(equation, inputs)[1])
    shape = shape_of(equation.outvars[0])
    batch, _, *space = equation.params["dimension_numbers"].out_spec
    return tuple(shape[axis] for axis in (batch, *space))
