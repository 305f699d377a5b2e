"""A network for one task, ready to use; and the models of all tasks, smoothed."""

from collections.abc import Iterator
from typing import Any, final, overload

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from backcast.inference import Belief, smooth_backwards
from backcast.inference.smoothing import Smoothed
from backcast.learning.evaluate import evaluate, expected, log_density, outputs
from backcast.learning.examples import as_examples
from backcast.learning.trajectory import Trajectory
from backcast.linalg import Remainder, checks
from backcast.model import Batch, Likelihood, Model
from backcast.model.door import check_batch, check_finite, output_shape


@final
class TaskModel(eqx.Module):
    """A network with the weights, state and likelihood of one task.

    Attributes:
        model: the network.
        likelihood: what its outputs mean.
        name: the task's name.
    """

    model: Model
    likelihood: Likelihood
    name: str = eqx.field(static=True)

    def outputs(self, x: Any, batch_size: int = 1024) -> Float[Array, "n ..."]:
        """What the network returns, such as logits; computed batch by batch."""
        return outputs(self.model, self._checked(x), batch_size)

    def predict(self, x: Any, batch_size: int = 1024) -> Array:
        """The one target to bet on for each input."""
        return self.likelihood.predict(self.outputs(x, batch_size))

    def predict_proba(self, x: Any, batch_size: int = 1024) -> Array:
        """The probabilities of the classes; for other likelihoods, the expected target."""
        return self.likelihood.mean(self.outputs(x, batch_size))

    def expected(
        self, x: Any, belief: Belief, *, samples: int = 64, seed: int = 0, batch_size: int = 1024
    ) -> Array:
        """`predict_proba`, averaged over a belief about the weights instead of at its mean only.

        It tells where the weights are not known well enough to be sure, if the belief is in units
        of examples (``scale="examples"``). The network is taken as linear around its weights.

        Args:
            x: inputs.
            belief: such as ``learner.belief``, or ``learner.smooth().belief(task)``.
            samples: how many weights to draw.
            seed: what they are drawn by.
            batch_size: how many inputs to look at together.
        """
        x = self._checked(x)
        checks.same_tree(self.model.params, belief.mean, "The belief")
        keys = jax.random.split(jax.random.key(seed), samples)
        return expected(self.model, self.likelihood, belief.precision, x, keys, batch_size)

    def predictive_loss(
        self,
        x: Any,
        y: Any,
        belief: Belief,
        *,
        samples: int = 64,
        seed: int = 0,
        batch_size: int = 1024,
    ) -> float:
        """The mean of ``-log E[p(y | x, theta)]`` over a belief about the weights.

        For data that the belief knows nothing of yet, such as those of the next task before it is
        observed, it tells how well they were foreseen: noise and strength can be chosen by it.

        Arguments as in `expected`.
        """
        x, y = self._checked(x), jax.tree.map(np.asarray, y)
        checks.same_tree(self.model.params, belief.mean, "The belief")
        check_batch(self.model, self.likelihood, Batch(x, y, None))
        keys = jax.random.split(jax.random.key(seed), samples)
        found = log_density(self.model, self.likelihood, belief.precision, x, y, keys, batch_size)
        return float(-np.mean(np.asarray(found, float)))

    def score(self, x: Any, y: Any = None, weights: Any = None, batch_size: int = 1024) -> float:
        """The mean score: accuracy for classes, and otherwise as the likelihood has it.

        Arguments as in `Learner.observe`: arrays, or a stream of batches.
        """
        return self._quality(x, y, weights, batch_size).score

    def loss(self, x: Any, y: Any = None, weights: Any = None, batch_size: int = 1024) -> float:
        """The mean negative log-likelihood of the targets."""
        return self._quality(x, y, weights, batch_size).loss

    def unwrap(self) -> Any:
        """The network as the user's own kind of object."""
        return self.model.unwrap()

    def _checked(self, x: Any) -> PyTree:
        x = jax.tree.map(np.asarray, x, is_leaf=lambda leaf: isinstance(leaf, list))
        check_finite(x)
        output_shape(self.model, x)
        return x

    def _quality(self, x: Any, y: Any, weights: Any, batch_size: int):
        examples = as_examples(
            x, y, weights, batch_size, lambda batch: check_batch(self.model, self.likelihood, batch)
        )
        return evaluate(self.model, self.likelihood, examples.batches())


@final
class SmoothedModels:
    """One model for every task, each informed by all tasks there were when it was made.

    Smoothing goes from the last task to the first and no further than the models asked for. It
    holds two records at a time and keeps the models it has made: one vector of parameters each.
    Precisions are as large as the records themselves, so they are not kept: `beliefs` passes once
    more and gives them one by one.
    """

    def __init__(
        self, model: Model, trajectory: Trajectory, rank: int | None, remainder: Remainder
    ):
        """Take what there is to smooth, and how large a message from the future may be."""
        self._model = model
        self._trajectory = trajectory.snapshot()
        self._rank = rank
        self._remainder: Remainder = remainder
        self._made: list[TaskModel] = []
        self._remaining = self._backwards()

    def __len__(self) -> int:
        """The number of tasks."""
        return len(self._trajectory)

    @overload
    def __getitem__(self, index: int) -> TaskModel: ...
    @overload
    def __getitem__(self, index: slice) -> list[TaskModel]: ...
    def __getitem__(self, index: int | slice) -> TaskModel | list[TaskModel]:
        """The model of a task."""
        if isinstance(index, slice):
            return [self[task] for task in range(*index.indices(len(self)))]
        back = len(self) - 1 - range(len(self))[index]
        while len(self._made) <= back:
            try:
                self._made.append(next(self._remaining)[0])
            except BaseException:
                # A generator that has failed is over: the next attempt is a new one.
                self._made, self._remaining = [], self._backwards()
                raise
        if len(self._made) == len(self):
            self._remaining = iter(())
        return self._made[back]

    def __iter__(self) -> Iterator[TaskModel]:
        """The models, from the first task to the last."""
        return (self[task] for task in range(len(self)))

    def belief(self, index: int) -> Belief:
        """The smoothed belief of one task: its mean and its precision."""
        wanted = range(len(self))[index]
        return next(belief for task, belief in self.beliefs() if task == wanted)

    def beliefs(self) -> Iterator[tuple[int, Belief]]:
        """Each task's index and smoothed belief, from the last task to the first."""
        places = range(len(self) - 1, -1, -1)
        for index, (_, smoothed) in zip(places, self._backwards(), strict=True):
            yield index, smoothed.belief

    def _backwards(self) -> Iterator[tuple[TaskModel, Smoothed]]:
        records = []

        def steps():
            for record, step in self._trajectory.backwards():
                records.append(record)
                yield step

        for smoothed in smooth_backwards(steps(), self._rank, self._remainder):
            record = records.pop()
            model = self._model.with_params(smoothed.mean, record.state)
            yield TaskModel(model, record.likelihood, record.name), smoothed
            del record, smoothed


def interpolated(earlier: PyTree, later: PyTree, fraction: float) -> PyTree:
    """The network's state between two tasks: on the line for numbers, else that of the nearer."""

    def between(a, b):
        if np.issubdtype(np.asarray(a).dtype, np.floating):
            return (1 - fraction) * a + fraction * b
        return a if fraction < 0.5 else b

    return jax.tree.map(between, earlier, later)
