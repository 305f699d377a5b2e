"""A learner that learns how far its weights drift: repeatable, saved, and harmed by nothing."""

import jax
import numpy as np
import optax
import pytest

from backcast.inference import LearnedNoise, Noise
from backcast.learning import DivergedError, Learner
from backcast.model import Categorical
from learning.small import hidden, hidden_params, turning

pytestmark = pytest.mark.usefixtures("quick_compiles")
SMALL = {"rank": 4, "epochs": 3, "batch_size": 16, "progress": False}
TASKS = turning(4)


def learner_of(noise, **more):
    return Learner((hidden, hidden_params()), Categorical(), noise=noise, **{**SMALL, **more})


def same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def test_noise_is_learned_between_tasks_and_gone_on_with_to_the_bit(tmp_path):
    undisturbed = learner_of(LearnedNoise(0.05, iterations=3))
    broken_off = learner_of(LearnedNoise(0.05, iterations=3), directory=tmp_path)
    for task in TASKS[:3]:
        undisturbed.observe(*task)
        broken_off.observe(*task)
    loaded = Learner.load(tmp_path, (hidden, hidden_params()), progress=False)
    assert loaded.noise == undisturbed.noise
    report = undisturbed.observe(*TASKS[3])
    assert loaded.observe(*TASKS[3])["noise"] == report["noise"]
    same(loaded.belief, undisturbed.belief)
    first, second, third, fourth = (record.report["noise"] for record in undisturbed.trajectory)
    # There is nothing to learn from before there are two tasks.
    assert first == second == dict.fromkeys(("first", "last"), pytest.approx(0.05))
    assert third != second
    assert fourth != third
    q = undisturbed.trajectory[3].q
    assert float(q["last"]["w"]) == pytest.approx(fourth["last"], rel=1e-6)
    assert float(q["first"]["b"]) == float(q["first"]["w"]) == pytest.approx(fourth["first"])


@pytest.mark.parametrize("scale", ["examples", "mean"])
def test_fixed_noise_can_be_learned_afterwards_and_a_diverged_task_counts_for_nothing(scale):
    learner = learner_of(0.05, scale=scale, optimizer=optax.adam(1e-2))
    learner.observe(*TASKS[0], time=0.0)
    learner._optimizer = optax.sgd(1e30)
    with pytest.raises(DivergedError):
        learner.observe(TASKS[1][0] * 1e4, TASKS[1][1], time=1.0)
    learner._optimizer = optax.adam(1e-2)
    learner.observe(*TASKS[2], time=2.0)
    before = learner.belief
    found = learner.learn_noise(LearnedNoise(0.05, iterations=3))
    assert learner.belief is before
    assert isinstance(found.noise, Noise)
    assert np.all(np.diff(found.evidence) > 0)
    assert all(np.isfinite(level) and level > 0 for level in found.levels.values())


def test_nothing_is_learned_from_nothing():
    with pytest.raises(ValueError, match="No task has been observed"):
        learner_of(0.1).learn_noise(LearnedNoise(0.1))
    with pytest.raises(ValueError, match="matches no parameter"):
        learner_of(LearnedNoise({"nothing*": 0.1}))
