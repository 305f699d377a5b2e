"""The compiled part of training: one step, and loops of steps that never wait for the host."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float, Int, Key, PyTree

from backcast.inference import Belief
from backcast.model import Batch, Likelihood, Model
from backcast.model.reduction import mean_score, total_loss


@final
class Weights(eqx.Module):
    """What training changes: the parameters, the network's state and the optimiser's."""

    params: PyTree
    state: PyTree
    optimizer: PyTree


@final
class Objective(eqx.Module):
    """``mean loss + anchoring * 1/2 (theta - m)^T P (theta - m)``, estimated from a batch.

    Attributes:
        model: the network, of which only the functions and the frozen arrays are used.
        likelihood: gives the loss.
        belief: ``N(m, P^-1)``.
        anchoring: 1, or ``1/N`` for a belief in units of examples.
        share: how many examples a batch stands for: ``N`` over the number of batches.
    """

    model: Model
    likelihood: Likelihood
    belief: Belief
    anchoring: Float[Array, ""]
    share: Float[Array, ""]

    def loss(
        self, params: PyTree, state: PyTree, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Float[Array, ""], tuple[Float[Array, ""], PyTree]]:
        """The mean loss; and the score and the network's state after the batch."""
        outputs, state = self.model.apply(params, state, batch.x, key=key, train=True)
        loss = total_loss(self.likelihood, outputs, batch.y, batch.weights) / self.share
        return loss, (mean_score(self.likelihood, outputs, batch.y, batch.weights), state)

    def penalty(self, params: PyTree) -> Float[Array, ""]:
        """``anchoring * 1/2 (theta - m)^T P (theta - m)``."""
        return self.anchoring * self.belief.penalty(params)

    def penalty_gradient(self, params: PyTree) -> PyTree:
        """``anchoring * P (theta - m)``: what of the gradient does not come from the task."""
        pull = self.belief.gradient(params)
        return jax.tree.map(lambda g: self.anchoring.astype(g.dtype) * g, pull)


EXCESS = 1e3
"""A loss that is so many times the first one, or 1, is of weights that have run away."""


@final
class Tally(NamedTuple):
    """What an epoch adds up: losses, scores, steps, and the first step that had diverged.

    Attributes:
        loss: the sum.
        score: the sum.
        steps: how many there were.
        diverged: the first step whose loss was above the limit or no number; -1 if none was.
        limit: `EXCESS` times the task's first loss or 1; infinite until that is known.
    """

    loss: Float[Array, ""]
    score: Float[Array, ""]
    steps: Int[Array, ""]
    diverged: Int[Array, ""]
    limit: Float[Array, ""]

    @classmethod
    def empty(cls, limit: float = math.inf) -> "Tally":
        """Nothing yet."""
        zero = jnp.zeros((), float)
        unknown = jnp.full((), -1, int)
        return cls(zero, zero.copy(), jnp.zeros((), int), unknown, jnp.full((), limit, float))

    def plus(self, loss: Float[Array, ""], score: Float[Array, ""]) -> "Tally":
        """With one more step."""
        loss = loss.astype(self.loss.dtype)
        first = EXCESS * jnp.maximum(jnp.abs(loss), 1)
        limit = jnp.where(jnp.isinf(self.limit), first, self.limit)
        # Of a loss that is no number nothing is true.
        fresh = ~(loss < limit) & (self.diverged < 0)
        return Tally(
            self.loss + loss,
            self.score + score.astype(self.score.dtype),
            self.steps + 1,
            jnp.where(fresh, self.steps, self.diverged),
            limit,
        )


@final
class Value:
    """The objective of one batch as optax asks for it; what of its gradient is not the task's.

    Attributes:
        penalty_gradient: the gradient of the penalty at some parameters.
    """

    def __init__(
        self,
        value: Callable[[PyTree], Float[Array, ""]],
        penalty_gradient: Callable[[PyTree], PyTree],
    ):
        """Take both as functions of the parameters."""
        self._value = value
        self.penalty_gradient = penalty_gradient

    def __call__(self, params: PyTree) -> Float[Array, ""]:
        """The value."""
        return self._value(params)


@final
class Run(eqx.Module):
    """What stays the same for all steps of an epoch."""

    objective: Objective
    optimizer: optax.GradientTransformationExtraArgs
    key: Key[Array, ""]

    def step(self, weights: Weights, tally: Tally, batch: Batch) -> tuple[Weights, Tally]:
        """One step of the optimiser."""
        key = jax.random.fold_in(self.key, tally.steps)

        def loss_of(params):
            return self.objective.loss(params, weights.state, batch, key)

        def value_of(params):
            loss = loss_of(params)[0]
            return loss + self.objective.penalty(params).astype(loss.dtype)

        # The penalty's gradient is known; a derivative taken of its value may cost twice as much.
        (loss, (score, state)), gradient = jax.value_and_grad(loss_of, has_aux=True)(weights.params)
        pull = self.objective.penalty_gradient(weights.params)
        gradient = jax.tree.map(lambda g, p: g + p.astype(g.dtype), gradient, pull)
        updates, optimizer = self.optimizer.update(
            gradient,
            weights.optimizer,
            weights.params,
            value=loss + self.objective.penalty(weights.params).astype(loss.dtype),
            grad=gradient,
            value_fn=Value(value_of, self.objective.penalty_gradient),
        )
        params = optax.apply_updates(weights.params, updates)
        return Weights(params, state, optimizer), tally.plus(loss, score)


def resident_epoch(
    run: Run,
    weights: Weights,
    tally: Tally,
    data: Batch,
    batch_size: int,
    key: Key[Array, ""],
    interval: int,
) -> Iterator[tuple[Weights, Tally]]:
    """An epoch over data that is on the device, by compiled loops of ``interval`` steps.

    The order is random. Where the batch size does not divide the number of examples, the last batch
    is filled up with the first examples of the order.
    """
    count = jax.tree.leaves(data.x)[0].shape[0]
    steps = -(-count // batch_size)
    order = _order(key, count, steps * batch_size).reshape(steps, batch_size)
    for start in range(0, steps, interval):
        span = jnp.asarray([start, min(start + interval, steps)])
        weights, tally = _loop((run, data, order, span), weights, tally)
        yield weights, tally


def streamed_epoch(
    run: Run, weights: Weights, tally: Tally, batches: Iterator[Batch], interval: int
) -> Iterator[tuple[Weights, Tally]]:
    """An epoch over batches as they come, looked at every ``interval`` steps and at the end."""
    for index, batch in enumerate(batches):
        weights, tally = _single((run, batch), weights, tally)
        if (index + 1) % interval == 0:
            yield weights, tally
    yield weights, tally


@eqx.filter_jit
def _order(key: Key[Array, ""], count: int, length: int) -> Int[Array, " length"]:
    return jnp.resize(jax.random.permutation(key, count), (length,))


# The belief, with its factor, is among what is kept; only weights and tally change hands.
@eqx.filter_jit(donate="all-except-first")
def _loop(
    kept: tuple[Run, Batch, Int[Array, "steps b"], Int[Array, "2"]],
    weights: Weights,
    tally: Tally,
) -> tuple[Weights, Tally]:
    run, data, order, span = kept

    def body(index, carried):
        batch = jax.tree.map(lambda x: x[order[index]], data)
        return run.step(carried[0], carried[1], batch)

    return lax.fori_loop(span[0], span[1], body, (weights, tally))


@eqx.filter_jit(donate="all-except-first")
def _single(kept: tuple[Run, Batch], weights: Weights, tally: Tally) -> tuple[Weights, Tally]:
    run, batch = kept
    return run.step(weights, tally, batch)
