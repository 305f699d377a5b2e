"""Labelled data: read, checked, and kept as it was stored. Knows nothing of tasks or models."""

from backcast.data.dataset import Dataset
from backcast.data.embedded import digits
from backcast.data.errors import DataError

__all__ = ["DataError", "Dataset", "digits"]
