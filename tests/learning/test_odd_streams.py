"""Streams that are not as one would wish them."""

import jax
import numpy as np
import optax
import pytest

from backcast.inference import predict
from backcast.learning import DivergedError, Learner
from backcast.model import Categorical
from learning.small import hidden, hidden_params, turning

SMALL = {"rank": 4, "noise": 1e-3, "epochs": 2, "batch_size": 16, "progress": False}


@pytest.fixture(autouse=True, scope="module")
def _quickly(quick_compiles):
    """They compile much and compute little."""


def learned(*tasks, **more):
    learner = Learner((hidden, hidden_params()), Categorical(), **{**SMALL, **more})
    for task in tasks:
        learner.observe(*task)
    return learner


def same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def finite(tree):
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))


def test_a_single_task_is_smoothed_to_what_it_was():
    learner = learned(*turning(1))
    models = learner.smooth()
    assert len(models) == 1
    same(models[0].model.params, learner.model.model.params)
    same(models.belief(0), learner.belief)
    with pytest.raises(ValueError, match="two tasks at least, but 1"):
        learner.between(0, 0.5)


def test_a_task_counts_by_its_size():
    (x, y), second = turning(2)
    large, small = (learned((x[:n], y[:n]), second) for n in (64, 1))
    for learner in (large, small):
        assert finite(learner.belief)
        assert all(finite(model.model.params) for model in learner.smooth())
    taught = [
        sum(float(leaf.sum()) for leaf in jax.tree.leaves(record.curvature.diagonal()))
        for record in (large.trajectory[0], small.trajectory[0])
    ]
    assert taught[0] > 10 * taught[1]


def test_a_class_may_be_missing_from_a_task():
    (x, y), second, third = turning(3)
    learner = learned((x[y != 2], y[y != 2]), second)
    before = np.asarray(learner.predict_proba(third[0]))[:, 0].mean()
    learner.observe(third[0], np.zeros_like(third[1]))
    assert np.asarray(learner.predict_proba(third[0]))[:, 0].mean() > before
    for model in learner.smooth():
        p = np.asarray(model.predict_proba(second[0]))
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
        assert p.shape == (64, 3)


def test_a_task_that_diverges_in_the_middle_might_as_well_not_have_been():
    first, second = turning(2)
    learner = learned(first)
    belief, usual = learner.belief, learner._optimizer
    learner._optimizer = optax.sgd(1e30)
    with pytest.raises(DivergedError):
        learner.observe(1e4 * second[0], second[1])
    assert learner.belief is belief
    learner._optimizer = usual
    learner.observe(*second)
    straight = learned(first, second)
    same(learner.belief, straight.belief)
    assert [record.name for record in learner.trajectory] == ["task 0", "task 1"]
    for a, b in zip(learner.smooth(), straight.smooth(), strict=True):
        same(a.model.params, b.model.params)


@pytest.mark.parametrize("noise", [1e12, 1e30])
def test_noise_without_bound_forgets_all_but_where_to_begin(noise):
    """The limit ``P^- = 0``: tasks know nothing of each other, and no number overflows."""
    learner = learned(*turning(3), noise=noise)
    q = learner.noise.variance(learner.belief.mean, 1.0)
    before = predict(learner.belief, q)
    same(before.mean, learner.belief.mean)
    largest = max(float(leaf.max()) for leaf in jax.tree.leaves(before.precision.diagonal()))
    assert 0 <= largest <= 1.0001 / noise
    for record, model in zip(learner.trajectory, learner.smooth(), strict=True):
        for a, b in zip(*map(jax.tree.leaves, (model.model.params, record.params)), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
