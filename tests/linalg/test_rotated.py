"""What sums and truncated bases of rotated precisions keep and lose, against dense matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backcast.linalg import Block, DiagLowRank, Rotated, compress
from linalg.precisions import jitted

pytestmark = pytest.mark.usefixtures("quick_compiles")

SHAPE = M, N = 4, 3
BLOCK = Block(0, (0,), (1,))
VECTOR = {"w": jnp.ones(SHAPE)}


def rotation(rng, size):
    return np.linalg.qr(rng.normal(size=(size, size)))[0]


def drawn(seed: int, left: int = M, right: int = N) -> Rotated:
    """Bases of its own, and so many directions of them."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.1, 5, SHAPE)
    values[left:] = values[left : left + 1]
    values[:, right:] = values[:, right : right + 1]
    bases = rotation(rng, M)[:left], rotation(rng, N)[:right]
    return Rotated({"w": jnp.asarray(values)}, *((jnp.asarray(b),) for b in bases), (BLOCK,))


def dense(P: Rotated) -> np.ndarray:
    return np.asarray(jitted(Rotated.as_dense)(P))


def added(P, Q):
    return P.add(Q)


def traces(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    H = matrix.reshape(M, N, M, N)
    return np.einsum("ijkj->ik", H), np.einsum("ijil->jl", H)


@pytest.mark.float64
@pytest.mark.parametrize("kept", [(M, N), (1, N), (1, 1)], ids=str)
def test_a_sum_keeps_its_partial_traces_and_the_diagonal_in_the_new_bases(kept):
    P, Q = drawn(0, *kept), drawn(1, *kept)
    total, found = dense(P) + dense(Q), jitted(added)(P, Q)
    for got, truth in zip(traces(dense(found)), traces(total), strict=True):
        np.testing.assert_allclose(got, truth, atol=1e-12)
    u, v = np.asarray(found.left[0]), np.asarray(found.right[0])
    assert (len(u), len(v)) == tuple(np.minimum(SHAPE, 2 * np.array(kept)))
    inside = np.kron(u, v)
    np.testing.assert_allclose(
        np.asarray(found.diag["w"])[: len(u), : len(v)].ravel(),
        np.diag(inside @ total @ inside.T),
        atol=1e-12,
    )
    # And it does lose what is off the diagonal.
    assert np.abs(dense(found) - total).max() > 1e-3


@pytest.mark.float64
def test_bases_of_its_own_make_a_sum_exact():
    """``A_1 x I + A_2 x I``: diagonal between the eigenvectors of ``A_1 + A_2``."""
    parts = []
    for seed in (2, 3):
        P = drawn(seed)
        values = jnp.broadcast_to(P.diag["w"][:, :1], SHAPE)
        parts.append(Rotated({"w": values}, P.left, P.right, P.blocks))
    np.testing.assert_allclose(
        dense(jitted(added)(*parts)), dense(parts[0]) + dense(parts[1]), atol=1e-12
    )


@pytest.mark.float64
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_fewer_directions_have_the_mean_in_place_of_the_others(rank):
    P = drawn(4)
    fewer = compress(P, rank)[0]
    assert fewer.rank == rank
    values = np.array(P.diag["w"])
    values[rank:] = values[rank:].mean(axis=0)
    values[:, rank:] = values[:, rank:].mean(axis=1, keepdims=True)
    turn = np.kron(P.left[0], P.right[0])
    np.testing.assert_allclose(dense(fewer), turn.T @ np.diag(values.ravel()) @ turn, atol=1e-12)


@pytest.mark.float64
def test_many_precisions_at_once():
    many = [drawn(seed) for seed in (5, 6)]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *many)
    found = jax.jit(jax.vmap(lambda P: P.drift({"w": 0.3}).as_dense()))(stacked)
    for one, P in zip(found, many, strict=True):
        truth = np.linalg.inv(np.linalg.inv(dense(P)) + 0.3 * np.eye(M * N))
        np.testing.assert_allclose(one, truth, atol=1e-12)


def test_what_stands_still_is_not_turned_there_and_back():
    P, x = drawn(7), {"w": jnp.asarray(np.random.default_rng(0).normal(size=SHAPE), "f")}
    np.testing.assert_array_equal(P.gain({"w": 0.0}, x)["w"], x["w"])


def test_noise_within_a_layer_is_one_number():
    P, q = drawn(8), jnp.full(SHAPE, 0.1).at[0, 0].set(0.2)
    for operation in (P.drift, lambda q: P.gain(q, VECTOR)):
        with pytest.raises(
            ValueError, match=r"must be zero, but 0\.1.* in leaf 'w'.*diagonal plus"
        ):
            operation({"w": q})
    with pytest.raises(Exception, match=r"within a layer .* must be zero, but other values"):
        jax.block_until_ready(jitted(Rotated.drift)(P, {"w": q}))


def test_a_sum_with_another_structure_is_refused():
    with pytest.raises(TypeError, match=r"Only a Rotated precision .* not a DiagLowRank"):
        drawn(9).add(DiagLowRank.isotropic(VECTOR, 1.0))


@pytest.mark.parametrize("basis", [jnp.eye(M + 1), jnp.ones((M + 1, M))], ids=["other", "many"])
def test_bases_that_fit_no_layer(basis):
    with pytest.raises(ValueError, match=r"bases of layer 'w' .* 4 rows and 3 columns needs"):
        Rotated(VECTOR, (basis,), (jnp.eye(N),), (BLOCK,))


def test_a_diagonal_in_few_directions_is_averaged():
    diag = {"w": jnp.arange(1.0, 13.0).reshape(SHAPE)}
    assert (Rotated.diagonal_in(diag, (BLOCK,)).diagonal()["w"] == diag["w"]).all()
    few = Rotated.diagonal_in(diag, (BLOCK,), 1)
    np.testing.assert_allclose(np.sum(few.diagonal()["w"]), 78.0)
    assert few.left[0].shape == (1, M)
