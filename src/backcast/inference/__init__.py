"""Beliefs and what the filter and smoother do with them. Knows only `linalg`."""

from backcast.inference.belief import Belief, anchor
from backcast.inference.filtering import Update, predict, update, update_by_penalties
from backcast.inference.learned_noise import Learned, LearnedNoise, learn_noise
from backcast.inference.noise import Noise, Relative
from backcast.inference.refiltering import Refiltered, Site, refilter, site
from backcast.inference.smoothing import Smoothed, Step, between, smooth, smooth_backwards

__all__ = [
    "Belief",
    "Learned",
    "LearnedNoise",
    "Noise",
    "Refiltered",
    "Relative",
    "Site",
    "Smoothed",
    "Step",
    "Update",
    "anchor",
    "between",
    "learn_noise",
    "predict",
    "refilter",
    "site",
    "smooth",
    "smooth_backwards",
    "update",
    "update_by_penalties",
]
