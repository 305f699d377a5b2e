"""`vmap` and `grad` of the algebra, against 120 digits: derivatives by their closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backcast.linalg import DiagLowRank
from linalg.precisions import SPACES, flatten, jitted, size, unflatten
from oracles import Exact

SPACE = SPACES["nested"]
D = size(SPACE)


def precision(d: np.ndarray, W: np.ndarray) -> tuple[DiagLowRank, Exact]:
    return DiagLowRank(unflatten(SPACE, d), unflatten(SPACE, W)), Exact.diag_low_rank(d, W)


def cases():
    """Diagonals, rows and noise: ordinary, nearly parallel rows, and with zeros everywhere."""
    rng = np.random.default_rng(0)
    d, W, q = rng.uniform(0.5, 2, D), rng.standard_normal((3, D)), rng.uniform(0.1, 1, D)
    parallel = rng.standard_normal(D) + 1e-6 * W
    still, bare = np.where(np.arange(D) % 2, q, 0), np.where(np.arange(D) % 3, W, 0)
    bare[1] = 0
    return {"ordinary": (d, W, q), "parallel": (d, 1e3 * parallel, q), "zeros": (d, bare, still)}


every_case = pytest.mark.parametrize("case", cases().values(), ids=cases().keys())


def close(got, exact: np.ndarray) -> None:
    np.testing.assert_allclose(got, exact, rtol=1e-7, atol=1e-9 * np.abs(exact).max())


def everything(P: DiagLowRank, q, x):
    return P.mv(x), P.drift(q).as_dense(), P.gain(q, x), P.solve(x), P.logdet(), P.variance()


def many(P, q, x):
    return jax.vmap(everything)(P, q, x)


@pytest.mark.float64
def test_many_precisions_at_once():
    drawn = list(cases().values())
    x = np.random.default_rng(1).standard_normal(D)
    arguments = [
        (precision(d, W)[0], unflatten(SPACE, q), unflatten(SPACE, x)) for d, W, q in drawn
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arguments)
    results = jitted(many)(*stacked)
    for i, (d, W, q) in enumerate(drawn):
        mv, drift, gain, solve, logdet, variance = jax.tree.map(lambda r, i=i: r[i], results)
        exact = Exact.diag_low_rank(d, W)
        close(flatten(mv), exact.mv(x))
        close(drift, exact.drift(q))
        close(flatten(gain), exact.gain(q, x))
        close(flatten(solve), exact.solve(x))
        close(logdet, exact.logdet())
        close(flatten(variance), np.diag(exact.inverse()))


def logdet_gradient(P):
    return jax.grad(DiagLowRank.logdet)(P)


def drifted_quad_gradient(P, q, x):
    return jax.grad(lambda q: P.drift(q).quad(x))(q)


def quad_gradient(P, x):
    return jax.grad(P.quad)(x)


def solve_change(P, y, change):
    return jax.jvp(lambda d: DiagLowRank(d, P.factor).solve(y), (P.diag,), (change,))[1]


@pytest.mark.float64
@every_case
def test_the_gradient_of_logdet_is_the_covariance(case):
    d, W, _ = case
    P, exact = precision(d, W)
    gradient = jitted(logdet_gradient)(P)
    covariance = exact.inverse()
    close(flatten(gradient.diag), np.diag(covariance))
    rows = [flatten(jax.tree.map(lambda w, i=i: w[i], gradient.factor)) for i in range(len(W))]
    np.testing.assert_allclose(rows, 2 * W @ covariance, rtol=1e-6, atol=1e-7)


@pytest.mark.float64
@every_case
def test_the_derivative_of_a_drifted_penalty_by_the_noise(case):
    """``d/dq x^T (P^-1 + diag q)^-1 x = -((P^-1 + diag q)^-1 x)^2``."""
    d, W, q = case
    P, exact = precision(d, W)
    x = np.random.default_rng(2).standard_normal(D)
    got = jitted(drifted_quad_gradient)(P, unflatten(SPACE, q), unflatten(SPACE, x))
    close(flatten(got), -((exact.drift(q) @ x) ** 2))


@pytest.mark.float64
def test_derivatives_are_finite_where_nothing_is_known():
    P, _ = precision(np.zeros(D), np.zeros((3, D)))
    nothing, x = unflatten(SPACE, np.zeros(D)), unflatten(SPACE, np.ones(D))
    assert not flatten(jitted(drifted_quad_gradient)(P, nothing, x)).any()


@pytest.mark.float64
def test_the_gradient_of_the_penalty_is_a_product():
    d, W, _ = cases()["ordinary"]
    P, exact = precision(d, W)
    x = np.random.default_rng(3).standard_normal(D)
    close(flatten(jitted(quad_gradient)(P, unflatten(SPACE, x))), 2 * exact.mv(x))


@pytest.mark.float64
@every_case
def test_forward_derivative_of_solve(case):
    """``d(P^-1 y) = -P^-1 dP P^-1 y``."""
    d, W, q = case
    P, exact = precision(d, W)
    y = np.random.default_rng(4).standard_normal(D)
    got = jitted(solve_change)(P, unflatten(SPACE, y), unflatten(SPACE, q))
    close(flatten(got), -exact.solve(q * exact.solve(y)))
