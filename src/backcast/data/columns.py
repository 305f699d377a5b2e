"""CSV tables as columns of text, and what the text stands for."""

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Shaped

from backcast.data.errors import DataError

Column = Shaped[np.ndarray, " n"]
Kind = Literal["class", "number"]

_MOST_BYTES = 2**30
_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?)?")


def read_columns(path: Path) -> dict[str, Column]:
    """The columns of a CSV file by their headings, as text. Those without a heading are dropped."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            heading = next(reader, [])
            rows = []
            for row in reader:
                if len(row) != len(heading):
                    if not row:
                        continue
                    raise DataError(
                        f"{path}, line {reader.line_num}: {len(row)} entries where the heading has "
                        f"{len(heading)}."
                    )
                rows.append(row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a CSV table in UTF-8: {error}.") from error
    names = [name.strip() for name in heading]
    repeated = {name for name in names if name and names.count(name) > 1}
    if repeated:
        raise DataError(f"{path} has two columns named {', '.join(sorted(repeated))}.")
    if not rows:
        raise DataError(f"{path} has no rows below its heading.")
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return {name: _array(column, name, path) for name, column in columns if name}


def require(columns: Iterable[str], wanted: Iterable[str], path: Path) -> None:
    """Refuse a table that lacks a column."""
    have = list(columns)
    if missing := [name for name in wanted if name not in have]:
        raise DataError(
            f"{path} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; it has "
            f"{', '.join(have)}."
        )


def typed(column: Column) -> Column:
    """Whole numbers, real numbers or dates where all entries are written as such, else the text.

    Dates are ``2024-05-31``, with or without a time. ``007`` stays text: it is a name.
    """
    if all(map(_DATE.fullmatch, column.tolist())):
        try:
            return column.astype(np.datetime64)
        except ValueError:
            return column  # no such day
    try:
        whole = column.astype(np.int64)
        if (whole.astype(str) == column).all():
            return whole
    except (ValueError, OverflowError):
        pass
    try:
        real = column.astype(np.float64)
    except ValueError:
        return column
    named = (
        np.char.startswith(column, "0") & np.char.isdigit(column) & (np.char.str_len(column) > 1)
    )
    return column if named.any() or not np.isfinite(real).all() else real


def numbers(column: Column, name: str, source: Path | str) -> Shaped[np.ndarray, " n"]:
    """A column as finite numbers; the first entry that is not one is named."""
    try:
        values = column.astype(np.float64)
        bad = ~np.isfinite(values)
    except ValueError:
        bad = np.array([not _is_number(text) for text in column])
        values = np.zeros(len(column))
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"{source}, column '{name}': entry {row + 1} is {str(column[row])!r}, which is not a "
            "number. Fill it in, leave the row out, or leave the column out."
        )
    return values


def labels_of(
    column: Column, name: str, source: Path | str, target: Kind
) -> tuple[Shaped[np.ndarray, " n"], tuple[str, ...]]:
    """Classes as numbers ``0 ... C-1`` and their names in order; or numbers, and no names."""
    if target == "number":
        return numbers(column, name, source), ()
    missing = np.isin(np.char.lower(np.char.strip(column)), ("", "nan"))
    if missing.any():
        raise DataError(
            f"{source}, column '{name}': entry {int(missing.argmax()) + 1} names no class, nor do "
            f"{int(missing.sum()) - 1:,} others. Fill it in, or leave the row out."
        )
    found, codes = np.unique(typed(column), return_inverse=True)
    return codes.astype(np.int32), tuple(str(name) for name in found)


def _array(column: Sequence[str], name: str, path: Path) -> Column:
    longest = max(map(len, column))
    if 4 * longest * len(column) > _MOST_BYTES:  # NumPy gives every entry the room of the longest
        raise DataError(
            f"{path}, column '{name}': an entry has {longest:,} characters, which is too long for "
            f"a table of {len(column):,} rows. Leave the column out, or was a quote not closed?"
        )
    return np.array(column)


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
