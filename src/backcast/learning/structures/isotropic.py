"""The identity."""

from dataclasses import dataclass
from typing import final

import optax
from jaxtyping import PyTree

from backcast.inference import Belief
from backcast.learning.structures.base import Found, Learned, Structure
from backcast.linalg import DiagLowRank, Remainder
from backcast.model import Model


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
