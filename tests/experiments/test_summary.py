"""Accuracy matrices come down to the numbers of the literature; all worked out by hand."""

import numpy as np
import pytest

from backcast.experiments import Score, summary

NAN = float("nan")
R = np.array([[0.9, 0.2, NAN], [0.7, 0.8, 0.3], [0.8, 0.5, 0.6]])
ALL = (0, 1, 2)


def score(after, task, value, stage="filtered", part="test", model=None):
    metrics = dict.fromkeys(summary.METRICS, value)
    return Score(stage, after, after if model is None else model, task, part, 10, metrics)


def scores(matrix, part="test"):
    return [
        score(i, j, float(value), part=part)
        for i, row in enumerate(matrix)
        for j, value in enumerate(row)
        if not np.isnan(value)
    ]


def test_a_matrix_holds_the_filtered_models_of_one_part():
    others = [score(2, 0, 0.1, "smoothed"), score(0, 0, 0.1, part="validation")]
    np.testing.assert_array_equal(summary.matrix([*others, *scores(R)], 3), R)


def test_the_numbers_of_a_worked_example():
    assert summary.average(R, ALL) == pytest.approx((0.8 + 0.5 + 0.6) / 3)
    assert summary.average_so_far(R, ALL) == pytest.approx([0.9, 0.75, 1.9 / 3])
    assert summary.current(R, ALL) == pytest.approx((0.9 + 0.8 + 0.6) / 3)
    # Task 0 was best at 0.9 and is at 0.8; task 1 was at 0.8 and is at 0.5.
    assert summary.forgetting(R, ALL) == pytest.approx((0.1 + 0.3) / 2)
    assert summary.backward_transfer(R, ALL) == pytest.approx(-(0.1 + 0.3) / 2)
    # Before their turn, tasks 1 and 2 were at 0.2 and 0.3; untrained at 0.1 and 0.15.
    untrained = np.array([0.05, 0.1, 0.15])
    assert summary.forward_transfer(R, untrained, ALL) == pytest.approx((0.1 + 0.15) / 2)


def test_forgetting_is_from_the_best_and_transfer_from_the_first():
    better = np.array([[0.5, NAN, NAN], [0.9, 0.8, NAN], [0.7, 0.8, 0.6]])
    assert summary.forgetting(better, ALL) == pytest.approx((0.2 + 0.0) / 2)
    assert summary.backward_transfer(better, ALL) == pytest.approx((0.2 + 0.0) / 2)


def test_tasks_that_were_not_learned_do_not_count():
    some = np.array([[0.9, 0.4, NAN], [NAN, NAN, NAN], [0.7, 0.1, 0.5]])
    assert summary.average(some, (0, 2)) == pytest.approx(0.6)
    assert summary.forgetting(some, (0, 2)) == pytest.approx(0.2)
    assert summary.current(some, (0, 2)) == pytest.approx(0.7)


def test_what_is_not_defined_is_none():
    one = np.array([[0.9]])
    assert summary.average(one, (0,)) == 0.9
    assert summary.forgetting(one, (0,)) is None
    assert summary.backward_transfer(one, (0,)) is None
    assert summary.forward_transfer(one, np.array([0.1]), (0,)) is None
    joint = np.array([[NAN, NAN], [0.7, 0.9]])
    assert summary.average(joint, (0, 1)) == pytest.approx(0.8)
    assert summary.forgetting(joint, (0, 1)) is None
    assert summary.current(joint, (0, 1)) is None


def test_final_numbers_of_each_part():
    smoothed = [score(2, j, v, "smoothed", model=j) for j, v in enumerate((0.85, 0.75, 0.6))]
    elsewhere = [score(2, 1, 0.0, "smoothed", model=0)]  # another task's model
    untrained = [score(-1, j, 0.1, "untrained") for j in ALL]
    final = summary.final([*untrained, *scores(R), *smoothed, *elsewhere], 3, ALL)
    assert final["test"]["average_nll"] == pytest.approx(1.9 / 3)
    assert final["test"]["smoothed_accuracy"] == pytest.approx(2.2 / 3)
    assert final["test"]["forward_transfer"] == pytest.approx((0.1 + 0.2) / 2)
    assert final["test"]["between_accuracy"] is None
    assert set(final["validation"].values()) == {None}
    assert final["validation"].keys() == final["test"].keys()
