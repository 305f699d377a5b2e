"""A task's model in use: predictions, and what a belief about the weights makes of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backcast.inference import Belief
from backcast.learning import TaskModel
from backcast.linalg import DiagLowRank
from backcast.model import Bernoulli, Gaussian, as_model
from learning.small import linear


def believed(outputs=1):
    """A linear model of 3 inputs and a belief about it."""
    rng = np.random.default_rng(0)
    mean = {"w": rng.normal(size=(3, outputs)), "b": rng.normal(size=outputs)}
    mean = jax.tree.map(lambda m: jnp.asarray(m, jnp.float32), mean)
    rows = jax.tree.map(lambda m: jnp.asarray(rng.normal(size=(2, *m.shape)), jnp.float32), mean)
    return mean, Belief(mean, DiagLowRank(jax.tree.map(jnp.ones_like, mean), rows))


def test_what_is_expected_is_the_integral_over_the_weights():
    mean, belief = believed()
    model = TaskModel(as_model((linear, mean)), Bernoulli(), "a task")
    x = np.random.default_rng(1).normal(size=(7, 3)).astype(np.float32)
    design = np.concatenate([np.ones((7, 1)), x], axis=1)  # in the order of flattening: b, w
    covariance = np.linalg.inv(np.asarray(belief.precision.as_dense(), float))
    spread = np.sqrt(np.einsum("ni,ij,nj->n", design, covariance, design))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    logits = np.asarray(linear(mean, x), float) + spread[:, None] * nodes
    truth = (1 / (1 + np.exp(-logits))) @ weights / weights.sum()
    found = np.asarray(model.expected(x, belief, samples=4000, batch_size=4))[:, 0]
    np.testing.assert_allclose(found, truth, atol=4 * 0.5 / np.sqrt(4000))
    # The mean alone is too sure of itself.
    alone = np.asarray(model.predict_proba(x))[:, 0]
    assert np.all(np.abs(truth - 0.5) < np.abs(alone - 0.5))
    assert np.max(np.abs(alone - found)) > 2 * np.max(np.abs(found - truth))
    np.testing.assert_array_equal(
        model.expected(x, belief, seed=1), model.expected(x, belief, seed=1)
    )


def test_what_is_foreseen_is_the_integral_over_the_weights():
    mean, belief = believed()
    model = TaskModel(as_model((linear, mean)), Gaussian(0.7), "a task")
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(7, 3)).astype(np.float32), rng.normal(size=(7, 1)).astype(np.float32)
    design = np.concatenate([np.ones((7, 1)), x], axis=1)
    covariance = np.linalg.inv(np.asarray(belief.precision.as_dense(), float))
    variance = np.einsum("ni,ij,nj->n", design, covariance, design) + 0.7**2
    surprise = y[:, 0] - np.asarray(linear(mean, x), float)[:, 0]
    truth = np.mean(surprise**2 / variance + np.log(2 * np.pi * variance)) / 2
    found = model.predictive_loss(x, y, belief, samples=4000, batch_size=4)
    assert found == pytest.approx(truth, abs=0.05)
    assert model.loss(x, y) > truth + 0.5


def test_a_linear_mean_is_expected_as_it_is():
    mean, belief = believed(2)
    model = TaskModel(as_model((linear, mean)), Gaussian(), "a task")
    x = np.ones((4, 3), np.float32)
    sharp = Belief(mean, belief.precision.scale(1e12))
    np.testing.assert_allclose(model.expected(x, sharp), model.predict_proba(x), atol=1e-4)


def test_a_belief_about_another_network_is_refused():
    mean, _ = believed()
    model = TaskModel(as_model((linear, mean)), Bernoulli(), "a task")
    with pytest.raises(ValueError, match=r"The belief: leaf 'b' has shape \(2,\)"):
        model.expected(np.ones((1, 3), np.float32), believed(2)[1])


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_batches_of_any_size_give_the_same(batch_size):
    mean, _ = believed()
    model = TaskModel(as_model((linear, mean)), Bernoulli(), "a task")
    x = np.random.default_rng(1).normal(size=(7, 3)).astype(np.float32)
    np.testing.assert_allclose(model.outputs(x, batch_size), linear(mean, x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.outputs(x.tolist(), batch_size), linear(mean, x), rtol=1e-5)


def test_inputs_that_are_none_are_refused():
    model = TaskModel(as_model((linear, believed()[0])), Bernoulli(), "a task")
    with pytest.raises(ValueError, match=r"x\[0, 1\] is nan"):
        model.predict(np.array([[0.0, np.nan, 1.0]]))
    with pytest.raises(ValueError, match="does not take"):
        model.predict(np.ones((2, 5)))
