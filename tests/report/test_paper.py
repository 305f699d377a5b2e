"""The paper's tables and figures show what the runs have."""

import csv
import json

import numpy as np
import pytest
from PIL import Image

from backcast.experiments import run
from backcast.experiments.paper import Panel, Row, lines, plans
from backcast.experiments.shelf import Shelf
from backcast.report.paper import (
    ARTEFACTS,
    Artefact,
    ablation,
    fig5,
    fig8,
    over,
    table1,
    twenty,
    write,
)
from experiments.small import small
from report.stored import diverged, stored

TOY = """
name = "toy"
data = { kind = "digits", validation = 0.1 }
stream = { kind = "permuted", tasks = 2 }
network = { kind = "mlp", hidden = [4] }
method = { kind = "low-rank", rank = 3, strength = 2.0 }
sweep = { seeds = 2 }
tune = { kind = "grid", fields = { "method.strength" = [2.0, 4.0] } }
"""


@pytest.fixture
def rows(tmp_path):
    """Two rows, of which the second is not there on one stream."""
    (tmp_path / "toy.toml").write_text(TOY)
    toy = str(tmp_path / "toy.toml")
    return (Row("ours", toy, "0.9 ± 0.1"), Row("nothing", toy, None, {"method": {"kind": "none"}}))


@pytest.fixture
def found(tmp_path, rows):
    """The lines of two panels, and the accuracies of the first of them."""
    panels = (Panel("one", rows), Panel("two", rows[:1]))
    planned = plans(panels)
    for accuracy, spec in zip((0.8, 0.9), planned[0].specs, strict=True):
        stored(tmp_path / "runs", [[1.0, 0.1], [accuracy, accuracy]], **spec.plain())
    diverged(tmp_path / "runs", **planned[1].specs[1].plain())
    return lines(planned, Shelf.of(tmp_path / "runs"))


def test_our_numbers_stand_beside_those_of_the_paper(found):
    accuracy, settings = table1.show(found).tables
    assert [column.head for column in accuracy.columns] == [
        *("method", "one, paper", "one", "two, paper", "two")
    ]
    [ours, nothing] = accuracy.rows
    assert (ours[1], ours[2].mean, ours[2].count) == ("0.9 ± 0.1", pytest.approx(0.85), 2)
    assert nothing == ("nothing", None, None, None, None)
    assert "(0 to 2 here" in accuracy.caption
    assert settings.rows[0][3:5] == ("2", "given: 1 of 2 trials not run")
    assert settings.rows[1][3:5] == ("-", "-")


def test_a_folder_has_all_numbers_and_where_they_come_from(found, tmp_path):
    artefact = Artefact("Of | all", (), table1.show)
    _, [page, *files] = write(artefact, found, tmp_path / "out")
    text = page.read_text(encoding="utf-8")
    assert "# Of | all" in text
    assert "| ours | 0.9 ± 0.1 | 0.8500 ± 0.0707 |" in text
    assert "one, nothing: 1 of 2 runs are missing; diverged, seed 1: <b>Lower</b> it." in text
    assert "2 runs, 0.0 hours of learning. Commit 0123456789, backcast 0.1.0, jax 0.10.2" in text
    assert {path.name for path in files} >= {"accuracy.csv", "runs.csv", "specs.json"}
    with (tmp_path / "out" / "runs.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["test_accuracy"] for row in table] == ["0.8", "0.9"] * 2
    assert {row["commit"] for row in table} == {"0123456789abcdef0123456789abcdef01234567"}
    assert [row["run"] for row in table[:2]] == [spec.key for spec in found[0].plan.specs]
    [ours, *_] = json.loads((tmp_path / "out" / "specs.json").read_text(encoding="utf-8"))
    assert (ours["published"], ours["seeds"]) == ("0.9 ± 0.1", [0, 1])
    assert ours["spec"]["method"]["strength"] == 2.0


def test_the_lines_are_means_and_the_bands_extremes(found):
    shown = fig8.show(found)
    [drawing], [numbers] = shown.drawings, shown.tables
    one, two = drawing.figure.axes
    assert (one.get_title(loc="left"), two.get_title(loc="left")) == ("one", "two")
    np.testing.assert_allclose(one.get_lines()[0].get_ydata(), [1.0, 0.85])
    band = one.collections[0].get_paths()[0].vertices
    assert {round(y, 6) for x, y in band if x == 2} == {0.8, 0.9}
    assert [row[:3] for row in numbers.rows] == [("one", "ours", 2), ("two", "ours", 2)]


def test_every_seed_is_a_dot_over_the_setting_that_varies(tmp_path, rows):
    planned = plans([Panel("one", (Row("r", rows[0].study, None, {"sweep.grid": GRID}),))])
    for rank, plan in zip((1, 3), planned, strict=True):
        for spec in plan.specs:
            accuracy = 0.5 + 0.1 * rank + 0.01 * spec.seed
            stored(tmp_path / "runs", [[1.0, 0.1], [accuracy] * 2], **spec.plain())
    found = lines(planned, Shelf.of(tmp_path / "runs"))
    shown = over.show(found, "method.rank", "rank", "fig10")
    *dots, mean = shown.drawings[0].figure.axes[0].get_lines()
    assert [(list(d.get_xdata()), list(d.get_ydata())) for d in dots] == [
        ([1, 1], pytest.approx([0.6, 0.61])),
        ([3, 3], pytest.approx([0.8, 0.81])),
    ]
    assert (list(mean.get_xdata()), list(mean.get_ydata())) == (
        [1, 3],
        pytest.approx([0.605, 0.805]),
    )
    [table] = ablation.show(found).tables
    assert [(row[0], row[2].mean) for row in table.rows] == [
        ("r (rank 1)", pytest.approx(0.605)),
        ("r (rank 3)", pytest.approx(0.805)),
    ]


def test_twenty_tasks_are_told_by_fives_with_the_memory_they_took(tmp_path, rows):
    [plan] = plans([Panel("one", (Row("r", rows[0].study, None, {"sweep.seeds": 1}),))])
    matrix = np.tril(1 - 0.01 * np.subtract.outer(np.arange(6), np.arange(6)))
    stored(tmp_path / "runs", np.where(matrix, matrix, np.nan), **plan.specs[0].plain())
    [table] = twenty.show(lines([plan], Shelf.of(tmp_path / "runs"))).tables
    assert [(row[1], row[2].mean, row[3].mean, row[4].mean) for row in table.rows] == [
        (1, 1.0, 1.0, 0.5),
        (5, pytest.approx(0.98), pytest.approx(0.96), 0.5),
    ]


GRID = {"method.rank": [1, 3]}


def test_the_spectrum_is_drawn_from_what_a_run_believes(quick_compiles, tmp_path):
    spec = small(network__hidden=[], stream__tasks=2, training__epochs=1)
    (tmp_path / "small.toml").write_text(spec.toml())
    folder = run(spec, tmp_path / "runs", progress=False)
    panel = Panel("small", (Row("rank 2", str(tmp_path / "small.toml")),))
    found = lines(plans([panel]), Shelf.of(tmp_path / "runs"))
    _, paths = write(Artefact("Eigenvalues", (panel,), fig5.show), found, tmp_path / "out")
    shown = fig5.show(found)
    retained = [folder.reports[f"task {task}"]["retained"] for task in range(2)]
    [table], [every] = shown.tables, shown.numbers
    assert [row[2] for row in table.rows] == [f"{max(values):.4g}" for values in retained]
    kept = [row[4] for row in every.rows if row[2] == "retained"]
    np.testing.assert_array_equal(kept, np.concatenate(retained))
    axes = shown.drawings[0].figure.axes
    maps, histograms = axes[:2], axes[2:4]
    for each, values in zip(histograms, retained, strict=True):
        assert sum(bar.get_height() for bar in each.patches) == len(values)
    for each, record in zip(maps, folder.learner().trajectory, strict=True):
        cells = np.ma.filled(each.collections[0].get_array(), 0.0)
        largest = max(abs(w).max() for w in _leaves(record.filtered.precision.factor))
        assert 0 < cells.max() <= 2 * largest**2
    with Image.open(next(path for path in paths if path.suffix == ".png")) as picture:
        assert picture.width > 700


def _leaves(factor):
    import jax

    return [np.asarray(leaf) for leaf in jax.tree.leaves(factor)]


@pytest.mark.parametrize("name", ARTEFACTS)
def test_every_artefact_shows_that_nothing_is_there_yet(name, tmp_path):
    artefact = ARTEFACTS[name]
    found = lines(plans(artefact.panels), Shelf.of(tmp_path / "none"))
    shown, [page, *_] = write(artefact, found, tmp_path)
    assert shown.drawings == ()
    assert page.read_text(encoding="utf-8").count("runs are missing") == len(found)
