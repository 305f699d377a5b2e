"""Random precisions of every structure, each with its exact twin."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from backcast.linalg import DiagLowRank, Precision
from linalg.devices import place
from oracles import Exact

# Trees of different nesting, with scalars, and leaves that four devices divide or do not.
SPACES = {
    "flat": {"w": (4,), "b": (1, 2)},
    "nested": {"layer": {"kernel": (2, 4), "bias": ()}},
    "sequence": [(3,), (2, 1, 2)],
}


def flatten(tree) -> np.ndarray:
    """A vector as one float64 array."""
    leaves = [np.ravel(np.asarray(x, np.float64)) for x in jax.tree.leaves(tree)]
    return np.concatenate(leaves)


def unflatten(space, values: np.ndarray):
    """An array of shape ``(..., D)`` as leaves of shape ``(..., *shape)``, on the devices."""
    shapes, structure = jax.tree.flatten(space, is_leaf=lambda x: isinstance(x, tuple))
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    lead = values.shape[:-1]
    parts = np.split(values, ends, axis=-1)
    leaves = [
        jnp.asarray(part.reshape(lead + shape)) for part, shape in zip(parts, shapes, strict=True)
    ]
    return place(jax.tree.unflatten(structure, leaves), spare=len(lead))


def size(space) -> int:
    shapes = jax.tree.leaves(space, is_leaf=lambda x: isinstance(x, tuple))
    return sum(math.prod(shape) for shape in shapes)


@dataclass(frozen=True)
class Draw:
    """A source of numbers over 16 orders of magnitude, or fewer."""

    rng: np.random.Generator
    spread: float
    dtype: type

    def positive(self, *shape: int) -> np.ndarray:
        return (10 ** self.rng.uniform(-self.spread, self.spread, shape)).astype(self.dtype)

    def signed(self, *shape: int) -> np.ndarray:
        return self.positive(*shape) * self.rng.choice([-1, 1], shape).astype(self.dtype)

    def with_zeros(self, *shape: int) -> np.ndarray:
        return self.positive(*shape) * (self.rng.random(shape) > 0.2)

    def factor(self, rank: int, columns: int) -> np.ndarray:
        """Rows badly scaled by entry, row or column, or nearly parallel; some are zero."""
        normal = self.rng.standard_normal((rank, columns))
        if self.rng.random() < 0.25:
            return self.signed(rank, columns)
        if self.rng.random() < 0.33:
            # Rows that differ by less than their own rounding would test the input alone.
            closest = np.log10(np.finfo(self.dtype).eps) / 2
            apart = 10 ** self.rng.uniform(closest, 0, (rank, 1))
            normal = self.rng.standard_normal((1, columns)) + apart * normal
            return (normal * self.positive(1, 1)).astype(self.dtype)
        scale = self.with_zeros(rank, 1) if self.rng.random() < 0.5 else self.positive(1, columns)
        return (normal * scale).astype(self.dtype)


@st.composite
def draws(draw, dtype: type) -> Draw:
    seed = draw(st.integers(0, 2**32 - 1))
    return Draw(np.random.default_rng(seed), draw(st.sampled_from([0, 2, 8])), dtype)


@dataclass(frozen=True)
class Structure:
    """How to make a random precision of one structure.

    ``make`` takes a source of numbers, a space, a rank and whether the precision may be singular.
    """

    name: str
    ranks: tuple[int, ...]
    make: Callable[[Draw, object, int, bool], tuple[Precision, Exact]]


def diag_low_rank(draw: Draw, space, rank: int, singular: bool) -> tuple[DiagLowRank, Exact]:
    D = size(space)
    d = draw.with_zeros(D) if singular else draw.positive(D)
    W = draw.factor(rank, D)
    exact = Exact.diag_low_rank(d.astype(float), W.astype(float))
    return DiagLowRank(unflatten(space, d), unflatten(space, W)), exact


STRUCTURES = [Structure("DiagLowRank", (0, 3, 12), diag_low_rank)]


@functools.cache
def jitted(operation: Callable) -> Callable:
    return jax.jit(operation)
