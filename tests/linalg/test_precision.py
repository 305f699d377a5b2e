"""Every structure of precision does what the protocol says, against 120 digits.

Errors are measured in natural norms, in which nothing is lost to the units of the parameters:

- a matrix like ``P``: ``|E_ij| / (P_ii P_jj)^(1/2)``, and vectors ``P x`` accordingly;
- a covariance: the same with ``1/d``, the variance before the low-rank part, for ``P_ii``;
- the gain ``G``: in units of the noise, ``q^(1/2)``, in which it is a contraction;
- ``log det P``: relative to the sum of the absolute logarithms it is made of.
"""

import jax
import numpy as np
import pytest
from hypothesis import given

from linalg.precisions import SPACES, STRUCTURES, draws, flatten, jitted, size, unflatten

TOLERANCE = {np.float32: 1e-4, np.float64: 1e-9}
DTYPES = [np.float32, pytest.param(np.float64, marks=pytest.mark.float64)]


def cases():
    for structure in STRUCTURES:
        for rank, space in structure.spaces.items():
            yield pytest.param((structure, rank, SPACES[space]), id=f"{structure.name}-rank{rank}")


@pytest.fixture(params=cases())
def case(request):
    return request.param


@pytest.fixture(params=DTYPES, ids=["float32", "float64"])
def dtype(request):
    return request.param


def matrix_error(got, exact: np.ndarray, unit: np.ndarray | None = None) -> float:
    """``max |E_ij| / (u_i u_j)``, where ``u^2`` is the exact diagonal unless given."""
    unit = np.sqrt(np.diag(exact)) if unit is None else unit
    error = np.abs(np.asarray(got, float) - exact)
    scale = np.outer(unit, unit)
    assert not error[scale == 0].any()
    return float(np.max(error[scale > 0] / scale[scale > 0], initial=0))


def vector_error(got, exact: np.ndarray, unit: np.ndarray, size: float) -> float:
    """``max |e_i| / u_i``, relative to ``size``."""
    error = np.abs(flatten(got) - exact)
    assert not error[unit * size == 0].any()
    return float(np.max(error[unit > 0] / unit[unit > 0], initial=0) / (size or 1))


def mv(P, x):
    return P.mv(x)


def quad(P, x):
    return P.quad(x)


def dense_scale(P, strength):
    return P.scale(strength).as_dense()


def dense_sum(P, other):
    return P.add(other).as_dense()


def dense_drift(P, q):
    return P.drift(q).as_dense()


def gain(P, q, x):
    return P.gain(q, x)


def solve(P, y):
    return P.solve(y)


def logdet(P):
    return P.logdet()


def variance(P):
    return P.variance()


def roots(P, basis):
    return jax.vmap(P.color)(basis)


def test_as_dense(case, dtype):
    structure, rank, space = case

    @given(draw=draws(dtype))
    def check(draw):
        P, exact = structure.make(draw, space, rank, True)
        assert matrix_error(jitted(type(P).as_dense)(P), exact.dense()) <= TOLERANCE[dtype]

    check()


def test_mv_and_quad(case, dtype):
    structure, rank, space = case

    @given(draw=draws(dtype))
    def check(draw):
        P, exact = structure.make(draw, space, rank, True)
        x = draw.signed(size(space))
        unit = np.sqrt(np.diag(exact.dense()))
        length = unit @ np.abs(x.astype(float))
        got = jitted(mv)(P, unflatten(space, x))
        assert vector_error(got, exact.mv(x), unit, length) <= TOLERANCE[dtype]
        got = float(jitted(quad)(P, unflatten(space, x)))
        assert abs(got - exact.quad(x)) <= TOLERANCE[dtype] * length**2

    check()


def test_add(case, dtype):
    structure, rank, space = case

    @given(draw=draws(dtype))
    def check(draw):
        P, exact = structure.make(draw, space, rank, True)
        other, exact_other = structure.make(draw, space, rank, True)
        got = jitted(dense_sum)(P, other)
        assert matrix_error(got, exact.plus(exact_other).dense()) <= TOLERANCE[dtype]

    check()


def test_scale(case, dtype):
    structure, rank, space = case

    @given(draw=draws(dtype))
    def check(draw):
        P, exact = structure.make(draw, space, rank, True)
        strength = draw.with_zeros(1)[0]
        got = jitted(dense_scale)(P, strength)
        assert matrix_error(got, float(strength) * exact.dense()) <= TOLERANCE[dtype]

    check()


def test_drift(case, dtype):
    structure, rank, space = case

    @given(draw=draws(dtype))
    def check(draw):
        P, exact = structure.make(draw, space, rank, True)
        q = structure.noise(draw, space)
        got = jitted(dense_drift)(P, unflatten(space, q))
        assert matrix_error(got, exact.drift(q)) <= TOLERANCE[dtype]

    check()


def test_gain(case, dtype):
    structure, rank, space = case

    @given(draw=draws(dtype))
    def check(draw):
        P, exact = structure.make(draw, space, rank, True)
        q, x = structure.noise(draw, space), draw.signed(size(space))
        got = jitted(gain)(P, unflatten(space, q), unflatten(space, x))
        # Where a parameter drifts, its own unit; where it does not, the precision's, as seen later.
        unit, still = np.sqrt(q.astype(float)), q == 0
        seen = np.sqrt(np.diag(exact.drift(q)))[still] @ np.abs(x.astype(float)[still])
        length = np.sum(np.abs(x.astype(float))[~still] / unit[~still]) + seen
        assert vector_error(got, exact.gain(q, x), unit, length) <= TOLERANCE[dtype]

    check()


def test_solve(case, dtype):
    structure, rank, space = case

    @given(draw=draws(dtype))
    def check(draw):
        P, exact = structure.make(draw, space, rank, False)
        y = draw.signed(size(space))
        unit = 1 / np.sqrt(exact.floor)
        length = unit @ np.abs(y.astype(float))
        got = jitted(solve)(P, unflatten(space, y))
        assert vector_error(got, exact.solve(y), unit, length) <= TOLERANCE[dtype]

    check()


def test_logdet(case, dtype):
    structure, rank, space = case

    @given(draw=draws(dtype))
    def check(draw):
        P, exact = structure.make(draw, space, rank, False)
        base = np.log(exact.floor)
        parts = 1 + np.sum(np.abs(base)) + exact.logdet() - np.sum(base)
        assert abs(float(jitted(logdet)(P)) - exact.logdet()) <= TOLERANCE[dtype] * parts

    check()


def test_variance(case, dtype):
    structure, rank, space = case

    @given(draw=draws(dtype))
    def check(draw):
        P, exact = structure.make(draw, space, rank, False)
        got, unit = flatten(jitted(variance)(P)), 1 / exact.floor
        assert np.max(np.abs(got - np.diag(exact.inverse())) / unit) <= TOLERANCE[dtype]
        # Whatever rounding does, a variance is positive, and within the bounds it always has.
        rounding = 1 + 100 * np.finfo(dtype).eps
        assert (got * rounding >= 1 / np.diag(exact.dense())).all()
        assert (got <= unit * rounding).all()

    check()


def test_color_is_a_root_of_the_covariance(case, dtype):
    structure, rank, space = case

    @given(draw=draws(dtype))
    def check(draw):
        P, exact = structure.make(draw, space, rank, False)
        basis = np.eye(size(space), dtype=dtype)
        columns = jitted(roots)(P, unflatten(space, basis))
        root = np.stack(
            [flatten(jax.tree.map(lambda x, i=i: x[i], columns)) for i in range(len(basis))]
        )
        covariance = root.T @ root
        error = matrix_error(covariance, exact.inverse(), 1 / np.sqrt(exact.floor))
        assert error <= TOLERANCE[dtype]

    check()
