"""A run from the command line, from its first moment to the report on it."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from backcast import data
from backcast.experiments import RunFolder
from backcast.experiments.smoothed import RECORD
from backcast.learning.files import load_record

SMALL = ["network.hidden=[4]", "stream.tasks=2", "training.epochs=1", "data.limit.train=128"]
SMALL += ["method.rank=3", "method.noise=0.01", "method.curvature.examples=64"]
WORDS = ["run", "digits", "--seed", "3", *(word for change in SMALL for word in ("-s", change))]


def test_a_run_is_made_continued_looked_into_smoothed_and_reported(backcast, tmp_path, monkeypatch):
    code, out, err = backcast(*WORDS)
    assert (code, err) == (0, "")
    [path] = (tmp_path / "runs").iterdir()
    run = RunFolder.open(path)
    assert run.spec.seed == 3
    assert run.spec.method.rank == 3
    test = run.final["test"]
    said = {line[:18].strip(): line[18:].split() for line in out.splitlines()}
    assert said["average accuracy"][0] == f"{test['average_accuracy']:.4f}"
    assert said["smoothed accuracy"][0] == f"{test['smoothed_accuracy']:.4f}"
    assert path.name in out

    # From here on there are no data, and nothing is learned any more.
    monkeypatch.setattr(data, "digits", _forbidden)
    done = (path / "DONE").read_bytes()
    assert backcast(*WORDS, "--quiet") == (0, f"runs/{path.name}\n", "")
    assert (path / "DONE").read_bytes() == done

    assert "nothing is run again" in backcast(*WORDS)[2]

    _look_into(backcast, run)
    _smooth(backcast, run)

    code, out, _ = backcast("report", "runs", "runs", "--out", "page", "--title", "Story")
    assert code == 0
    assert "<h1>Story</h1>" in (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "page/report.html" in out

    _break(backcast, run)


def _look_into(backcast, run):
    code, out, err = backcast("inspect", run.path)
    assert (code, err) == (0, "")
    report = run.reports["task 1"]
    for kind in ("retained", "deflated"):
        assert "  ".join(f"{value:.3g}" for value in report[kind]) in out
    kept, lost = sum(report["retained"]), sum(report["deflated"])
    assert f"{100 * kept / (kept + lost):.1f} %" in out
    assert "3 of 3" in out
    assert "rank 3" in out
    assert "64 x 4 " in out
    # Mean, diagonal and three rows, of 64 * 4 + 4 + 4 * 10 + 10 weights of four bytes.
    assert f"{310 * 4 * 5 / 1000:.1f} kB of memory" in out


def _smooth(backcast, run):
    code, out, err = backcast("smooth", run.path)
    assert (code, err) == (0, "")
    record = load_record(run.path / "smoothed" / RECORD)
    models = run.learner().smooth()
    assert [task["name"] for task in record["tasks"]] == list(run.facts.tasks)
    for task, model, belief in zip(
        record["tasks"], models, [models.belief(i) for i in range(2)], strict=True
    ):
        assert task["name"] in out
        arrays = load_file(run.path / "smoothed" / task["file"])
        kernel = model.model.params["dense0"]["kernel"]
        np.testing.assert_array_equal(arrays["weights:dense0/kernel"], kernel)
        variance = belief.precision.variance()["dense1"]["bias"]
        np.testing.assert_allclose(arrays["variance:dense1/bias"], variance, rtol=1e-4)
    # The last task has no future to learn from; the first one has.
    assert record["tasks"][1]["moved"] == 0
    assert record["tasks"][0]["moved"] > 0
    before = run.learner().filtered()[0].model.params
    after = models[0].model.params
    change = _norm(_minus(after, before)) / _norm(before)
    assert record["tasks"][0]["moved"] == pytest.approx(change, rel=1e-4)


def _break(backcast, run):
    """Whatever is damaged is named, and no command gets lost."""
    learner = run.path / "learner" / "learner.json"
    sealed = json.loads(learner.read_text())
    sealed["content"]["own_optimizer"] = not sealed["content"]["own_optimizer"]
    learner.write_text(json.dumps(sealed))
    for words in (["inspect", run.path], ["smooth", run.path]):
        code, _, err = backcast(*words)
        assert code == 2
        assert f"{learner} was altered" in err
    (run.path / "DONE").write_text("{")
    code, _, err = backcast("report", run.path)
    assert code == 2
    assert "DONE is not a record" in err
    (run.path / "spec.toml").write_text("name = ")
    for words in (["inspect", run.path], ["smooth", run.path], ["report", "runs"]):
        code, _, err = backcast(*words)
        assert code == 2
        assert "spec.toml is not TOML" in err


def _minus(a, b):
    return {k: {n: a[k][n] - b[k][n] for n in a[k]} for k in a}


def _norm(tree):
    return np.sqrt(
        sum(float(np.sum(np.square(x))) for layer in tree.values() for x in layer.values())
    )


def _forbidden(*_):
    raise AssertionError("no data are to be read")
