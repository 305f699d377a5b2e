"""No data of a task is kept, in memory or on disk, and of the past no more than is needed."""

import gc
import weakref

import jax
import numpy as np
import pytest

from backcast.learning import Learner
from backcast.learning.trajectory import Stored
from backcast.model import Categorical, Gaussian
from learning.small import hidden, hidden_params, turning

SMALL = {"rank": 4, "noise": 1e-3, "epochs": 2, "batch_size": 16, "progress": False}
# Numbers that no computation comes by.
MARK, MARKED_TARGET = np.float32(1.2345678e-3), np.float32(-7.654321)


def marked(n=64):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    y = rng.normal(size=(n, 3)).astype(np.float32)
    x[:, 1], y[:, 2] = MARK, MARKED_TARGET
    return x, y


def holds(array, mark):
    return array.dtype == mark.dtype and bool(np.any(np.asarray(array) == mark))


def as_arrays(x, y):
    return (x, y), {}


def as_device_arrays(x, y):
    return (jax.device_put(x), jax.device_put(y)), {}


def as_iterator(x, y):
    return (iter([(x[:40], y[:40]), (x[40:], y[40:])]),), {}


def as_validation(x, y):
    rng = np.random.default_rng(1)
    fresh = rng.normal(size=x.shape).astype(np.float32), np.zeros_like(y)
    return fresh, {"validation": (x, y)}


@pytest.mark.parametrize("given", [as_arrays, as_device_arrays, as_iterator, as_validation])
def test_no_data_of_a_task_is_kept(tmp_path, given):
    learner = Learner((hidden, hidden_params()), Gaussian(), directory=tmp_path, **SMALL)
    x, y = marked()
    arguments, keywords = given(x, y)
    kept = [weakref.ref(array) for array in (x, y)]
    kept += [weakref.ref(part) for part in arguments if isinstance(part, jax.Array)]
    del x, y
    other = np.random.default_rng(2).normal(size=(64, 7)).astype(np.float32)
    learner.observe(other[:, :4], other[:, 4:])
    learner.observe(*arguments, **keywords)
    models = list(learner.smooth())
    del arguments, keywords
    gc.collect()
    assert not [ref for ref in kept if ref() is not None]
    assert not any(
        holds(array, mark) for array in jax.live_arrays() for mark in (MARK, MARKED_TARGET)
    )
    for path in tmp_path.iterdir():
        contents = path.read_bytes()
        assert MARK.tobytes() not in contents
        assert MARKED_TARGET.tobytes() not in contents
        assert b"7.65432" not in contents
    assert len(models) == 2


def test_what_looks_for_data_would_find_it(tmp_path):
    learner = Learner((hidden, hidden_params()), Gaussian(), **SMALL)
    x, _ = marked()
    params = learner.model.model.params
    params["last"]["w"] = params["last"]["w"].at[0, 0].set(x[0, 1])
    learner.save(tmp_path)
    assert any(MARK.tobytes() in path.read_bytes() for path in tmp_path.iterdir())
    assert any(holds(array, MARK) for array in jax.live_arrays())


def test_smoothing_holds_two_records_at_a_time(tmp_path, monkeypatch):
    learner = Learner((hidden, hidden_params()), Categorical(), directory=tmp_path, **SMALL)
    for task in turning(6):
        learner.observe(*task)
    read, factors, held = Stored.read, [], []

    def alive():
        return sum(factor() is not None for factor in factors)

    def reading(stored):
        record = read(stored)
        factors.append(weakref.ref(record.filtered.precision.factor["last"]["w"]))
        held.append(alive())
        return record

    monkeypatch.setattr(Stored, "read", reading)
    for _ in learner.smooth().beliefs():
        pass
    assert len(held) == 6
    assert max(held) <= 3
    factors.clear()
    learner.between(0, 0.5)
    assert max(held) <= 4
    factors.clear()
    models = list(learner.smooth())
    assert len(factors) == len(models) == 6
    assert max(held) <= 4
    assert alive() == 0
