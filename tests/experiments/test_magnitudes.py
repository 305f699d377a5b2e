"""The sizes of blocks against the matrix itself."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backcast.experiments.magnitudes import blocks, magnitudes


@given(st.integers(1, 4), st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(1, 4))
def test_magnitudes_are_root_mean_squares_of_the_dense_blocks(k, sizes, most):
    rng = np.random.default_rng(0)
    leaves = [rng.normal(size=(k, size, 2)) for size in sizes]
    parts = blocks(leaves, most)
    assert [len(part) for part in parts] == [min(most, 2 * size) for size in sizes]
    columns = [block for part in parts for block in part]
    W = np.concatenate([leaf.reshape(k, -1) for leaf in leaves], axis=1)
    np.testing.assert_array_equal(np.concatenate(columns, axis=1), W)
    ends = np.cumsum([block.shape[1] for block in columns])[:-1]
    dense = [np.split(rows, ends, axis=1) for rows in np.split(W.T @ W, ends, axis=0)]
    rms = [[np.sqrt(np.mean(block**2)) for block in row] for row in dense]
    np.testing.assert_allclose(magnitudes(columns), rms, rtol=1e-9, atol=1e-12)
