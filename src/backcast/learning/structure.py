"""How the precision of a belief is structured: what a task's curvature is, and what is kept of it.

Elastic weight consolidation, OSLA and low-rank filtering differ in this alone; the loop is one.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, final, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from backcast.inference import Belief
from backcast.learning.curvature_settings import CurvatureSettings
from backcast.linalg import DiagLowRank, Kronecker, Precision, Remainder, checks
from backcast.model import Batch, Likelihood, Model
from backcast.model.curvature import ggn
from backcast.model.kronecker import blocks_of, kronecker_ggn


@final
class Found(NamedTuple):
    """A task's curvature, and how well it is known, in plain numbers."""

    precision: Precision
    report: dict[str, Any]


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
    def check_noise(self, prior: Belief, q: PyTree) -> None:
        """Refuse process noise that the structure cannot follow."""

    @abstractmethod
    def prepared(self, prior: Belief, model: Model, x: PyTree) -> Belief:
        """The same belief, in the shapes that beliefs have after tasks with inputs like these."""

    @abstractmethod
    def curvature(
        self,
        model: Model,
        likelihood: Likelihood,
        batches: Iterable[Batch],
        settings: CurvatureSettings,
        key: Key[Array, ""],
    ) -> Found:
        """The curvature of a task's mean loss at the model's parameters."""


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

    def check_noise(self, prior: Belief, q: PyTree) -> None:
        """Any noise will do."""

    def prepared(self, prior: Belief, model: Model, x: PyTree) -> Belief:
        """Itself."""
        return prior

    def curvature(
        self,
        model: Model,
        likelihood: Likelihood,
        batches: Iterable[Batch],
        settings: CurvatureSettings,
        key: Key[Array, ""],
    ) -> Found:
        """See `backcast.ggn`."""
        found = ggn(
            model,
            likelihood,
            batches,
            rank=self.rank if settings.rank is None else settings.rank,
            fisher=settings.fisher,
            diagonal=settings.diagonal,
            key=key,
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

    def curvature(
        self,
        model: Model,
        likelihood: Likelihood,
        batches: Iterable[Batch],
        settings: CurvatureSettings,
        key: Key[Array, ""],
    ) -> Found:
        """See `backcast.model.kronecker.kronecker_ggn`."""
        found = kronecker_ggn(model, likelihood, batches, fisher=settings.fisher, key=key)
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

    def check_noise(self, prior: Belief, q: PyTree) -> None:
        """Any noise will do."""

    def prepared(self, prior: Belief, model: Model, x: PyTree) -> Belief:
        """Itself."""
        return prior

    def curvature(
        self,
        model: Model,
        likelihood: Likelihood,
        batches: Iterable[Batch],
        settings: CurvatureSettings,
        key: Key[Array, ""],
    ) -> Found:
        """``I``: with strength ``lambda``, every task adds ``lambda/2 |theta - theta_t|^2``."""
        return Found(DiagLowRank.isotropic(model.params, 1.0), {})


STRUCTURES: tuple[type[Structure], ...] = (LowRank, Products, Isotropic)


def as_plain(structure: Structure) -> dict[str, Any]:
    """Plain data for a JSON file."""
    return {"kind": type(structure).__name__, **dataclasses.asdict(structure)}


def from_plain(plain: dict[str, Any]) -> Structure:
    """The structure that `as_plain` wrote."""
    fields = {name: value for name, value in plain.items() if name != "kind"}
    kinds: dict[str, Any] = {kind.__name__: kind for kind in STRUCTURES}
    return kinds[plain["kind"]](**fields)
