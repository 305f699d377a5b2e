"""The Kronecker factors against the dense Gauss-Newton matrix where they are exact, and loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backcast.linalg.blocks import Block
from backcast.linalg.kronecker import Kronecker
from backcast.model import Batch, Categorical, Gaussian, as_model
from backcast.model.kronecker import kronecker_ggn
from model.networks import ZOO

pytestmark = pytest.mark.usefixtures("quick_compiles")

KEY = jax.random.key(0)


def dense_ggn(model, likelihood, batch) -> np.ndarray:
    """``J^T S S^T J / n``, from explicit Jacobians and Hessians."""
    flat, unravel = jax.flatten_util.ravel_pytree(model.params)
    x, y = jnp.asarray(batch.x), jnp.asarray(batch.y)

    def outputs(theta):
        return model.apply(unravel(theta), model.state, x)[0]

    def total(f):
        return jnp.sum(likelihood.loss(f, y))

    f = outputs(flat)
    J = jax.jacobian(outputs)(flat).reshape(f.size, flat.size)
    H = jax.hessian(total)(f).reshape(f.size, f.size)
    return np.asarray(J.T @ H @ J) / len(x)


def block_indices(model, block) -> np.ndarray:
    ends = np.cumsum([0, *(leaf.size for leaf in jax.tree.leaves(model.params))])
    return np.concatenate([np.arange(ends[i], ends[i + 1]) for i in block.leaves])


@pytest.mark.float64
@pytest.mark.parametrize("animal", [a for a in ZOO if a.architecture in ("mlp", "conv")], ids=str)
def test_one_example_in_one_place_is_exact(animal):
    """The block of a weight that is used once is ``a a^T x sum g g^T``: no expectation is split."""
    network, x = animal(jax.random.key(1))
    model, batch = as_model(network), Batch(np.asarray(x[:1]), np.zeros(1, int))
    truth = dense_ggn(model, Categorical(), batch)
    found = kronecker_ggn(model, Categorical(), [batch], key=KEY).precision
    dense = np.asarray(found.as_dense())
    outside = set(range(len(truth)))
    for block in found.blocks:
        indices = block_indices(model, block)
        outside -= set(indices)
        if len(block.rows) == 1:  # a convolution has many places
            part = np.ix_(indices, indices)
            np.testing.assert_allclose(dense[part], truth[part], rtol=1e-9, atol=1e-12)
    rest = sorted(outside)
    np.testing.assert_allclose(np.diag(dense)[rest], np.diag(truth)[rest], rtol=1e-9, atol=1e-12)


@pytest.mark.float64
@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_with_one_place_is_a_dense_layer(stride):
    """Patches and kernels have their entries in the same order."""
    rng = np.random.default_rng(0)
    params = {
        "kernel": jnp.asarray(rng.standard_normal((3, 2, 2, 4))),
        "bias": jnp.asarray(rng.standard_normal(4)),
        "head": jnp.asarray(rng.standard_normal((4, 3))),
    }

    def apply(params, x):
        x = jax.lax.conv_general_dilated(
            x, params["kernel"], (stride, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return jnp.tanh(x + params["bias"]).reshape(len(x), -1) @ params["head"]

    model = as_model((apply, params))
    batch = Batch(rng.standard_normal((1, 3, 2, 2)), np.zeros(1, int))
    truth = dense_ggn(model, Categorical(), batch)
    found = kronecker_ggn(model, Categorical(), [batch], key=KEY).precision
    dense = np.asarray(found.as_dense())
    for block in found.blocks:
        part = np.ix_(block_indices(model, block), block_indices(model, block))
        np.testing.assert_allclose(dense[part], truth[part], rtol=1e-9, atol=1e-12)


@pytest.mark.float64
def test_a_linear_gaussian_network_has_exactly_kronecker_curvature():
    """``E[a a^T] x I / variance``: the gradients do not depend on the inputs."""
    rng = np.random.default_rng(1)
    params = {"w": jnp.asarray(rng.standard_normal((4, 3))), "b": jnp.zeros(3)}
    model = as_model((lambda p, x: x @ p["w"] + p["b"], params))
    batches = [Batch(rng.standard_normal((5, 4)), rng.standard_normal((5, 3))) for _ in range(3)]
    likelihood = Gaussian(0.5)
    found = kronecker_ggn(model, likelihood, batches, key=KEY)
    whole = Batch(*(np.concatenate([b[i] for b in batches]) for i in (0, 1)))
    truth = dense_ggn(model, likelihood, whole)
    np.testing.assert_allclose(found.precision.as_dense(), truth, rtol=1e-9, atol=1e-12)
    assert found.examples == 15


@pytest.mark.float64
def test_factors_are_those_of_a_loop():
    """Means over examples of ``a a^T`` and sums over outputs of ``g g^T``, by hand, with tokens."""
    rng = np.random.default_rng(2)
    W, V = rng.standard_normal((4, 5)), rng.standard_normal((5, 3))
    x, y = rng.standard_normal((6, 2, 4)), rng.integers(0, 3, (6, 2))
    weights = rng.uniform(0.5, 2, 6)
    weights[4] = 0
    model = as_model((lambda p, x: jnp.tanh(x @ p["w"]) @ p["v"], {"w": W, "v": V}))
    found = kronecker_ggn(model, Categorical(), [Batch(x, y, weights)], key=KEY).precision

    hidden = np.tanh(x @ W)
    logits = hidden @ V
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    A = {"w": np.zeros((4, 4)), "v": np.zeros((5, 5))}
    G = {"w": np.zeros((5, 5)), "v": np.zeros((3, 3))}
    for i in range(6):
        for t in range(2):
            root = np.diag(np.sqrt(p[i, t])) - np.outer(p[i, t], np.sqrt(p[i, t]))
            outer = root * np.sqrt(weights[i])
            inner = (1 - hidden[i, t] ** 2)[:, None] * (V @ outer)
            A["w"] += weights[i] * np.outer(x[i, t], x[i, t]) / (2 * weights.sum())
            A["v"] += weights[i] * np.outer(hidden[i, t], hidden[i, t]) / (2 * weights.sum())
            G["v"] += outer @ outer.T / weights.sum()
            G["w"] += inner @ inner.T / weights.sum()
    for name, left, right in zip(("w", "v"), found.left, found.right, strict=True):
        np.testing.assert_allclose(left[0], A[name], rtol=1e-9)
        np.testing.assert_allclose(right[0], G[name], rtol=1e-9)


def test_padding_counts_for_nothing():
    rng = np.random.default_rng(3)
    network, x = ZOO[0](jax.random.key(2))
    model, y = as_model(network), rng.integers(0, 3, len(x))
    whole = kronecker_ggn(model, Categorical(), [Batch(x, y)], key=KEY).precision
    weights = np.array([1.0] * len(x) + [0.0] * 2)
    again = Batch(np.concatenate([x, 9 * x[:2]]), np.concatenate([y, y[:2]]), weights)
    padded = kronecker_ggn(model, Categorical(), [again], key=KEY).precision
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(padded), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_sampled_targets_give_the_exact_factors_on_average():
    rng = np.random.default_rng(4)
    network, x = ZOO[0](jax.random.key(3))
    model, batch = as_model(network), Batch(np.asarray(x), rng.integers(0, 3, len(x)))
    exact = kronecker_ggn(model, Categorical(), [batch], key=KEY).precision
    draws = [
        kronecker_ggn(model, Categorical(), [batch], key=key, fisher="sampled").precision
        for key in jax.random.split(KEY, 200)
    ]
    for layer, truth in enumerate(exact.right):
        mean = np.mean([draw.right[layer][0] for draw in draws], axis=0)
        assert np.abs(mean - truth[0]).max() <= 0.1 * np.abs(truth).max()


def test_other_numbers_compile_nothing_again(compilations):
    rng = np.random.default_rng(5)
    network, x = ZOO[0](jax.random.key(4))
    model = as_model(network)

    def batch():
        return Batch(rng.standard_normal(x.shape).astype(np.float32), rng.integers(0, 3, len(x)))

    kronecker_ggn(model, Categorical(), [batch(), batch()], key=KEY)
    before = compilations()
    kronecker_ggn(model, Categorical(), [batch(), batch()], key=jax.random.key(9))
    assert compilations() == before


def test_values_that_are_not_finite_are_refused():
    model = as_model((lambda p, x: jnp.log(x @ p["w"]), {"w": -jnp.ones((2, 2))}))
    with pytest.raises(ValueError, match="curvature must be finite"):
        kronecker_ggn(model, Categorical(), [Batch(np.ones((1, 2)), np.zeros(1, int))], key=KEY)


@pytest.mark.float64
def test_products_and_inverses_are_those_of_the_dense_matrix():
    rng = np.random.default_rng(6)
    network, x = ZOO[0](jax.random.key(5))
    model, batch = as_model(network), Batch(np.asarray(x), rng.integers(0, 3, len(x)))
    curvature = kronecker_ggn(model, Categorical(), [batch], key=KEY).precision
    prior = Kronecker.isotropic(model.params, 0.3, curvature.blocks)
    precision = prior.add(curvature.scale(7.0)).merged(1)
    flat, unravel = jax.flatten_util.ravel_pytree(model.params)
    dense = 0.3 * np.eye(flat.size) + 7 * np.asarray(curvature.as_dense())
    vector = rng.standard_normal(flat.size)
    as_flat = lambda tree: jax.flatten_util.ravel_pytree(tree)[0]  # noqa: E731
    v = unravel(jnp.asarray(vector))
    np.testing.assert_allclose(precision.as_dense(), dense, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(as_flat(precision.mv(v)), dense @ vector, rtol=1e-9)
    np.testing.assert_allclose(precision.quad(v), vector @ dense @ vector, rtol=1e-9)
    np.testing.assert_allclose(
        as_flat(precision.solve(v)), np.linalg.solve(dense, vector), rtol=1e-8
    )
    np.testing.assert_allclose(precision.logdet(), np.linalg.slogdet(dense)[1], rtol=1e-9)
    np.testing.assert_allclose(
        as_flat(precision.variance()), np.diag(np.linalg.inv(dense)), rtol=1e-8
    )


def test_merging_loses_nothing_but_cross_terms():
    rng = np.random.default_rng(7)
    network, x = ZOO[0](jax.random.key(6))
    model = as_model(network)
    tasks = [
        kronecker_ggn(
            model, Categorical(), [Batch(np.asarray(x), rng.integers(0, 3, len(x)))], key=key
        ).precision
        for key in jax.random.split(KEY, 3)
    ]
    exact = Kronecker.isotropic(model.params, 0.1, tasks[0].blocks, rank=3)
    osla = Kronecker.isotropic(model.params, 0.1, tasks[0].blocks, rank=1)
    for task in tasks:
        exact, osla = exact.add(task).merged(3), osla.add(task).merged(1)
    truth = 0.1 * np.eye(len(exact.as_dense())) + sum(np.asarray(t.as_dense()) for t in tasks)
    np.testing.assert_allclose(exact.as_dense(), truth, rtol=1e-4, atol=1e-5)
    for layer in range(2):
        np.testing.assert_allclose(osla.left[layer][0], sum(t.left[layer][0] for t in tasks))
        np.testing.assert_allclose(osla.right[layer][0], sum(t.right[layer][0] for t in tasks))


def test_noise_is_refused_and_none_changes_nothing():
    precision = Kronecker.isotropic({"w": jnp.ones((2, 3))}, 2.0, (Block(0, (0,), (1,)),))
    still = precision.drift({"w": 0.0})
    assert all(
        (a == b).all() for a, b in zip(*map(jax.tree.leaves, (still, precision)), strict=True)
    )
    with pytest.raises(ValueError, match="process noise of a Kronecker precision must be zero"):
        precision.drift({"w": 1e-3})
    with pytest.raises(Exception, match="process noise of a Kronecker precision must be zero"):
        jax.block_until_ready(jax.jit(Kronecker.drift)(precision, {"w": 1e-3}))


def test_more_than_one_product_has_no_inverse():
    precision = Kronecker.isotropic({"w": jnp.ones((2, 3))}, 2.0, (Block(0, (0,), (1,)),), rank=2)
    with pytest.raises(ValueError, match=r"sum of 2 Kronecker products .* merged\(1\)"):
        precision.solve({"w": jnp.ones((2, 3))})
