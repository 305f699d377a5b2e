"""The loop: train on a task, absorb it, keep what smoothing needs. Knows all rooms above it."""

from backcast.learning.files import LoadError
from backcast.learning.fit import DivergedError, Training
from backcast.learning.learner import Learner
from backcast.learning.settings import CurvatureSettings
from backcast.learning.task_model import SmoothedModels, TaskModel
from backcast.learning.trajectory import Record, Trajectory

__all__ = [
    "CurvatureSettings",
    "DivergedError",
    "Learner",
    "LoadError",
    "Record",
    "SmoothedModels",
    "TaskModel",
    "Training",
    "Trajectory",
]
