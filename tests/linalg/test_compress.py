"""Compression against the dense singular value decomposition."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given
from jax.test_util import check_grads

import oracles
from backcast.linalg import DiagLowRank, compress
from linalg.precisions import SPACES, diag_low_rank, draws, flatten, jitted, size, unflatten

SPACE = SPACES["flat"]
D = size(SPACE)
ROWS = 5
TOLERANCE = {np.float32: 1e-5, np.float64: 1e-13}
DTYPES = [np.float32, pytest.param(np.float64, marks=pytest.mark.float64)]
either = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
both_remainders = pytest.mark.parametrize("remainder", ["drop", "diagonal"])


@functools.cache
def compressed(rank: int, remainder: str):
    return jax.jit(lambda P: compress(P, rank, remainder))


def rows_of(P: DiagLowRank) -> np.ndarray:
    """``W`` as one float64 matrix."""
    leaves = [np.asarray(w, np.float64) for w in jax.tree.leaves(P.factor)]
    return np.concatenate([w.reshape(P.rank, math.prod(w.shape[1:])) for w in leaves], axis=1)


def plain(values: np.ndarray, diag: float = 1.0) -> DiagLowRank:
    """``diag * I + values^T values`` over the space."""
    return DiagLowRank(
        unflatten(SPACE, np.full(D, diag, values.dtype)), unflatten(SPACE, np.asarray(values))
    )


@either
def test_no_other_rows_err_less_and_more_rows_never_err_more(dtype):
    @given(draw=draws(dtype))
    def check(draw):
        P, _ = diag_low_rank(draw, SPACE, ROWS, True)
        W = rows_of(P)
        values = np.append(np.linalg.svd(W, compute_uv=False) ** 2, 0)
        rounding = TOLERANCE[dtype] * values[0]
        errors = []
        for rank in range(ROWS + 1):
            smaller, spectrum = compressed(rank, "drop")(P)
            W_k = rows_of(smaller)
            assert W_k.shape == (rank, D)
            errors.append(np.linalg.norm(W.T @ W - W_k.T @ W_k, 2))
            # Eckart and Young: the smallest error possible is the first eigenvalue left out.
            assert abs(errors[-1] - values[rank]) <= rounding
            np.testing.assert_allclose(spectrum.retained, values[:rank], rtol=0, atol=rounding)
            np.testing.assert_allclose(spectrum.deflated, values[rank:-1], rtol=0, atol=rounding)
            np.testing.assert_array_equal(flatten(smaller.diag), flatten(P.diag))
        assert all(after <= before + rounding for before, after in itertools.pairwise(errors))

    check()


@either
def test_the_remainder_on_the_diagonal_keeps_the_diagonal(dtype):
    @given(draw=draws(dtype))
    def check(draw):
        P, _ = diag_low_rank(draw, SPACE, ROWS, True)
        before = flatten(P.diag) + np.sum(rows_of(P) ** 2, axis=0)
        for rank in (0, 2):
            smaller, _ = compressed(rank, "diagonal")(P)
            after = flatten(smaller.diag) + np.sum(rows_of(smaller) ** 2, axis=0)
            np.testing.assert_allclose(after, before, rtol=32 * np.finfo(dtype).eps)
            np.testing.assert_allclose(
                flatten(jitted(DiagLowRank.diagonal)(smaller)),
                before,
                rtol=32 * np.finfo(dtype).eps,
            )

    check()


@either
@both_remainders
def test_the_result_is_positive_definite(remainder, dtype):
    @given(draw=draws(dtype))
    def check(draw):
        P, _ = diag_low_rank(draw, SPACE, ROWS, False)
        for rank in (0, 2, 4):
            smaller, _ = compressed(rank, remainder)(P)
            assert (flatten(smaller.diag) >= flatten(P.diag)).all()
            exact = oracles.Exact.diag_low_rank(flatten(smaller.diag), rows_of(smaller))
            with mpmath.workdps(oracles.DIGITS):
                mpmath.cholesky(exact.matrix)  # raises where there is no such root

    check()


@pytest.mark.parametrize("rank", [ROWS, ROWS + 1, D + 1])
def test_as_many_rows_as_there_are_stay_what_they_are(rank):
    P = plain(np.random.default_rng(0).standard_normal((ROWS, D)).astype(np.float32))
    same, spectrum = compress(P, rank)
    assert same is P
    assert spectrum.retained.shape == (ROWS,)
    assert spectrum.deflated.shape == (0,)
    assert float(spectrum.kept_fraction()) == 1


def test_more_rows_than_parameters_fit_into_as_many_as_parameters():
    P = plain(np.random.default_rng(0).standard_normal((2 * D, D)).astype(np.float32))
    smaller, spectrum = compress(P, D)
    assert smaller.rank == D
    np.testing.assert_allclose(smaller.as_dense(), P.as_dense(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(spectrum.kept_fraction(), 1, rtol=1e-5)


def test_the_kept_fraction_is_that_of_the_trace():
    P = plain(np.diag([3.0, 2.0, 1.0, 0, 0, 0]).astype(np.float32)[:4])
    np.testing.assert_allclose(compress(P, 1)[1].kept_fraction(), 9 / 14, rtol=1e-6)
    np.testing.assert_allclose(compress(P, 0)[1].kept_fraction(), 0)
    nothing = plain(np.zeros((0, D), np.float32))
    assert float(compress(nothing, 0)[1].kept_fraction()) == 1


def test_compressing_many_at_once_is_compressing_each():
    values = np.random.default_rng(1).standard_normal((3, ROWS, D)).astype(np.float32)
    each = [compressed(2, "diagonal")(plain(v))[0].as_dense() for v in values]
    together = jax.tree.map(lambda *x: jnp.stack(x), *[plain(v) for v in values])
    at_once = jax.vmap(lambda P: compress(P, 2)[0].as_dense())(together)
    np.testing.assert_allclose(at_once, np.stack(each), rtol=1e-5, atol=1e-5)


POINTS = {
    "generic": np.random.default_rng(2).standard_normal((3, D)),
    "equal eigenvalues": np.eye(3, D) * np.array([[2.0], [2.0], [1.0]]),
    "a row of zeros": np.eye(3, D) * np.array([[2.0], [1.0], [0.0]]),
}


@functools.cache
def weighted_entries(remainder: str):
    """A function of the factor that weighs every entry of what is left of its precision."""
    weights = np.random.default_rng(3).standard_normal((D, D))

    @jax.jit
    def total(factor):
        P = DiagLowRank(unflatten(SPACE, np.ones(D)), factor)
        return jnp.sum(weights * compress(P, 2, remainder)[0].as_dense())

    return total


@pytest.mark.float64
@both_remainders
@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS.keys())
def test_the_derivative_is_that_of_differences(point, remainder):
    total, factor = weighted_entries(remainder), plain(point).factor
    check_grads(total, (factor,), order=1, modes=("fwd", "rev"), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("rank", [-1, True])
def test_a_rank_is_a_whole_number(rank):
    with pytest.raises(ValueError, match="The rank must be a whole number >= 0, but "):
        compress(plain(np.ones((2, D), np.float32)), rank)


def test_an_unknown_remainder_is_refused():
    with pytest.raises(ValueError, match='"drop" or "diagonal", but \'keep\' was given'):
        compress.__wrapped__(plain(np.ones((2, D), np.float32)), 1, "keep")
