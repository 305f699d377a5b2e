"""The figures of the studies on histology show what the runs have."""

import numpy as np
import pytest

from backcast.experiments.paper import Panel, Row, lines, plans
from backcast.experiments.shelf import Shelf
from backcast.report.paper import between, fig2, fig3, patches
from report.stored import stored

TOY = """
name = "toy"
data = { kind = "digits", validation = 0.1 }
stream = { kind = "permuted", tasks = 3 }
network = { kind = "mlp", hidden = [4] }
method = { kind = "low-rank", rank = 3 }
sweep = { seeds = 2 }
"""
MATRIX = [[0.6, 0.5, np.nan], [0.5, 0.7, 0.6], [0.4, 0.6, 0.8]]


@pytest.fixture
def toy(tmp_path):
    """A function that makes the runs of a study, seed by seed, and gives its lines."""
    (tmp_path / "toy.toml").write_text(TOY)

    def made(matrix, gain=0.0, changes=None, **known):
        planned = plans(
            [Panel("digits", (Row("ours", str(tmp_path / "toy.toml"), None, changes or {}),))]
        )
        for plan in planned:
            for spec in plan.specs:
                own = {
                    name: np.array(values) + gain * (1 + spec.seed)
                    for name, values in known.items()
                    if name in ("smoothed", "averaged")
                }
                rows = np.array(matrix) + 0.01 * spec.seed
                stored(tmp_path / "runs", rows, **{**known, **own}, **spec.plain())
        return lines(planned, Shelf.of(tmp_path / "runs"))

    return made


def test_smoothing_is_compared_with_every_rival(toy):
    found = toy(MATRIX, 0.01, smoothed=[0.62, 0.71, 0.8], averaged=[0.61, 0.7, 0.75])
    gains, tasks = fig3.show(found).tables
    rows = {(row[1], row[3]): row for row in gains.rows}
    assert {kind for _, kind in rows} == {"filtered", "last model", "averaged"}
    # Tasks 0 and 1, means over both and over the seeds: 0.68 smoothed, 0.655 filtered.
    *_, one, other, gain, wins, p = rows["accuracy", "filtered"]
    assert (one.mean, other.mean) == (pytest.approx(0.68), pytest.approx(0.655))
    assert (gain.mean, wins, p) == (pytest.approx(0.025), "2 of 2", pytest.approx(0.5))
    # Less is better: the fake runs have the negative log-likelihood 1 - accuracy.
    assert rows["nll", "filtered"][-3].mean == pytest.approx(0.025)
    assert rows["accuracy", "last model"][5].mean == pytest.approx(0.505)
    assert rows["accuracy", "averaged"][5].mean == pytest.approx(0.67)
    assert [row[1] for row in tasks.rows] == ["task 0", "task 1", "task 2"]
    assert tasks.rows[0][2].mean == pytest.approx(0.635 - 0.01)


def test_every_seed_has_a_thin_line_and_the_mean_a_thick_one(toy):
    [drawing] = fig3.show(
        toy(MATRIX, 0.01, smoothed=[0.62, 0.71, 0.8], averaged=[0.6] * 3)
    ).drawings
    *seeds, mean, _zero = drawing.figure.axes[1].get_lines()
    points = [line.get_ydata() for line in seeds]
    np.testing.assert_allclose(points, [[3, 2, 1], [3, 2, 1]], atol=1e-9)
    np.testing.assert_allclose(mean.get_ydata(), [3, 2, 1], atol=1e-9)
    assert mean.get_linewidth() > 2 * seeds[0].get_linewidth()


def test_gains_are_drawn_over_the_number_of_examples(toy):
    [drawing] = patches.show(toy(MATRIX, smoothed=[0.62, 0.71, 0.8], averaged=[0.6] * 3)).drawings
    dots, mean, _zero = drawing.figure.axes[0].get_lines()
    assert list(dots.get_xdata()) == [100, 100]
    np.testing.assert_allclose(dots.get_ydata(), [1.5, 0.5], atol=1e-9)
    np.testing.assert_allclose(mean.get_ydata(), [1.0], atol=1e-9)


def test_an_inferred_model_stands_beside_those_of_its_neighbours(toy):
    found = toy(
        [[0.6, 0.5, np.nan], [np.nan] * 3, [0.4, 0.55, 0.8]],
        changes={"stream.learn": [0, 2]},
        learned=(0, 2),
        smoothed=[0.62, 0.75, 0.8],
        averaged=[0.5, 0.65, 0.5],
        beside={(0, 1): 0.58, (2, 1): 0.52},
    )
    shown = between.show(found)
    gains, tasks = shown.tables
    [cells] = tasks.rows
    expected = [0.75, 0.65, 0.505, 0.555, 0.58, 0.52]
    np.testing.assert_allclose([cell.mean + 0.01 for cell in cells[2:]], expected)
    against = {row[3]: row[6].mean for row in gains.rows if row[1] == "accuracy"}
    assert against["on the line"] == pytest.approx(0.1)
    assert against["later"] == pytest.approx(0.195)
    assert len(shown.drawings) == 1


def test_the_noise_is_judged_by_both_numbers(toy):
    cases = [{"name": "Q-0"}, {"name": "Q-scalar", "method.noise": 0.5}]
    found = toy(MATRIX, changes={"sweep.cases": cases}, smoothed=[0.6] * 3)
    assert [line.plan.label for line in found] == ["Q 0", "Q scalar"]
    [courses], [numbers] = fig2.show_courses(found).drawings, fig2.show_courses(found).tables
    so_far, current = (axes.get_lines()[0].get_ydata() for axes in courses.figure.axes)
    np.testing.assert_allclose(so_far, np.array([0.6, 0.6, 0.6]) + 0.005 - 0.01)
    np.testing.assert_allclose(current, np.array([0.6, 0.7, 0.8]) + 0.005 - 0.01)
    assert [row[:2] for row in numbers.rows[:2]] == [("Q 0", "so far"), ("Q 0", "current")]
    [table] = fig2.show_seeds(found).tables
    assert table.rows[0][3:] == (None,) * 4
    assert (table.rows[1][3].mean, table.rows[1][4]) == (0.0, 1.0)
