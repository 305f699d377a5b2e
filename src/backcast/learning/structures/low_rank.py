"""A diagonal and a few rows."""

from dataclasses import dataclass
from typing import final

import optax
from jaxtyping import PyTree

from backcast.inference import Belief
from backcast.learning.structures.base import Found, Learned, Structure
from backcast.linalg import Remainder
from backcast.model import Model
from backcast.model.curvature import ggn


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
