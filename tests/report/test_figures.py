"""Figures show the numbers that the runs have."""

import numpy as np
import pytest

from backcast.experiments import groups, run_folders
from backcast.report import comparisons
from backcast.report.curves import average_so_far, spectrum
from backcast.report.dots import filtered_and_smoothed
from backcast.report.matrices import accuracy_matrix, lowest_accuracy, readable_on
from backcast.report.style import INK, SERIES, told_apart
from report.stored import stored

MATRIX = np.array([[0.9, 0.2, np.nan], [0.8, 0.95, 0.3], [0.7, 0.85, 0.99]])
BETTER = np.array([0.75, 0.9, 0.99])
LATER = MATRIX + 0.01


@pytest.fixture
def group(tmp_path):
    stored(tmp_path, MATRIX, BETTER)
    stored(tmp_path, LATER, BETTER + 0.01, seed=1)
    [found] = groups(run_folders(tmp_path))
    return found


def test_the_line_is_the_mean_over_seeds_and_the_band_their_range(group):
    drawing = average_so_far([group])
    [axes] = drawing.figure.axes
    line = axes.get_lines()[0]
    each = np.array([0.9, (0.8 + 0.95) / 2, (0.7 + 0.85 + 0.99) / 3])
    np.testing.assert_allclose(line.get_ydata(), each + 0.005)
    np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3])
    band = axes.collections[0].get_paths()[0].vertices
    for x, value in zip([1, 2, 3], each, strict=True):
        at = band[band[:, 0] == x, 1]
        assert (at.min(), at.max()) == pytest.approx((value, value + 0.01))
    assert "toy: 0.905, 0.880, 0.852." in drawing.description


def test_dots_are_the_models_of_each_task(group):
    [axes] = filtered_and_smoothed(group).figure.axes
    drawn = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    np.testing.assert_allclose(drawn["just learned"], MATRIX.diagonal() + 0.005)
    np.testing.assert_allclose(drawn["last model"], MATRIX[-1] + 0.005)
    np.testing.assert_allclose(drawn["smoothed"], BETTER + 0.005)


def test_a_task_not_learned_has_a_model_between(tmp_path):
    matrix = MATRIX.copy()
    matrix[1] = np.nan
    stored(tmp_path, matrix, BETTER, learned=(0, 2))
    [group] = groups(run_folders(tmp_path))
    [axes] = filtered_and_smoothed(group).figure.axes
    drawn = {line.get_label(): line for line in axes.get_lines()}
    np.testing.assert_allclose(drawn["just learned"].get_ydata(), [0.9, 0.99])
    np.testing.assert_allclose(drawn["between"].get_ydata(), [0.9])
    assert round(float(drawn["between"].get_xdata()[0])) == 1


def test_cells_hold_the_mean_matrix_and_learned_tasks_set_the_scale(group):
    lowest = lowest_accuracy([group])
    assert lowest == 0.7  # not the 0.2 of a task to come
    axes = accuracy_matrix(group, lowest).figure.axes[0]
    written = [text.get_text() for text in axes.texts]
    mean = MATRIX + 0.005
    assert written == [f"{value:.2f}" for value in mean.ravel() if np.isfinite(value)]
    cells = axes.collections[0].get_array()
    np.testing.assert_allclose(np.ma.filled(cells, np.nan), mean)


def test_a_long_matrix_has_a_scale_instead_of_numbers(runs):
    [group] = [group for group in groups(run_folders(runs)) if group.label == "long"]
    axes, scale = accuracy_matrix(group, 0.5).figure.axes
    assert not axes.texts
    assert scale.get_ylim() == (0.5, 1.0)


def test_a_spectrum_has_every_eigenvalue_and_none_of_what_is_zero(group):
    drawing = spectrum(group.runs[0], group.label)
    [axes] = drawing.figure.axes
    kept, lost = axes.get_lines()[:2]
    np.testing.assert_allclose(kept.get_ydata(), [9, 3, 1])
    np.testing.assert_allclose(lost.get_ydata(), [0.5, np.nan])
    assert lost.get_markerfacecolor() == "none"
    assert axes.get_yscale() == "log"


def test_a_run_without_beliefs_has_no_spectrum(tmp_path):
    assert spectrum(stored(tmp_path, MATRIX, method={"kind": "none"}), "plain") is None


def test_only_runs_of_the_same_tasks_are_compared(runs):
    found = {
        each.title: [g.label for g in each.groups]
        for each in comparisons(groups(run_folders(runs)))
    }
    assert [len(labels) for labels in found.values()] == [1, 2]
    assert list(found) == ["digits, permuted, 14 tasks", "digits, permuted, 3 tasks"]


def test_names_are_told_apart():
    assert told_apart(("blur 0", "blur 1.5")) == (["0", "1.5"], "blur")
    assert told_apart(("a b", "c b")) == (["a b", "c b"], "task")
    assert told_apart(("same", "same")) == (["same", "same"], "task")
    assert told_apart(("centre", "centre 2")) == (["centre", "centre 2"], "task")


def test_colours_can_be_told_from_paper():
    assert all(contrast(color, "#ffffff") >= 4.5 for color in (*SERIES, INK))


@pytest.mark.parametrize("grey", np.linspace(0, 1, 11))
def test_numbers_can_be_read_on_any_cell(grey):
    ground = f"#{round(grey * 255):02x}" * 1 + f"{round(grey * 255):02x}" * 2
    assert contrast(readable_on((grey, grey, grey, 1.0)), ground) >= 4.2


def contrast(one, other):
    """The contrast ratio of WCAG 2.2, between 1 and 21."""

    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted([luminance(one), luminance(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_runs_of_one_name_are_labelled_by_what_differs(tmp_path):
    stored(tmp_path, MATRIX, method={"kind": "none"})
    stored(tmp_path, MATRIX, BETTER)
    stored(tmp_path, MATRIX, BETTER, method__rank=7)
    stored(tmp_path, MATRIX, BETTER, method__rank=7, training__clip=1.0)
    labels = {group.label for group in groups(run_folders(tmp_path))}
    assert labels == {
        "toy (method none)",
        "toy (method low-rank, rank 3)",
        "toy (method low-rank, rank 7)",
        "toy (method low-rank, rank 7, clip 1.0)",
    }
