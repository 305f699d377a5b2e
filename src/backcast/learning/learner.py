"""The learner: a network that learns one task after another, and what it remembers of each."""

import math
import time as clock
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PyTree

from backcast.inference import (
    Belief,
    Learned,
    LearnedNoise,
    Noise,
    between,
    learn_noise,
    predict,
)
from backcast.learning import saving
from backcast.learning.absorb import absorb
from backcast.learning.curvature_settings import CurvatureSettings
from backcast.learning.examples import Examples, as_examples
from backcast.learning.fit import Problem, Training, fit
from backcast.learning.progress import Progress, Silent, watched
from backcast.learning.saving import Contents, Written
from backcast.learning.settings import Centre, Scale, Settings
from backcast.learning.structures import LowRank, Structure
from backcast.learning.task_model import SmoothedModels, TaskModel, interpolated
from backcast.learning.trajectory import Record, Trajectory
from backcast.linalg import Remainder
from backcast.model import Bernoulli, Categorical, Likelihood, as_model
from backcast.model.door import check_batch

# One for all learners and tasks: a training step is compiled for the very optimiser it is given.
DEFAULT_OPTIMIZER = optax.adam(1e-3)


@final
class Learner:
    """A network that learns a sequence of tasks by Bayesian filtering of its weights.

    `observe` learns the next task: predict, fit, curvature, update. `smooth` goes back and gives a
    model for every task that is informed by all of them. No data of any task is kept.

    Args:
        network: a network of Equinox, Flax (NNX or Linen) or Haiku, or a plain function; see
            `backcast.model.as_model`.
        likelihood: what its outputs mean, such as `Categorical()`.
        rank: how many rows the precision keeps beside its diagonal; 0 is elastic weight
            consolidation.
        noise: how far weights may drift from one task to the next: a `Noise`, one variance for
            all, or `LearnedNoise`, which is learned anew before each task from those so far.
        prior: the precision of the belief before the first task, ``N(0, 1/prior)``; or a `Belief`,
            such as ``Belief.prior(params, 10.0)`` around the weights of a pretrained network.
        strength: ``lambda``, what a task's curvature is multiplied by when it is absorbed.
        scale: the units of the precision, and so of prior and noise. ``"examples"``: those of a
            Bayesian posterior, which grows with the number of examples; with strength 1 a linear
            model gets its exact posterior. ``"mean"``: the paper's, where a task counts alike
            however many examples it has.
        remainder: what becomes of the curvature that the rank has no room for: it goes to the
            ``"diagonal"``, or ``"drop"`` as in the paper.
        structure: another structure of the precision, such as `Products()`; rank and remainder are
            then its own.
        centre: where the belief lies after a task: at the ``"mode"`` that was found; or, with a
            penalty for every task at a mode of its own, at the minimum of all ``"penalties"``.
        curvature: how a task's curvature is computed.
        optimizer: any optax optimiser; Adam with a learning rate of 0.001 if None.
        epochs: how often to go through a task's examples, at most.
        batch_size: how many examples a step uses.
        patience: stop a task when its validation loss has not fallen for so many epochs.
        restart: whether each task starts with a fresh state of the optimiser.
        trainable: patterns of the parameters to learn, such as ``"head/*"`` or ``"!*norm*"``.
        seed: what all randomness comes from.
        directory: a folder to save to after every task; what is there need not stay in memory.
        progress: whether to show a progress bar, if there is a terminal to show it on.
    """

    def __init__(
        self,
        network: Any,
        likelihood: Likelihood,
        *,
        rank: int = 10,
        noise: Noise | LearnedNoise | float = 0.0,
        prior: Belief | float = 1.0,
        strength: float = 1.0,
        scale: Scale = "examples",
        remainder: Remainder = "diagonal",
        structure: Structure | None = None,
        centre: Centre = "mode",
        curvature: CurvatureSettings | None = None,
        optimizer: optax.GradientTransformation | None = None,
        epochs: int = 10,
        batch_size: int = 128,
        patience: int | None = None,
        restart: bool = True,
        trainable: str | Sequence[str] | None = None,
        seed: int = 0,
        directory: str | Path | None = None,
        progress: bool = True,
    ):
        """Check everything that can be checked before there is data."""
        if not isinstance(likelihood, Likelihood):
            raise TypeError(
                f"The likelihood is {likelihood!r}; give one of backcast's, such as Categorical(), "
                "or Custom(loss) for a loss of your own."
            )
        settings = Settings(
            structure=LowRank(rank, remainder) if structure is None else structure,
            prior=1.0 if isinstance(prior, Belief) else prior,
            strength=strength,
            scale=scale,
            centre=centre,
            training=Training(epochs, batch_size, patience, restart),
            curvature=curvature or CurvatureSettings(),
            trainable=_patterns(trainable),
            seed=seed,
        )
        model = as_model(network, settings.trainable)
        if not isinstance(prior, Belief):
            zeros = jax.tree.map(jnp.zeros_like, model.params)
            prior = settings.structure.prior(zeros, prior)
        noise = noise if isinstance(noise, Noise | LearnedNoise) else Noise(noise)
        settings.structure.check_noise(prior, noise.variance(model.params))
        if directory is not None and (Path(directory) / saving.RECORD).exists():
            raise FileExistsError(
                f"{directory} already holds a learner. Go on with it by Learner.load(...), or give "
                "another directory."
            )
        contents = Contents(
            model, settings, noise, likelihood, Trajectory(prior), [], optimizer is not None
        )
        self._set_up(contents, optimizer, directory, progress)

    def _set_up(
        self,
        contents: Contents,
        optimizer: optax.GradientTransformation | None,
        directory: str | Path | None,
        progress: bool,
    ) -> None:
        self.settings = contents.settings
        self.noise = contents.noise
        self.likelihood = contents.likelihood
        self.trajectory = contents.trajectory
        self._model = contents.model
        self._optimizer = optimizer
        if optimizer is None and not contents.own_optimizer:
            self._optimizer = DEFAULT_OPTIMIZER
        self._own_optimizer = contents.own_optimizer or optimizer is not None
        self._carried = contents.optimizer_leaves
        self._directory = None if directory is None else Path(directory)
        self._written: dict[Path, Written] = {}
        self._progress = progress
        self._current: Record | None = self.trajectory[-1] if len(self.trajectory) else None

    @classmethod
    def load(
        cls,
        folder: str | Path,
        network: Any,
        *,
        likelihood: Likelihood | None = None,
        optimizer: optax.GradientTransformation | None = None,
        save: bool = False,
        progress: bool = True,
    ) -> "Learner":
        """A learner as it was saved.

        Args:
            folder: where `save` put it.
            network: the network it was saved from; its structure counts, not its arrays.
            likelihood: the likelihood, if it was a `Custom` one.
            optimizer: the optimiser, if it was one of your own and you want to observe more tasks.
            save: whether to go on saving to this folder after every task.
            progress: whether to show a progress bar.
        """
        folder = Path(folder)
        contents, written = saving.load(folder, network, likelihood)
        learner = cls.__new__(cls)
        learner._set_up(contents, optimizer, folder if save else None, progress)
        learner._written[folder] = written
        return learner

    def save(self, folder: str | Path) -> None:
        """Write everything to a folder, as safetensors and JSON.

        What is there of a learner is replaced in one go: whatever happens meanwhile, the folder
        holds a whole learner.
        """
        folder = Path(folder)
        contents = Contents(
            self._model,
            self.settings,
            self.noise,
            self.likelihood,
            self.trajectory,
            jax.tree.leaves(self._carried),
            self._own_optimizer,
        )
        self._written[folder] = saving.save(folder, contents, self._written.get(folder))

    @property
    def belief(self) -> Belief:
        """The belief after the last task, or the prior."""
        return self.trajectory.prior if self._current is None else self._current.filtered

    @property
    def model(self) -> TaskModel:
        """The current model: the one of the last task."""
        if self._current is None:
            return TaskModel(self._model, self.likelihood, "no task yet")
        return self._task_model(self._current)

    def observe(
        self,
        x: Any,
        y: Any = None,
        *,
        weights: Any = None,
        validation: Any = None,
        time: float | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Learn the next task: predict, train, and absorb the task's curvature.

        If anything goes wrong the learner is as it was before.

        Args:
            x: inputs, an array or a pytree of arrays with a leading axis over examples; or, without
                ``y``, an iterable of batches ``(x, y)`` or ``(x, y, weights)``.
            y: targets.
            weights: weights or masks of the examples, or of their tokens.
            validation: ``(x, y)`` or a stream like ``x``, never trained on: its loss is reported
                after every epoch, and with ``patience`` training stops by it.
            time: when the task was; one unit after the last one if None. Weights drift in
                proportion to the time between tasks.
            name: what to call the task.

        Returns:
            How it went: losses, eigenvalues and seconds, in plain numbers.
        """
        began = clock.perf_counter()
        index = len(self.trajectory)
        name = f"task {index}" if name is None else name
        time, elapsed = self._elapsed(time)
        optimizer = self.settings.structure.watching(self._usable_optimizer())
        examples = self._examples(x, y, weights)
        held_out = None if validation is None else self._examples(*_pair(validation), None)
        noise, levels = self._noise_now()
        # The prior is the belief at the time of the first task, whenever that is.
        q = noise.variance(self.belief.mean, elapsed)
        before = self._prepared(examples)
        start = self.model
        problem = Problem(
            start.model,
            start.likelihood,
            predict(before, q),
            self.settings.anchoring(examples.total),
            examples,
            held_out,
            self._restored_state(optimizer),
        )
        fit_key, curvature_key = jax.random.split(
            jax.random.fold_in(jax.random.key(self.settings.seed), index)
        )
        progress = self._watch()
        progress.begin(name, self.settings.training.epochs * examples.steps)
        try:
            fitted = fit(problem, optimizer, self.settings.training, progress, fit_key)
            progress.stage("curvature")
            absorbed = absorb(problem, fitted, self.settings, curvature_key)
            progress.done()
        finally:
            progress.end()
        record = Record(
            name,
            time,
            absorbed.params,
            absorbed.update.belief,
            absorbed.update.curvature,
            q,
            fitted.weights.state,
            fitted.likelihood,
            absorbed.report | levels | {"seconds": clock.perf_counter() - began},
        )
        if index == 0:
            self._begin(before)
        self._commit(record, fitted.weights.optimizer)
        return record.report

    def smooth(self) -> SmoothedModels:
        """One model for every task, each informed by all tasks; no data is needed."""
        self._refuse_nothing_learned()
        return SmoothedModels(
            self._model, self.trajectory, self.settings.rank, self.settings.remainder
        )

    def learn_noise(self, how: LearnedNoise) -> Learned:
        """The noise under which the tasks so far are most probable; no data is needed.

        Give ``learn_noise(...).noise`` to the learner of the next sequence. This one keeps its own.

        Args:
            how: which weights share a variance, and where to start, such as ``LearnedNoise(0.1)``.
        """
        self._refuse_nothing_learned()
        return self._learned(how)

    def filtered(self) -> list[TaskModel]:
        """One model for every task, each as it was when the task had just been learned."""
        return [self._task_model(record) for record in self.trajectory]

    def between(self, index: int, fraction: float) -> TaskModel:
        """A model for a time between tasks ``index`` and ``index + 1``, informed by all tasks.

        Args:
            index: the earlier task, counted from 0.
            fraction: how far the time is towards the later one, from 0 to 1.
        """
        belief = between(
            self.trajectory.steps(), index, fraction, self.settings.rank, self.settings.remainder
        )
        earlier, later = self.trajectory[index], self.trajectory[index + 1]
        state = interpolated(earlier.state, later.state, fraction)
        likelihood = interpolated(earlier.likelihood, later.likelihood, fraction)
        model = self._model.with_params(belief.mean, state)
        return TaskModel(model, likelihood, f"{earlier.name} + {fraction:g}")

    def predicted(self, time: float | None = None) -> Belief:
        """The belief about the weights of the next task, before there are data of it.

        How well it foresees them: ``learner.model.predictive_loss(x, y, learner.predicted())``.

        Args:
            time: when the task is; one unit after the last one if None.
        """
        _, elapsed = self._elapsed(time)
        return predict(self.belief, self._noise_now()[0].variance(self.belief.mean, elapsed))

    def predict(self, x: Any) -> Array:
        """The current model's one target to bet on for each input."""
        return self.model.predict(x)

    def predict_proba(self, x: Any) -> Array:
        """The current model's probabilities of the classes, or expected targets."""
        return self.model.predict_proba(x)

    def score(self, x: Any, y: Any = None, weights: Any = None) -> float:
        """The current model's mean score: accuracy for classes."""
        return self.model.score(x, y, weights)

    def _prepared(self, examples: Examples) -> Belief:
        """The belief before the next task; the prior in the shapes that later beliefs have."""
        if self._current is not None:
            return self.belief
        x = next(iter(examples.batches())).x
        structure = self.settings.structure
        prepared = structure.prepared(self.trajectory.prior, self._model, x)
        # Before the first task, not after it: only now the layers are known.
        structure.check_noise(prepared, self._noise_now()[0].variance(prepared.mean))
        return prepared

    def _begin(self, prior: Belief) -> None:
        self.trajectory.prior = prior
        self._written.clear()

    def _commit(self, record: Record, carried: PyTree) -> None:
        before = self._current, self._carried
        self._current = record
        self._carried = [] if self.settings.training.restart else carried
        self.trajectory.entries.append(record)
        if self._directory is None:
            return
        try:
            self.save(self._directory)
        except BaseException:
            self.trajectory.entries.pop()
            self._current, self._carried = before
            raise
        self.trajectory.entries[:] = self._written[self._directory].tasks

    def _elapsed(self, time: float | None) -> tuple[float, float]:
        if self._current is None:
            return (0.0 if time is None else _finite_time(time)), 0.0
        time = self._current.time + 1.0 if time is None else _finite_time(time)
        if time < self._current.time:
            raise ValueError(
                f"This task is at time {time:g}, but the last one was at {self._current.time:g}. "
                "Observe tasks in order of time."
            )
        return time, time - self._current.time

    def _noise_now(self) -> tuple[Noise, dict[str, Any]]:
        """The noise that leads to the next task, and what the report says of it."""
        if isinstance(self.noise, Noise):
            return self.noise, {}
        if self._current is None:
            return Noise(self.noise.levels), {"noise": self.noise.start_by_group(self.belief.mean)}
        learned = self._learned(self.noise, self._current.report["noise"])
        return learned.noise, {"noise": learned.levels}

    def _learned(self, how: LearnedNoise, levels: dict[str, float] | None = None) -> Learned:
        return learn_noise(
            self.trajectory.prior,
            self.trajectory.steps(),
            [entry.time for entry in self.trajectory.entries],
            how,
            self.settings.rank,
            self.settings.remainder,
            levels,
        )

    def _examples(self, x: Any, y: Any, weights: Any) -> Examples:
        model, likelihood = self._model, self.likelihood
        return as_examples(
            x,
            y,
            weights,
            self.settings.training.batch_size,
            lambda batch: check_batch(model, likelihood, batch),
        )

    def _usable_optimizer(self) -> optax.GradientTransformation:
        if self._optimizer is None:
            raise ValueError(
                "This learner was saved with an optimiser of your own, which a file cannot hold. "
                "Give it again: Learner.load(folder, network, optimizer=...)."
            )
        return self._optimizer

    def _restored_state(self, optimizer: optax.GradientTransformation) -> PyTree:
        leaves = jax.tree.leaves(self._carried)
        if not leaves:
            return None
        fresh = optimizer.init(self._model.params)
        if [x.shape for x in jax.tree.leaves(fresh)] != [x.shape for x in leaves]:
            raise ValueError(
                "The optimiser is not the one this learner was saved with: its state has other "
                "shapes. Give the same one."
            )
        return jax.tree.unflatten(jax.tree.structure(fresh), leaves)

    def _watch(self) -> Progress:
        if not self._progress:
            return Silent()
        accuracy = isinstance(self.likelihood, Categorical | Bernoulli)
        return watched("accuracy" if accuracy else "score")

    def _task_model(self, record: Record) -> TaskModel:
        model = self._model.with_params(record.params, record.state)
        return TaskModel(model, record.likelihood, record.name)

    def _refuse_nothing_learned(self) -> None:
        if len(self.trajectory) == 0:
            raise ValueError("No task has been observed yet; call observe(x, y) first.")


def _pair(validation: Any) -> tuple[Any, Any]:
    if isinstance(validation, tuple) and len(validation) == 2:
        return validation
    return validation, None


def _patterns(trainable: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if trainable is None or isinstance(trainable, str):
        return None if trainable is None else (trainable,)
    return tuple(trainable)


def _finite_time(time: float) -> float:
    if not math.isfinite(time):
        raise ValueError(f"time must be a finite number, but {time!r} was given.")
    return float(time)
