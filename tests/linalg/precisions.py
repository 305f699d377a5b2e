"""Random precisions of every structure, each with its exact twin."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
from hypothesis import strategies as st

from backcast.linalg import Block, DiagLowRank, Precision, Rotated
from linalg.devices import place
from oracles import DIGITS, Exact

# Trees of different nesting, with scalars, and leaves that four devices divide or do not.
SPACES = {
    "flat": {"w": (4,), "b": (1, 2)},
    "nested": {"layer": {"kernel": (2, 4), "bias": ()}},
    "sequence": [(3,), (2, 1, 2)],
    "biased": {"layer": {"bias": (2,), "kernel": (2, 2)}},
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

    ``spaces`` has the ranks to try, and where. ``make`` takes a source of numbers, a space, a rank
    and whether the precision may be singular.
    ``noise`` takes a source and a space, and gives process noise that the structure can follow.
    """

    name: str
    spaces: dict[int, str]
    make: Callable[[Draw, object, int, bool], tuple[Precision, Exact]]
    noise: Callable[[Draw, object], np.ndarray]


def diag_low_rank(draw: Draw, space, rank: int, singular: bool) -> tuple[DiagLowRank, Exact]:
    D = size(space)
    d = draw.with_zeros(D) if singular else draw.positive(D)
    W = draw.factor(rank, D)
    exact = Exact.diag_low_rank(d.astype(float), W.astype(float))
    return DiagLowRank(unflatten(space, d), unflatten(space, W)), exact


def noise_of_each_weight(draw: Draw, space) -> np.ndarray:
    return draw.with_zeros(size(space))


LAYERS = {"biased": Block(1, (0,), (1,), 0, (0,))}


def layer_of(space) -> tuple[Block, np.ndarray]:
    """The layer of a space, and where in a flat vector the entries of its matrix are."""
    block = LAYERS[next(name for name, other in SPACES.items() if other == space)]
    positions = unflatten(space, np.arange(size(space), dtype=np.float32))
    return block, np.asarray(block.gather(jax.tree.leaves(positions)), int)


def rotated(draw: Draw, space, rank: int, singular: bool) -> tuple[Rotated, Exact]:
    """Eigenvalues between bases that all draws from a space share, so that sums are exact.

    No two rows or columns of them have the same sum, unless they are zero: a sum of such has bases
    that its partial traces determine.
    """
    block, places = layer_of(space)
    D, (m, n) = size(space), places.shape
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.standard_normal((k, k)))[0] for k in (m, n))
    d = draw.positive(D) * draw.rng.uniform(1, 2, D).astype(draw.dtype)
    if singular:
        d[np.setdiff1d(np.arange(D), places)] *= draw.rng.random() > 0.2
        d[places[draw.rng.random(m) < 0.2]] = 0
    d[places[rank:]] = d[places[rank : rank + 1]]
    d[places[:, rank:]] = d[places[:, rank : rank + 1]]
    turn, floor = np.eye(D), d.astype(float)
    turn[np.ix_(places.ravel(), places.ravel())] = np.kron(u.T, v.T)
    floor[places] = floor[places].min()
    with mpmath.workdps(DIGITS):
        R = mpmath.matrix(turn.tolist())
        exact = Exact(R * mpmath.diag(d.astype(float).tolist()) * R.T, floor)
    bases = ((jnp.asarray(x[:rank], draw.dtype),) for x in (u, v))
    return Rotated(unflatten(space, d), *bases, (block,)), exact


def noise_of_each_layer(draw: Draw, space) -> np.ndarray:
    q = draw.with_zeros(size(space))
    places = layer_of(space)[1]
    q[places] = q[places[0, 0]]
    return q


STRUCTURES = [
    Structure(
        "DiagLowRank",
        {0: "sequence", 3: "nested", 12: "flat"},
        diag_low_rank,
        noise_of_each_weight,
    ),
    Structure("Rotated", {1: "biased"}, rotated, noise_of_each_layer),
]


@functools.cache
def jitted(operation: Callable) -> Callable:
    return jax.jit(operation)
