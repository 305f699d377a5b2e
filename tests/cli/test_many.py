"""Sweeps and searches: what is run, what is said of it, and the exit code."""

import pytest

from backcast.experiments import Outcome, Spec
from report.stored import MATRIX_OF_TWO, begun, diverged, stored

TUNED = """
name = "toy"
[data]
kind = "digits"
[stream]
kind = "permuted"
tasks = 2
[network]
kind = "mlp"
[method]
kind = "low-rank"
[tune]
kind = "grid"
fields = { "method.rank" = [1, 2, 3] }
"""


@pytest.fixture
def sweeps(monkeypatch, tmp_path):
    """Sweeps that do no work: a rank of 3 diverges, and accuracy grows with the rank."""
    calls = []

    def sweep(specs, runs, *, watch=None, **settings):
        calls.append((specs, settings))
        outcomes = [_ran(spec, runs) for spec in specs]
        for number, outcome in enumerate(outcomes, 1):
            if watch is not None:
                watch(outcome, number, len(outcomes))
        return outcomes

    monkeypatch.setattr("backcast.experiments.sweep", sweep)
    (tmp_path / "toy.toml").write_text(TUNED)
    return calls


def test_a_sweep_runs_every_variation_and_tells_their_spread(backcast, sweeps):
    code, out, err = backcast(
        "sweep", "toy.toml", "--seeds", 2, "-j", 3, "--set", "sweep.grid.method.rank=[1, 2]"
    )
    assert code == 0
    [(specs, settings)] = sweeps
    assert [(spec.method.rank, spec.seed) for spec in specs] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert settings["jobs"] == 3
    assert "toy (rank 2)" in out
    assert "0.8500 ± 0.0707" in out  # of 0.8 and 0.9, for seeds 0 and 1
    assert "4/4" in err


def test_a_run_that_diverges_makes_the_sweep_fail_but_no_other(backcast, sweeps):
    code, out, err = backcast("sweep", "toy.toml", "-s", "sweep.grid.method.rank=[2, 3]")
    assert code == 1
    assert "0.8000" in out
    assert "diverged: Lower it." in err


def test_quiet_prints_where_the_runs_are(backcast, sweeps):
    code, out, err = backcast("sweep", "toy.toml", "-q", "--runs", "here")
    [(specs, _)] = sweeps
    assert (code, out, err) == (0, f"here/{specs[0].folder}\n", "")


def test_a_search_takes_what_is_best_on_validation_data(backcast, sweeps, tmp_path):
    code, out, _ = backcast("tune", "toy.toml")
    assert code == 0
    assert Spec.read(tmp_path / "runs" / "toy-tuned.toml").method.rank == 2
    rows = [line.split() for line in out.splitlines() if line.strip()[:1].isdigit()]
    assert rows == [["2", "0.7000"], ["1", "0.6000"], ["3", "-"]]
    assert "backcast run runs/toy-tuned.toml" in out


def test_a_search_leaves_the_outcome_for_another_spec_of_its_name(backcast, sweeps, tmp_path):
    assert backcast("tune", "toy.toml")[0] == 0
    found = (tmp_path / "runs" / "toy-tuned.toml").read_bytes()
    code, _, err = backcast("tune", "toy.toml", "-s", "training.epochs=3")
    assert code == 2
    assert "another spec that is also named 'toy'" in err
    assert (tmp_path / "runs" / "toy-tuned.toml").read_bytes() == found
    assert len(sweeps) == 1
    assert backcast("tune", "toy.toml", "-s", "training.epochs=3", "-s", "name=three")[0] == 0


def test_a_run_that_diverged_is_told_with_exit_code_1(backcast, monkeypatch, tmp_path):
    monkeypatch.setattr("backcast.experiments.run", lambda *_, **__: diverged(tmp_path))
    code, out, err = backcast("run", "digits")
    assert (code, out) == (1, "")
    assert "diverged. <b>Lower</b> it." in err


def test_a_run_that_has_not_begun_is_told_so(backcast, tmp_path):
    folder = begun(tmp_path)
    for command in ("inspect", "smooth"):
        code, _, err = backcast(command, folder.path)
        assert code == 2
        assert "has not begun" in err
    code, _, err = backcast("report", folder.path)
    assert code == 2
    assert "is finished" in err


def test_a_run_without_beliefs_cannot_be_smoothed(backcast, tmp_path):
    folder = stored(tmp_path, MATRIX_OF_TWO, method={"kind": "none"})
    code, _, err = backcast("smooth", folder.path)
    assert code == 2
    assert "'none', which keeps no belief" in err
    assert "keeps no belief" in backcast("inspect", folder.path)[1]


def _ran(spec, runs):
    if spec.method.rank == 3:
        return Outcome(spec.folder, "diverged", "Lower it.")
    accuracy = 0.6 + 0.1 * spec.method.rank + 0.1 * spec.seed
    matrix = [[accuracy, 0.1], [accuracy, accuracy]]
    stored(runs, matrix, [accuracy, accuracy], validation=-0.1, **spec.plain())
    return Outcome(spec.folder, "done")
