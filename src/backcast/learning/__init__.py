"""The loop: train on a task, absorb it, keep what smoothing needs. Knows all rooms above it."""

from backcast.learning.curvature_settings import CurvatureSettings
from backcast.learning.files import LoadError
from backcast.learning.fit import DivergedError, Training
from backcast.learning.learner import Learner
from backcast.learning.structures import (
    Isotropic,
    LowRank,
    PathIntegral,
    Products,
    Rotations,
    Structure,
)
from backcast.learning.task_model import SmoothedModels, TaskModel
from backcast.learning.trajectory import Record, Trajectory

__all__ = [
    "CurvatureSettings",
    "DivergedError",
    "Isotropic",
    "Learner",
    "LoadError",
    "LowRank",
    "PathIntegral",
    "Products",
    "Record",
    "Rotations",
    "SmoothedModels",
    "Structure",
    "TaskModel",
    "Training",
    "Trajectory",
]
