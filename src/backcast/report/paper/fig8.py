"""Figure 8: the accuracy on the tasks so far after each task, for every method and both streams."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator

from backcast.experiments import Spread
from backcast.experiments.paper import Line
from backcast.report.paper.artefact import Artefact, Shown
from backcast.report.paper.table1 import DISJOINT, PERMUTED
from backcast.report.style import Drawing, look, styled
from backcast.report.tables import Cell, Column, Table

_TOGETHER = 6  # lines in one pair of axes


def show(lines: Sequence[Line]) -> Shown:
    """The figure, and its numbers."""
    found = [line for line in lines if line.group is not None]
    return Shown((_numbers(found),), (drawing(found, "fig8"),) if found else ())


def drawing(lines: Sequence[Line], name: str) -> Drawing:
    """A column for each stream; what one pair of axes has no room for is in the next row."""
    panels = list(dict.fromkeys(line.plan.panel for line in lines))
    labels = list(dict.fromkeys(line.plan.label for line in lines))
    parts = [labels[i : i + _TOGETHER] for i in range(0, len(labels), _TOGETHER)]
    with styled():
        figure = Figure(figsize=(3.7 * len(panels), 3.4 * len(parts)), layout="constrained")
        subfigures = figure.subfigures(len(parts), squeeze=False)[:, 0]
    rows = [
        _row(subfigure, panels, part, [line for line in lines if line.plan.label in part])
        for part, subfigure in zip(parts, subfigures, strict=True)
    ]
    for column in zip(*rows, strict=True):
        _alike(column)
    return Drawing(
        name,
        "The current model's accuracy on all tasks so far: the mean over the seeds, and bands from "
        "the smallest to the largest. A single mark has learned all tasks at once.",
        "Line charts of average accuracy after each task; the numbers are in the table.",
        figure,
    )


def _row(
    figure: SubFigure, panels: Sequence[str], labels: Sequence[str], lines: Sequence[Line]
) -> list[Axes]:
    with styled():
        row = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(row, panels, strict=True):
        for line in lines:
            if line.plan.panel == panel and line.group is not None:
                _line(axes, line.group.so_far(), look(labels.index(line.plan.label)), line)
        axes.set_title(panel, loc="left", fontsize=10)
        axes.set_xlabel("tasks learned")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    row[0].set_ylabel("average accuracy so far")
    named = {}
    for axes in row:
        named |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    with styled():
        ordered = [label for label in labels if label in named]
        handles = [named[label] for label in ordered]
        figure.legend(handles, ordered, loc="outside lower left", ncols=3)
    return list(row)


def _alike(column: Sequence[Axes]) -> None:
    """The same limits for all axes, so that they can be compared."""
    for axes in column[1:]:
        axes.sharex(column[0])
        axes.sharey(column[0])
    column[0].autoscale_view()


def _line(axes: Axes, values: np.ndarray, style: dict, line: Line) -> None:
    x = np.arange(1, values.shape[1] + 1)
    axes.plot(x, values.mean(axis=0), label=line.plan.label, **style)
    if len(values) > 1:
        low, high = values.min(axis=0), values.max(axis=0)
        axes.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)


def _numbers(lines: Sequence[Line]) -> Table:
    matrices = [line.group.so_far() for line in lines if line.group is not None]
    most = max((values.shape[1] for values in matrices), default=0)
    rows = tuple(
        (line.plan.panel, line.plan.label, len(values), *_cells(values, most))
        for line, values in zip(lines, matrices, strict=True)
    )
    heads = [Column(f"after {count}", 4) for count in range(1, most + 1)]
    columns = (Column("stream"), Column("method"), Column("seeds", 0), *heads)
    caption = "Accuracy on the tasks so far: mean ± standard deviation over the seeds."
    return Table("so-far", "Accuracy so far", caption, columns, rows)


def _cells(values: np.ndarray, most: int) -> list[Cell]:
    spreads = [Spread.of(column) for column in values.T]
    return [*spreads, *([None] * (most - len(spreads)))]


FIG8 = Artefact(
    "Figure 8: accuracy on the tasks so far, for all methods", (PERMUTED, DISJOINT), show
)
