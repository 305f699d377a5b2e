"""Precision matrices over pytrees; knows nothing of models, data or tasks."""

from backcast.linalg.compress import Remainder, Spectrum, compress
from backcast.linalg.diag_low_rank import DiagLowRank
from backcast.linalg.precision import Precision

__all__ = ["DiagLowRank", "Precision", "Remainder", "Spectrum", "compress"]
