"""Precision matrices over pytrees; knows nothing of models, data or tasks."""

from backcast.linalg.blocks import Block
from backcast.linalg.compress import compress
from backcast.linalg.diag_low_rank import DiagLowRank
from backcast.linalg.kronecker import Kronecker
from backcast.linalg.precision import Precision
from backcast.linalg.rotated import Rotated
from backcast.linalg.spectrum import Remainder, Spectrum

__all__ = [
    "Block",
    "DiagLowRank",
    "Kronecker",
    "Precision",
    "Remainder",
    "Rotated",
    "Spectrum",
    "compress",
]
