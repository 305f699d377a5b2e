"""What of our settings matters: one thing changed at a time."""

from collections.abc import Sequence

from backcast.experiments.paper import Line, Panel, Row
from backcast.report.paper.artefact import Artefact, Shown
from backcast.report.paper.table1 import average, strength
from backcast.report.tables import Column, Table


def show(lines: Sequence[Line]) -> Shown:
    """The table."""
    rows = tuple(
        (
            line.plan.label,
            strength(line),
            average(line),
            average(line, "validation"),
            0 if line.group is None else len(line.group.runs),
            None if line.group is None else line.group.cost("seconds"),
        )
        for line in lines
    )
    columns = (
        Column("settings"),
        Column("lambda"),
        Column("test accuracy", 4),
        Column("validation accuracy", 4),
        Column("seeds", 0),
        Column("seconds a seed", 0),
    )
    caption = (
        "Accuracy of the last model on all tasks of Permuted MNIST: mean ± standard deviation over "
        "the seeds. Each row is our settings with the one change that it names."
    )
    return Shown((Table("ablation", "Ablation", caption, columns, rows),))


ABLATION = Artefact(
    "Ablation: what of our settings matters",
    (Panel("Permuted MNIST", (Row("ours", "permuted-mnist-ablation"),)),),
    show,
)
