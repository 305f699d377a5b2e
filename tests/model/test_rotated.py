"""The curvature in eigenbases, against the dense Gauss-Newton matrix turned into them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from backcast.model import Batch, Categorical, as_model, rotated_ggn
from model.test_kronecker import block_indices, dense_ggn

pytestmark = pytest.mark.usefixtures("quick_compiles")

KEY = jax.random.key(0)


def tokens(params, x):
    """A weight for every token, and one that is used twice."""
    x = jnp.tanh(x @ params["each"] + params["bias"])
    return jnp.tanh(x @ params["again"]) @ params["again"] * params["scale"]


def image(params, x):
    """A convolution, and a dense layer on top."""
    x = lax.conv_general_dilated(
        x, params["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jnp.tanh(x + params["bias"]).reshape(len(x), -1) @ params["head"]


NETWORKS = {
    "tokens": (tokens, {"each": (2, 3), "bias": (3,), "again": (3, 3), "scale": (3,)}, (4, 2, 2)),
    "image": (image, {"kernel": (2, 2, 1, 2), "bias": (2,), "head": (12, 3)}, (4, 2, 3, 1)),
}


def drawn(name: str):
    """A network, and a batch for it."""
    rng = np.random.default_rng(0)
    apply, shapes, inputs = NETWORKS[name]
    model = as_model((apply, {k: jnp.asarray(rng.normal(size=s)) for k, s in shapes.items()}))
    x = rng.normal(size=inputs)
    outputs = apply(model.params, jnp.asarray(x)).shape
    return model, Batch(x, rng.integers(0, outputs[-1], outputs[:-1]))


def turned(dense: np.ndarray, model, block, u, v) -> np.ndarray:
    """The layer's part of a dense matrix, in the bases ``u`` and ``v``."""
    leaves, _ = jax.tree.flatten(model.params)
    ends = np.cumsum([0, *(leaf.size for leaf in leaves)])
    places = [
        np.arange(a, b, dtype=float).reshape(leaf.shape)
        for a, b, leaf in zip(ends, ends[1:], leaves, strict=False)
    ]
    order = np.asarray(block.gather([jnp.asarray(p) for p in places]), int).ravel()
    turn = np.kron(np.asarray(u), np.asarray(v))
    return turn @ dense[np.ix_(order, order)] @ turn.T


@pytest.mark.float64
@pytest.mark.parametrize("name", NETWORKS)
def test_bases_and_eigenvalues_are_those_of_the_dense_matrix(name):
    """Layers used in many places or twice, too: partial traces and diagonal are exact."""
    model, batch = drawn(name)
    truth = dense_ggn(model, Categorical(), batch)
    found = rotated_ggn(model, Categorical(), [batch], key=KEY).precision
    values = jax.tree.leaves(found.diag)
    outside = set(range(len(truth)))
    for block, u, v in zip(found.blocks, found.left, found.right, strict=True):
        outside -= set(block_indices(model, block))
        H = turned(truth, model, block, u, v)
        m, n = len(u), len(v)
        np.testing.assert_allclose(u @ u.T, np.eye(m), atol=1e-12)
        np.testing.assert_allclose(block.gather(values).ravel(), np.diag(H), rtol=1e-9, atol=1e-12)
        H = H.reshape(m, n, m, n)
        scale = 1e-10 * np.abs(H).max() * m * n
        for trace in (np.einsum("ijkj->ik", H), np.einsum("ijil->jl", H)):
            assert np.abs(trace - np.diag(np.diag(trace))).max() <= scale
            assert (np.diff(np.diag(trace)) <= scale).all()
    rest = sorted(outside)
    leaves = np.concatenate([np.ravel(leaf) for leaf in values])
    np.testing.assert_allclose(leaves[rest], np.diag(truth)[rest], rtol=1e-9, atol=1e-12)


@pytest.mark.float64
def test_leading_directions_share_the_rest_of_the_trace():
    model, batch = drawn("tokens")
    whole = rotated_ggn(model, Categorical(), [batch], key=KEY).precision
    kept = rotated_ggn(model, Categorical(), [batch], key=KEY, rank=1).precision
    expected = whole.compressed(1, "diagonal")[0]
    np.testing.assert_allclose(kept.as_dense(), expected.as_dense(), rtol=1e-9, atol=1e-12)


def test_values_that_are_not_finite_are_refused():
    model = as_model((lambda p, x: jnp.log(x @ p["w"]), {"w": -jnp.ones((2, 2))}))
    with pytest.raises(ValueError, match="curvature must be finite"):
        rotated_ggn(model, Categorical(), [Batch(np.ones((1, 2)), np.zeros(1, int))], key=KEY)
