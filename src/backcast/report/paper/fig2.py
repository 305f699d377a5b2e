"""Figures 2 and 14: what the process noise does for the current task, and for all of them."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from backcast.experiments import Group, Spread
from backcast.experiments.gain import Gain
from backcast.experiments.paper import Line, Panel, Row
from backcast.report.paper.against import groups_of
from backcast.report.paper.artefact import Artefact, Shown
from backcast.report.style import SERIES, Drawing, look, pair, styled
from backcast.report.tables import Column, Table

_METRIC = "balanced_accuracy"
_REFERENCE = "Q 0"

PANELS = (Panel("Gradual brightness", (Row("histology q", "histology-q"),)),)


def current(group: Group) -> np.ndarray:
    """The balanced accuracy of each model on the task it has just learned, for each seed."""
    return np.stack([R.diagonal() for R in group.matrices(_METRIC)])[:, list(group.facts.learned)]


def average(group: Group) -> np.ndarray:
    """After each task, the mean over the tasks so far, for each seed."""
    return group.so_far(_METRIC)


def show_courses(lines: Sequence[Line]) -> Shown:
    """Figure 2: both, task after task."""
    found = groups_of(lines)
    return Shown((_numbers(found),), (_courses(found),) if found else ())


def show_seeds(lines: Sequence[Line]) -> Shown:
    """Figure 14: both in the end, seed by seed."""
    found = groups_of(lines)
    return Shown((_comparisons(found),), (_seeds(found),) if found else ())


def _courses(found: Sequence[tuple[str, Group]]) -> Drawing:
    figure, (left, right) = pair()
    for index, (label, group) in enumerate(found):
        for axes, values in ((left, average(group)), (right, current(group))):
            x, mean = np.arange(1, values.shape[1] + 1), values.mean(axis=0)
            axes.plot(x, mean, label=label, **look(index))
            if len(values) > 1:
                apart = values.std(axis=0, ddof=1)
                low, high = mean - apart, mean + apart
                axes.fill_between(x, low, high, color=look(index)["color"], alpha=0.13, lw=0)
    for axes, words in ((left, "all tasks so far"), (right, "the current task")):
        axes.set_title(words, loc="left")
        axes.set_xlabel("tasks learned")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    left.set_ylabel("balanced accuracy")
    with styled():
        left.legend(loc="best")
    told = ", ".join(
        f"{label} {average(group)[:, -1].mean():.3f} and {current(group).mean():.3f}"
        for label, group in found
    )
    return Drawing(
        "fig2",
        "Balanced accuracy of the current model on all tasks so far, and on the task it has just "
        "learned: means over the seeds, bands are one standard deviation.",
        f"Two line charts over the tasks. In the end, average and mean current: {told}.",
        figure,
    )


def _seeds(found: Sequence[tuple[str, Group]]) -> Drawing:
    figure, row = pair()
    for axes, values_of, words in zip(
        row, (_final, _mean_current), ("all tasks, in the end", "the current task"), strict=True
    ):
        _dots(axes, [values_of(group) for _, group in found])
        axes.set_xticks(range(len(found)), [label for label, _ in found], rotation=35, ha="right")
        axes.set_title(words, loc="left")
        axes.grid(visible=False, axis="x")
    row[0].set_ylabel("balanced accuracy")
    told = ", ".join(
        f"{label} {_final(group).mean():.3f} and {_mean_current(group).mean():.3f}"
        for label, group in found
    )
    return Drawing(
        "fig14",
        "Balanced accuracy in the end on all tasks, and on average on the current one. Dots are "
        "seeds, bars their means.",
        f"Two dot charts. Means, average and current: {told}.",
        figure,
    )


def _dots(axes: Axes, columns: Sequence[np.ndarray]) -> None:
    for place, values in enumerate(columns):
        color = SERIES[place % len(SERIES)]
        axes.plot([place] * len(values), values, "o", color=color, alpha=0.55)
        axes.hlines(values.mean(), place - 0.3, place + 0.3, color=color, linewidth=2)


def _final(group: Group) -> np.ndarray:
    return average(group)[:, -1]


def _mean_current(group: Group) -> np.ndarray:
    return current(group).mean(axis=1)


def _numbers(found: Sequence[tuple[str, Group]]) -> Table:
    most = max((average(group).shape[1] for _, group in found), default=0)
    rows = tuple(
        (label, kind, *[Spread.of(column) for column in values.T])
        for label, group in found
        for kind, values in (("so far", average(group)), ("current", current(group)))
    )
    heads = [Column(f"after {count}", 4) for count in range(1, most + 1)]
    columns = (Column("settings"), Column("on the tasks"), *heads)
    caption = "Balanced accuracy on test data: mean ± standard deviation over the seeds."
    return Table("courses", "Task after task", caption, columns, rows)


def _comparisons(found: Sequence[tuple[str, Group]]) -> Table:
    """Both numbers, and how they differ from those without noise."""
    reference = next((group for label, group in found if label == _REFERENCE), None)
    rows = tuple(
        (
            label,
            Spread.of(_final(group)),
            Spread.of(_mean_current(group)),
            *_against(_final, group, reference),
            *_against(_mean_current, group, reference),
        )
        for label, group in found
    )
    columns = (
        Column("settings"),
        Column("all tasks", 4),
        Column("current task", 4),
        Column("all: minus Q 0", 4),
        Column("p", 4),
        Column("current: minus Q 0", 4),
        Column("its p", 4),
    )
    caption = (
        "Balanced accuracy on test data: in the end on all tasks, and on average on the task just "
        "learned; mean ± standard deviation over the seeds. The differences are paired by seed, "
        "and p is of the exact permutation test, to both sides."
    )
    return Table("noise", "What the noise does", caption, columns, rows)


def _against(values_of, group: Group, reference: Group | None):
    if reference is None or reference is group or len(group.runs) != len(reference.runs):
        return None, None
    gain = Gain.of(values_of(group)[:, None], values_of(reference)[:, None])
    return gain.difference, gain.p


FIG2 = Artefact("Figure 2: what the process noise does, task after task", PANELS, show_courses)
FIG14 = Artefact("Figure 14: what the process noise does, seed by seed", PANELS, show_seeds)
