"""Each task's own models: when it was just learned, at the end, and smoothed."""

import numpy as np
from jaxtyping import Float

from backcast.experiments import Group
from backcast.report.style import MARKERS, SERIES, Drawing, blank, legend_below, name_tasks

_APART = 0.14  # of the distance between two tasks


def stages(group: Group) -> dict[str, Float[np.ndarray, "S T"]]:
    """The accuracy on each task, for each seed, of the models that may be asked about it."""
    learned, matrices = group.facts.learned, group.matrices()
    found = {
        "just learned": np.stack([R.diagonal() for R in matrices]),
        "last model": matrices[:, learned[-1]],
    }
    if group.runs[0].spec.method.smooths:
        found["smoothed"] = group.own("smoothed")
        if len(learned) < len(group.facts.tasks):
            found["between"] = group.own("between")
    return found


def filtered_and_smoothed(group: Group) -> Drawing:
    """For each task the accuracy of its models: filtered, last and smoothed.

    Marks are means over the seeds, lines reach from the smallest to the largest.
    """
    names = group.facts.tasks
    figure, axes = blank(3.3)
    found = stages(group)
    told = []
    for index, (stage, values) in enumerate(found.items()):
        known = np.isfinite(values).all(axis=0)
        x = np.arange(len(names))[known] + _APART * (index - (len(found) - 1) / 2)
        mean, low, high = (f(values[:, known], axis=0) for f in (np.mean, np.min, np.max))
        color = SERIES[index]
        axes.vlines(x, low, high, color=color, linewidth=1.4)
        axes.plot(x, mean, MARKERS[index], color=color, label=stage, markersize=6.5)
        each = ", ".join(
            f"{names[p]} {v:.3f}" for p, v in zip(np.flatnonzero(known), mean, strict=True)
        )
        told.append(f"{stage}: {each}.")
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xlabel(name_tasks(axes, names))
    axes.set_ylabel("accuracy")
    legend_below(figure, axes, len(found))
    return Drawing(
        "tasks",
        f"{group.label}: accuracy on each task of its models. Marks are means over the seeds, "
        "lines reach from the smallest to the largest.",
        f"Dot chart of accuracies by task. {' '.join(told)}",
        figure,
    )
