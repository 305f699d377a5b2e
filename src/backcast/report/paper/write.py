"""An artefact in a folder: a page of Markdown, its figures, and all numbers with their origin."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from backcast.experiments import RunFolder, StorageError
from backcast.experiments.paper import Line
from backcast.report import files
from backcast.report.paper.artefact import Artefact, Shown
from backcast.report.tables import Cell, Column, Table

_ORIGIN = ("commit", "backcast", "jax", "python", "system", "cores", "memory")


def write(artefact: Artefact, lines: Sequence[Line], out: Path) -> tuple[Shown, list[Path]]:
    """Write a table or figure of the paper to a folder.

    Args:
        artefact: which.
        lines: what has come of its runs.
        out: the folder; made if need be.

    Returns:
        What was written: as tables and drawings, and as paths, the page first.
    """
    shown = artefact.show(lines)
    tables = [*shown.tables, *shown.numbers, runs(lines)]
    try:
        return shown, [
            files.written(out / "README.md", _page(artefact.title, shown, lines)),
            *(files.drawn(out / f"{each.name}.png", each) for each in shown.drawings),
            *(files.written(out / f"{table.name}.csv", table.csv()) for table in tables),
            files.written(out / "specs.json", _json(lines)),
        ]
    except OSError as error:
        raise StorageError(
            f"{artefact.title} cannot be written to {out}: {error}. Name another folder by --to."
        ) from error


def runs(lines: Sequence[Line]) -> Table:
    """Every run that counts: its final numbers, and by what and where it was made."""
    rows = tuple(
        (line.plan.panel, line.plan.label, *_run(run))
        for line in lines
        if line.group is not None
        for run in line.group.runs
    )
    heads = ("panel", "label", "seed", "run", "test_accuracy", "validation_accuracy")
    columns = tuple(map(Column, (*heads, "forgetting", "seconds", *_ORIGIN)))
    return Table("runs", "Runs", "Every run.", columns, rows)


def _run(run: RunFolder) -> tuple[Cell, ...]:
    final, made = run.final or {}, run.environment
    if made.get("changed"):
        made = {**made, "commit": f"{made['commit']} with changes"}
    return (
        run.spec.seed,
        run.spec.key,
        final["test"]["average_accuracy"],
        final["validation"]["average_accuracy"],
        final["test"]["forgetting"],
        round(final["seconds"], 1),
        *(made.get(name) for name in _ORIGIN),
    )


def _page(title: str, shown: Shown, lines: Sequence[Line]) -> str:
    parts = [f"# {title}"]
    parts += [
        f"![{each.description}]({each.name}.png)\n\n{each.caption}" for each in shown.drawings
    ]
    parts += [f"{table.markdown()}\n{table.caption}" for table in shown.tables]
    if left_out := [f"- {words}" for line in lines if (words := unfinished(line))]:
        parts.append("Not here:\n\n" + "\n".join(left_out))
    parts.append(f"{_origin(lines)}Every run is in runs.csv, every setting in specs.json.")
    return "\n\n".join(parts) + "\n"


def _origin(lines: Sequence[Line]) -> str:
    """How many runs there are, what they took, and by what they were made."""
    groups = [line.group for line in lines if line.group is not None]
    folders = {run.spec.key: run for group in groups for run in group.runs}.values()
    if not folders:
        return ""
    hours = math.fsum((run.final or {})["seconds"] for run in folders) / 3600
    made = {name: _all(run.environment.get(name) for run in folders) for name in _ORIGIN}
    commits = _all(str(run.environment.get("commit"))[:10] for run in folders)
    memory = _all(round((run.environment.get("memory") or 0) / 1e9) for run in folders)
    return (
        f"{len(folders)} runs, {hours:.1f} hours of learning. Commit {commits}, backcast "
        f"{made['backcast']}, jax {made['jax']}, Python {made['python']}, {made['system']}, "
        f"{made['cores']} processor cores, {memory} GB. "
    )


def _all(values: Iterable[object]) -> str:
    return " and ".join(sorted({str(value) for value in values}))


def unfinished(line: Line) -> str:
    """Which runs of a line have no numbers, and why; empty if all have."""
    plan, done = line.plan, 0 if line.group is None else len(line.group.runs)
    to_do = len(plan.specs) - done - len(line.diverged)
    said = [f"{to_do} of {len(plan.specs)} runs are missing"] if to_do else []
    said += [f"diverged, {why}" for why in line.diverged]
    return f"{plan.panel}, {plan.label}: {'; '.join(said)}" if said else ""


def _json(lines: Sequence[Line]) -> str:
    return json.dumps([_settings(line) for line in lines], indent=1) + "\n"


def _settings(line: Line) -> dict[str, Any]:
    plan = line.plan
    return {
        "panel": plan.panel,
        "label": plan.label,
        "published": plan.row.published,
        "seeds": [spec.seed for spec in plan.specs],
        "spec": {name: value for name, value in plan.specs[0].plain().items() if name != "seed"},
        "chosen": None if line.choice is None else line.choice.as_plain(),
    }
