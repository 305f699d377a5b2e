"""Figures 10 and 11: the final accuracy over one setting."""

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from backcast.experiments.paper import Line, Panel, Row
from backcast.experiments.variations import flat
from backcast.report.paper.artefact import Artefact, Shown
from backcast.report.paper.table1 import average
from backcast.report.style import SERIES, Drawing, blank
from backcast.report.tables import Column, Table


def show(lines: Sequence[Line], field: str, words: str, name: str) -> Shown:
    """The figure, and its numbers.

    Args:
        lines: one for each value.
        field: of the spec, by its dotted name: what the accuracy is drawn over.
        words: what it is called.
        name: of the figure's file.
    """
    found = [(flat(line.plan.specs[0].plain())[field], line) for line in lines]
    rows = tuple((value, average(line), average(line, "validation")) for value, line in found)
    heads = (Column(words, 0), Column("test accuracy", 4), Column("validation accuracy", 4))
    caption = "Accuracy of the last model on all tasks: mean ± standard deviation over the seeds."
    table = Table("accuracy", f"Accuracy over {words}", caption, heads, rows)
    known = {
        value: np.array(line.group.each("average_accuracy"), float)
        for value, line in found
        if line.group is not None
    }
    return Shown((table,), (_drawing(known, words, name),) if known else ())


def _drawing(known: Mapping[int | float, np.ndarray], words: str, name: str) -> Drawing:
    figure, axes = blank(3.1)
    for value, accuracies in known.items():
        axes.plot([value] * len(accuracies), accuracies, "o", color=SERIES[0], alpha=0.55)
    means = [float(accuracies.mean()) for accuracies in known.values()]
    axes.plot(list(known), means, "-", color=SERIES[0])
    axes.set_xscale("log")
    axes.set_xticks(list(known), [f"{value:g}" for value in known])
    axes.minorticks_off()
    axes.set_xlabel(words)
    axes.set_ylabel("average accuracy")
    told = ", ".join(f"{value:g}: {mean:.4f}" for value, mean in zip(known, means, strict=True))
    return Drawing(
        name,
        f"Accuracy of the last model on all tasks over the {words}. Dots are seeds, the line is "
        "their mean.",
        f"Dot chart of average accuracy over {words}. {told}.",
        figure,
    )


FIG10 = Artefact(
    "Figure 10: accuracy on Permuted MNIST over the rank",
    (Panel("Permuted MNIST", (Row("LR-LGF", "permuted-mnist-ranks"),)),),
    functools.partial(show, field="method.rank", words="rank", name="fig10"),
)
FIG11 = Artefact(
    "Figure 11: accuracy on Permuted MNIST over the examples in the curvature",
    (Panel("Permuted MNIST", (Row("LR-LGF", "permuted-mnist-examples"),)),),
    functools.partial(
        show,
        field="method.curvature.examples",
        words="number of examples in the curvature",
        name="fig11",
    ),
)
