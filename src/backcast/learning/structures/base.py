"""What a structure of precisions is asked for."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, final, get_args

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key, PyTree

from backcast.inference import Belief
from backcast.learning.curvature_settings import CurvatureSettings
from backcast.linalg import Precision, Remainder, checks
from backcast.model import Batch, Likelihood, Model


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
        rank: how much is kept of what the structure counts, or None for all; see
            `backcast.compress`.
        remainder: what becomes of the rest.
    """

    rank: int | None
    remainder: Remainder

    def __post_init__(self):
        """Refuse what nothing can be kept by."""
        checks.count(self.rank, "The rank")  # pyright: ignore[reportArgumentType]
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


def plain_diagonal(prior: Belief, structure: str) -> PyTree:
    """The diagonal of a precision that is nothing else; what is more than that is refused."""
    precision = prior.precision
    if precision.rank > 0:
        raise ValueError(
            f"The prior's precision is a {type(precision).__name__} of rank {precision.rank}, "
            f"which {structure} cannot go on from. Give a diagonal one, such as "
            "Belief.prior(params, 1.0)."
        )
    return jax.tree.map(jnp.asarray, precision.diag)
