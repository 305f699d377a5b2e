"""What a learner is told once and keeps to: plain data, so that it can be saved and read."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal, final

from backcast.learning.fit import Training
from backcast.linalg import Remainder, checks

Scale = Literal["examples", "mean"]


@final
@dataclass(frozen=True)
class CurvatureSettings:
    """How a task's curvature is computed; see `backcast.model.ggn`.

    Attributes:
        examples: how many of the task's examples to use, chosen at random; None for all of them.
        batch_size: how many are looked at together; batches of a stream are taken as they come.
        fisher: which matrix: the generalised Gauss-Newton matrix, which is the exact Fisher matrix
            of every likelihood here, or its estimate from sampled or from the given targets.
        diagonal: how the diagonal that the rows leave over is had, or that it is left out.
        rank: how many rows the curvature has; as many as the belief if None.
    """

    examples: int | None = 1024
    batch_size: int = 128
    fisher: Literal["exact", "sampled", "empirical"] = "exact"
    diagonal: Literal["exact", "sampled", "none"] = "exact"
    rank: int | None = None

    def __post_init__(self):
        """Refuse what no curvature can be computed with."""
        for name in ("examples", "batch_size"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value < 1):
                raise ValueError(f"curvature: {name} must be >= 1, but {value!r} was given.")
        _one_of("fisher", self.fisher, ("exact", "sampled", "empirical"))
        _one_of("diagonal", self.diagonal, ("exact", "sampled", "none"))
        if self.rank is not None:
            checks.count(self.rank, "curvature: the rank")


@final
@dataclass(frozen=True)
class Settings:
    """How a learner filters; see `Learner` for what each means."""

    rank: int
    prior: float
    strength: float
    scale: Scale
    remainder: Remainder
    training: Training
    curvature: CurvatureSettings
    trainable: tuple[str, ...] | None
    seed: int

    def __post_init__(self):
        """Refuse what no filter can be run with."""
        checks.count(self.rank, "The rank")
        _one_of("scale", self.scale, ("examples", "mean"))
        _one_of("remainder", self.remainder, ("diagonal", "drop"))
        if not (math.isfinite(self.prior) and self.prior > 0):
            raise ValueError(
                f"The prior is a precision and must be a number > 0, but {self.prior!r} was given."
            )
        if not (math.isfinite(self.strength) and self.strength >= 0):
            raise ValueError(f"strength must be a number >= 0, but {self.strength!r} was given.")

    def anchoring(self, total: float) -> float:
        """What the penalty is multiplied by in the training on ``total`` examples."""
        return 1.0 if self.scale == "mean" else 1.0 / total

    def absorption(self, total: float) -> float:
        """What the curvature of the mean loss over ``total`` examples is multiplied by."""
        return self.strength if self.scale == "mean" else self.strength * total

    def as_plain(self) -> dict[str, Any]:
        """Plain data for a JSON file."""
        return dataclasses.asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Settings":
        """The settings that `as_plain` wrote."""
        trainable = plain["trainable"]
        return cls(
            **{
                **plain,
                "training": Training(**plain["training"]),
                "curvature": CurvatureSettings(**plain["curvature"]),
                "trainable": None if trainable is None else tuple(trainable),
            }
        )


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, but {value!r} was given.")
