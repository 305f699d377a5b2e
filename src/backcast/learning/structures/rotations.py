"""A diagonal in each layer's eigenbases."""

from dataclasses import dataclass
from typing import final

import optax
from jaxtyping import PyTree

from backcast.inference import Belief
from backcast.learning.structures.base import Found, Learned, Structure, plain_diagonal
from backcast.linalg import Remainder, Rotated
from backcast.model import Model
from backcast.model.layer_gradients import blocks_of
from backcast.model.rotated import refuse_wide, rotated_ggn


@final
@dataclass(frozen=True)
class Rotations(Structure):
    """A diagonal in the eigenbases of each layer, which drifts exactly; see `backcast.Rotated`.

    Noise must be one number in each layer.

    Attributes:
        rank: how many directions are kept on each side of a layer; all of them if None. The others
            share the mean of their eigenvalues, whatever ``remainder`` is.
    """

    rank: int | None = None
    remainder: Remainder = "diagonal"

    def __post_init__(self):
        """Refuse what nothing can be kept by."""
        if self.rank is not None:
            super().__post_init__()

    def prior(self, mean: PyTree, precision: float) -> Belief:
        """Without layers: what they are shows only in the inputs."""
        return Belief(mean, Rotated.isotropic(mean, precision, ()))

    def watching(self, optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
        """The optimiser itself."""
        return optimizer

    def check_noise(self, prior: Belief, q: PyTree) -> None:
        """It must be one number in each layer."""
        prior.precision.drift(q)

    def prepared(self, prior: Belief, model: Model, x: PyTree) -> Belief:
        """In all layers of the network, with the bases that the weights have."""
        blocks = blocks_of(model, x)
        refuse_wide(model.params, blocks, self.rank)
        diag = plain_diagonal(prior, "a rotated precision")
        return Belief(prior.mean, Rotated.diagonal_in(diag, blocks, self.rank))

    def curvature(self, task: Learned) -> Found:
        """See `backcast.rotated_ggn`."""
        found = rotated_ggn(
            task.model,
            task.likelihood,
            task.batches,
            fisher=task.settings.fisher,
            rank=self.rank if task.settings.rank is None else task.settings.rank,
            key=task.key,
        )
        return Found(found.precision, {})
