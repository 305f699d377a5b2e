"""Whatever happens to a process, its folder holds a learner that goes on as if nothing had."""

import hashlib
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backcast.learning import Learner, LoadError, files
from backcast.learning.files import load_record, save_record
from backcast.model import Categorical
from learning.small import hidden, hidden_params, turning

SMALL = {"rank": 4, "noise": 1e-3, "epochs": 3, "batch_size": 16, "progress": False}

KILLED_IN_THE_THIRD_SAVE = """
import os, signal, sys
from backcast.learning import Learner, files
from backcast.model import Categorical
from learning.small import hidden, hidden_params, turning

settle, settled = files.settle, []

def deadly(part, path):
    settle(part, path)
    settled.append(path.name)
    if len(list(path.parent.glob("task-*"))) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

files.settle = deadly
learner = Learner(
    (hidden, hidden_params()), Categorical(), rank=4, noise=1e-3, epochs=3, batch_size=16,
    progress=False, directory=sys.argv[1],
)
for task in turning(4):
    learner.observe(*task)
"""


def learner_of(**more):
    return Learner((hidden, hidden_params()), Categorical(), **{**SMALL, **more})


def same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def smoothed(learner):
    return [model.model for model in learner.smooth()]


def test_a_killed_process_is_gone_on_with_to_the_bit(tmp_path):
    tests = str(Path(__file__).parents[1])
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_IN_THE_THIRD_SAVE, tmp_path],
        env={**os.environ, "PYTHONPATH": tests},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert len(list(tmp_path.glob("task-*"))) == 3
    loaded = Learner.load(tmp_path, (hidden, hidden_params(1)), save=True, progress=False)
    assert len(loaded.trajectory) == 2
    undisturbed, tasks = learner_of(), turning(4)
    for task in tasks[:2]:
        undisturbed.observe(*task)
    same(smoothed(undisturbed), smoothed(loaded))
    for task in tasks[2:]:
        assert undisturbed.observe(*task)["losses"] == loaded.observe(*task)["losses"]
    same(undisturbed.belief, loaded.belief)
    same(smoothed(undisturbed), smoothed(loaded))
    assert len(list(tmp_path.glob("task-*"))) == 4


def test_a_save_that_fails_anywhere_leaves_all_as_it_was(tmp_path, monkeypatch):
    learner = learner_of(directory=tmp_path)
    tasks = turning(3)
    learner.observe(*tasks[0])
    belief, before = learner.belief, {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    settle = files.settle
    for survived in range(3):
        calls = []

        def failing(part, path, calls=calls, survived=survived):
            if len(calls) == survived:
                raise OSError(28, "No space left on device")
            calls.append(path)
            settle(part, path)

        for module in (files, sys.modules["backcast.learning.saving"]):
            monkeypatch.setattr(module, "settle", failing, raising=False)
        with pytest.raises(OSError, match="No space"):
            learner.observe(*tasks[1])
        assert learner.belief is belief
        assert len(learner.trajectory) == 1
        after = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
        assert before.items() <= after.items()
        assert len(Learner.load(tmp_path, learner_of().model.unwrap()).trajectory) == 1
    monkeypatch.undo()
    learner.observe(*tasks[1])
    untroubled = learner_of()
    for task in tasks[:2]:
        untroubled.observe(*task)
    same(learner.belief, untroubled.belief)
    # What the failed saves left behind is gone.
    assert sorted(p.name[:9] for p in tmp_path.iterdir()) == [
        "base-" + next(tmp_path.glob("base-*")).name[5:9],
        "learner.j",
        "optimizer",
        "task-0000",
        "task-0001",
    ]


def test_smoothing_goes_no_further_than_asked_and_does_not_see_what_comes_later(
    tmp_path, monkeypatch
):
    from backcast.learning.trajectory import Stored

    learner = learner_of(directory=tmp_path)
    tasks = turning(4)
    for task in tasks[:3]:
        learner.observe(*task)
    read, asked = Stored.read, []

    def reading(stored):
        asked.append(stored.name)
        return read(stored)

    monkeypatch.setattr(Stored, "read", reading)
    models = learner.smooth()
    assert asked == []
    assert models[-1].name == "task 2"
    assert asked == ["task 2", "task 1"]
    first = models[0]
    assert asked == ["task 2", "task 1", "task 0"]
    learner.observe(*tasks[3])
    assert len(models) == len(list(models)) == 3
    assert models[0] is first
    assert len(learner.smooth()) == 4


def test_the_parameters_that_are_not_learned_are_saved_too(tmp_path):
    learner = learner_of(trainable="last/*")
    task = turning(1)[0]
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path, (hidden, hidden_params(1)), progress=False)
    same(loaded.model.model, learner.model.model)
    learner.observe(*task)
    loaded.observe(*task)
    same(loaded.model.model, learner.model.model)
    assert not np.array_equal(hidden_params(1)["first"]["w"], hidden_params()["first"]["w"])


def test_loading_executes_nothing(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    learner = learner_of()
    learner.save(tmp_path / "run")
    bomb = pickle.dumps(Bomb())
    record = load_record(tmp_path / "run" / "learner.json")
    path = tmp_path / "run" / record["base"]["file"]
    path.write_bytes(bomb)
    record["base"]["sha256"] = hashlib.sha256(bomb).hexdigest()
    save_record(tmp_path / "run" / "learner.json", record)
    with pytest.raises(LoadError, match="cannot be read"):
        Learner.load(tmp_path / "run", (hidden, hidden_params()))
    (tmp_path / "run" / "learner.json").write_bytes(bomb)
    with pytest.raises(LoadError, match="not a record of this library"):
        Learner.load(tmp_path / "run", (hidden, hidden_params()))
    assert not (tmp_path / "exploded").exists()
    pickle.loads(bomb)
    assert (tmp_path / "exploded").exists()


@pytest.mark.parametrize("field", ["settings", "base", "tasks", "noise", "own_optimizer"])
def test_a_record_that_lacks_something_is_refused(tmp_path, field):
    learner_of().save(tmp_path)
    record = load_record(tmp_path / "learner.json")
    del record[field]
    save_record(tmp_path / "learner.json", record)
    with pytest.raises(LoadError, match=f"lacks what a learner needs.*'{field}'"):
        Learner.load(tmp_path, (hidden, hidden_params()))


def test_a_folder_of_another_precision_is_refused(tmp_path):
    learner_of().save(tmp_path)
    half = jax.tree.map(lambda x: x.astype(jnp.bfloat16), hidden_params())
    with pytest.raises(LoadError, match=r"is float32, and this network has bfloat16"):
        Learner.load(tmp_path, (hidden, half))
