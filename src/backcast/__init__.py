"""Backcast: Bayesian filtering and smoothing of neural-network weights over a sequence of tasks."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backcast.inference import (
        Belief,
        LearnedNoise,
        Noise,
        Relative,
        Step,
        anchor,
        between,
        learn_noise,
        predict,
        smooth,
        update,
        update_by_penalties,
    )
    from backcast.learning import (
        CurvatureSettings,
        DivergedError,
        Isotropic,
        Learner,
        LoadError,
        LowRank,
        PathIntegral,
        Products,
        Rotations,
        SmoothedModels,
        TaskModel,
    )
    from backcast.linalg import DiagLowRank, Kronecker, Rotated, compress
    from backcast.model import (
        Batch,
        Bernoulli,
        Categorical,
        Custom,
        Gaussian,
        GaussianLearnedNoise,
        HeteroscedasticGaussian,
        Poisson,
        as_model,
        ggn,
        kronecker_ggn,
        rotated_ggn,
    )

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Belief",
    "Bernoulli",
    "Categorical",
    "CurvatureSettings",
    "Custom",
    "DiagLowRank",
    "DivergedError",
    "Gaussian",
    "GaussianLearnedNoise",
    "HeteroscedasticGaussian",
    "Isotropic",
    "Kronecker",
    "LearnedNoise",
    "Learner",
    "LoadError",
    "LowRank",
    "Noise",
    "PathIntegral",
    "Poisson",
    "Products",
    "Relative",
    "Rotated",
    "Rotations",
    "SmoothedModels",
    "Step",
    "TaskModel",
    "anchor",
    "as_model",
    "between",
    "compress",
    "ggn",
    "kronecker_ggn",
    "learn_noise",
    "predict",
    "rotated_ggn",
    "smooth",
    "update",
    "update_by_penalties",
]

_ROOMS = ("linalg", "inference", "model", "learning")


def __getattr__(name: str) -> Any:
    # Names are imported when they are first asked for: jax takes seconds to import, and the command
    # line is to answer at once.
    if name in __all__:
        for room in (importlib.import_module(f"backcast.{room}") for room in _ROOMS):
            if name in room.__all__:
                value = getattr(room, name)
                globals()[name] = value
                return value
    raise AttributeError(f"module 'backcast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
