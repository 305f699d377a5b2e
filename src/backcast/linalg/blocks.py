"""Matrices within a pytree of parameters: a layer's weight, with its bias as one more row."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Float


@final
@dataclass(frozen=True)
class Block:
    """Where in the parameters a matrix is: ``m`` rows that inputs meet, ``n`` columns of outputs.

    Attributes:
        weight: the position of the weight among the leaves.
        rows: the weight's axes that are summed over, in the order in which they make up the rows.
        columns: its other axes, in the order in which they make up the columns.
        bias: the position of the bias, which is the last row; None if there is none.
        bias_axes: the bias's axes, in the order of ``columns``.
    """

    weight: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    bias: int | None = None
    bias_axes: tuple[int, ...] = ()

    @property
    def leaves(self) -> tuple[int, ...]:
        """The positions of the leaves it is made of."""
        return (self.weight,) if self.bias is None else (self.weight, self.bias)

    def shape(self, leaves: Sequence[Array]) -> tuple[int, int]:
        """``(m, n)``."""
        weight = leaves[self.weight]
        rows = math.prod(weight.shape[axis] for axis in self.rows)
        return rows + (self.bias is not None), math.prod(weight.shape[a] for a in self.columns)

    def gather(self, leaves: Sequence[Array]) -> Float[Array, "m n"]:
        """The matrix, from all leaves of a vector."""
        weight = leaves[self.weight]
        rows = math.prod(weight.shape[axis] for axis in self.rows)
        matrix = weight.transpose(*self.rows, *self.columns).reshape(rows, -1)
        if self.bias is None:
            return matrix
        bias = leaves[self.bias].transpose(self.bias_axes).reshape(1, -1)
        return jnp.concatenate([matrix, bias])

    def scatter(self, matrix: Float[Array, "m n"], like: Sequence[Array]) -> dict[int, Array]:
        """The leaves that a matrix makes up, by their positions, in the shapes of ``like``."""
        order = (*self.rows, *self.columns)
        shape = like[self.weight].shape
        body = matrix if self.bias is None else matrix[:-1]
        found = {self.weight: _unordered(body, shape, order)}
        if self.bias is not None:
            found[self.bias] = _unordered(matrix[-1], like[self.bias].shape, self.bias_axes)
        return found


def _unordered(values: Array, shape: tuple[int, ...], order: tuple[int, ...]) -> Array:
    """The array of this shape whose axes in this order make up the values."""
    back = sorted(range(len(order)), key=lambda position: order[position])
    return values.reshape([shape[axis] for axis in order]).transpose(back)
