"""Models for tasks that were never learned, between those that were."""

from collections.abc import Sequence

import numpy as np

from backcast.experiments import Group
from backcast.experiments.log import Score, Stage
from backcast.experiments.paper import Line, Panel, Row
from backcast.report.paper.against import Values, by_task, gains, groups_of
from backcast.report.paper.artefact import Artefact, Shown
from backcast.report.style import MARKERS, SERIES, Drawing, blank, legend_below, name_tasks

_APART = 0.12  # of the distance between two tasks

_NEIGHBOURS: dict[str, tuple[Stage, int]] = {
    "earlier": ("filtered", 0),
    "later": ("filtered", 1),
    "earlier, smoothed": ("smoothed", 0),
    "later, smoothed": ("smoothed", 1),
}


def models(group: Group, metric: str) -> dict[str, Values]:
    """What may be asked about a task that was not learned.

    The model inferred for its time; the one whose weights are on the line between those of its
    neighbours as they were when just learned; or a neighbour's, so or smoothed.
    """
    gaps = gaps_of(group)
    return {
        "inferred": group.own("between", metric)[:, gaps],
        "on the line": group.own("averaged", metric)[:, gaps],
        **{
            name: np.array(
                [[_of(run.scores, p, *kind, metric) for p in gaps] for run in group.runs]
            )
            for name, kind in _NEIGHBOURS.items()
        },
    }


def gaps_of(group: Group) -> list[int]:
    """The tasks that were not learned and lie between two that were."""
    learned = group.facts.learned
    return [p for p in range(learned[0], learned[-1]) if p not in learned]


def show(lines: Sequence[Line]) -> Shown:
    """What the inferred models gain, the tasks one by one, and a figure."""
    found = groups_of(lines)
    tables = (
        gains(found, models, "the tasks that were not learned"),
        by_task(found, models, gaps_of),
    )
    return Shown(tables, tuple(_drawing(label, group) for label, group in found))


def _of(scores: Sequence[Score], task: int, stage: Stage, side: int, metric: str) -> float:
    """The metric on a task of the model of the learned task before it (0) or behind it (1)."""
    on = {
        score.model: score.metrics[metric]
        for score in scores
        if (score.stage, score.task, score.part) == (stage, task, "test")
    }
    return on[min((m for m in on if (m > task) == side), key=lambda m: abs(m - task))]


def _drawing(label: str, group: Group) -> Drawing:
    kinds = models(group, "balanced_accuracy")
    names = tuple(group.facts.tasks[p] for p in gaps_of(group))
    figure, axes = blank(3.3)
    for index, (kind, values) in enumerate(kinds.items()):
        x = np.arange(len(names)) + _APART * (index - (len(kinds) - 1) / 2)
        axes.vlines(x, values.min(axis=0), values.max(axis=0), color=SERIES[index], linewidth=1.4)
        axes.plot(x, values.mean(axis=0), MARKERS[index], color=SERIES[index], label=kind)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xlabel(name_tasks(axes, names))
    axes.set_ylabel("balanced accuracy")
    axes.grid(visible=False, axis="x")
    legend_below(figure, axes, 3)
    told = ", ".join(f"{kind} {values.mean():.3f}" for kind, values in kinds.items())
    return Drawing(
        "-".join(["between", *label.split()]),
        f"{label.capitalize()}, {len(group.runs)} seeds: balanced accuracy on tasks that were not "
        "learned. Marks are means over the seeds, lines reach from the smallest to the largest.",
        f"Dot chart of balanced accuracy. Means: {told}.",
        figure,
    )


BETWEEN = Artefact(
    "Models for tasks that were never learned",
    (Panel("Gradual brightness", (Row("our settings", "histology-between"),)),),
    show,
)
