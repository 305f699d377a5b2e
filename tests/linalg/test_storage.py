"""A factor kept in 16 bits: its entries are rounded, but no sum over them is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backcast.linalg import DiagLowRank, compress
from linalg.precisions import flatten, jitted, unflatten
from linalg.test_precision import matrix_error

SPACE = {"w": (4, 50), "b": (3,)}
D = 203
RNG = np.random.default_rng(0)
ROUNDING = {jnp.bfloat16: 2**-8, jnp.float16: 2**-11}
halves = pytest.mark.parametrize("half", ROUNDING, ids=["bfloat16", "float16"])


def stored(half) -> tuple[DiagLowRank, np.ndarray]:
    """A precision with its factor in 16 bits, and what its entries are."""
    d, W = RNG.uniform(0.5, 2, D).astype(np.float32), RNG.standard_normal((3, D))
    factor = jax.tree.map(lambda w: w.astype(half), unflatten(SPACE, W.astype(np.float32)))
    P = DiagLowRank(unflatten(SPACE, d), factor)
    return P, dense(P)


def dense(P: DiagLowRank) -> np.ndarray:
    leaves = [np.asarray(w, np.float64).reshape(P.rank, -1) for w in jax.tree.leaves(P.factor)]
    W = np.concatenate(leaves, axis=1)
    return np.diag(flatten(P.diag)) + W.T @ W


def sums(P: DiagLowRank, x):
    return P.mv(x), P.quad(x), P.solve(x), P.variance(), P.diagonal(), P.logdet()


def made(P: DiagLowRank, q):
    return P.drift(q), P.scale(3.0), P.add(P), compress(P.add(P), 3)[0]


@halves
def test_sums_are_as_exact_as_with_float32(half):
    P, matrix = stored(half)
    v = unflatten(SPACE, RNG.standard_normal(D).astype(np.float32))
    v = jax.tree.map(lambda x: x.astype(half), v)
    x = flatten(v)
    inverse = np.linalg.inv(matrix)
    truths = (
        matrix @ x,
        x @ matrix @ x,
        inverse @ x,
        np.diag(inverse),
        np.diag(matrix),
        np.linalg.slogdet(matrix)[1],
    )
    for got, exact in zip(jitted(sums)(P, v), truths, strict=True):
        np.testing.assert_allclose(flatten(got), exact, rtol=1e-4, atol=1e-5 * np.abs(exact).max())


@halves
def test_what_is_made_of_it_is_stored_alike(half):
    P, matrix = stored(half)
    q = unflatten(SPACE, np.full(D, 0.5, np.float32))
    drifted = np.linalg.inv(np.linalg.inv(matrix) + 0.5 * np.eye(D))
    truths = (drifted, 3 * matrix, 2 * matrix, 2 * matrix)
    for result, exact in zip(jitted(made)(P, q), truths, strict=True):
        assert all(w.dtype == half for w in jax.tree.leaves(result.factor))
        assert all(d.dtype == jnp.float32 for d in jax.tree.leaves(result.diag))
        assert matrix_error(dense(result), exact) <= 4 * ROUNDING[half]
