"""The curvature of a task as Kronecker products in each layer (K-FAC; Martens and Grosse 2015).

For a weight that multiplies rows ``a`` and whose products get the gradients ``g``,

    H ~ E[a a^T] x E[sum g g^T],

with the first mean over all places in which the weight is used and the second sum over the places
of an example: exact for one place and gradients that do not depend on the inputs, and for
convolutions the factors of Grosse and Martens (2016).
"""

from collections.abc import Iterable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from backcast.linalg import checks, tree
from backcast.linalg.blocks import Block
from backcast.linalg.kronecker import Kronecker
from backcast.model.batch import Batch
from backcast.model.ggn_means import check_batches
from backcast.model.layer_gradients import diagonal_elsewhere, layers_of, passage
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
    layers = layers_of(model, next(iter(batches)).x)
    sums = _nothing(model, layers)
    for index, batch in enumerate(batches):
        sums = _add_sums(sums, model, likelihood, batch, fisher, key, np.uint32(index))
    blocks = tuple(layers)
    places = np.array(list(layers.values()), float)
    left = tuple((a / (examples * n))[None] for a, n in zip(sums.left, places, strict=True))
    right = tuple((g / examples)[None] for g in sums.right)
    diag = diagonal_elsewhere(model, likelihood, batches, examples, blocks, fisher, key)
    precision = Kronecker(diag, left, right, blocks)
    checks.finite(
        precision,
        "The curvature",
        "The network's outputs or their derivatives are not finite at these parameters: look at "
        "the inputs and at the fit.",
    )
    return KroneckerCurvature(precision, examples)


def _nothing(model: Model, blocks: Iterable[Block]) -> _Sums:
    leaves, kind = jax.tree.leaves(model.params), tree.accumulator(model.params)
    shapes = [block.shape(leaves) for block in blocks]
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
    with jax.default_matmul_precision("highest"):
        seen = passage(model, batch.x)
        root = output_root(likelihood, seen.outputs, batch, fisher, jax.random.fold_in(key, index))
        weights = _example_weights(seen.outputs, batch)
        order = list(dict.fromkeys(use.block for use in seen.uses))

        def add_column(right, column):
            right = list(right)
            for use, g in zip(seen.uses, seen.gradients(root.column(column)), strict=True):
                where = order.index(use.block)
                right[where] += (g.T @ g).astype(right[where].dtype)
            return right, None

        left = list(sums.left)
        for use, a in zip(seen.uses, seen.rows, strict=True):
            where = order.index(use.block)
            weighted = a * use.spread(weights).astype(a.dtype)[:, None]
            left[where] += (weighted.T @ a).astype(left[where].dtype)
        right, _ = jax.lax.scan(add_column, list(sums.right), jnp.arange(root.column_count))
    return _Sums(left, right)


def _example_weights(outputs: Array, batch: Batch) -> Float[Array, " n"]:
    weights = over_entries(batch.weights, outputs)
    return jnp.max(weights, axis=tuple(range(1, weights.ndim)))
