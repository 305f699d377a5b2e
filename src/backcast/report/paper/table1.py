"""Table 1: the accuracy of the last model on all tasks, for every method and both streams."""

from collections import Counter
from collections.abc import Sequence

from backcast.experiments import Spread
from backcast.experiments.log import Part
from backcast.experiments.paper import Line, Panel, Row
from backcast.report.paper.artefact import Artefact, Shown
from backcast.report.tables import Cell, Column, Table

PERMUTED = Panel(
    "Permuted MNIST",
    (
        Row("LR-LGF, the paper's settings", "permuted-mnist", "0.964 ± 0.004"),
        Row("EWC", "permuted-mnist-ewc", "0.931 ± 0.024"),
        Row("OSLA", "permuted-mnist-osla", "0.972 ± 0.001"),
        Row("no regularizer", "permuted-mnist-none", "0.664 ± 0.020"),
        Row("LR-LGF, our settings", "permuted-mnist-ours"),
        Row("rotated", "permuted-mnist-rotated"),
        Row("diagonal only", "permuted-mnist-diagonal"),
        Row("online EWC", "permuted-mnist-ewc-online"),
        Row("sum of Kroneckers", "permuted-mnist-kronecker-sum"),
        Row("synaptic intelligence", "permuted-mnist-si"),
        Row("L2", "permuted-mnist-l2"),
        Row("all tasks at once", "permuted-mnist-joint"),
    ),
)
DISJOINT = Panel(
    "Disjoint MNIST",
    (
        Row("LR-LGF, the paper's settings", "disjoint-mnist", "0.678 ± 0.024"),
        Row("LR-LGF, lambda searched here", "disjoint-mnist-retuned", "0.678 ± 0.024"),
        Row("EWC", "disjoint-mnist-ewc", "0.676 ± 0.029"),
        Row("OSLA", "disjoint-mnist-osla", "0.852 ± 0.004"),
        Row("no regularizer", "disjoint-mnist-none", "0.460 ± 0.005"),
        Row("LR-LGF, our settings", "disjoint-mnist-ours"),
        Row("rotated", "disjoint-mnist-rotated"),
        Row("diagonal only", "disjoint-mnist-diagonal"),
        Row("online EWC", "disjoint-mnist-ewc-online"),
        Row("sum of Kroneckers", "disjoint-mnist-kronecker-sum"),
        Row("synaptic intelligence", "disjoint-mnist-si"),
        Row("L2", "disjoint-mnist-l2"),
        Row("all tasks at once", "disjoint-mnist-joint"),
    ),
)


def show(lines: Sequence[Line]) -> Shown:
    """The table as the paper has it, and one of how lambda was chosen."""
    return Shown((_accuracies(lines), _choices(lines)))


def _accuracies(lines: Sequence[Line]) -> Table:
    """A row for each method, and for each stream the paper's number beside ours."""
    lengths = Counter(line.plan.panel for line in lines)
    # The longest panel knows best in which order the methods are.
    longest_first = sorted(lines, key=lambda line: -lengths[line.plan.panel])
    labels = list(dict.fromkeys(line.plan.label for line in longest_first))
    panels = list(lengths)
    found = {(line.plan.label, line.plan.panel): line for line in lines}
    rows = tuple(
        (label, *(cell for panel in panels for cell in _cells(found.get((label, panel)))))
        for label in labels
    )
    columns = [
        column for panel in panels for column in (Column(f"{panel}, paper"), Column(panel, 4))
    ]
    seeds = sorted({0 if line.group is None else len(line.group.runs) for line in lines})
    many = " to ".join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))
    caption = (
        "Test accuracy of the last model, averaged over all tasks: mean ± standard deviation over "
        f"the seeds ({many} here, 8 in the paper)."
    )
    return Table("accuracy", "Accuracy", caption, (Column("method"), *columns), rows)


def _cells(line: Line | None) -> tuple[Cell, Cell]:
    if line is None:
        return None, None
    return line.plan.row.published, average(line)


def average(line: Line, part: Part = "test") -> Spread | None:
    """The accuracy of the last model on all tasks, over the seeds."""
    return None if line.group is None else line.group.spread("average_accuracy", part)


def _choices(lines: Sequence[Line]) -> Table:
    rows = tuple(
        (
            line.plan.panel,
            line.plan.label,
            line.plan.specs[0].name,
            strength(line),
            "-" if line.choice is None else line.choice.words,
            average(line, "validation"),
            0 if line.group is None else len(line.group.runs),
            None if line.group is None else line.group.cost("seconds"),
        )
        for line in lines
    )
    columns = (
        *map(Column, ("stream", "method", "spec", "lambda", "lambda was")),
        Column("on validation data", 4),
        Column("seeds", 0),
        Column("seconds a seed", 0),
    )
    caption = "How lambda was chosen, and what each run took."
    return Table("settings", "Settings", caption, columns, rows)


def strength(line: Line) -> str:
    """Lambda, if the method has one."""
    value = line.plan.specs[0].method.plain().get("strength")
    return "-" if value is None else f"{value:g}"


TABLE1 = Artefact("Table 1: diagonal plus low-rank and its rivals", (PERMUTED, DISJOINT), show)
