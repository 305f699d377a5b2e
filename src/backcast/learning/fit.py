"""Mode finding: train on a task with the belief as a quadratic regulariser (paper, eq. 6)."""

import math
from dataclasses import dataclass
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key, PyTree

from backcast.inference import Belief
from backcast.learning.evaluate import evaluate, outputs
from backcast.learning.examples import ArrayExamples, Examples, prefetched
from backcast.learning.progress import Progress
from backcast.learning.steps import (
    EXCESS,
    Objective,
    Run,
    Tally,
    Weights,
    resident_epoch,
    streamed_epoch,
)
from backcast.model import Batch, GaussianLearnedNoise, Likelihood, Model


class DivergedError(ValueError):
    """Training has left all sensible numbers; the belief is as it was before the problem."""


@final
@dataclass(frozen=True)
class Training:
    """How to train on a problem.

    Attributes:
        epochs: how often to go through the examples, at most.
        batch_size: how many examples a step uses; batches of a stream are taken as they come.
        patience: stop when the loss on validation data has not fallen for so many epochs, and go
            back to the best one. Needs validation data.
        restart: whether each task starts with a fresh state of the optimiser, and so with the
            learning-rate schedule from its beginning.
        resident_bytes: arrays that take no more memory than this are put on the device as a whole
            and trained on by compiled loops; larger ones are fed to it batch by batch.
    """

    epochs: int = 10
    batch_size: int = 128
    patience: int | None = None
    restart: bool = True
    resident_bytes: int = 2**31

    def __post_init__(self):
        """Refuse what cannot be trained by."""
        for name in ("epochs", "batch_size", "patience"):
            value = getattr(self, name)
            if name == "patience" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number >= 1, but {value!r} was given.")


@final
class Fitted(eqx.Module):
    """A task that was trained on.

    Attributes:
        weights: the parameters at the mode, the network's state, and the optimiser's.
        likelihood: the likelihood, with what it learned itself.
        losses: the mean loss of every epoch, without the penalty.
        held_out: the mean loss on the validation data after every epoch, if there are any.
        epoch: the epoch that the weights are from, counted from 1.
    """

    weights: Weights
    likelihood: Likelihood
    losses: list[float]
    held_out: list[float]
    epoch: int


@final
class Problem(eqx.Module):
    """What a task is trained on, and from where.

    Attributes:
        model: the network, with the parameters and state to start from.
        likelihood: gives the loss.
        belief: what to stay close to.
        anchoring: what the penalty is multiplied by: 1, or ``1/N`` for a belief in units of
            examples.
        examples: the data.
        validation: data to stop early by, or None.
        optimizer_state: the optimiser's state to go on with, or None for a fresh one.
    """

    model: Model
    likelihood: Likelihood
    belief: Belief
    anchoring: float
    examples: Examples
    validation: Examples | None = None
    optimizer_state: PyTree = None


def fit(
    problem: Problem,
    optimizer: optax.GradientTransformation,
    training: Training,
    progress: Progress,
    key: Key[Array, ""],
) -> Fitted:
    """Train to the mode ``argmin mean loss + anchoring * penalty``.

    Args:
        problem: the data and the belief.
        optimizer: any optax optimiser.
        training: how long, and in what steps.
        progress: is told how it goes.
        key: shuffles, and drives dropout.

    Raises:
        DivergedError: the loss is not finite any more, or has grown out of all proportion.
    """
    if training.patience is not None and problem.validation is None:
        raise ValueError(
            "patience needs validation data to stop by: give observe(..., validation=(x, y)), or "
            "leave patience out."
        )
    optimizer = optax.with_extra_args_support(optimizer)
    weights, data = _start(problem, optimizer), _resident(problem.examples, training)
    likelihood = problem.likelihood
    best = Fitted(weights, likelihood, [], [], 0)
    losses, held_out, limit = [], [], math.inf
    for epoch in range(training.epochs):
        step_key, shuffle_key = jax.random.split(jax.random.fold_in(key, epoch))
        run = Run(_objective(problem, likelihood), optimizer, step_key)
        tally = Tally.empty(limit)
        weights, tally = _epoch(
            run, weights, tally, problem.examples, data, shuffle_key, epoch, progress
        )
        limit = float(tally.limit)
        losses.append(float(tally.loss / tally.steps))
        model = problem.model.with_params(weights.params, weights.state)
        if isinstance(likelihood, GaussianLearnedNoise):
            likelihood = _relearned(likelihood, model, problem.examples)
        if problem.validation is not None:
            held_out.append(_validated(model, likelihood, problem.validation, epoch))
        if training.patience is None:
            best = Fitted(weights, likelihood, losses, held_out, epoch + 1)
        elif held_out[-1] < min(held_out[:-1], default=math.inf):
            kept = jax.tree.map(jnp.copy, weights)
            best = Fitted(kept, likelihood, losses, held_out, epoch + 1)
        elif epoch + 1 - best.epoch >= training.patience:
            break
    return best


def _validated(model: Model, likelihood: Likelihood, examples: Examples, epoch: int) -> float:
    loss = evaluate(model, likelihood, examples.batches()).loss
    if not math.isfinite(loss):
        raise DivergedError(
            f"Training diverged: the validation loss is not finite after epoch {epoch + 1}. "
            "Lower the learning rate or the strength."
        )
    return loss


def _start(problem: Problem, optimizer: optax.GradientTransformationExtraArgs) -> Weights:
    model, carried = problem.model, problem.optimizer_state
    state = optimizer.init(model.params) if carried is None else carried
    # The steps give their buffers away. These are still the caller's, and optimisers may hold some
    # of them twice.
    return jax.tree.map(jnp.copy, Weights(model.params, model.state, state))


def _resident(examples: Examples, training: Training) -> Batch | None:
    if isinstance(examples, ArrayExamples) and examples.bytes <= training.resident_bytes:
        return jax.device_put(examples.data)
    return None


def _objective(problem: Problem, likelihood: Likelihood) -> Objective:
    # The share makes the batches of an epoch add up to the whole data, weights and all.
    return Objective(
        problem.model.with_params(None, None),
        likelihood,
        problem.belief,
        jnp.asarray(problem.anchoring, float),
        jnp.asarray(
            problem.examples.total * problem.examples.batch_size / problem.examples.count, float
        ),
    )


def _epoch(
    run: Run,
    weights: Weights,
    tally: Tally,
    examples: Examples,
    data: Batch | None,
    key: Key[Array, ""],
    epoch: int,
    progress: Progress,
) -> tuple[Weights, Tally]:
    """One epoch: the weights after it and what it adds up to."""
    if data is None:
        batches = prefetched(examples.batches(key))
        looks = streamed_epoch(run, weights, tally, batches, progress.interval)
    else:
        looks = resident_epoch(
            run, weights, tally, data, examples.batch_size, key, progress.interval
        )
    for weights_now, tally_now in looks:
        _refuse_divergence(tally_now, epoch)
        weights, tally = weights_now, tally_now
        done = epoch * examples.steps + int(tally.steps)
        progress.look(done, float(tally.loss / tally.steps), float(tally.score / tally.steps))
    return weights, tally


def _refuse_divergence(tally: Tally, epoch: int) -> None:
    step = int(tally.diverged)
    if step >= 0:
        finite = math.isfinite(float(tally.loss))
        words = f"above {EXCESS:g} times what it was" if finite else "not finite"
        raise DivergedError(
            f"Training diverged: the loss is {words} in step {step + 1} of epoch {epoch + 1}. "
            "Lower the learning rate or the strength, or clip the gradient: "
            "optax.chain(optax.clip_by_global_norm(1.0), ...)."
        )


def _relearned(likelihood: Likelihood, model: Model, examples: Examples) -> Likelihood:
    parts = [
        (outputs(model, batch.x, examples.batch_size), batch.y, batch.weights)
        for batch in examples.batches()
    ]
    return likelihood.fitted(*jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts))
