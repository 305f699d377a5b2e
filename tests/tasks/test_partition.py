"""Held-out data: nothing in two parts, no group divided, classes in proportion."""

import csv
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from backcast import data, tasks
from backcast.data import DataError
from backcast.tasks import Partition, holdout
from tasks.sets import rows_of, rows_set

SPLIT = np.repeat(["train", "test"], [90, 30])


def quietly(function, *args, **more):
    """Without the warnings that small groups give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return function(*args, **more)


def test_every_row_is_in_one_part():
    parts = holdout(rows_set(), validation=0.1, test=0.25)
    assert [len(rows) for rows in parts.parts.values()] == [78, 12, 30]
    assert np.array_equal(np.sort(np.concatenate(list(parts.parts.values()))), np.arange(120))


def test_classes_are_in_proportion_everywhere():
    dataset = rows_set(600)
    shares = np.bincount(dataset.y) / 600
    for rows in holdout(dataset, 0.1, 0.2).parts.values():
        assert np.abs(np.bincount(dataset.y[rows]) - shares * len(rows)).max() <= 2


def test_validation_is_held_out_of_training_and_the_published_test_set_is_kept():
    parts = holdout(rows_set(split=SPLIT), validation=20)
    assert np.array_equal(parts.test, np.arange(90, 120))
    assert len(parts.validation) == 20
    assert parts.validation.max() < 90
    assert len(parts.train) == 70


def test_published_rows_can_be_ignored():
    parts = holdout(rows_set(split=SPLIT), test=0.5)
    assert (parts.test < 90).any()


@pytest.mark.parametrize("none", [0, 0.0])
def test_no_validation_is_possible(none):
    assert len(holdout(rows_set(split=SPLIT), validation=none).train) == 90


def test_all_parts_have_the_values_of_a_column_in_proportion():
    year = np.repeat([2001, 2002, 2003], [20, 40, 60])
    dataset = rows_set(year=year)
    for rows in holdout(dataset, 0.25, 0.25, within="year").parts.values():
        expected = np.array([20, 40, 60]) * len(rows) / 120
        assert np.abs(np.bincount(year[rows])[2001:] - expected).max() <= 2


def test_the_seed_decides():
    first, again, other = (holdout(rows_set(), 0.1, 0.2, seed=s) for s in (5, 5, 6))
    assert np.array_equal(first.test, again.test)
    assert np.array_equal(first.validation, again.validation)
    assert not np.array_equal(first.test, other.test)


AMOUNTS = st.one_of(st.floats(0.02, 0.4), st.integers(1, 40))


@settings(max_examples=200)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=4, max_size=20),
    classes=st.integers(1, 3),
    validation=AMOUNTS,
    test=AMOUNTS,
    seed=st.integers(0, 5),
)
def test_no_group_is_ever_divided(sizes, classes, validation, test, seed):
    n = sum(sizes)
    slide = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    dataset = rows_set(n, classes, slide=slide)
    try:
        parts = quietly(holdout, dataset, validation, test, groups="slide", seed=seed)
    except DataError:
        assume(False)  # so few groups cannot give so much; hypothesis counts how often
    groups = {name: set(slide[rows]) for name, rows in parts.parts.items()}
    assert not groups["train"] & groups["validation"]
    assert not groups["train"] & groups["test"]
    assert not groups["validation"] & groups["test"]
    for name, amount in (("validation", validation), ("test", test)):
        if isinstance(amount, int):
            assert len(parts.parts[name]) == amount
        else:
            # As near as whole groups come, and those whole.
            off = abs(len(parts.parts[name]) - amount * n)
            assert off <= max(sizes) / 2 + 0.5 or len(groups[name]) == 1
            assert np.isin(slide, list(groups[name])).sum() == len(parts.parts[name])


def test_a_stream_of_divided_groups_would_be_seen():
    """The property above can fail: without `groups`, slides are divided."""
    slide = np.arange(120) // 6
    parts = holdout(rows_set(slide=slide), 0.1, 0.2)
    assert set(slide[parts.train]) & set(slide[parts.test])


STREAMS = {
    "permuted": lambda p: tasks.permuted(p, 3),
    "permuted, dealt": lambda p: tasks.permuted(p, 3, examples=10),
    "disjoint": lambda p: tasks.disjoint(p, 2),
    "by class": lambda p: tasks.by_class(p, [[2], [0, 1]]),
    "by column": lambda p: tasks.by_column(p, "year"),
    "joined": lambda p: tasks.by_column(p, "year", tasks=2, examples=10),
    "mixed": lambda p: tasks.mixed(p, "site", tasks.crossfade("p", "q", 3)),
    "imbalanced": lambda p: tasks.imbalanced(p, "site", [{"p": 50.0, "q": 10.0}, {"q": 60.0}]),
    "selected": lambda p: tasks.permuted(p, 3).select([0, 2]),
    "limited": lambda p: tasks.permuted(p.limit(train=30, test=8), 2),
    "balanced": lambda p: tasks.permuted(p.balanced(), 2),
}


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)
@settings(max_examples=10)
@given(seed=st.integers(0, 1000))
def test_no_stream_tests_on_what_any_task_learned_from(make, seed):
    row = np.arange(240)
    slide = row // 5
    dataset = rows_set(
        240, site=np.where(slide % 2, "p", "q"), year=2000 + slide % 3, slide=slide, seed=seed
    )
    parts = holdout(dataset, 0.2, 0.2, groups="slide", within="year", seed=seed)
    seen = {"train": set(), "validation": set(), "test": set()}
    for task in quietly(make, parts):
        for part, found in seen.items():
            examples = getattr(task, part)
            rows = rows_of(examples)
            assert np.array_equal(dataset.y[rows], examples.y)
            assert set(rows) <= set(parts.parts[part])
            found |= set(slide[rows])
    assert seen["train"]
    assert not seen["train"] & (seen["validation"] | seen["test"])
    assert not seen["validation"] & seen["test"]


def test_real_slides_are_whole_and_no_patch_is_on_both_sides(real_data):
    with (real_data("breakhis96") / "metadata.csv").open() as file:
        table = list(csv.DictReader(file))
    slide = np.array([row["slide"] for row in table])
    dataset = replace(
        rows_set(len(table), slide=slide),
        y=np.array([int(row["tumor"]) for row in table]),
        classes=("benign", "malignant"),
    )
    parts = holdout(dataset, 0.1, 0.2, groups="slide")
    # 88 of its 6,772 rows list a patch a second time; only whole slides keep them together.
    names = np.array([f"{row['patient']} {row['x_coord']} {row['y_coord']}" for row in table])
    assert len(set(names)) == 6684
    for column in (slide, names):
        kept, chosen, reported = (set(column[rows]) for rows in parts.parts.values())
        assert not kept & (chosen | reported)
        assert not chosen & reported
    for name, share in (("validation", 0.1), ("test", 0.2)):
        assert abs(len(parts.parts[name]) / len(table) - share) < 0.02
        assert abs(dataset.y[parts.parts[name]].mean() - dataset.y.mean()) < 0.1


def test_fewer_examples_keep_the_proportions():
    dataset = rows_set(600)
    few = holdout(dataset, 0.1, 0.2).limit(train=60, validation=12)
    assert [len(rows) for rows in few.parts.values()] == [60, 12, 120]
    assert np.abs(np.bincount(dataset.y[few.train]) - np.bincount(dataset.y) / 10).max() <= 2


def test_balanced_parts_have_as_many_of_each_class():
    dataset = rows_set(200, 2, center=np.arange(200) % 2)
    skewed = holdout(dataset, 0.2, 0.2).keep((dataset.y == 0) | (np.arange(200) < 100))
    counts = [np.bincount(dataset.y[rows]) for rows in skewed.parts.values()]
    for rows, count in zip(skewed.balanced().parts.values(), counts, strict=True):
        assert np.bincount(dataset.y[rows]).tolist() == [count.min()] * 2
    only = skewed.balanced("train", seed=3)
    assert np.array_equal(only.test, skewed.test)
    assert set(only.train) <= set(skewed.train)
    assert not np.array_equal(only.train, skewed.balanced(seed=4).train)


def test_a_class_that_a_part_lacks_is_said():
    dataset = replace(rows_set(9), y=np.repeat([0, 1, 2], [1, 4, 4]))
    with pytest.warns(UserWarning, match="rows: no test example is of class 'a'"):
        holdout(dataset, validation=0, test=np.array([2, 3, 6, 7]))


SLIDES = np.arange(120) // 30


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test": None}, "no published test set; say how much to hold out, as in test=0.2"),
        ({"test": 1.5}, "share of test data lies between 0 and 1, but 1.5"),
        ({"validation": -0.1}, "share of validation data lies between 0 and 1, but -0.1"),
        ({"validation": -3}, "number of validation examples is at least 1, but -3"),
        ({"test": 0}, "number of test examples is at least 1, but 0"),
        ({"test": 0.0}, "number of test examples is at least 1, but 0"),
        ({"test": 120}, "120 test examples were asked for and there are 119"),
        ({"test": 100, "validation": 30}, "30 validation examples .* there are 19: ask for fewer"),
        ({"test": np.array([1, 1])}, "different numbers from 0 to 119"),
        ({"test": np.array([120])}, "different numbers from 0 to 119"),
        ({"test": np.array([], int)}, "at least one"),
        ({"groups": "slides"}, "no column 'slides'; its columns are: slide"),
        ({"test": np.arange(10), "groups": "slide"}, r"1 values of 'slide' \(the first is 0\)"),
        ({"test": 0.9, "groups": "slide"}, "would take all 4 that are left; ask for less"),
        ({"seed": -1}, "seed is a whole number >= 0, but -1"),
    ],
)
def test_a_division_that_cannot_be_is_refused(change, message):
    with pytest.raises(DataError, match=message):
        holdout(rows_set(slide=SLIDES), **({"validation": 0.1, "test": 0.2} | change))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (([0, 1], [2], [1]), r"1 rows of rows \(the first is 1\) are both train and test rows"),
        (([0, 1], [120], [2]), "numbers from 0 to 119, but the validation rows given go from 120"),
        (([0, 1], [2], [-1]), "the test rows given go from -1"),
    ],
)
def test_a_partition_of_ones_own_is_checked(rows, message):
    with pytest.raises(DataError, match=message):
        Partition(rows_set(), *map(np.array, rows))


@pytest.mark.parametrize("count", [0, -1, True])
def test_a_number_of_examples_is_positive(count):
    with pytest.raises(DataError, match="number of train examples is at least 1"):
        holdout(rows_set(), 0.1, 0.2).limit(train=count)


def test_only_classes_are_balanced():
    numbers = data.from_arrays(np.ones((9, 2)), np.arange(9.0), target="number")
    with pytest.raises(DataError, match="no classes"):
        holdout(numbers, 0.2, 0.2).balanced()
    with pytest.raises(DataError, match="no part 'trian', but train, validation, test"):
        holdout(rows_set(), 0.1, 0.2).balanced("trian")
