"""Everything about runs, in a folder: the page, its figures and tables as files, all scores."""

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from backcast.experiments import RunFolder, StorageError, groups, rows
from backcast.learning.files import settle, temporary
from backcast.report.comparison import comparisons
from backcast.report.contents import drawings, provenance, tables, unfinished
from backcast.report.page import page
from backcast.report.style import Drawing, styled
from backcast.report.tables import Table

PAGE, SCORES = "report.html", "scores.csv"


def write_report(runs: Sequence[RunFolder], out: Path, title: str) -> tuple[Path, list[Path]]:
    """Write a report about runs; those that are not finished are only named.

    Args:
        runs: the runs.
        out: the folder to write to; made if need be.
        title: what the page is called.

    Returns:
        The page, and all other files.

    Raises:
        StorageError: the folder cannot be written to.
    """
    done = [run for run in runs if run.state == "done"]
    sections = [(each, drawings(each), tables(each)) for each in comparisons(groups(done))]
    about = [table for table in (provenance(done), unfinished(runs)) if table is not None]
    try:
        files = [
            path
            for number, (_, figures, found) in enumerate(sections, 1)
            for path in (
                *(
                    path
                    for i, f in enumerate(figures, 1)
                    for path in _figure(out, f, f"{number}-{i}")
                ),
                *(path for table in found for path in _table(out, table, f"{number}-")),
            )
        ]
        files += [path for table in about for path in _table(out, table, "")]
        files.append(_written(out / SCORES, _scores(done)))
        return _written(out / PAGE, page(title, sections, about)), files
    except OSError as error:
        raise StorageError(
            f"The report cannot be written to {out}: {error}. Name another folder by --out."
        ) from error


def _figure(out: Path, drawing: Drawing, number: str) -> list[Path]:
    """The figure as PNG and PDF, whose bytes depend on nothing but what it shows."""
    paths = []
    for kind in ("png", "pdf"):
        path = out / "figures" / f"{number}-{drawing.name}.{kind}"
        dates = {"CreationDate": None} if kind == "pdf" else None
        with styled():
            _whole(
                path,
                lambda part, kind=kind, dates=dates: drawing.figure.savefig(
                    part, format=kind, metadata=dates
                ),
            )
        paths.append(path)
    return paths


def _table(out: Path, table: Table, prefix: str) -> list[Path]:
    stem = out / "tables" / f"{prefix}{table.name}"
    return [
        _written(stem.with_suffix(".csv"), table.csv()),
        _written(stem.with_suffix(".tex"), table.latex()),
    ]


def _scores(runs: Sequence[RunFolder]) -> str:
    """Every score of every run, one to a line."""
    found = rows(runs)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(found[0]) if found else ["name"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return file.getvalue()


def _written(path: Path, text: str) -> Path:
    _whole(path, lambda part: part.write_text(text, encoding="utf-8"))
    return path


def _whole(path: Path, write: Callable[[Path], object]) -> None:
    """A file that is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary(path.parent) as part:
        write(part)
        settle(part, path)
