"""Lines: accuracy as tasks are learned, and the eigenvalues of beliefs."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from backcast.experiments import Group, RunFolder
from backcast.report.style import Drawing, blank, legend_below, literal, look

_LABEL = 58  # characters to a line
_MOST_TASKS = 6  # whose eigenvalues one figure shows


def average_so_far(groups: Sequence[Group]) -> Drawing:
    """After each task, the mean accuracy over the tasks learned so far.

    The line is the mean over the seeds; the band reaches from the smallest to the largest.
    """
    labels = [textwrap.fill(literal(group.label), _LABEL) for group in groups]
    figure, axes = blank(2.9 + 0.2 * sum(label.count("\n") + 1 for label in labels))
    told = []
    for index, (group, label) in enumerate(zip(groups, labels, strict=True)):
        values = group.so_far()
        x = np.arange(1, values.shape[1] + 1)
        style = look(index)
        axes.plot(x, values.mean(axis=0), label=label, **style)
        if len(values) > 1:
            low, high = values.min(axis=0), values.max(axis=0)
            axes.fill_between(x, low, high, color=style["color"], alpha=0.2, linewidth=0)
        told.append(f"{group.label}: {', '.join(f'{v:.3f}' for v in values.mean(axis=0))}.")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("tasks learned")
    axes.set_ylabel("average accuracy so far")
    legend_below(figure, axes)
    return Drawing(
        "average-so-far",
        "Average accuracy of the current model on the tasks learned so far. Lines are means over "
        "the seeds, bands reach from the smallest to the largest.",
        f"Line chart of average accuracy after each task. {' '.join(told)}",
        figure,
    )


def spectrum(run: RunFolder, label: str) -> Drawing | None:
    """The eigenvalues that each task's belief kept as rows, and those it had no room for."""
    reports = [run.reports.get(f"task {p}", {}) for p in run.facts.learned]
    tasks = [
        (name, report["retained"], report["deflated"])
        for name, report in zip(
            [run.facts.tasks[p] for p in run.facts.learned], reports, strict=True
        )
        if any(value > 0 for value in report.get("retained", ()))
    ]
    if not tasks:
        return None
    chosen = sorted(
        {round(i) for i in np.linspace(0, len(tasks) - 1, min(_MOST_TASKS, len(tasks)))}
    )
    figure, axes = blank(2.9 + 0.2 * len(chosen))
    told = []
    for index, (name, retained, deflated) in enumerate(tasks[place] for place in chosen):
        style = look(index)
        values = _drawable([*retained, *deflated])
        x = np.arange(1, len(values) + 1)
        cut = len(retained)
        axes.plot(x[:cut], values[:cut], label=literal(name), **style)
        axes.plot(x[cut:], values[cut:], **{**style, "linestyle": "", "markerfacecolor": "none"})
        told.append(
            f"{name}: {len(retained)} kept, from {retained[0]:.3g} to {retained[-1]:.3g}; "
            f"{len(deflated)} not kept{f', at most {deflated[0]:.3g}' if deflated else ''}."
        )
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("rank")
    axes.set_ylabel("eigenvalue")
    legend_below(figure, axes)
    return Drawing(
        "spectrum",
        f"{label}, seed {run.spec.seed}: eigenvalues of the belief's rows after each task. Filled: "
        "kept. Hollow: the rank had no room for them.",
        f"Line chart of eigenvalues on a logarithmic scale. {' '.join(told)}",
        figure,
    )


def _drawable(values: Sequence[float]) -> np.ndarray:
    """The values, without those that a logarithm has no place for."""
    found = np.asarray(values, float)
    return np.where(found > 0, found, np.nan)
