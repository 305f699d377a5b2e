"""Labelled data: read, checked, and kept as it was stored. Knows nothing of tasks or models."""

from backcast.data.arrays import csv_table, from_arrays, npz
from backcast.data.dataset import Dataset
from backcast.data.embedded import digits
from backcast.data.errors import DataError
from backcast.data.idx import idx, read_idx
from backcast.data.patches import image_table, wilds
from backcast.data.public import fashion_mnist, mnist

__all__ = [
    "DataError",
    "Dataset",
    "csv_table",
    "digits",
    "fashion_mnist",
    "from_arrays",
    "idx",
    "image_table",
    "mnist",
    "npz",
    "read_idx",
    "wilds",
]
