"""Tasks with classes of their own."""

import numpy as np
import pytest

from backcast import tasks
from backcast.data import DataError, from_arrays
from backcast.tasks import holdout
from tasks.sets import rows_of, rows_set


def test_disjoint_is_digits_0_to_4_and_then_5_to_9(digits):
    first, second = tasks.disjoint(digits)
    for part in ("train", "validation", "test"):
        assert set(getattr(first, part).y) == {0, 1, 2, 3, 4}
        assert set(getattr(second, part).y) == {5, 6, 7, 8, 9}
    assert (first.name, second.name) == ("classes 0, 1, 2, 3, 4", "classes 5, 6, 7, 8, 9")
    assert (first.time, second.time) == (0, 1)


def test_every_example_is_in_the_task_of_its_class(digits):
    for part, rows in digits.parts.items():
        sizes = [len(getattr(task, part)) for task in tasks.pairs(digits)]
        counts = np.bincount(digits.dataset.y[rows], minlength=10)
        assert sizes == counts.reshape(5, 2).sum(axis=1).tolist()


def test_inputs_are_those_of_the_labels():
    parts = holdout(rows_set(), 0.1, 0.2)
    for task in tasks.by_class(parts, [[2, 0], [1]]):
        np.testing.assert_array_equal(parts.dataset.y[rows_of(task.train)], task.train.y)


def test_split_has_two_classes_to_a_task(digits):
    stream = tasks.pairs(digits)
    assert [sorted(task.test.counts()) for task in stream] == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
        [8, 9],
    ]


def test_fewer_training_examples_leave_the_test_set_whole(digits):
    stream = tasks.disjoint(digits, examples=100)
    assert [len(task.train) for task in stream] == [100, 100]
    assert all(18 <= count <= 22 for task in stream for count in task.train.counts().values())
    assert sum(len(task.test) for task in stream) == len(digits.test)


def test_many_classes_have_a_short_name():
    parts = holdout(rows_set(400, 10), 0.1, 0.2)
    assert tasks.by_class(parts, [[0], range(1, 10)]).names[1] == "classes b, c, ..., j"


ROWS = holdout(rows_set(), 0.1, 0.2)
NUMBERS = holdout(from_arrays(np.ones((40, 3)), np.arange(40.0), target="number"), 0.1, 0.2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tasks.disjoint(ROWS, 4), "3 classes, so 2 to 3 tasks .* 4 were asked for"),
        (lambda: tasks.disjoint(ROWS, 1), "but 1 were asked for"),
        (lambda: tasks.pairs(ROWS), "3 classes, which do not make pairs; use by_class"),
        (lambda: tasks.by_class(ROWS, [[0], [1, 0]]), r"each may be in one task; \[\[0\], \[1, 0"),
        (lambda: tasks.by_class(ROWS, [[0], [3]]), r"classes 0 \.\.\. 2"),
        (lambda: tasks.by_class(ROWS, [[0], []]), "at least one class"),
        (lambda: tasks.by_class(ROWS, [[0, 1, 2]]), "at least two tasks"),
        (
            lambda: tasks.disjoint(ROWS, 3, examples=1000),
            "1,000 training examples .* ask for fewer",
        ),
        (lambda: tasks.disjoint(NUMBERS), "numbers to predict and no classes; take its tasks from"),
        (lambda: tasks.pairs(NUMBERS), "no classes"),
    ],
)
def test_an_impossible_stream_is_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()
