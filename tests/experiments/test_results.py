"""Runs read back: what differs in the seed alone is one group, with its spread."""

import numpy as np
import pytest

from backcast.experiments import Spread, groups, rows, run, run_folders, summary
from backcast.experiments.results import labelled
from experiments.small import small


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds of one spec, one of a variation, one of another name, and one that diverged."""
    folder = tmp_path_factory.mktemp("runs")
    for spec in (
        small(seed=1),
        small(),
        small(method__strength=5.0),
        small(name="other", training__learning_rate=1e-3),
        small(training__learning_rate=1e30),
    ):
        run(spec, folder, progress=False)
    return folder


def test_finished_runs_are_grouped_and_labelled_by_what_differs(runs):
    found = {
        group.label: [run.spec.seed for run in group.runs] for group in groups(run_folders(runs))
    }
    assert found == {"small (strength 1.0)": [0, 1], "small (strength 5.0)": [0], "other": [0]}


def test_seeds_have_a_spread(runs):
    group = next(g for g in groups(run_folders(runs)) if len(g.runs) == 2)
    values = [run.final["test"]["average_accuracy"] for run in group.runs]
    assert group.spread("average_accuracy") == Spread(
        np.mean(values), np.std(values, ddof=1), min(values), max(values), 2
    )
    assert group.spread("average_accuracy", "validation") != group.spread("average_accuracy")
    assert group.spread("between_accuracy") is None
    assert group.cost("seconds").low > 0
    R = group.matrices()
    assert R.shape == (2, 3, 3)
    np.testing.assert_array_equal(R[0], summary.matrix(group.runs[0].scores, 3))
    np.testing.assert_allclose(group.so_far()[:, 2], values)
    np.testing.assert_array_equal(group.own("filtered")[1], np.diag(R[1]))
    assert group.facts.tasks == group.runs[1].facts.tasks


@pytest.mark.parametrize(
    ("values", "spread"),
    [
        ([1.0, 2.0, 4.5], Spread(2.5, np.sqrt((2.25 + 0.25 + 4) / 2), 1.0, 4.5, 3)),
        ([3.0], Spread(3.0, None, 3.0, 3.0, 1)),
        ([None, 3.0, float("nan")], Spread(3.0, None, 3.0, 3.0, 1)),
        ([None], None),
        ([], None),
    ],
)
def test_a_spread_is_of_what_is_known(values, spread):
    found = Spread.of(values)
    assert (found is None) == (spread is None)
    if spread is not None:
        assert found.deviation == (spread.deviation and pytest.approx(spread.deviation))
        assert (found.mean, found.low, found.high, found.count) == (
            spread.mean,
            spread.low,
            spread.high,
            spread.count,
        )


def test_all_scores_are_one_table(runs):
    folders = [folder for folder in run_folders(runs) if folder.state == "done"]
    table = rows(folders)
    scores = [score for folder in folders for score in folder.scores]
    assert len(table) == sum(len(score.metrics) for score in scores)
    row = next(r for r in table if r["run"] == small(seed=1).folder and r["stage"] == "smoothed")
    score = next(s for s in folders[0].scores if s.stage == "smoothed")
    assert row.keys() > {"name", "seed", "task_name", "metric", "value", "part"}
    assert row["task_name"] == f"permutation {row['task']}"
    assert row["metric"] == next(iter(score.metrics))


def test_runs_of_other_kinds_are_told_apart(runs):
    folders = run_folders(runs)
    alike = [folder.spec for folder in folders if folder.spec.name == "other"]
    assert labelled(alike) == ["other"]
