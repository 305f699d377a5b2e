"""What a run leaves in its folder, by every method, and what it refuses."""

import importlib.metadata
import os
import shutil
import subprocess
from pathlib import Path

import jax
import numpy as np
import pytest

import backcast
from backcast.data import DataError, digits
from backcast.experiments import RunFolder, Spec, SpecError, metrics, run, run_folders, summary
from backcast.inference import predict
from backcast.learning import LoadError
from experiments.small import PLAIN, outcome, small

PARTS = ("test", "validation")


def quickly(runs, **changes):
    return run(small(**changes), runs, progress=False)


def test_a_finished_run_is_all_in_its_folder(finished):
    assert finished.path.name == small().folder
    assert finished.state == "done"
    assert sorted(path.name for path in finished.path.iterdir()) == [
        "DONE",
        "environment.json",
        "learner",
        "lock",
        "metrics.jsonl",
        "spec.toml",
        "stream.json",
    ]
    again = RunFolder.open(finished.path)
    assert again.spec == small()
    assert run_folders(finished.path.parent) == run_folders(finished.path) == [again]
    assert again.facts.tasks == ("permutation 0", "permutation 1", "permutation 2")
    assert again.facts.examples == (160, 160, 160)
    assert again.facts.input_shape == (8, 8)
    assert again.facts.classes == tuple("0123456789")
    assert again.facts.data == digits().fingerprint()


def test_the_log_tells_of_every_model_on_every_task_up_to_the_next(finished):
    assert [block.name for block in finished.blocks] == [
        "start",
        "task 0",
        "task 1",
        "task 2",
        "smooth",
    ]
    found = [(s.stage, s.after, s.model, s.task, s.part) for s in finished.scores]
    expected = [("untrained", -1, -1, j, part) for j in range(3) for part in PARTS]
    for i in range(3):
        reach = range(min(i + 2, 3))
        expected += [("filtered", i, i, j, part) for j in reach for part in PARTS]
        expected += [("predicted", i - 1, i, i, "validation")] * (i > 0)
    expected += [("smoothed", 2, i, i, part) for i in range(3) for part in PARTS]
    expected += [("averaged", min(i + 1, 2), i, i, part) for i in range(3) for part in PARTS]
    assert found == expected
    assert {s.examples for s in finished.scores if s.part == "test"} == {100}
    assert {s.examples for s in finished.scores if s.part == "validation"} == {60}


def test_every_score_is_that_of_the_model_in_the_folder(finished):
    """The models are loaded and tried anew, on tasks made anew."""
    spec = finished.spec
    stream = spec.stream.stream(spec.data.partition(None, spec.seed), spec.seed)
    learner = finished.learner()
    filtered, smoothed = learner.filtered(), list(learner.smooth())
    for score in finished.scores:
        if score.stage not in ("filtered", "smoothed"):
            continue
        model = (filtered if score.stage == "filtered" else smoothed)[score.model]
        x, y = getattr(stream[score.task], score.part)
        p = np.asarray(model.predict_proba(x), float)
        assert score.metrics["accuracy"] == np.mean(p.argmax(axis=1) == y)
        nll = -np.log(p[np.arange(len(y)), y]).mean()
        assert score.metrics["nll"] == pytest.approx(nll, rel=1e-5)
        assert score.metrics.keys() == metrics.classification(p, y).keys()


def test_a_task_is_foreseen_by_what_was_learned_before_it(finished):
    spec, learner = finished.spec, finished.learner()
    stream = spec.stream.stream(spec.data.partition(None, spec.seed), spec.seed)
    found = [s.metrics["nll"] for s in finished.scores if s.stage == "predicted"]
    for task, nll in zip((1, 2), found, strict=True):
        earlier = learner.trajectory[task - 1].filtered
        belief = predict(earlier, learner.noise.variance(earlier.mean))
        x, y = stream[task].validation
        model = learner.filtered()[task - 1]
        assert nll == pytest.approx(model.predictive_loss(x, y, belief, samples=32), rel=1e-5)
    assert finished.final["validation"]["predictive_nll"] == pytest.approx(np.mean(found))
    assert finished.final["test"]["predictive_nll"] is None


def test_the_final_numbers_follow_from_the_log(finished):
    final = finished.final
    R = summary.matrix(finished.scores, 3)
    assert final["test"]["average_accuracy"] == R[2].mean()
    assert final["test"]["current_accuracy"] == np.diag(R).mean()
    own = [s.metrics["nll"] for s in finished.scores if s.stage == "smoothed" and s.part == "test"]
    assert final["test"]["smoothed_nll"] == pytest.approx(np.mean(own))
    reports = list(finished.reports.values())
    assert final["seconds"] == sum(report.get("seconds", 0) for report in reports)
    assert final["peak_memory"] == max(report["peak_memory"] for report in reports)
    assert 10**7 < final["peak_memory"] < 10**11


def test_every_task_is_reported_on(finished):
    for position in range(3):
        report = finished.reports[f"task {position}"]
        assert report["examples"] == 160
        assert len(report["losses"]) == report["epochs"] == 2
        assert len(report["retained"]) == 2
        assert report["seconds"] > 0
        assert report["evaluation_seconds"] > 0


def test_by_what_it_was_done_is_on_record(finished):
    found = finished.environment
    assert found["backcast"] == backcast.__version__
    assert found["jax"] == importlib.metadata.version("jax")
    assert found["cores"] == len(os.sched_getaffinity(0))
    assert found["devices"] == [device.device_kind for device in jax.devices()]
    source = Path(backcast.__file__).parent
    head = subprocess.run(
        ["git", "-C", str(source), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    if head.returncode == 0:
        assert len(found["commit"]) == len(head.stdout.strip())
    text = repr(found)
    assert str(Path.home()) not in text
    assert os.uname().nodename not in text


def test_a_finished_run_is_not_touched_again(finished):
    before = {path: path.stat().st_mtime_ns for path in finished.path.rglob("*")}
    assert run(small(), finished.path.parent, progress=False).final == finished.final
    assert {path: path.stat().st_mtime_ns for path in finished.path.rglob("*")} == before


def test_another_run_of_the_same_spec_is_the_same_to_the_bit(finished, tmp_path):
    assert outcome(quickly(tmp_path)) == outcome(finished)


def test_fine_tuning_remembers_nothing(tmp_path):
    folder = quickly(tmp_path, method={"kind": "none"})
    assert [block.name for block in folder.blocks] == ["start", "task 0", "task 1", "task 2"]
    belief = folder.learner().belief
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(belief.precision))
    assert folder.final["test"]["smoothed_accuracy"] is None


def test_joint_training_sees_all_tasks_at_once(tmp_path):
    folder = quickly(tmp_path, method={"kind": "joint"})
    assert [block.name for block in folder.blocks] == ["start", "task 2"]
    assert folder.reports["task 2"]["examples"] == 3 * 160
    assert [s.task for s in folder.scores if s.stage == "filtered" and s.part == "test"] == [
        0,
        1,
        2,
    ]
    assert folder.final["test"]["average_accuracy"] > 0
    assert folder.final["test"]["forgetting"] is None


def test_models_of_tasks_that_were_not_learned_are_inferred(tmp_path):
    folder = quickly(tmp_path, stream__learn=[0, 2])
    assert folder.facts.learned == (0, 2)
    assert [block.name for block in folder.blocks] == ["start", "task 0", "task 2", "smooth"]
    smooth = [(s.stage, s.model, s.task) for s in folder.blocks[-1].scores if s.part == "test"]
    assert smooth == [
        ("smoothed", 0, 0),
        ("smoothed", 0, 1),
        ("smoothed", 2, 1),
        ("smoothed", 2, 2),
        ("between", 1, 1),
        ("averaged", 0, 0),
        ("averaged", 2, 2),
        ("averaged", 1, 1),
    ]
    assert [record.time for record in folder.learner().trajectory] == [0, 2]
    assert folder.final["test"]["between_accuracy"] > 0
    own = [
        s.metrics["accuracy"] for s in folder.scores if s.stage == "smoothed" and s.part == "test"
    ]
    assert folder.final["test"]["smoothed_accuracy"] == pytest.approx((own[0] + own[3]) / 2)


def test_averages_are_of_the_weights_of_neighbours(tmp_path):
    folder = quickly(tmp_path, stream={"tasks": 4, "learn": [0, 2, 3]})
    stream = folder.spec.stream.stream(folder.spec.data.partition(None, 0), 0)
    learner = folder.learner()
    first, third, fourth = (model.model.params for model in learner.filtered())
    weights = {0: (1, 1, 0), 1: (1, 1, 0), 2: (1, 1, 1), 3: (0, 1, 1)}
    found = [s for s in folder.scores if s.stage == "averaged" and s.part == "test"]
    assert sorted(score.task for score in found) == [0, 1, 2, 3]
    for score in found:
        parts = weights[score.task]
        mean = lambda a, b, c, w=parts: (w[0] * a + w[1] * b + w[2] * c) / sum(w)  # noqa: E731
        model = learner.model.model.with_params(jax.tree.map(mean, first, third, fourth), {})
        x, y = stream[score.task].test
        outputs = model.apply(model.params, {}, jax.numpy.asarray(x))[0]
        found_nll = metrics.classification(np.asarray(outputs), y)["nll"]
        assert score.metrics["nll"] == pytest.approx(found_nll, rel=1e-4)


def test_an_inferred_model_is_the_one_for_its_time(tmp_path):
    folder = quickly(tmp_path, stream={"tasks": 4, "learn": [0, 3]}, method__noise=0.1)
    stream = folder.spec.stream.stream(folder.spec.data.partition(None, 0), 0)
    learner = folder.learner()

    def nll(fraction, position):
        x, y = stream[position].test
        p = np.asarray(learner.between(0, fraction).predict_proba(x), float)
        return -np.log(p[np.arange(len(y)), y]).mean()

    inferred = [s for s in folder.scores if s.stage == "between" and s.part == "test"]
    assert [s.task for s in inferred] == [1, 2]
    for score in inferred:
        expected = [nll(t / 3, score.task) for t in range(4)]
        close = [score.metrics["nll"] == pytest.approx(value, rel=1e-5) for value in expected]
        assert close == [t == score.task for t in range(4)]


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"training__learning_rate": 1e30}, r"Task 0 \(permutation 0\): .* step \d+ of epoch 1\."),
        (
            {
                "training": {"optimizer": {"kind": "sgd"}, "learning_rate": 0.1},
                "method__strength": 1e12,
            },
            r"Task 1 \(permutation 1\): .* step \d+ of epoch [12]\.",
        ),
        (
            {
                "training": {"learning_rate": 1e30, "epochs": 1, "batch_size": 200},
                "method": {"kind": "none"},
            },
            r"Task 0 \(permutation 0\): the filtered model's outputs are not finite",
        ),
        (
            {"training__learning_rate": 1e30, "method": {"kind": "joint"}},
            r"Task 2 \(all tasks\): .* step \d+ of epoch 1\.",
        ),
    ],
)
def test_divergence_is_the_outcome_and_no_accuracy(tmp_path, changes, where):
    folder = quickly(tmp_path, **changes)
    assert folder.state == "diverged"
    assert folder.final is None
    with pytest.raises(AssertionError, match=where):
        raise AssertionError(folder.divergence["message"])
    assert folder.is_finished
    before = (folder.path / "DIVERGED").stat()
    assert quickly(tmp_path, **changes).divergence == folder.divergence
    assert (folder.path / "DIVERGED").stat() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stream__learn": [0, 3]}, "stream.learn: give positions .* from 0 to 2; .*3. was given"),
        ({"stream__learn": [1, 0]}, "in order, each once"),
        (
            {"data__validation": 0, "training__patience": 1},
            "set data.validation, or leave patience",
        ),
    ],
)
def test_a_spec_that_does_not_fit_its_data_is_refused(tmp_path, changes, message):
    with pytest.raises(SpecError, match=message):
        quickly(tmp_path, **changes)


@pytest.fixture
def glyphs(tmp_path):
    """Digits in a file that can be changed, and a spec of a run on it."""
    whole = digits()
    arrays = {"x": whole.x[:400] / 16, "y": whole.y[:400], "site": np.arange(400) % 2}
    path = tmp_path / "glyphs.npz"
    np.savez(path, **arrays)
    plain = {**PLAIN["data"], "kind": "npz", "path": str(path)}
    return path, arrays, Spec.parse({**PLAIN, "data": plain})


@pytest.mark.parametrize("changed", ["x", "y", "site"])
def test_other_data_are_noticed_when_a_run_goes_on(tmp_path, glyphs, changed):
    path, arrays, spec = glyphs
    folder = run(spec, tmp_path, progress=False)
    (folder.path / "DONE").unlink()
    arrays[changed][[7, 8]] = arrays[changed][[8, 7]]
    np.savez(path, **arrays)
    with pytest.raises(SpecError, match="begun with other data"):
        run(spec, tmp_path, progress=False)
    arrays[changed][[7, 8]] = arrays[changed][[8, 7]]
    np.savez(path, **arrays)
    assert run(spec, tmp_path, progress=False).state == "done"


def test_data_that_are_gone_are_said_and_results_stay(tmp_path, glyphs):
    path, _, spec = glyphs
    folder = run(spec, tmp_path, progress=False)
    before = outcome(folder)
    path.unlink()
    assert run(spec, tmp_path, progress=False).state == "done"
    with pytest.raises(DataError, match=r"no .*glyphs\.npz"):
        run(spec.changed({"seed": 1}), tmp_path, progress=False)
    assert outcome(folder) == before


def test_a_folder_of_another_run_is_refused(finished, tmp_path):
    shutil.copytree(finished.path, tmp_path / small(seed=1).folder)
    with pytest.raises(SpecError, match=r"describes another run .* than its folder's name says"):
        quickly(tmp_path, seed=1)


def test_damage_in_a_folder_is_said(finished, tmp_path):
    folder = RunFolder(tmp_path / small().folder, small())
    shutil.copytree(finished.path, folder.path)
    (folder.path / "DONE").unlink()
    file = next((folder.path / "learner").glob("task-0002*"))
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(LoadError, match=f"{file.name} is not the file that was saved"):
        quickly(tmp_path)


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(SpecError, match=r"not the folder of a run: it has no spec\.toml"):
        RunFolder.open(tmp_path)
    with pytest.raises(SpecError, match="There is no folder"):
        run_folders(tmp_path / "none")
    assert run_folders(tmp_path) == []
