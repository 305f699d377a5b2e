"""Networks with states, dropout and tokens, and tasks that come as streams, through the learner."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import backcast as bc
from backcast.learning import DivergedError, Learner
from backcast.model import Categorical
from learning.small import hidden, hidden_params, turning

SMALL = {"rank": 3, "noise": 1e-3, "epochs": 3, "batch_size": 64, "progress": False}


def same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def normalised(params, state, x, train):
    """A layer after a normalisation of the inputs, whose statistics no weight has a part in."""
    mean = jnp.mean(x, axis=0) if train else state["mean"]
    state = {"mean": 0.9 * state["mean"] + 0.1 * mean, "steps": state["steps"] + 1}
    return (x - mean) @ params["w"], state


def with_statistics():
    return normalised, {"w": jnp.zeros((4, 3))}, {"mean": jnp.zeros(4), "steps": jnp.array(0)}


def test_batch_statistics_go_with_their_task(tmp_path):
    learner = Learner(with_statistics(), Categorical(), **SMALL)
    mean, means = np.zeros(4), []
    for t, (x, y) in enumerate(turning(3)):
        learner.observe(x + t, y)
        for _ in range(3):
            mean = 0.9 * mean + 0.1 * (x + t).mean(axis=0)
        means.append(mean)
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path, with_statistics(), progress=False)
    for kind in (learner, loaded):
        for models in (kind.filtered(), kind.smooth()):
            for t, model in enumerate(models):
                state = model.model.state
                np.testing.assert_allclose(state["mean"], means[t], rtol=1e-5)
                assert state["steps"] == 3 * (t + 1)
                # What is predicted with are these statistics, and the weights of the same task.
                x = turning(1)[0][0]
                by_hand = (x - means[t]) @ model.model.params["w"]
                np.testing.assert_allclose(model.outputs(x), by_hand, rtol=1e-4, atol=1e-5)
        earlier, later = kind.between(0, 0.25), kind.between(0, 0.75)
        np.testing.assert_allclose(
            earlier.model.state["mean"], 0.75 * means[0] + 0.25 * means[1], rtol=1e-5
        )
        assert (earlier.model.state["steps"], later.model.state["steps"]) == (3, 6)


def dropping(params, x, key=None, train=False):
    x = jnp.tanh(x @ params["first"]["w"] + params["first"]["b"])
    if train:
        x = 2 * x * jax.random.bernoulli(key, 0.5, x.shape)
    return x @ params["last"]["w"]


def test_dropout_follows_the_seed_and_is_off_in_prediction():
    x, y = turning(1)[0]

    def learned(seed):
        learner = Learner((dropping, hidden_params()), Categorical(), seed=seed, **SMALL)
        return learner, learner.observe(x, y)["losses"]

    (one, losses), (_, again), (_, other) = learned(0), learned(0), learned(1)
    assert losses == again != other
    same(one.predict_proba(x), one.predict_proba(x))
    logits = hidden(one.belief.mean, x)
    np.testing.assert_allclose(one.predict_proba(x), jax.nn.softmax(logits), atol=1e-5)


def tagging(params, x):
    return jnp.tanh(x) @ params["w"]


def test_tokens_without_weight_are_not_learned_from():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(32, 5, 4)).astype(np.float32), rng.integers(0, 3, (32, 5))
    mask = rng.random((32, 5)) < 0.7
    x[:, :, 3] *= mask
    learners = []
    for padding in (0, 7):
        learner = Learner((tagging, {"w": jnp.zeros((4, 3))}), Categorical(), **SMALL)
        learner.observe(
            np.where(mask[..., None], x, padding), np.where(mask, y, padding - 7), weights=mask
        )
        learners.append(learner)
    same(*(learner.belief for learner in learners))
    assert learners[0].predict(x).shape == (32, 5)
    right = np.asarray(learners[0].predict(x)) == y
    assert learners[0].score(x, y, weights=mask) == pytest.approx(right[mask].mean())
    with pytest.raises(ValueError, match=r"weights have shape \(32, 4\)"):
        learners[0].observe(x, y, weights=mask[:, :4])


class Restartable:
    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def test_every_kind_of_stream_is_learned_alike():
    tasks = turning(2)
    learners = [Learner((hidden, hidden_params()), Categorical(), **SMALL) for _ in range(3)]
    for x, y in tasks:
        batches = [(x[i : i + 24], y[i : i + 24]) for i in range(0, 64, 24)]
        kinds = batches, (batch for batch in batches), Restartable(batches)
        for learner, stream in zip(learners, kinds, strict=True):
            report = learner.observe(stream)
            assert report["examples"] == 64
    same(learners[0].belief, learners[1].belief)
    same(learners[0].belief, learners[2].belief)
    x, y = tasks[1]
    assert learners[0].score([(x[:40], y[:40]), (x[40:], y[40:])]) == pytest.approx(
        learners[0].score(x, y)
    )


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (lambda x, y: [], "yields nothing"),
        (lambda x, y: [(x, y), (x[:, :3], y)], "does not take"),
        (lambda x, y: [(x[:4], y[:4]), (x, y)], "Every batch must be like the first"),
        (lambda x, y: [(x, y), (x * np.nan, y)], "nan"),
        (lambda x, y: [x], "must yield"),
        (lambda x, y: x, "without targets"),
    ],
)
def test_a_bad_stream_is_refused_and_nothing_is_learned(stream, message):
    learner = Learner((hidden, hidden_params()), Categorical(), **SMALL)
    belief = learner.belief
    with pytest.raises((ValueError, TypeError), match=message):
        learner.observe(stream(*turning(1)[0]))
    assert learner.belief is belief
    assert len(learner.trajectory) == 0


def test_validation_stops_early_at_the_best_epoch():
    x, y = turning(1)[0]
    optimizer, other = optax.adam(0.3), turning(3)[2]
    settings = {**SMALL, "epochs": 20, "optimizer": optimizer}
    watching = Learner((hidden, hidden_params()), Categorical(), **settings)
    seen = watching.observe(x, y, validation=other)["validation_losses"]
    assert len(seen) == 20
    stopping = Learner((hidden, hidden_params()), Categorical(), patience=2, **settings)
    report = stopping.observe(x, y, validation=other)
    best = report["best_epoch"]
    assert report["validation_losses"] == seen[: best + 2]
    assert len(report["losses"]) == best + 2 < 20
    assert stopping.model.loss(*other) == pytest.approx(min(seen[: best + 2]), rel=1e-5)
    with pytest.raises(ValueError, match="patience needs validation data"):
        stopping.observe(x, y)
    with pytest.raises(ValueError, match="classes are 0"):
        stopping.observe(x, y, validation=(x, y + 1))


@pytest.mark.parametrize("restart", [True, False])
def test_the_schedule_starts_anew_with_each_task_if_asked(restart):
    # After the steps of the first task the learning rate is zero.
    optimizer = optax.sgd(optax.piecewise_constant_schedule(0.1, {3: 0.0}))
    settings = {**SMALL, "optimizer": optimizer, "restart": restart}
    learner = Learner((hidden, hidden_params()), Categorical(), **settings)
    first, second = turning(2)
    learner.observe(*first)
    before = learner.belief.mean
    learner.observe(*second)
    stayed = all(
        np.array_equal(a, b)
        for a, b in zip(*map(jax.tree.leaves, (before, learner.belief.mean)), strict=True)
    )
    assert stayed != restart


def test_clipping_keeps_a_wild_task_finite():
    x, y = turning(1)[0]
    wild = Learner((hidden, hidden_params()), Categorical(), optimizer=optax.sgd(1e38), **SMALL)
    with pytest.raises(DivergedError, match="clip"):
        wild.observe(x, y)
    clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1))
    learner = Learner((hidden, hidden_params()), Categorical(), optimizer=clipped, **SMALL)
    assert np.isfinite(learner.observe(1e3 * x, y)["losses"]).all()


class Conv(eqx.Module):
    conv: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    head: eqx.nn.Linear

    def __init__(self, key):
        a, b = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(1, 2, 3, key=a)
        self.norm = eqx.nn.BatchNorm(2, "batch", mode="ema", momentum=0.9)
        self.head = eqx.nn.Linear(8, 2, key=b)

    def __call__(self, x, state):
        x, state = self.norm(self.conv(x), state)
        return self.head(jax.nn.relu(x).ravel()), state


def test_the_example_of_the_design_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x_old = rng.normal(size=(40, 1, 4, 4)).astype(np.float32)
    stream = [
        SimpleNamespace(x=x_old + t, y=(x_old.mean((1, 2, 3)) > 0).astype(int)) for t in range(2)
    ]
    model, x = eqx.nn.make_with_state(Conv)(jax.random.key(0)), x_old

    learner = bc.Learner(
        model, likelihood=bc.Categorical(), rank=10,
        noise=bc.Noise({"conv*": 1e-5}), optimizer=optax.adam(1e-3), epochs=5,
    )  # fmt: skip
    for task in stream:
        learner.observe(task.x, task.y)
    learner.predict(x)
    models = learner.smooth()
    smoothed = models[1].predict(x_old)
    learner.save("run/")

    loaded = bc.Learner.load("run/", model)
    np.testing.assert_array_equal(loaded.smooth()[1].predict(x_old), smoothed)
    q = learner.noise.variance(learner.belief.mean)
    assert np.max(q.head.weight) == 0 < np.max(q.conv.weight)
    network, state = models[0].unwrap()
    assert isinstance(network, Conv)
    assert isinstance(state, eqx.nn.State)
