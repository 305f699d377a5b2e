"""Small sets in the four files of MNIST."""

import gzip
import struct

import numpy as np

from backcast.data.idx import NAMES


def idx_bytes(array, code=0x08):
    return struct.pack(f">4B{array.ndim}I", 0, 0, code, array.ndim, *array.shape) + array.tobytes()


def write_set(folder, train=5, test=3, suffix="", labels=None):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(0, 256, (train, 4, 4), np.uint8),
        np.arange(labels or train, dtype=np.uint8) % 3,
        rng.integers(0, 256, (test, 4, 4), np.uint8),
        np.arange(test, dtype=np.uint8) % 3,
    ]
    for name, array in zip(NAMES, arrays, strict=True):
        content = idx_bytes(array)
        (folder / (name + suffix)).write_bytes(gzip.compress(content) if suffix else content)
    return arrays
