"""Beliefs: their penalty against dense algebra, and training that is anchored to them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from backcast.inference import Belief, anchor
from backcast.linalg import DiagLowRank
from linalg.precisions import SPACES, flatten, size, unflatten

SPACE = SPACES["nested"]
D = size(SPACE)


def tree(values: np.ndarray):
    return unflatten(SPACE, np.asarray(values, np.float32))


def belief(seed: int = 0) -> tuple[Belief, np.ndarray, np.ndarray]:
    """A belief, its mean and its precision matrix."""
    rng = np.random.default_rng(seed)
    m, d, W = rng.standard_normal(D), rng.uniform(0.5, 2, D), rng.standard_normal((3, D))
    return Belief(tree(m), DiagLowRank(tree(d), tree(W))), m, np.diag(d) + W.T @ W


def test_the_penalty_and_its_gradient():
    N, m, P = belief()
    theta = np.random.default_rng(1).standard_normal(D)
    penalty, gradient = jax.jit(jax.value_and_grad(N.penalty))(tree(theta))
    np.testing.assert_allclose(penalty, (theta - m) @ P @ (theta - m) / 2, rtol=1e-5)
    np.testing.assert_allclose(flatten(gradient), P @ (theta - m), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        flatten(N.gradient(tree(theta))), P @ (theta - m), rtol=1e-4, atol=1e-4
    )


def test_samples_have_the_beliefs_mean_and_covariance():
    N, m, P = belief()
    n = 20_000
    draws = jax.jit(jax.vmap(N.sample))(jax.random.split(jax.random.key(0), n))
    values = np.concatenate([np.reshape(x, (n, -1)) for x in jax.tree.leaves(draws)], axis=1)
    C = np.linalg.inv(P)
    deviation = np.sqrt(np.diag(C))
    # Five standard errors, of a mean and of a covariance.
    assert np.max(np.abs(values.mean(0) - m) / deviation) < 5 / np.sqrt(n)
    error = np.abs(np.cov(values.T) - C) / np.outer(deviation, deviation)
    assert np.max(error) < 5 * np.sqrt(2 / n)


def loss(params):
    """Something that is not quadratic."""
    return sum(jnp.sum(jnp.cos(x + 0.3)) for x in jax.tree.leaves(params))


@pytest.mark.parametrize(
    "optimizer", [optax.sgd(1e-2, momentum=0.9), optax.adam(1e-2)], ids=["sgd", "adam"]
)
def test_an_anchored_loop_takes_the_steps_of_one_that_adds_the_penalty(optimizer):
    N, m, P = belief()
    anchored = optax.chain(anchor(N), optimizer)
    gradient = jax.jit(jax.grad(loss))
    theta = tree(np.zeros(D))
    explicit = np.zeros(D)
    state, explicit_state = anchored.init(theta), optimizer.init(jnp.zeros(D))
    step = jax.jit(anchored.update)
    for _ in range(20):
        updates, state = step(gradient(theta), state, theta)
        theta = optax.apply_updates(theta, updates)
        full = -np.sin(explicit + 0.3) + P @ (explicit - m)
        updates, explicit_state = optimizer.update(jnp.asarray(full, jnp.float32), explicit_state)
        explicit = explicit + np.asarray(updates, float)
    np.testing.assert_allclose(flatten(theta), explicit, rtol=1e-4, atol=1e-4)
    assert np.abs(explicit).max() > 0.05


def test_anchored_to_another_belief_the_same_program_runs(compilations):
    N, m, P = belief()
    theta = tree(np.zeros(D))
    optimizer = optax.chain(anchor(N), optax.sgd(1.0))

    @jax.jit
    def step(params, state):
        return optimizer.update(jax.tree.map(jnp.zeros_like, params), state, params)[0]

    first = step(theta, optimizer.init(theta))
    np.testing.assert_allclose(flatten(first), P @ m, rtol=1e-4, atol=1e-4)
    other, m, P = belief(1)
    state = optax.chain(anchor(other), optax.sgd(1.0)).init(theta)
    before = compilations()
    second = step(theta, state)
    assert compilations() == before
    np.testing.assert_allclose(flatten(second), P @ m, rtol=1e-4, atol=1e-4)


def test_an_anchor_needs_the_parameters_it_was_made_for():
    N, _, _ = belief()
    theta = tree(np.zeros(D))
    with pytest.raises(ValueError, match=r"call optimizer.update\(gradients, state, params\)"):
        anchor(N).update(theta, anchor(N).init(theta))
    with pytest.raises(ValueError, match=r"parameters given to the optimiser .*'layer/kernel'"):
        anchor(N).init({"w": jnp.ones(3)})


def test_a_prior_is_as_precise_in_every_direction():
    mean = {"w": jnp.array([1.0, -2.0], jnp.bfloat16), "b": jnp.array(3.0)}
    prior = Belief.prior(mean, 4.0, rank=2)
    assert prior.precision.rank == 2
    np.testing.assert_array_equal(prior.precision.as_dense(), 4 * np.eye(3))
    theta = {"w": jnp.array([0.0, 0.0], jnp.bfloat16), "b": jnp.array(0.0)}
    np.testing.assert_allclose(prior.penalty(theta), 4 * (1 + 4 + 9) / 2)
    assert jax.jit(Belief.sample)(prior, jax.random.key(0))["w"].dtype == jnp.bfloat16


@pytest.mark.parametrize("precision", [-1.0, np.nan, np.inf])
def test_a_prior_has_a_precision_at_least_zero(precision):
    with pytest.raises(ValueError, match="The precision must be finite and >= 0, but"):
        Belief.prior({"w": jnp.ones(2)}, precision)


@pytest.mark.parametrize(
    ("mean", "message"),
    [
        ({}, "The belief's mean are an empty tree"),
        ({"w": jnp.ones(2, int)}, "The belief's mean: leaf 'w' is int32"),
        ({"w": jnp.ones(2, complex)}, "The belief's mean: leaf 'w' is complex64"),
        ({"w": jnp.ones(4)}, r"leaf 'w' has shape \(2,\), but the parameters need \(4,\)"),
    ],
)
def test_a_mean_that_fits_no_precision(mean, message):
    with pytest.raises(ValueError, match=message):
        Belief(mean, DiagLowRank.isotropic({"w": jnp.ones(2)}, 1.0))


def test_parameters_of_another_shape():
    N = Belief.prior({"w": jnp.ones((2, 3))}, 1.0)
    with pytest.raises(ValueError, match=r"leaf 'w' has shape \(3, 2\), but .* need \(2, 3\)"):
        N.penalty({"w": jnp.ones((3, 2))})
