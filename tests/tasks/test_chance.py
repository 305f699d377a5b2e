"""Chance that is the same everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backcast.data import DataError
from backcast.tasks import chance


def test_the_generator_is_the_published_one():
    # NumPy's own reference values for PCG64(SeedSequence(0xdeadbeaf)); see pcg64-testset-1.csv.
    raw = np.random.PCG64(np.random.SeedSequence(0xDEADBEAF)).random_raw(3)
    assert [hex(word) for word in raw.tolist()] == [
        "0x60d24054e17a0698",
        "0xd5e79d89856e4f12",
        "0xd254972fe64bd782",
    ]


@given(st.integers(0, 200), st.integers(0, 2**70))
def test_a_permutation_has_everything_once(n, seed):
    assert sorted(chance.permutation(n, seed, "a", 3)) == list(range(n))


def test_each_purpose_has_its_own_order():
    orders = [
        chance.permutation(50, seed, *purpose).tolist()
        for seed in (0, 1)
        for purpose in ((), ("a",), ("b",), ("a", 0), ("a", 1))
    ]
    assert len({tuple(order) for order in orders}) == len(orders)


def test_every_order_is_as_likely():
    counts = np.zeros((3, 3))
    for seed in range(3000):
        counts[np.arange(3), chance.permutation(3, seed)] += 1
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(3000 * 2 / 9)  # five standard deviations


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 9))
def test_every_stretch_has_the_mix_of_the_whole(labels, seed):
    labels, rows = np.array(labels), 10 * np.arange(len(labels))
    order = chance.spread(rows, labels, seed)
    assert sorted(order) == rows.tolist()
    found = labels[order // 10]
    for stratum in np.unique(labels):
        share = (labels == stratum).mean()
        sofar = np.concatenate([[0], np.cumsum(found == stratum)])
        # A stretch [a, b) is the difference of two starts.
        off = sofar - share * np.arange(len(labels) + 1)
        assert off.max() - off.min() <= len(np.unique(labels)) + 1


def test_without_strata_the_order_is_plain():
    rows = np.arange(20)
    assert np.array_equal(chance.spread(rows, None, 1, "x"), chance.permutation(20, 1, "x"))


@pytest.mark.parametrize("seed", [-1, 1.0, True, "3", None])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(DataError, match=f"seed is a whole number >= 0, but {seed!r} was given"):
        chance.check.__wrapped__(seed)
