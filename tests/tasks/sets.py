"""Small sets whose inputs tell which row they came from, and pictures."""

import numpy as np

from backcast.data import Dataset


def rows_set(n=120, classes=3, seed=0, **columns):
    """Two inputs a row: the row's number, and 1; so that a stream's rows can be read off."""
    x = np.stack([np.arange(n), np.ones(n)], axis=1).astype(np.float32)
    y = np.random.default_rng(seed).integers(0, classes, n)
    y[:classes] = np.arange(classes)
    return Dataset("rows", x, y, tuple("abcdefghij"[:classes]), columns)


def rows_of(examples):
    """The rows that examples of a `rows_set` came from (whatever order its inputs are in)."""
    return examples.x.max(axis=1).astype(int) * (examples.x.min(axis=1) == 1)


def pictures(n=60, side=8, colour=True, classes=2):
    """Noise of whole bytes, with ten slides, two centres and a date."""
    shape = (n, side, side, 3) if colour else (n, side, side)
    x = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    row = np.arange(n)
    columns = {
        "slide": row % 10,
        "center": np.where(row % 10 < 6, "north", "south"),
        "day": np.datetime64("2024-01-01") + row // 4,
    }
    return Dataset("pictures", x, row // 10 % classes, ("benign", "malignant"), columns, 255.0)
