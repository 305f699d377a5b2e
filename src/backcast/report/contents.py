"""Which figures and tables there are of a comparison, and of runs."""

from collections.abc import Iterable, Sequence

import numpy as np

from backcast.experiments import Group, RunFolder, Spread
from backcast.report.comparison import Comparison
from backcast.report.curves import average_so_far, spectrum
from backcast.report.dots import filtered_and_smoothed, stages
from backcast.report.matrices import accuracy_matrix, lowest_accuracy
from backcast.report.style import Drawing
from backcast.report.tables import Column, Table

_GIGA = 1e9


def drawings(comparison: Comparison) -> list[Drawing]:
    """All figures of a comparison."""
    groups = comparison.groups
    found: list[Drawing | None] = [average_so_far(groups)]
    lowest = lowest_accuracy(groups)
    for group in groups:
        found += [
            filtered_and_smoothed(group),
            accuracy_matrix(group, lowest),
            spectrum(group.runs[0], group.label),
        ]
    return [drawing for drawing in found if drawing is not None]


def tables(comparison: Comparison) -> list[Table]:
    """All tables of a comparison."""
    groups = comparison.groups
    return [_summary(groups), _calibration(groups), _tasks(groups), _costs(groups)]


def _summary(groups: Sequence[Group]) -> Table:
    numbers = {
        "average accuracy": "average_accuracy",
        "smoothed accuracy": "smoothed_accuracy",
        "current accuracy": "current_accuracy",
        "forgetting": "forgetting",
        "backward transfer": "backward_transfer",
        "forward transfer": "forward_transfer",
    }
    rows = tuple(
        (
            group.label,
            len(group.runs),
            *(group.spread(number) for number in numbers.values()),
        )
        for group in groups
    )
    columns = (Column("runs"), Column("seeds", 0), *(Column(head, 4) for head in numbers))
    caption = (
        "On test data, the mean over the seeds ± standard deviation. Average: the last model on "
        "all tasks. Smoothed: each task's smoothed model on it. Current: each model on the task it "
        "had just learned."
    )
    return Table("summary", "Final numbers", caption, columns, rows)


def _calibration(groups: Sequence[Group]) -> Table:
    metrics = {
        "accuracy": "accuracy",
        "balanced accuracy": "balanced_accuracy",
        "NLL": "nll",
        "calibration error": "ece",
        "Brier score": "brier",
    }
    kinds = {"last model": "average", "smoothed models": "smoothed", "between": "between"}
    rows = tuple(
        (group.label, name, *(group.spread(f"{kind}_{m}") for m in metrics.values()))
        for group in groups
        for name, kind in kinds.items()
        if group.spread(f"{kind}_nll") is not None
    )
    columns = (Column("runs"), Column("models"), *(Column(head, 4) for head in metrics))
    caption = (
        "How good the predicted probabilities are, on test data, averaged over the tasks. Less is "
        "better for NLL (negative log-likelihood), calibration error and Brier score."
    )
    return Table("calibration", "Calibration", caption, columns, rows)


def _tasks(groups: Sequence[Group]) -> Table:
    found = {group.label: stages(group) for group in groups}
    kinds = list(dict.fromkeys(stage for each in found.values() for stage in each))
    rows = tuple(
        (
            group.label,
            name,
            *(_spread(found[group.label].get(kind), position) for kind in kinds),
        )
        for group in groups
        for position, name in enumerate(group.facts.tasks)
    )
    columns = (Column("runs"), Column("task"), *(Column(kind, 4) for kind in kinds))
    return Table(
        "tasks", "Tasks", "Accuracy on the test data of each task, by model.", columns, rows
    )


def _costs(groups: Sequence[Group]) -> Table:
    rows = tuple(
        (
            group.label,
            group.cost("seconds"),
            group.cost("evaluation_seconds"),
            _scaled(group.cost("peak_memory"), _GIGA),
        )
        for group in groups
    )
    columns = (
        Column("runs"),
        Column("learning (s)", 1),
        Column("evaluation (s)", 1),
        Column("memory (GB)", 2),
    )
    caption = "Wall time, compiling included, and the peak of memory; the machines are named below."
    return Table("costs", "Costs", caption, columns, rows)


def provenance(runs: Iterable[RunFolder]) -> Table:
    """By what each run was done."""
    ordered = sorted(runs, key=lambda run: (run.spec.name, run.spec.group, run.spec.seed))
    rows = tuple(_origin(run) for run in ordered)
    columns = tuple(
        Column(head)
        for head in ("folder", "seed", "commit", "backcast", "jax", "python", "system", "cores")
    )
    columns += (Column("memory (GB)", 1), Column("learning (s)", 1), Column("peak (GB)", 2))
    return Table("runs", "Origin", "By what and where each run was made.", columns, rows)


def unfinished(runs: Iterable[RunFolder]) -> Table | None:
    """The runs that count for nothing here, and why; None if there are none."""
    rows = tuple(
        (run.path.name, run.state, (run.divergence or {}).get("message", "not finished"))
        for run in runs
        if run.state != "done"
    )
    if not rows:
        return None
    columns = (Column("folder"), Column("state"), Column("why"))
    return Table("left-out", "Left out", "Runs that count for nothing above.", columns, rows)


def _origin(run: RunFolder) -> tuple[str | int | float | None, ...]:
    made, final = run.environment, run.final or {}
    commit = made.get("commit")
    if commit:
        commit = f"{commit[:10]}{' with changes' if made.get('changed') else ''}"
    memory, peak = made.get("memory"), final.get("peak_memory")
    return (
        run.path.name,
        str(run.spec.seed),
        commit or "unknown",
        *(
            str(made.get(name, "unknown"))
            for name in ("backcast", "jax", "python", "system", "cores")
        ),
        None if memory is None else memory / _GIGA,
        final.get("seconds"),
        None if peak is None else peak / _GIGA,
    )


def _spread(values: np.ndarray | None, position: int) -> Spread | None:
    return None if values is None else Spread.of(values[:, position].tolist())


def _scaled(spread: Spread | None, unit: float) -> Spread | None:
    if spread is None:
        return None
    deviation = None if spread.deviation is None else spread.deviation / unit
    return Spread(
        spread.mean / unit, deviation, spread.low / unit, spread.high / unit, spread.count
    )
