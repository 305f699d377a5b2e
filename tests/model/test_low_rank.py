"""Leading eigenvectors from products, against dense matrices whose spectra are known."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backcast.model.low_rank import leading, leading_by_root

D = 14
LIKE = {"a": (3, 4), "b": (2,)}
KEY = jax.random.key(0)
DTYPES = [np.float32, pytest.param(np.float64, marks=pytest.mark.float64)]
TOLERANCE = {np.float32: 1e-5, np.float64: 1e-13}

# How the eigenvalues fall: geometrically, in steps of equal ones, not at all, or to zero at once.
SPECTRA = {
    "falling": 0.5 ** np.arange(D),
    "steep": 10.0 ** -np.arange(D),
    "repeated": np.repeat([4.0, 3.0, 2.0, 1.0], 4)[:D],
    "flat": np.ones(D),
    "short": np.r_[3.0, 2.0, 2.0, np.zeros(D - 3)],
    "zero": np.zeros(D),
}


def matrix(spectrum, seed, scale=1.0):
    basis, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(D, D)))
    return scale * (basis * SPECTRA[spectrum]) @ basis.T


def rows_of(factor):
    return np.concatenate([np.asarray(x, float).reshape(len(x), -1) for x in factor.values()], 1)


def flattened(block):
    return jnp.concatenate([x.reshape(len(x), -1) for x in block.values()], 1)


def in_leaves(rows):
    return {"a": rows[:, :12].reshape(-1, 3, 4), "b": rows[:, 12:]}


def by_products(H, key, rank, passes, oversampling):
    def product(block):
        return in_leaves(flattened(block) @ H)

    like = {name: jnp.zeros(shape, H.dtype) for name, shape in LIKE.items()}
    return leading(product, like, rank, key, passes=passes, oversampling=oversampling)


def by_root(H, key, rank, passes, oversampling):
    """By a root of more rows than columns, in two leaves, and with one row that is zero."""
    values, vectors = jnp.linalg.eigh(H)
    turn = jnp.linalg.qr(jax.random.normal(jax.random.key(1), (D + 2, D), H.dtype))[0]
    root = jnp.pad(turn * jnp.sqrt(jnp.maximum(values, 0)) @ vectors.T, ((0, 1), (0, 0)))
    return leading_by_root(
        lambda block: jnp.split(flattened(block) @ root.T, [5], axis=1),
        lambda columns: in_leaves(jnp.concatenate(columns, 1) @ root),
        [jnp.zeros(5, H.dtype), jnp.zeros(D - 2, H.dtype)],
        {name: jnp.zeros(shape, H.dtype) for name, shape in LIKE.items()},
        rank,
        key,
        passes=passes,
        oversampling=oversampling,
    )


@functools.partial(jax.jit, static_argnames=("way", "rank", "passes", "oversampling"))
def found(way, H, key, rank, passes, oversampling):
    return way(H, key, rank, passes, oversampling)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("way", "rank", "passes", "oversampling"),
    [
        (by_products, 3, 1, 0),
        (by_products, 4, 3, 2),
        (by_products, 6, 4, 2),
        (by_products, 20, 2, 0),
        (by_root, 4, 2, 2),
        (by_root, 20, 1, 0),
    ],
)
def test_nothing_in_the_factor_is_false(way, dtype, rank, passes, oversampling):
    @given(
        spectrum=st.sampled_from(sorted(SPECTRA)),
        seed=st.integers(0, 2**32 - 1),
        scale=st.sampled_from([1e-12, 1.0, 1e6]),
    )
    def check(spectrum, seed, scale):
        H = matrix(spectrum, seed, scale).astype(dtype)
        factor, values, residuals = found(way, jnp.asarray(H), KEY, rank, passes, oversampling)
        H, rows, values = H.astype(float), rows_of(factor), np.asarray(values, float)
        true = np.linalg.eigvalsh(H)[::-1]
        small = TOLERANCE[dtype] * max(true[0], 1e-30)
        # F^T F <= H, so that no eigenvalue is above the true one of its place.
        assert np.linalg.eigvalsh(H - rows.T @ rows).min() >= -small
        count = min(rank, D)
        assert np.all(values[:count] <= true[:count] + small)
        assert not values[D:].any()
        assert not rows[D:].any()
        # The rows are orthogonal, each as long as it is said to be, longest first.
        np.testing.assert_allclose(rows @ rows.T, np.diag(values), rtol=0, atol=small)
        assert np.all(np.diff(values) <= small)
        # The rows are eigenvectors as nearly as the largest residual says.
        error = np.linalg.norm(rows @ H - values[:, None] * rows, axis=1)
        bound = 3 * np.max(residuals) * true[0] + 10 * small
        assert np.all(error <= bound * np.sqrt(values) + small * np.sqrt(true[0]))

    check()


@pytest.mark.parametrize("way", [by_products, by_root])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spectrum", ["falling", "repeated", "flat", "short", "zero"])
def test_a_basis_of_the_whole_space_gives_the_best_factor(way, dtype, spectrum):
    H = matrix(spectrum, 1).astype(dtype)
    factor, values, residuals = found(way, jnp.asarray(H), KEY, 6, 4, 2)
    true = np.maximum(np.linalg.eigvalsh(H.astype(float))[::-1], 0)
    atol = 10 * TOLERANCE[dtype]
    np.testing.assert_allclose(values, true[:6], rtol=0, atol=4 * atol)
    rest = np.linalg.eigvalsh(H - rows_of(factor).T @ rows_of(factor))[::-1]
    np.testing.assert_allclose(rest[: D - 6], true[6:], rtol=0, atol=4 * atol)
    assert np.max(residuals) < atol


def test_more_passes_find_more_and_the_residuals_say_so():
    H = jnp.asarray(matrix("falling", 2), jnp.float32)
    runs = [found(by_products, H, KEY, 4, passes, 0) for passes in (1, 2, 4)]
    worst = [float(np.max(run.residuals)) for run in runs]
    assert worst[0] > 3 * worst[1] > 9 * worst[2]
    sums = [float(np.sum(run.eigenvalues)) for run in runs]
    assert sums[0] < sums[1] < sums[2] * 1.001


def test_rank_0_asks_for_no_product():
    def product(block):
        raise AssertionError

    like, size = {"a": jnp.zeros(3)}, {"passes": 5, "oversampling": 2}
    for none in (
        leading(product, like, 0, KEY, **size),
        leading_by_root(product, product, jnp.zeros(2), like, 0, KEY, **size),
    ):
        assert none.factor["a"].shape == (0, 3)
        assert none.eigenvalues.shape == none.residuals.shape == (0,)
