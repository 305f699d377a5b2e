"""``backcast paper``: what is missing is run, once, and what came of it is written."""

from typing import get_args

import pytest

from backcast import report
from backcast.cli.commands.paper import Name
from backcast.experiments.paper import Panel, Row
from backcast.report.paper import ARTEFACTS, Artefact, table1
from experiments.small import small


@pytest.fixture
def artefact(monkeypatch, tmp_path, quick_compiles):
    """A table of two rows, of which one diverges."""
    (tmp_path / "small.toml").write_text(small().toml() + "[sweep]\nseeds = 2\n")
    rows = (
        Row("ours", "small.toml", "0.5"),
        Row("hot", "small.toml", None, {"training.learning_rate": 1e30}),
    )
    monkeypatch.chdir(tmp_path)
    made = {"table1": Artefact("A table", (Panel("digits", rows),), table1.show)}
    monkeypatch.setattr(report.paper, "ARTEFACTS", made)


def test_the_command_knows_every_artefact():
    assert list(get_args(Name)) == list(ARTEFACTS)


def test_what_is_missing_is_run_once_and_written(backcast, artefact, tmp_path):
    code, out, err = backcast("paper", "table1", "--as-is")
    assert code == 1
    assert "4 runs are missing" in err
    assert "digits, ours: 2 of 2 runs are missing" in err
    assert not (tmp_path / "runs").exists()

    code, out, err = backcast("paper", "table1", "--quick")
    assert code == 1
    assert "2 runs are missing" in err
    assert out.endswith("results/table1-quick/README.md\n")
    # What diverged is told with its task and step, and is no accuracy.
    assert "digits, hot: diverged, seed 0: Task 0 (permutation 0): Training diverged" in err
    page = (tmp_path / "results" / "table1-quick" / "README.md").read_text(encoding="utf-8")
    [ours, hot] = [line for line in page.splitlines() if line.startswith(("| ours", "| hot"))]
    assert ours.startswith("| ours | 0.5 | 0.")
    assert hot == "| hot | - | - |"

    done = sorted(tmp_path.glob("runs/*/DONE"))
    stamps = [path.stat().st_mtime_ns for path in done]
    code, out, err = backcast("paper", "table1", "--quick", "-q")
    assert (code, out) == (1, "results/table1-quick/README.md\n")
    assert [path.stat().st_mtime_ns for path in sorted(tmp_path.glob("runs/*/DONE"))] == stamps


def test_a_name_that_is_none_is_refused_with_what_there_is(backcast):
    code, _, err = backcast("paper", "fig7")
    assert code == 2
    assert "fig5" in err
