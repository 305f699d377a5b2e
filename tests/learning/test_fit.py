"""Training finds the mode, whatever the optimiser and however the data comes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from backcast.inference import Belief
from backcast.learning import steps
from backcast.learning.examples import as_examples
from backcast.learning.fit import DivergedError, Problem, Training, fit
from backcast.learning.progress import Silent
from backcast.linalg import DiagLowRank
from backcast.model import Categorical, Gaussian, GaussianLearnedNoise, as_model
from learning.small import hidden, hidden_params, linear

KEY = jax.random.key(7)


def accept(batch):
    pass


def problem(network, likelihood, x, y=None, weights=None, batch_size=16, anchoring=1.0, **more):
    model = as_model(network)
    belief = Belief.prior(jax.tree.map(jnp.zeros_like, model.params), 0.3, rank=2)
    examples = as_examples(x, y, weights, batch_size, accept)
    return Problem(model, likelihood, belief, anchoring, examples, **more)


def classes(n=48, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    return x, np.argmax(x[:, :3] + 0.1 * rng.normal(size=(n, 3)), axis=1)


def leaves(fitted):
    return jax.tree.leaves(fitted.weights.params)


@pytest.mark.float64
def test_the_mode_of_a_linear_model_is_the_weighted_ridge_solution():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    weights = rng.uniform(0.5, 2.0, size=20)
    factor = {
        "w": jnp.asarray(rng.normal(size=(2, 3, 2))),
        "b": jnp.asarray(rng.normal(size=(2, 2))),
    }
    mean = {"w": jnp.asarray(rng.normal(size=(3, 2))), "b": jnp.asarray(rng.normal(size=2))}
    belief = Belief(mean, DiagLowRank(jax.tree.map(lambda m: 0.5 + m**2, mean), factor))
    model = as_model((linear, jax.tree.map(jnp.zeros_like, mean)))
    examples = as_examples(x, y, weights, 20, accept)
    total = weights.sum()
    fitted = fit(
        Problem(model, Gaussian(0.7), belief, 1 / total, examples),
        optax.lbfgs(),
        Training(epochs=60),
        Silent(),
        KEY,
    )
    # theta = (X^T R X + P)^-1 (X^T R y + P m), in the order in which the tree is flattened: b, w.
    design = np.concatenate([np.kron(np.ones((20, 1)), np.eye(2)), np.kron(x, np.eye(2))], axis=1)
    noise = np.repeat(weights / 0.7**2, 2)
    P = np.asarray(belief.precision.as_dense())
    m = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(mean)])
    truth = np.linalg.solve(
        design.T @ (noise[:, None] * design) + P, design.T @ (noise * y.ravel()) + P @ m
    )
    found = np.concatenate([np.ravel(leaf) for leaf in leaves(fitted)])
    np.testing.assert_allclose(found, truth, rtol=1e-7, atol=1e-9)


def test_a_stream_of_full_batches_gives_the_arrays_weights():
    x, y = classes()
    training = Training(epochs=3, batch_size=48)
    once = fit(
        problem((hidden, hidden_params()), Categorical(), x, y, batch_size=48),
        optax.adam(1e-2),
        training,
        Silent(),
        KEY,
    )
    streamed = fit(
        problem((hidden, hidden_params()), Categorical(), [(x, y)]),
        optax.adam(1e-2),
        training,
        Silent(),
        KEY,
    )
    for a, b in zip(leaves(once), leaves(streamed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_arrays_too_large_for_the_device_are_trained_on_all_the_same():
    x, y = classes()
    task = problem((hidden, hidden_params()), Categorical(), x, y)
    training = Training(epochs=3, batch_size=16)
    resident = fit(task, optax.adam(1e-2), training, Silent(), KEY)
    fed = fit(task, optax.adam(1e-2), Training(3, 16, resident_bytes=0), Silent(), KEY)
    for a, b in zip(leaves(resident), leaves(fed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_the_caller_keeps_the_network_and_the_belief():
    x, y = classes()
    params = hidden_params()
    task = problem((hidden, params), Categorical(), x, y)
    first = fit(task, optax.adam(1e-2), Training(2, 16), Silent(), KEY)
    again = fit(task, optax.adam(1e-2), Training(2, 16), Silent(), KEY)
    assert first.losses == again.losses
    for kept, fresh in zip(jax.tree.leaves(params), jax.tree.leaves(hidden_params()), strict=True):
        np.testing.assert_array_equal(kept, fresh)


def test_a_schedule_goes_on_where_the_optimisers_state_is_carried():
    x, y = classes()
    # After the first task's steps the learning rate is zero.
    optimizer = optax.sgd(optax.piecewise_constant_schedule(0.1, {6: 0.0}))
    task = problem((hidden, hidden_params()), Categorical(), x, y)
    first = fit(task, optimizer, Training(2, 16), Silent(), KEY)
    went_on = fit(
        problem(
            (hidden, first.weights.params), Categorical(), x, y,
            optimizer_state=first.weights.optimizer,
        ),
        optimizer, Training(2, 16), Silent(), KEY,
    )  # fmt: skip
    for a, b in zip(leaves(first), leaves(went_on), strict=True):
        np.testing.assert_array_equal(a, b)


def test_patience_goes_back_to_the_best_epoch():
    x, y = classes(16)
    validation = as_examples(*classes(64, seed=1), None, 16, accept)
    task = problem((hidden, hidden_params()), Categorical(), x, y, validation=validation)
    # The learning rate is so high that the training overshoots at once.
    fitted = fit(task, optax.adam(0.5), Training(30, 16, patience=2), Silent(), KEY)
    assert len(fitted.losses) == fitted.epoch + 2 < 30
    exactly = fit(task, optax.adam(0.5), Training(fitted.epoch, 16), Silent(), KEY)
    for a, b in zip(leaves(fitted), leaves(exactly), strict=True):
        np.testing.assert_array_equal(a, b)


def test_patience_without_validation_data_is_refused():
    task = problem((hidden, hidden_params()), Categorical(), *classes())
    with pytest.raises(ValueError, match="validation"):
        fit(task, optax.adam(1e-2), Training(patience=1), Silent(), KEY)


def test_divergence_is_reported_with_its_step():
    x, y = classes()
    task = problem((linear, {"w": jnp.zeros((4, 1)), "b": jnp.zeros(1)}), Gaussian(), x, y * 1.0)
    with pytest.raises(DivergedError, match=r"step \d+ of epoch \d+"):
        fit(task, optax.sgd(1e12), Training(10, 16), Silent(), KEY)


@pytest.mark.parametrize("streamed", [False, True])
def test_weights_that_run_away_diverge_though_all_is_finite(streamed):
    """Each step multiplies the weights by about ten: 1e3 times the loss is passed in the second."""
    x, y = np.ones((64, 4), np.float32), np.ones(64, np.float32)
    task = problem((linear, {"w": jnp.zeros((4, 1)), "b": jnp.zeros(1)}), Gaussian(), x, y)
    training = Training(1, 16, **({"resident_bytes": 0} if streamed else {}))
    with pytest.raises(DivergedError, match="above 1000 times what it was in step 3 of epoch 1"):
        fit(task, optax.sgd(10.0), training, Silent(), KEY)


def test_a_loss_that_was_large_at_first_may_stay_so():
    x, y = np.ones((64, 4), np.float32), 1e4 * np.ones(64, np.float32)
    task = problem((linear, {"w": jnp.zeros((4, 1)), "b": jnp.zeros(1)}), Gaussian(), x, y)
    fitted = fit(task, optax.sgd(1e-9), Training(3, 16), Silent(), KEY)
    assert min(fitted.losses) > 1e7


def test_noise_is_learned_while_training():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(512, 4)).astype(np.float32)
    y = (x @ rng.normal(size=(4, 1)) + 0.3 * rng.normal(size=(512, 1))).astype(np.float32)
    network = (linear, {"w": jnp.zeros((4, 1)), "b": jnp.zeros(1)})
    task = problem(network, GaussianLearnedNoise(), x, y, batch_size=100, anchoring=1e-6)
    fitted = fit(task, optax.adam(3e-2), Training(20, 100), Silent(), KEY)
    design = np.concatenate([x, np.ones((512, 1))], axis=1)
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    np.testing.assert_allclose(fitted.likelihood.noise, residual.std(), rtol=0.02)


@pytest.mark.parametrize(("name", "value"), [("epochs", 0), ("batch_size", -3), ("patience", True)])
def test_training_that_cannot_be_is_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a whole number"):
        Training(**{name: value})


def test_the_factor_is_not_copied_by_a_training_step():
    wide = {"w": jnp.zeros((2000, 10)), "b": jnp.zeros(10)}
    x, y = jnp.zeros((4, 2000)), jnp.zeros(4, int)
    task = problem((linear, wide), Categorical(), x, y, batch_size=4)
    rank = 64
    belief = Belief.prior(wide, 1.0, rank=rank)
    optimizer = optax.with_extra_args_support(optax.sgd(0.1))
    objective = steps.Objective(
        task.model.with_params(None, None), Categorical(), belief, jnp.ones(()), jnp.ones(()) * 4
    )
    run = steps.Run(objective, optimizer, KEY)
    weights = steps.Weights(wide, {}, optimizer.init(wide))
    order = jnp.arange(8).reshape(2, 4) % 4
    kept = (run, task.examples.data, order, jnp.asarray([0, 2]))
    compiled = steps._loop.lower(kept, weights, steps.Tally.empty()).compile()
    spare = compiled.compiled.memory_analysis().temp_size_in_bytes
    assert spare < rank * 20_000 * 4 / 2
