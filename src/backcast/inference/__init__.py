"""Beliefs and what the filter and smoother do with them. Knows only `linalg`."""

from backcast.inference.belief import Belief, anchor
from backcast.inference.filtering import Update, predict, update, update_by_penalties
from backcast.inference.noise import Noise, Relative
from backcast.inference.smoothing import Smoothed, Step, between, smooth, smooth_backwards

__all__ = [
    "Belief",
    "Noise",
    "Relative",
    "Smoothed",
    "Step",
    "Update",
    "anchor",
    "between",
    "predict",
    "smooth",
    "smooth_backwards",
    "update",
    "update_by_penalties",
]
