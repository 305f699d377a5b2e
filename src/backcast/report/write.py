"""Everything about runs, in a folder: the page, its figures and tables as files, all scores."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from backcast.experiments import RunFolder, StorageError, groups, rows
from backcast.report import files
from backcast.report.comparison import comparisons
from backcast.report.contents import drawings, provenance, tables, unfinished
from backcast.report.page import page
from backcast.report.style import Drawing
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
        paths = [
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
        paths += [path for table in about for path in _table(out, table, "")]
        paths.append(files.written(out / SCORES, _scores(done)))
        return files.written(out / PAGE, page(title, sections, about)), paths
    except OSError as error:
        raise StorageError(
            f"The report cannot be written to {out}: {error}. Name another folder by --out."
        ) from error


def _figure(out: Path, drawing: Drawing, number: str) -> list[Path]:
    stem = out / "figures" / f"{number}-{drawing.name}"
    return [files.drawn(stem.with_suffix(f".{kind}"), drawing) for kind in ("png", "pdf")]


def _table(out: Path, table: Table, prefix: str) -> list[Path]:
    stem = out / "tables" / f"{prefix}{table.name}"
    return [
        files.written(stem.with_suffix(".csv"), table.csv()),
        files.written(stem.with_suffix(".tex"), table.latex()),
    ]


def _scores(runs: Sequence[RunFolder]) -> str:
    """Every score of every run, one to a line."""
    found = rows(runs)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(found[0]) if found else ["name"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return file.getvalue()
