"""Centres in changing proportions, and of changing size."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from backcast import tasks
from backcast.data import DataError
from backcast.tasks import holdout
from tasks.sets import pictures, rows_of, rows_set

CENTER = np.where(np.arange(300) % 3, "north", "south")  # 200 and 100
FADE = tasks.crossfade("north", "south", 3)


@pytest.fixture(scope="module")
def centres():
    return holdout(rows_set(300, center=CENTER), 0.2, 0.2, within="center")


def shares(examples):
    return (CENTER[rows_of(examples)] == "south").mean()


def test_a_crossfade_goes_from_one_to_the_other():
    assert FADE == (
        {"north": 100.0, "south": 0.0},
        {"north": 50.0, "south": 50.0},
        {"north": 0.0, "south": 100.0},
    )


def test_tasks_are_mixed_as_asked(centres):
    stream = tasks.mixed(centres, "center", FADE)
    for task, share in zip(stream, (0, 0.5, 1), strict=True):
        for part in (task.train, task.validation, task.test):
            assert abs(shares(part) - share) <= 0.51 / len(part)
    assert stream.names[1] == "center 50% north + 50% south"
    assert [task.time for task in stream] == [0, 1, 2]


def test_tasks_are_equal_in_size_and_as_large_as_can_be(centres):
    sizes = [len(task.train) for task in tasks.mixed(centres, "center", FADE)]
    south = (CENTER[centres.train] == "south").sum()  # for one task and a half
    assert sizes == [sizes[0]] * 3
    assert sizes[0] + sizes[0] // 2 in (south - 1, south)
    assert [len(t.train) for t in tasks.mixed(centres, "center", FADE, examples=20)] == [20] * 3


def test_no_training_example_is_in_two_tasks(centres):
    for stream in (
        tasks.mixed(centres, "center", FADE),
        tasks.imbalanced(centres, "center", [{"north": 50.0}, {"north": 50.0, "south": 100.0}]),
    ):
        rows = np.concatenate([rows_of(task.train) for task in stream])
        assert len(set(rows)) == len(rows)


def test_imbalanced_centres_are_percentages_of_each(centres):
    percentages = [{"north": 50.0, "south": 10.0}, {"north": 25.0, "south": 80.0}]
    sizes = {part: np.bincount(CENTER[r] == "south") for part, r in centres.parts.items()}
    for task, wanted in zip(
        tasks.imbalanced(centres, "center", percentages), percentages, strict=True
    ):
        for part, count in sizes.items():
            found = np.bincount(CENTER[rows_of(getattr(task, part))] == "south")
            np.testing.assert_array_equal(
                found, np.floor(np.array(list(wanted.values())) * count / 100)
            )


def test_classes_stay_in_proportion_within_each_centre(centres):
    labels = centres.dataset.y
    whole = np.bincount(labels[centres.train]) / len(centres.train)
    for task in tasks.mixed(centres, "center", FADE):
        assert np.abs(np.bincount(task.train.y) / len(task.train) - whole).max() < 0.1


def test_a_stream_may_come_back(centres):
    stream = tasks.mixed(centres, "center", [FADE[0], FADE[1], FADE[0]])
    assert stream.names[2] == "center 100% north (2)"


def test_the_mix_of_classes_may_drift_too():
    """Label shift: the column that is the class."""
    kind = np.array(list("ab") * 100)
    parts = holdout(rows_set(200, 2, kind=kind), 0.2, 0.2, within="kind")
    first, last = tasks.mixed(parts, "kind", [{"a": 80.0, "b": 20.0}, {"a": 20.0, "b": 80.0}])
    for task, share in ((first, 0.8), (last, 0.2)):
        assert abs((kind[rows_of(task.train)] == "a").mean() - share) < 0.02


def test_two_centres_of_histology():
    parts = holdout(pictures(), 0.2, 0.2, groups="slide", within="center")
    stream = tasks.mixed(parts, "center", tasks.crossfade("north", "south", 2))
    for task, center in zip(stream, ("north", "south"), strict=True):
        rows = parts.test[parts.dataset.columns["center"][parts.test] == center]
        expected = tasks.transforms.imagenet(parts.dataset.inputs(rows))
        assert {x.tobytes() for x in task.test.x} == {x.tobytes() for x in expected}


@given(
    sizes=st.tuples(*[st.integers(6, 40)] * 3),
    parts=st.lists(st.tuples(*[st.integers(0, 4)] * 3).filter(any), min_size=2, max_size=4),
)
def test_mixtures_are_exact_to_one_example_and_use_all_there_is(sizes, parts):
    value = np.repeat(list("abc"), 10 * np.array(sizes))
    dataset = rows_set(len(value), 1, value=value)
    shares = np.array(parts) / np.sum(parts, axis=1, keepdims=True)
    percentages = [{v: 100 * float(s) for v, s in zip("abc", row, strict=True)} for row in shares]
    partition = holdout(dataset, 0.2, 0.2, within="value")
    assume(all(len(set(value[rows])) == 3 for rows in partition.parts.values()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        stream = tasks.mixed(partition, "value", percentages)
    used = np.zeros(3)
    for task, row in zip(stream, shares, strict=True):
        found = value[rows_of(task.train)]
        counts = np.array([(found == v).sum() for v in "abc"])
        assert np.abs(counts - row * len(task.train)).max() < 1
        used += counts
    have = np.array([(value[partition.train] == v).sum() for v in "abc"])
    assert (used <= have).all()
    # One more example a task, and some value would not suffice but for rounding.
    assert (used + shares.sum(axis=0) >= have - len(parts)).any()


PARTS = holdout(rows_set(300, center=CENTER, lab=np.zeros(300, int)), 0.2, 0.2, within="center")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: tasks.mixed(PARTS, "center", [{"north": 100.0}, {"north": 60.0}]),
            "percentages of task 1 add up to 60; they must make 100",
        ),
        (
            lambda: tasks.mixed(PARTS, "center", [{"north": 100.0}, {"nroth": 100.0}]),
            "Task 1 mixes the unknown center 'nroth'; there are north, south",
        ),
        (
            lambda: tasks.mixed(PARTS, "center", [{"north": 120.0, "south": -20.0}] * 2),
            "percentage of task 0 is not between 0 and 100",
        ),
        (lambda: tasks.mixed(PARTS, "lab", FADE), "'lab' is 0 throughout .* vary: center"),
        (lambda: tasks.mixed(PARTS, "city", FADE), "no column 'city'"),
        (
            lambda: tasks.mixed(PARTS, "center", FADE, examples=90),
            r"90 training \(for each of 3 tasks, so mixed\) .* there are 4\d: ask for fewer",
        ),
        (lambda: tasks.mixed(PARTS, "center", FADE[:1]), "at least two tasks"),
        (
            lambda: tasks.imbalanced(PARTS, "center", [{"north": 60.0}, {"north": 50.0}]),
            "percentages of 'north' add up to 110; no example is in two tasks, so at most 100",
        ),
        (
            lambda: tasks.imbalanced(PARTS, "center", [{"north": 60.0}, {"north": 0.0}]),
            "has no train examples",
        ),
        (lambda: tasks.crossfade("a", "b", 1), "at least 2 tasks, not 1"),
    ],
)
def test_what_cannot_be_mixed_is_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()
