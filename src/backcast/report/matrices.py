"""Every model on every task, as a heat map."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize

from backcast.experiments import Group
from backcast.report.style import (
    DARK,
    LIGHT,
    PAPER,
    WIDTH,
    Drawing,
    blank,
    name_tasks,
    shortened,
    styled,
    told_apart,
)

SHADES = LinearSegmentedColormap.from_list("shades", ["#eef4fa", "#9cc5e6", "#3b86c4", "#0b4a85"])
_MOST_WRITTEN = 10  # tasks: numbers in more cells than that cannot be read


def accuracy_matrix(group: Group, lowest: float) -> Drawing:
    """The accuracy on every task of the model after every task; the mean over the seeds.

    Args:
        group: the runs.
        lowest: the accuracy of the lightest shade.
    """
    names, learned = group.facts.tasks, group.facts.learned
    values = group.matrices().mean(axis=0)[list(learned)]
    figure, axes = blank(1.0 + min(0.42 * len(learned), WIDTH - 1))
    with styled():
        scale = Normalize(lowest, 1.0)
        shown = axes.pcolormesh(
            np.ma.masked_invalid(values), cmap=SHADES, norm=scale, edgecolor=PAPER, linewidth=1
        )
        _frame(axes, names, learned)
        if len(names) <= _MOST_WRITTEN:
            _write(axes, values, scale)
        else:
            figure.colorbar(shown, ax=axes, aspect=24, pad=0.02, extend="min")
    rows = [
        f"After {names[p]}: "
        f"{', '.join(f'{names[j]} {row[j]:.3f}' for j in np.flatnonzero(np.isfinite(row)))}."
        for p, row in zip(learned, values, strict=True)
    ]
    return Drawing(
        "matrix",
        f"{group.label}: accuracy on each task (columns) of the model after each task (rows). "
        "Right of the diagonal: on the task to come. Mean over the seeds.",
        f"Heat map of accuracies. {' '.join(rows)}",
        figure,
    )


def lowest_accuracy(groups: Sequence[Group]) -> float:
    """Where the scale that several matrices share begins: at the worst on any task learned."""
    means = [group.matrices().mean(axis=0) for group in groups]
    found = min(float(np.nanmin(R[np.tril_indices(len(R))])) for R in means)
    return min(float(np.floor(found * 20) / 20), 0.95)


def _frame(axes: Axes, names: tuple[str, ...], learned: tuple[int, ...]) -> None:
    axes.grid(visible=False)
    axes.invert_yaxis()
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    common = name_tasks(axes, names, 0.5)
    own, _ = told_apart(names)
    places = range(0, len(learned), -(-len(learned) // 16))
    axes.set_yticks([p + 0.5 for p in places], [shortened(own[learned[p]], 12) for p in places])
    axes.set_xlabel(f"on {common}")
    axes.set_ylabel(f"after {common}")


def _write(axes: Axes, values: Float[np.ndarray, "L T"], scale: Normalize) -> None:
    """The numbers, dark on light cells and light on dark ones."""
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            color = readable_on(SHADES(scale(value)))
            axes.text(
                column + 0.5, row + 0.5, f"{value:.2f}", ha="center", va="center", color=color
            )


def readable_on(color: tuple[float, float, float, float]) -> str:
    """Light or dark, whichever has the greater contrast (WCAG 2) with a colour."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # sqrt(1.05 * 0.05) - 0.05: as far from white as from black
    return DARK if luminance > 0.179 else LIGHT
