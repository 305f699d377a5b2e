"""Kronecker products in each layer."""

from dataclasses import dataclass
from typing import final

import equinox as eqx
import optax
from jaxtyping import PyTree

from backcast.inference import Belief
from backcast.learning.structures.base import Found, Learned, Structure, plain_diagonal
from backcast.linalg import Kronecker, Remainder
from backcast.model import Model
from backcast.model.kronecker import kronecker_ggn
from backcast.model.layer_gradients import blocks_of


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
        diag = plain_diagonal(prior, "a sum of Kronecker products")
        blocks = blocks_of(model, x)
        precision = Kronecker.isotropic(prior.mean, 0.0, blocks, self.rank)
        return Belief(prior.mean, eqx.tree_at(lambda p: p.diag, precision, diag))

    def curvature(self, task: Learned) -> Found:
        """See `backcast.model.kronecker.kronecker_ggn`."""
        found = kronecker_ggn(
            task.model, task.likelihood, task.batches, fisher=task.settings.fisher, key=task.key
        )
        return Found(found.precision, {})
