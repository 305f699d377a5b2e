"""What a learner is told once and keeps to: plain data, so that it can be saved and read."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal, final

from backcast.learning import structures
from backcast.learning.curvature_settings import CurvatureSettings, one_of
from backcast.learning.fit import Training
from backcast.learning.structures import PathIntegral, Products, Structure
from backcast.linalg import Remainder

Scale = Literal["examples", "mean"]
Centre = Literal["mode", "penalties"]


@final
@dataclass(frozen=True)
class Settings:
    """How a learner filters; see `Learner` for what each means."""

    structure: Structure
    prior: float
    strength: float
    scale: Scale
    centre: Centre
    training: Training
    curvature: CurvatureSettings
    trainable: tuple[str, ...] | None
    seed: int

    def __post_init__(self):
        """Refuse what no filter can be run with."""
        one_of("scale", self.scale, ("examples", "mean"))
        one_of("centre", self.centre, ("mode", "penalties"))
        if not (math.isfinite(self.prior) and self.prior > 0):
            raise ValueError(
                f"The prior is a precision and must be a number > 0, but {self.prior!r} was given."
            )
        if (
            self.centre == "penalties"
            and isinstance(self.structure, Products)
            and self.structure.rank > 1
        ):
            raise ValueError(
                "The minimum of all penalties takes an inverse, which a sum of "
                f"{self.rank} Kronecker products does not have. Use Products(1), or leave "
                'centre="mode".'
            )
        if isinstance(self.structure, PathIntegral) and not self.training.restart:
            raise ValueError(
                "The path integral is taken over one task, so each task needs a fresh state of the "
                "optimiser: leave restart=True."
            )
        if not (math.isfinite(self.strength) and self.strength >= 0):
            raise ValueError(f"strength must be a number >= 0, but {self.strength!r} was given.")

    @property
    def rank(self) -> int | None:
        """How much the structure keeps; None for all."""
        return self.structure.rank

    @property
    def remainder(self) -> Remainder:
        """What becomes of the rest."""
        return self.structure.remainder

    def anchoring(self, total: float) -> float:
        """What the penalty is multiplied by in the training on ``total`` examples."""
        return 1.0 if self.scale == "mean" else 1.0 / total

    def absorption(self, total: float) -> float:
        """What the curvature of the mean loss over ``total`` examples is multiplied by."""
        return self.strength if self.scale == "mean" else self.strength * total

    def as_plain(self) -> dict[str, Any]:
        """Plain data for a JSON file."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {
            **plain,
            "structure": structures.as_plain(self.structure),
            "training": dataclasses.asdict(self.training),
            "curvature": dataclasses.asdict(self.curvature),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Settings":
        """The settings that `as_plain` wrote."""
        trainable = plain["trainable"]
        return cls(
            **{
                **plain,
                "structure": structures.from_plain(plain["structure"]),
                "training": Training(**plain["training"]),
                "curvature": CurvatureSettings(**plain["curvature"]),
                "trainable": None if trainable is None else tuple(trainable),
            }
        )
