"""A diagonal from the path of training."""

import math
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from backcast.inference import Belief
from backcast.learning.path import with_path
from backcast.learning.structures.base import Found, Learned, Structure
from backcast.linalg import DiagLowRank, Remainder, tree
from backcast.model import Model


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
