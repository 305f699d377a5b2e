import numpy as np
import pytest

from backcast.data import DataError, columns


def column(*entries):
    return np.array(entries)


@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        (("1", "-2"), "i"),
        (("1", "2.5"), "f"),
        (("1e3", "0.5"), "f"),
        (("007", "008"), "U"),
        (("1", "007"), "U"),
        (("1", ""), "U"),
        (("1", "nan"), "U"),
        (("1", "inf"), "U"),
        (("99999999999999999999", "1"), "f"),
        (("2024-05-31", "2023-01-01"), "M"),
        (("2024-05-31 10:00", "2023-01-01T11:00:30"), "M"),
        (("2024-05-31", "2024-13-01"), "U"),
        (("2024-05-31", ""), "U"),
        (("today", "now"), "U"),
        (("NaT", "NaT"), "U"),
    ],
)
def test_text_is_what_it_is_written_as(entries, kind):
    assert columns.typed(column(*entries)).dtype.kind == kind


def test_dates_are_dates():
    dates = columns.typed(column("2024-03-01", "2024-02-28"))
    assert (dates[0] - dates[1]) / np.timedelta64(1, "D") == 2  # a leap year


@pytest.mark.parametrize(
    ("entries", "names", "codes"),
    [
        (("b", "a", "b"), ("a", "b"), [1, 0, 1]),
        (("10", "9", "10"), ("9", "10"), [1, 0, 1]),
    ],
)
def test_classes_are_numbered_in_order(entries, names, codes):
    found, classes = columns.labels_of(column(*entries), "kind", "table", "class")
    assert classes == names
    assert found.tolist() == codes


@pytest.mark.parametrize("gap", ["", "  ", "nan", "NaN"])
def test_a_gap_is_not_a_class(gap):
    with pytest.raises(
        DataError, match="table, column 'kind': entry 2 names no class, nor do 1 others"
    ):
        columns.labels_of(column("a", gap, "b", gap), "kind", "table", "class")


def test_an_entry_that_would_fill_the_memory_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "_MOST_BYTES", 10_000)
    path = tmp_path / "t.csv"
    path.write_text("x,notes\n" + "1,short\n" * 50 + f"2,{'long' * 25}\n")
    with pytest.raises(DataError, match=r"column 'notes': an entry has 100 characters.*51 rows"):
        columns.read_columns(path)


def test_blank_lines_and_columns_without_a_heading_are_left_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\ufeff,x, y \n0,1,2\n\n1,3,4\n", encoding="utf-8")
    found = columns.read_columns(path)
    assert {name: values.tolist() for name, values in found.items()} == {
        "x": ["1", "3"],
        "y": ["2", "4"],
    }
