"""Backcast: Bayesian filtering and smoothing of neural-network weights over a sequence of tasks."""

__version__ = "0.1.0"
