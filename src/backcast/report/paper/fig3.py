"""Figure 3: the models of earlier tasks, filtered and smoothed, and the rivals of smoothing."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from backcast.experiments import Group
from backcast.experiments.paper import Line, Panel, Row
from backcast.report.paper.against import Values, by_task, gains, groups_of
from backcast.report.paper.artefact import Artefact, Shown
from backcast.report.style import Drawing, look, name_tasks, pair, styled


def models(group: Group, metric: str) -> dict[str, Values]:
    """What may be asked about a learned task.

    Its model, smoothed or as it was when just learned; the last model there is; one with the mean
    of the weights of its model and of its neighbours'.
    """
    learned, matrices = list(group.facts.learned), group.matrices(metric)
    return {
        "smoothed": group.own("smoothed", metric)[:, learned],
        "filtered": np.stack([R.diagonal() for R in matrices])[:, learned],
        "last model": matrices[:, learned[-1]][:, learned],
        "averaged": group.own("averaged", metric)[:, learned],
    }


def earlier(group: Group, metric: str) -> dict[str, Values]:
    """The same for all tasks but the last, which smoothing leaves as it is."""
    return {kind: values[:, :-1] for kind, values in models(group, metric).items()}


def show(lines: Sequence[Line]) -> Shown:
    """A figure for each line, the tasks one by one, and what smoothing gains over its rivals."""
    found = groups_of(lines)
    tables = (
        gains(found, earlier, "all tasks but the last"),
        by_task(found, models, lambda group: list(group.facts.learned)),
    )
    return Shown(tables, tuple(_drawing(label, group) for label, group in found))


def _drawing(label: str, group: Group) -> Drawing:
    kinds = models(group, "balanced_accuracy")
    names = tuple(group.facts.tasks[p] for p in group.facts.learned)
    better = 100 * (kinds["smoothed"] - kinds["filtered"])
    figure, (left, right) = pair()
    for index, (kind, values) in enumerate(kinds.items()):
        _band(left, values, look(index), kind)
    left.set_ylabel("balanced accuracy")
    with styled():
        left.legend(loc="best")
    x, color = np.arange(len(names)), look(0)["color"]
    for seed in better:
        right.plot(x, seed, color=color, linewidth=0.7, alpha=0.6)
    right.plot(x, better.mean(axis=0), color=color, linewidth=2.6)
    right.axhline(0, color="black", linewidth=0.8)
    right.set_ylabel("smoothed - filtered, points")
    for axes in (left, right):
        axes.set_xlabel(name_tasks(axes, names))
    told = ", ".join(f"{n} {g:+.1f}" for n, g in zip(names, better.mean(axis=0), strict=True))
    return Drawing(
        "fig3-" + "-".join(label.replace("'", "").split()),
        f"{label.capitalize()}, {len(better)} seeds. Left: balanced accuracy of each task's "
        "models, bands are one standard deviation. Right: what smoothing gains, in points; a thin "
        "line for each seed, the thick one is their mean.",
        f"Two line charts over the tasks. Mean gain of smoothing in points: {told}.",
        figure,
    )


def _band(axes: Axes, values: Values, style: dict, label: str) -> None:
    x, mean = np.arange(values.shape[1]), values.mean(axis=0)
    axes.plot(x, mean, label=label, **style)
    if len(values) > 1:
        apart = values.std(axis=0, ddof=1)
        axes.fill_between(x, mean - apart, mean + apart, color=style["color"], alpha=0.13, lw=0)


FIG3 = Artefact(
    "Figure 3: smoothing the models of earlier tasks",
    (
        Panel(
            "Gradual brightness",
            (
                Row("our settings", "histology"),
                Row("learned noise", "histology-learned"),
                Row("half the resolution", "histology-half"),
                Row("the paper's settings", "histology-paper"),
            ),
        ),
    ),
    show,
)
