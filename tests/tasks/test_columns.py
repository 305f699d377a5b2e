"""Any column as the order of tasks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backcast import data, tasks
from backcast.data import DataError
from backcast.tasks import holdout
from tasks.sets import rows_of, rows_set

YEAR = np.repeat([1999, 2004, 2001], [30, 50, 40])


@pytest.fixture(scope="module")
def years():
    return holdout(rows_set(year=YEAR), 0.1, 0.2, within="year")


def test_values_are_tasks_in_order_and_numbers_are_times(years):
    stream = tasks.by_column(years, "year")
    assert stream.names == ("year 1999", "year 2001", "year 2004")
    assert [task.time for task in stream] == [1999, 2001, 2004]
    for task, year in zip(stream, (1999, 2001, 2004), strict=True):
        for part, rows in years.parts.items():
            found = rows_of(getattr(task, part))
            assert set(found) == set(rows[YEAR[rows] == year])


def test_an_order_of_ones_own(years):
    stream = tasks.by_column(years, "year", order=[2004, "1999"])
    assert stream.names == ("year 2004", "year 1999")
    assert [task.time for task in stream] == [0, 1]
    assert set(YEAR[rows_of(stream[1].train)]) == {1999}


def test_text_is_in_order_of_the_alphabet():
    site = np.array(["oslo", "bern", "rome"])[np.arange(120) % 3]
    stream = tasks.by_column(holdout(rows_set(classes=1, site=site), 0.1, 0.2), "site")
    assert stream.names == ("site bern", "site oslo", "site rome")
    assert [task.time for task in stream] == [0, 1, 2]


def test_a_csv_file_with_dates(tmp_path):
    """From a file of readings to a task a month, at the days they were taken."""
    days = np.datetime64("2023-12-30") + np.arange(90)
    rows = [f"{i},{i % 7},{i % 2},{day}" for i, day in enumerate(days)]
    (tmp_path / "readings.csv").write_text("\n".join(["a,b,kind,day", *rows]))
    dataset = data.csv_table(tmp_path / "readings.csv", "kind", ["a", "b"], target="number")
    stream = tasks.by_column(holdout(dataset, 0.1, 0.2), "day", tasks=3)
    assert stream.names == (
        "day 2023-12-30 to 2024-01-28",
        "day 2024-01-29 to 2024-02-27",
        "day 2024-02-28 to 2024-03-28",
    )
    assert [task.time for task in stream] == [14.5, 44.5, 74.5]
    assert all(np.diff(task.train.x[:, 0]).min() > 0 for task in stream)


def test_days_are_times():
    day = np.datetime64("2024-02-20") + np.arange(60) // 4
    dataset = rows_set(60, 1, day=day)
    stream = tasks.by_column(holdout(dataset, 0.25, 0.25, within="day"), "day")
    assert [task.time for task in stream] == list(range(15))


@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=12).flatmap(
        lambda sizes: st.tuples(st.just(sizes), st.integers(2, len(sizes)))
    )
)
def test_joined_values_are_neighbours_and_none_is_divided(drawn):
    sizes, count = drawn
    value = np.repeat(np.arange(len(sizes)) * 2, np.array(sizes) * 4)
    dataset = rows_set(len(value), 1, value=value)
    stream = tasks.by_column(holdout(dataset, 0.25, 0.25, within="value"), "value", tasks=count)
    spans = []
    for task in stream:
        values = value[np.concatenate([rows_of(e) for e in (task.train, task.test)])]
        spans.append((values.min(), values.max()))
        assert values.min() <= task.time <= values.max()
    assert len(spans) == count
    assert all(end < start for (_, end), (start, _) in pairwise(spans))


def test_joined_tasks_are_of_about_equal_size():
    year = np.repeat(np.arange(2000, 2020), 20)
    stream = tasks.by_column(holdout(rows_set(400, 1, year=year), 0.1, 0.2), "year", tasks=4)
    assert [len(t.train) + len(t.validation) + len(t.test) for t in stream] == [100] * 4
    assert stream.names[0] == "year 2000 to 2004"
    assert stream[0].time == 2002


def test_every_task_has_as_many_examples(years):
    stream = tasks.by_column(years, "year", examples=15)
    assert [len(task.train) for task in stream] == [15, 15, 15]


COLUMNS = {"year": YEAR, "center": np.zeros(120, int), "site": np.array(list("ab") * 60)}
PARTS = holdout(rows_set(classes=1, **COLUMNS), 0.1, 0.2)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"column": "yaer"}, "no column 'yaer'; its columns are: center, site, year"),
        ({"column": "center"}, "is 0 throughout rows, .* Columns that vary: site, year"),
        ({"column": "year", "order": [1999, 2005]}, "no value '2005'; there are 1999, 2001, 2004"),
        ({"column": "year", "order": [1999, 2001, 1999]}, "has a value twice; give it once"),
        ({"column": "year", "order": [1999]}, "at least two tasks"),
        ({"column": "year", "tasks": 4}, "3 values, so 2 to 3 tasks, but 4"),
        ({"column": "year", "tasks": 2, "order": [1999, 2001]}, "`tasks` or `order`, not both"),
        ({"column": "site", "tasks": 2}, "give their `order`, or write them as numbers or as dat"),
        ({"column": "year", "examples": 90}, r"90 training \(of 'year 1999'\) examples .* there"),
    ],
)
def test_what_makes_no_stream_is_refused(more, message):
    with pytest.raises(DataError, match=message):
        tasks.by_column(PARTS, **more)


def test_a_task_with_nothing_to_test_on_is_refused():
    slide = np.arange(120) // 10
    parts = holdout(rows_set(slide=slide), 0.1, 0.2, groups="slide")
    with pytest.raises(DataError, match=r"no test examples.*holdout\(..., within=<that column>\)"):
        tasks.by_column(parts, "slide")
