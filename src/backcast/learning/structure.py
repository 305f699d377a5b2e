"""How the precision of a belief is structured: what a task's curvature is, and what is kept of it.

Elastic weight consolidation, OSLA and low-rank filtering differ in this alone; the loop is one.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, final, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key, PyTree

from backcast.inference import Belief
from backcast.learning.curvature_settings import CurvatureSettings
from backcast.learning.path import with_path
from backcast.linalg import DiagLowRank, Kronecker, Precision, Remainder, checks, tree
from backcast.model import Batch, Likelihood, Model
from backcast.model.curvature import ggn
from backcast.model.kronecker import blocks_of, kronecker_ggn


@final
class Found(NamedTuple):
    """A task's curvature, and how well it is known, in plain numbers."""

    precision: Precision
    report: dict[str, Any]


@final
class Learned(NamedTuple):
    """A task that was trained on, to find its curvature.

    Attributes:
        model: the network, at the mode and with its state.
        likelihood: the likelihood of the targets.
        batches: the examples to look at, as often as asked.
        settings: how.
        start: the parameters before training.
        optimizer: the optimiser's state after it.
        key: for all randomness.
    """

    model: Model
    likelihood: Likelihood
    batches: Iterable[Batch]
    settings: CurvatureSettings
    start: PyTree
    optimizer: PyTree
    key: Key[Array, ""]


@dataclass(frozen=True)
class Structure(ABC):
    """A structure of precisions.

    Attributes:
        rank: how much is kept of what the structure counts; see `backcast.compress`.
        remainder: what becomes of the rest.
    """

    rank: int
    remainder: Remainder

    def __post_init__(self):
        """Refuse what nothing can be kept by."""
        checks.count(self.rank, "The rank")
        if self.remainder not in get_args(Remainder):
            raise ValueError(
                f"remainder must be one of {', '.join(get_args(Remainder))}, but "
                f"{self.remainder!r} was given."
            )

    @abstractmethod
    def prior(self, mean: PyTree, precision: float) -> Belief:
        """``N(mean, I / precision)``, as far as the structure is known without data."""

    @abstractmethod
    def watching(self, optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
        """The optimiser to train with, if what happens in training is to be known."""

    @abstractmethod
    def check_noise(self, prior: Belief, q: PyTree) -> None:
        """Refuse process noise that the structure cannot follow."""

    @abstractmethod
    def prepared(self, prior: Belief, model: Model, x: PyTree) -> Belief:
        """The same belief, in the shapes that beliefs have after tasks with inputs like these."""

    @abstractmethod
    def curvature(self, task: Learned) -> Found:
        """The curvature of a task's mean loss at the mode."""


@final
@dataclass(frozen=True)
class LowRank(Structure):
    """A diagonal and ``rank`` rows: low-rank filtering; with rank 0 elastic weight consolidation.

    Attributes:
        rank: how many rows the precision keeps beside its diagonal.
        remainder: what becomes of the curvature that the rank has no room for: it goes to the
            ``"diagonal"``, or ``"drop"`` as in the paper.
    """

    rank: int = 10
    remainder: Remainder = "diagonal"

    def prior(self, mean: PyTree, precision: float) -> Belief:
        """With rows of zeros, so that all tasks have the same shapes."""
        return Belief.prior(mean, precision, self.rank)

    def watching(self, optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
        """The optimiser itself."""
        return optimizer

    def check_noise(self, prior: Belief, q: PyTree) -> None:
        """Any noise will do."""

    def prepared(self, prior: Belief, model: Model, x: PyTree) -> Belief:
        """Itself."""
        return prior

    def curvature(self, task: Learned) -> Found:
        """See `backcast.ggn`."""
        found = ggn(
            task.model,
            task.likelihood,
            task.batches,
            rank=self.rank if task.settings.rank is None else task.settings.rank,
            fisher=task.settings.fisher,
            diagonal=task.settings.diagonal,
            key=task.key,
        )
        return Found(found.precision, {"residuals": found.residuals.tolist()})


@final
@dataclass(frozen=True)
class Products(Structure):
    """Kronecker products in each layer, and nothing between layers: OSLA (Ritter et al. 2018).

    With one product the factors of the tasks are added up, as OSLA does; with one for each task the
    sum of their products is exact. Weights cannot drift: the noise must be zero.

    Attributes:
        rank: how many products each layer keeps; the oldest are merged.
    """

    rank: int = 1
    remainder: Remainder = "drop"

    def __post_init__(self):
        """Refuse what nothing can be kept by."""
        super().__post_init__()
        if self.rank < 1:
            raise ValueError("A layer needs one product at least, but rank=0 was given.")

    def prior(self, mean: PyTree, precision: float) -> Belief:
        """Without layers: what they are shows only in the inputs."""
        return Belief(mean, Kronecker.isotropic(mean, precision, ()))

    def watching(self, optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
        """The optimiser itself."""
        return optimizer

    def check_noise(self, prior: Belief, q: PyTree) -> None:
        """It must be zero."""
        self.prior(prior.mean, 1.0).precision.drift(q)

    def prepared(self, prior: Belief, model: Model, x: PyTree) -> Belief:
        """With products of zeros in all layers of the network."""
        if prior.precision.rank > 0:
            raise ValueError(
                f"The prior's precision is a {type(prior.precision).__name__} of rank "
                f"{prior.precision.rank}, which Kronecker products cannot go on from. Give a "
                "diagonal one, such as Belief.prior(params, 1.0)."
            )
        blocks = blocks_of(model, x)
        precision = Kronecker.isotropic(prior.mean, 0.0, blocks, self.rank)
        diag = jax.tree.map(jnp.asarray, prior.precision.diag)
        return Belief(prior.mean, eqx.tree_at(lambda p: p.diag, precision, diag))

    def curvature(self, task: Learned) -> Found:
        """See `backcast.model.kronecker.kronecker_ggn`."""
        found = kronecker_ggn(
            task.model, task.likelihood, task.batches, fisher=task.settings.fisher, key=task.key
        )
        return Found(found.precision, {})


@final
@dataclass(frozen=True)
class Isotropic(Structure):
    """The identity, whatever the task: weights are held where they are, all alike."""

    rank: int = 0
    remainder: Remainder = "drop"

    def prior(self, mean: PyTree, precision: float) -> Belief:
        """A diagonal."""
        return Belief.prior(mean, precision)

    def watching(self, optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
        """The optimiser itself."""
        return optimizer

    def check_noise(self, prior: Belief, q: PyTree) -> None:
        """Any noise will do."""

    def prepared(self, prior: Belief, model: Model, x: PyTree) -> Belief:
        """Itself."""
        return prior

    def curvature(self, task: Learned) -> Found:
        """``I``: with strength ``lambda``, every task adds ``lambda/2 |theta - theta_t|^2``."""
        return Found(DiagLowRank.isotropic(task.model.params, 1.0), {})


@final
@dataclass(frozen=True)
class PathIntegral(Structure):
    """A diagonal from the path of training: synaptic intelligence (Zenke et al. 2017).

    A parameter that lowered the loss by ``w`` while it moved by ``D`` gets ``2 w / (D^2 + xi)``,
    the curvature of the parabola that would have done the same.

    Attributes:
        damping: ``xi``.
    """

    rank: int = 0
    remainder: Remainder = "drop"
    damping: float = 1e-3

    def __post_init__(self):
        """Refuse what would divide by zero."""
        super().__post_init__()
        if not (self.damping > 0 and math.isfinite(self.damping)):
            raise ValueError(f"damping must be a number > 0, but {self.damping!r} was given.")

    def prior(self, mean: PyTree, precision: float) -> Belief:
        """A diagonal."""
        return Belief.prior(mean, precision)

    def watching(self, optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
        """See `with_path`."""
        return with_path(optimizer)

    def check_noise(self, prior: Belief, q: PyTree) -> None:
        """Any noise will do."""

    def prepared(self, prior: Belief, model: Model, x: PyTree) -> Belief:
        """Itself."""
        return prior

    def curvature(self, task: Learned) -> Found:
        """``2 max(w, 0) / ((theta_t - theta_{t-1})^2 + xi)``."""
        diag = jax.tree.map(
            lambda w, end, begin: 2 * jnp.maximum(w, 0) / ((end - begin) ** 2 + self.damping),
            task.optimizer.contribution,
            task.model.params,
            task.start,
        )
        return Found(DiagLowRank(diag, tree.no_rows(diag)), {})


STRUCTURES: tuple[type[Structure], ...] = (LowRank, Products, Isotropic, PathIntegral)


def as_plain(structure: Structure) -> dict[str, Any]:
    """Plain data for a JSON file."""
    return {"kind": type(structure).__name__, **dataclasses.asdict(structure)}


def from_plain(plain: dict[str, Any]) -> Structure:
    """The structure that `as_plain` wrote."""
    fields = {name: value for name, value in plain.items() if name != "kind"}
    kinds: dict[str, Any] = {kind.__name__: kind for kind in STRUCTURES}
    return kinds[plain["kind"]](**fields)
