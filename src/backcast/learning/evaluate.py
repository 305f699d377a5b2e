"""A network in use: outputs for inputs of any number, and how well they explain targets."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Key, PyTree

from backcast.linalg import Precision, tree
from backcast.model import Batch, Likelihood, Model
from backcast.model.reduction import example_count, mean_score, over_entries, total_loss


@final
class Quality(NamedTuple):
    """Means over data.

    Attributes:
        loss: the mean loss, per example.
        score: the mean score, per entry; accuracy for classes.
    """

    loss: float
    score: float


def evaluate(model: Model, likelihood: Likelihood, batches: Iterable[Batch]) -> Quality:
    """The quality of the network's outputs on some data."""
    sums = [_sums(model, likelihood, batch) for batch in batches]
    loss, examples, score, entries = np.sum(jax.device_get(sums), axis=0, dtype=float)
    return Quality(float(loss / examples), float(score / entries))


def outputs(model: Model, x: PyTree, batch_size: int) -> Float[Array, "n ..."]:
    """The outputs for any number of inputs, computed in batches of one shape."""
    return _in_batches(lambda part: _outputs(model, part), x, batch_size)


def expected(
    model: Model,
    likelihood: Likelihood,
    precision: Precision,
    x: PyTree,
    keys: Key[Array, " samples"],
    batch_size: int,
) -> Float[Array, "n ..."]:
    """The likelihood's mean, averaged over weights drawn around the model's own.

    The network is taken as linear around them, ``f + J (theta - m)``: that is the model whose
    posterior has the Gauss-Newton matrix for a precision (Immer et al., 2021).
    """
    return _in_batches(
        lambda part: _expected(model, likelihood, precision, part, keys), x, batch_size
    )


def log_density(
    model: Model,
    likelihood: Likelihood,
    precision: Precision,
    x: PyTree,
    y: PyTree,
    keys: Key[Array, " samples"],
    batch_size: int,
) -> Float[Array, " n"]:
    """Each example's ``log E[p(y | f)]`` over weights drawn as in `expected`."""
    return _in_batches(
        lambda part: _log_density(model, likelihood, precision, part, keys), (x, y), batch_size
    )


def _in_batches(function: Callable[[PyTree], Array], x: PyTree, batch_size: int) -> Array:
    count = jax.tree.leaves(x)[0].shape[0]
    size = min(batch_size, count)
    parts = []
    for start in range(0, count, size):
        # The last batch reaches back, so that all have one shape and one compilation serves.
        begin = min(start, count - size)
        part = function(jax.tree.map(lambda leaf, b=begin: leaf[b : b + size], x))
        parts.append(part[start - begin :])
    return jnp.concatenate(parts)


@eqx.filter_jit
def _expected(
    model: Model,
    likelihood: Likelihood,
    precision: Precision,
    x: PyTree,
    keys: Key[Array, " samples"],
) -> Float[Array, "n ..."]:
    def add(total, key):
        return total + likelihood.mean(_drawn(model, precision, x, key)), None

    nothing = jnp.zeros_like(likelihood.mean(_outputs(model, x)))
    return lax.scan(add, nothing, keys)[0] / len(keys)


@eqx.filter_jit
def _log_density(
    model: Model,
    likelihood: Likelihood,
    precision: Precision,
    data: tuple[PyTree, PyTree],
    keys: Key[Array, " samples"],
) -> Float[Array, " n"]:
    x, y = data

    def add(total, key):
        outputs = _drawn(model, precision, x, key)
        losses = likelihood.loss(outputs.astype(tree.accumulator(outputs)), y)
        return jnp.logaddexp(total, -jnp.sum(losses.reshape(len(losses), -1), axis=1)), None

    count = jax.tree.leaves(x)[0].shape[0]
    nothing = jnp.full(count, -jnp.inf, tree.accumulator(_outputs(model, x)))
    return lax.scan(add, nothing, keys)[0] - jnp.log(len(keys))


def _drawn(
    model: Model, precision: Precision, x: PyTree, key: Key[Array, ""]
) -> Float[Array, "n ..."]:
    """The outputs of the linearised network for weights drawn around its own."""
    change = tree.cast_like(model.params, precision.sample(key))
    found, turned = jax.jvp(
        lambda params: model.apply(params, model.state, x)[0], (model.params,), (change,)
    )
    return found + turned


@eqx.filter_jit
def _outputs(model: Model, x: PyTree) -> Float[Array, "n ..."]:
    return model.apply(model.params, model.state, x)[0]


@eqx.filter_jit
def _sums(model: Model, likelihood: Likelihood, batch: Batch) -> tuple[Array, Array, Array, Array]:
    outputs = _outputs(model, batch.x)
    entries = jnp.sum(over_entries(batch.weights, outputs))
    return (
        total_loss(likelihood, outputs, batch.y, batch.weights),
        example_count(outputs, batch.weights),
        mean_score(likelihood, outputs, batch.y, batch.weights) * entries,
        entries,
    )
