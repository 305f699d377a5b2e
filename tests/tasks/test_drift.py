"""Inputs that change from task to task, by the paper's values and others'."""

import numpy as np
import pytest

from backcast import tasks
from backcast.data import DataError, from_arrays
from backcast.tasks import holdout
from tasks.sets import pictures, rows_of, rows_set

IMAGENET = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])


@pytest.fixture(scope="module")
def histology():
    return holdout(pictures(), 0.1, 0.2, groups="slide")


def test_gradual_brightness_is_the_papers(histology):
    """``0.6 (0.1 t - 0.1 (4 - t))``, clipped, and then ImageNet's mean and deviation."""
    stream = tasks.brightness(histology)
    assert len(stream) == 5
    pixels = histology.dataset.x[histology.test] / 255
    for t, task in enumerate(stream):
        shifted = np.clip(pixels + 0.6 * (0.1 * t - 0.1 * (4 - t)), 0, 1)
        np.testing.assert_allclose(task.test.x, (shifted - IMAGENET[0]) / IMAGENET[1], atol=1e-5)
        assert task.time == t
    assert stream.names == (
        "brightness -0.24",
        "brightness -0.12",
        "brightness +0",
        "brightness +0.12",
        "brightness +0.24",
    )


def test_permutation_begins_with_none_and_each_task_has_its_own(digits):
    stream = tasks.permuted(digits, 4, seed=3)
    plain = digits.dataset.x[digits.train] / np.float32(16)
    found = [task.train.x.reshape(len(plain), 64) for task in stream]
    np.testing.assert_array_equal(found[0], plain.reshape(len(plain), 64))
    orders = []
    for x in found:
        # The k-th pixel is the column of the plain images with the same values.
        first = {column.tobytes(): k for k, column in enumerate(found[0].T.copy())}
        orders.append(tuple(first[column.tobytes()] for column in x.T.copy()))
        np.testing.assert_array_equal(np.sort(x, axis=1), np.sort(found[0], axis=1))
    assert len(set(orders)) == 4
    assert all(task.train.y is not None and task.train.x.max() == 1 for task in stream)


def test_the_same_examples_are_tested_in_every_task(histology):
    stream = tasks.stained(histology, (0.0, 0.4), examples=10)
    labels = [histology.dataset.y[histology.test]] * 2
    assert [task.test.y.tolist() for task in stream] == [y.tolist() for y in labels]


def test_a_training_example_is_in_one_task_only():
    parts = holdout(rows_set(), 0.1, 0.2)
    rows = [rows_of(task.train) for task in tasks.permuted(parts, 4, examples=20)]
    assert len(set(np.concatenate(rows))) == 80
    shares = np.bincount(parts.dataset.y[parts.train]) / len(parts.train)
    for found in rows:
        assert np.abs(np.bincount(parts.dataset.y[found], minlength=3) - 20 * shares).max() <= 2


def test_without_a_number_every_task_has_all():
    parts = holdout(rows_set(), 0.1, 0.2)
    for task in tasks.permuted(parts, 3):
        assert set(rows_of(task.train)) == set(parts.train)


STREAMS = {
    "rotated": (tasks.rotated, (0.0, 30.0), tasks.transforms.rotate),
    "blurred": (tasks.blurred, (0.0, 1.0), tasks.transforms.blur),
    "stained": (tasks.stained, (-0.5, 0.5), tasks.transforms.stain),
    "brightness": (tasks.brightness, (0.0, 0.2), tasks.transforms.brighten),
}


@pytest.mark.parametrize(("make", "values", "change"), STREAMS.values(), ids=STREAMS)
def test_a_stream_is_its_change_and_then_standardised(histology, make, values, change):
    pixels = histology.dataset.inputs(histology.train)
    for value, task in zip(values, make(histology, values), strict=True):
        expected = tasks.transforms.imagenet(change(value)(pixels))
        np.testing.assert_array_equal(task.train.x, expected)


def test_grey_images_stay_in_zero_to_one(digits):
    for task in tasks.rotated(digits, (0.0, 45.0)):
        assert task.train.x.min() == 0
        assert 0.9 < task.train.x.max() <= 1


def test_a_finish_of_ones_own(histology):
    stream = tasks.brightness(histology, (0.0, 0.1), finish=lambda x: x.mean(axis=(1, 2)))
    assert stream[1].test.x.shape == (len(histology.test), 3)


def test_a_stream_may_come_back(histology):
    stream = tasks.brightness(histology, (0.0, 0.1, 0.0))
    assert stream.names == ("brightness +0", "brightness +0.1", "brightness +0 (2)")
    np.testing.assert_array_equal(stream[0].test.x, stream[2].test.x)


def test_changes_of_ones_own():
    parts = holdout(rows_set(), 0.1, 0.2)
    stream = tasks.drifting(parts, ["calm", "storm"], [lambda x: x, lambda x: -x])
    np.testing.assert_array_equal(stream[1].test.x, -stream[0].test.x)


TABLE = holdout(rows_set(), 0.1, 0.2)
GREY = holdout(pictures(colour=False), 0.1, 0.2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tasks.permuted(TABLE, 1), "at least two tasks, and this one has 1"),
        (lambda: tasks.permuted(TABLE, 0), "at least two tasks, and this one has 0"),
        (lambda: tasks.permuted(TABLE, 4, examples=30), "30 .*each of 4 tasks.* there are 21"),
        (lambda: tasks.permuted(TABLE, 4, examples=0), "at least 1, but 0"),
        (lambda: tasks.rotated(TABLE), r"shape \(120, 2\); this stream needs images"),
        (lambda: tasks.brightness(TABLE), "needs images"),
        (lambda: tasks.blurred(TABLE), "needs images"),
        (lambda: tasks.stained(GREY), r"needs images \(n, height, width, 3\)"),
        (lambda: tasks.blurred(GREY, (0.0, 9.0)), "at most 8 pixels .* but 9.0 was given"),
        (lambda: tasks.brightness(GREY, (0.0, float("nan"))), "finite number, but nan"),
        (lambda: tasks.drifting(TABLE, ["a", "b"], [abs]), "2 names for 1 changes; give one each"),
        (lambda: tasks.drifting(TABLE, ["a", "a"], [abs, abs]), "named alike: a. Give each its"),
    ],
)
def test_an_impossible_stream_is_refused_before_work_begins(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_numbers_to_predict_drift_too():
    dataset = from_arrays(np.ones((40, 3)), np.arange(40.0), target="number")
    task = tasks.permuted(holdout(dataset, 0.1, 0.2), 2, examples=5)[1]
    assert task.train.y.dtype == np.float32
    assert len(task.train) == 5
