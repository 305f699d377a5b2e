"""Chance that is the same on every machine and with every version of NumPy.

NumPy promises that `SeedSequence` and the raw output of `PCG64` never change, and promises nothing
of the kind for `Generator.permutation` or `choice`. So orders are made from raw output alone.
"""

import zlib

import numpy as np
from jaxtyping import Int, Integer, Shaped

from backcast.data import DataError


def permutation(n: int, seed: int, *purpose: str | int) -> Int[np.ndarray, " n"]:
    """``0 ... n-1`` in an order that depends on the seed and on what it is for."""
    words = [zlib.crc32(p.encode()) if isinstance(p, str) else p for p in purpose]
    bits = np.random.PCG64(np.random.SeedSequence(check(seed), spawn_key=words))
    return np.argsort(bits.random_raw(n), kind="stable")


def check(seed: int) -> int:
    """Refuse a seed that is not a whole number >= 0."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise DataError(f"A seed is a whole number >= 0, but {seed!r} was given.")
    return seed


def spread(
    rows: Integer[np.ndarray, " n"],
    strata: Shaped[np.ndarray, " n"] | None,
    seed: int,
    *purpose: str | int,
) -> Integer[np.ndarray, " n"]:
    """Rows in random order, such that every stretch of it has nearly the same mix of strata.

    The ``i``-th of the ``m`` rows of a stratum stands at ``(i + 1/2) / m``. So a stratum's share of
    any stretch differs from its share of the whole by about one row, and parts of a data set are
    stretches of one order: they cannot overlap.
    """
    order = permutation(len(rows), seed, *purpose)
    if strata is None:
        return rows[order]
    position = np.empty(len(rows))
    for stratum in np.unique(strata):
        members = order[strata[order] == stratum]
        position[members] = (np.arange(len(members)) + 0.5) / len(members)
    return rows[order[np.argsort(position[order], kind="stable")]]
