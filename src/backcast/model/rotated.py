"""The curvature of a task in each layer's own eigenbases, with exact second moments in these.

An example's gradient of a layer's weight is a matrix ``M``: the sum over all places in which the
weight is used of ``a g^T``, with the inputs ``a`` and the gradients ``g`` of the products. The
layer's part of the GGN is ``H = E[sum vec(M) vec(M)^T]``, summed over the outputs, and its partial
traces are

    L = E[sum M M^T],    R = E[sum M^T M].

Their eigenvectors ``u_i``, ``v_j`` are the bases (those of Shampoo; Gupta, Koren and Singer 2018,
Vyas et al. 2024), and the eigenvalues ``E[sum (u_i^T M v_j)^2]`` are the exact diagonal of ``H``
in them (George et al. 2018). Nothing is approximated but that ``H`` is not diagonal there.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Key, PyTree

from backcast.linalg import checks, tree
from backcast.linalg.blocks import Block
from backcast.linalg.eigenbases import coordinates, expanded, folded, shares
from backcast.linalg.rotated import Rotated
from backcast.model.batch import Batch
from backcast.model.ggn_means import check_batches
from backcast.model.layer_gradients import blocks_of, diagonal_elsewhere, passage
from backcast.model.layers import Use
from backcast.model.likelihood import Likelihood
from backcast.model.network import Model
from backcast.model.output_root import Fisher, output_root

WIDEST = 4096
"""The longest side whose partial trace is decomposed as a whole."""

_SPARE, _ROUNDS = 10, 2  # how the leading directions of a longer side are looked for

Pair = tuple[Any, Any]
"""Something for the rows of a layer, and for its columns."""


@final
class RotatedCurvature(eqx.Module):
    """What a task tells about the parameters, layer by layer.

    Attributes:
        precision: the eigenvalues and bases, and the exact diagonal for what is in no layer.
        examples: how many examples ``N`` the mean is over.
    """

    precision: Rotated
    examples: Float[Array, ""]


def rotated_ggn(
    model: Model,
    likelihood: Likelihood,
    batches: Iterable[Batch],
    *,
    key: Key[Array, ""],
    fisher: Fisher = "exact",
    rank: int | None = None,
) -> RotatedCurvature:
    """The GGN of the mean loss at the model's parameters, diagonal in each layer's eigenbases.

    Args:
        model: the network, at the parameters and the state wanted.
        likelihood: the likelihood of the targets.
        batches: batches of examples, as for `backcast.ggn`; gone through at least twice.
        key: randomness for sampled targets, and for where to look in very wide layers.
        fisher: ``"exact"`` follows a gradient for every output; ``"sampled"`` and ``"empirical"``
            one for every example, at targets drawn from the model or at its own.
        rank: how many directions to keep on each side of a layer; all of them if None.

    Raises:
        ValueError: a layer is too wide for all of its directions, or the curvature is not finite.
    """
    checks.parameters(model.params)
    examples = check_batches(model, likelihood, batches).examples
    blocks = blocks_of(model, next(iter(batches)).x)
    refuse_wide(model.params, blocks, rank)
    given = model, likelihood, fisher, key

    def walk(total, add, extra):
        for index, batch in enumerate(batches):
            total = add(total, extra, batch, *given, np.uint32(index))
        return total

    bases = _bases(model, blocks, rank, walk, key)
    kind = tree.accumulator(model.params)
    nothing = [jnp.zeros(tuple(map(_entries, pair)), kind) for pair in bases]
    squares = walk(nothing, _add_squares, bases)
    diag = diagonal_elsewhere(model, likelihood, batches, examples, blocks, fisher, key)
    precision = _precision(diag, bases, squares, blocks, examples)
    return RotatedCurvature(precision, examples)


def refuse_wide(params: PyTree, blocks: Iterable[Block], rank: int | None) -> None:
    """Refuse layers with a side that is too long for all of its directions."""
    names, leaves = tree.names(params), jax.tree.leaves(params)
    for block in blocks:
        sides = block.shape(leaves)
        if any(s > WIDEST and (rank is None or 2 * rank + _SPARE > s) for s in sides):
            raise ValueError(
                f"Layer '{names[block.weight]}' is a matrix of {sides[0]} x {sides[1]}, too wide "
                f"for an eigendecomposition of its sides (at most {WIDEST}). Keep their leading "
                "directions only, such as rank=100, or choose another structure."
            )


def _entries(directions: Array) -> int:
    """How many eigenvalues a side has in the reduced form of `Eigenbases`."""
    stored, size = directions.shape
    return min(stored + 1, size)


Walk = Callable[[list[Any], Callable[..., list[Any]], list[Pair]], list[Any]]
"""Adds something up over all batches: from where, by what, and what that is given."""


def _bases(
    model: Model, blocks: tuple[Block, ...], rank: int | None, walk: Walk, key: Key[Array, ""]
) -> list[Pair]:
    """The leading eigenvectors of both partial traces of each layer.

    Those of a very long side are found by subspace iteration, so that its trace is never formed.
    """
    leaves, kind = jax.tree.leaves(model.params), tree.accumulator(model.params)
    shapes = [block.shape(leaves) for block in blocks]
    keys = jax.random.split(key, (len(shapes), 2))
    probes: list[Pair] = [
        (_probe(m, rank, one, kind), _probe(n, rank, other, kind))
        for (m, n), (one, other) in zip(shapes, keys, strict=True)
    ]
    sizes = [
        (m if p is None else len(p), n if q is None else len(q))
        for (m, n), (p, q) in zip(shapes, probes, strict=True)
    ]
    nothing = [
        (jnp.zeros((m, p), kind), jnp.zeros((n, q), kind))
        for (m, n), (p, q) in zip(shapes, sizes, strict=True)
    ]
    images = walk(nothing, _add_images, probes)
    for _ in range(_ROUNDS if jax.tree.leaves(probes) else 0):
        probes = _advanced(probes, images)
        images = walk(nothing, _add_images, probes)
    checks.finite(
        images,
        "The curvature",
        "The network's outputs or their derivatives are not finite at these parameters: look at "
        "the inputs and at the fit.",
    )
    return _directions(probes, images, rank)


def _probe(size: int, rank: int | None, key: Key[Array, ""], kind: jnp.dtype) -> Array | None:
    """Where to look for the leading directions of a long side; None to look everywhere."""
    if size <= WIDEST or rank is None:
        return None
    return jnp.linalg.qr(jax.random.normal(key, (size, rank + _SPARE), kind))[0].T


@eqx.filter_jit
def _advanced(probes: list[Pair], images: list[Pair]) -> list[Pair]:
    """The probes, turned towards the leading directions."""

    def advanced(probe, image):
        return None if probe is None else jnp.linalg.qr(image)[0].T

    return [tuple(map(advanced, *each)) for each in zip(probes, images, strict=True)]


@eqx.filter_jit
def _directions(probes: list[Pair], images: list[Pair], rank: int | None) -> list[Pair]:
    """The leading eigenvectors of the partial traces, within the probes if there are any."""

    def directions(probe, image):
        small = image if probe is None else probe @ image
        rows = jnp.linalg.eigh((small + small.T) / 2)[1].T[::-1][:rank]
        return rows if probe is None else rows @ probe

    with jax.default_matmul_precision("highest"):
        return [tuple(map(directions, *each)) for each in zip(probes, images, strict=True)]


@eqx.filter_jit
def _add_images(total: list[Pair], probes: list[Pair], *examples: Any) -> list[Pair]:
    """Add the partial traces, times the probes if there are any."""

    def image(x, probe):
        return x.T @ (x if probe is None else x @ probe.T)

    def add(total, probes, a, g):
        if a.shape[1] == 1:
            a, g = a[:, 0], g[:, 0]
            lengths = (jnp.linalg.norm(x, axis=1, keepdims=True) for x in (g, a))
            sides = [x * length for x, length in zip((a, g), lengths, strict=True)]
            return tuple(t + image(x, p) for t, x, p in zip(total, sides, probes, strict=True))

        def add_matrix(total, example):
            a, g = example
            sides = g.T @ a, a.T @ g
            more = tuple(t + image(x, p) for t, x, p in zip(total, sides, probes, strict=True))
            return more, None

        return lax.scan(add_matrix, total, (a, g))[0]

    return _over_columns(total, add, probes, *examples)


@eqx.filter_jit
def _add_squares(total: list[Array], bases: list[Pair], *examples: Any) -> list[Array]:
    """Add the squares of the gradients' coordinates, in the reduced form of `Eigenbases`."""

    def add(total, bases, a, g):
        left, right = bases
        if a.shape[1] == 1:
            return total + shares(left, a[:, 0].T) @ shares(right, g[:, 0].T).T

        def add_matrix(total, example):
            a, g = example
            turned = coordinates(left, a.T) @ coordinates(right, g.T).T
            return total + folded(right, folded(left, turned**2).T).T, None

        return lax.scan(add_matrix, total, (a, g))[0]

    return _over_columns(total, add, bases, *examples)


def _over_columns(
    total: list[Any],
    add: Callable[..., Any],
    extra: list[Pair],
    batch: Batch,
    model: Model,
    likelihood: Likelihood,
    fisher: Fisher,
    key: Key[Array, ""],
    index: Array | np.uint32,
) -> list[Any]:
    """Add something for each layer, from its inputs and, output by output, their gradients."""
    with jax.default_matmul_precision("highest"):
        seen = passage(model, batch.x)
        root = output_root(likelihood, seen.outputs, batch, fisher, jax.random.fold_in(key, index))
        count = len(jax.tree.leaves(batch.x)[0])
        inputs = _by_layer(seen.uses, seen.rows, count)

        def step(total, column):
            gradients = _by_layer(seen.uses, seen.gradients(root.column(column)), count)
            return [add(*each) for each in zip(total, extra, inputs, gradients, strict=True)], None

        return lax.scan(step, total, jnp.arange(root.column_count))[0]


def _by_layer(uses: Sequence[Use], values: list[Array], count: int) -> list[Array]:
    """What each layer has, for each example in each of all places in which it is used."""
    found: dict[Block, list[Array]] = {}
    for use, part in zip(uses, values, strict=True):
        found.setdefault(use.block, []).append(use.by_example(part, count))
    return [jnp.concatenate(parts, axis=1) for parts in found.values()]


@eqx.filter_jit
def _precision(
    diag: PyTree,
    bases: list[Pair],
    squares: list[Array],
    blocks: tuple[Block, ...],
    examples: Array,
) -> Rotated:
    leaves, structure = jax.tree.flatten(diag)
    for block, reduced in zip(blocks, squares, strict=True):
        values = expanded(reduced / examples.astype(reduced.dtype), *block.shape(leaves))
        for index, part in block.scatter(values, leaves).items():
            leaves[index] = part
    left, right = (tuple(pair[side] for pair in bases) for side in (0, 1))
    return Rotated(jax.tree.unflatten(structure, leaves), left, right, blocks)
