"""Twenty tasks: whether the first are still known, and whether memory grows."""

from collections.abc import Sequence

from backcast.experiments import Group, Spread
from backcast.experiments.paper import Line, Panel, Row
from backcast.report.paper.artefact import Artefact, Shown
from backcast.report.paper.fig8 import drawing
from backcast.report.tables import Column, Table

_STEP = 5  # tasks from one row of the table to the next


def show(lines: Sequence[Line]) -> Shown:
    """The course of the accuracy, and the memory it takes."""
    found = [(line, line.group) for line in lines if line.group is not None]
    rows = tuple(row for line, group in found for row in _rows(line.plan.label, group))
    columns = (
        Column("method"),
        Column("tasks learned", 0),
        Column("accuracy on all of them", 4),
        Column("accuracy on the first", 4),
        Column("peak memory (GB)", 2),
    )
    caption = "Mean ± standard deviation over the seeds. The past beliefs are kept on disk."
    table = Table("twenty", "Twenty tasks", caption, columns, rows)
    return Shown((table,), (drawing([line for line, _ in found], "twenty"),) if found else ())


def _rows(label: str, group: Group) -> list[tuple]:
    learned, so_far, matrices = group.facts.learned, group.so_far(), group.matrices()
    counts = [1, *range(_STEP, len(learned) + 1, _STEP)]
    return [
        (
            label,
            count,
            Spread.of(so_far[:, count - 1]),
            Spread.of(matrices[:, learned[count - 1], learned[0]]),
            _memory(group, learned[count - 1]),
        )
        for count in counts
    ]


def _memory(group: Group, task: int) -> Spread | None:
    peaks = [run.reports[f"task {task}"]["peak_memory"] for run in group.runs]
    return Spread.of(None if peak is None else peak / 1e9 for peak in peaks)


TWENTY = Artefact(
    "Twenty permutations",
    (
        Panel(
            "Permuted MNIST, 20 tasks",
            (
                Row("LR-LGF, our settings", "permuted-mnist-20"),
                Row("no regularizer", "permuted-mnist-20", None, {"method": {"kind": "none"}}),
            ),
        ),
    ),
    show,
)
