"""The demo in words, as a table and as a figure."""

from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from backcast.experiments import Spread
from backcast.experiments.demo import Demo
from backcast.experiments.gain import Gain
from backcast.report.style import INK, SERIES, Drawing, look, name_tasks, styled

_APART = 0.05  # of the distance between two tasks

HEADS = (
    "task",
    "last model,\nfine-tuned",
    "last model,\nfiltered",
    "own model,\nfine-tuned",
    "own model,\nfiltered",
    "own model,\nsmoothed",
)

LEGEND = (
    "Last model: the one there is in the end, on every task. "
    "Own model: the one kept of each task, on that task."
)


def rows(demo: Demo) -> list[list[str]]:
    """The accuracies on test data in per cent, one row to a task and one for the mean.

    Each is a mean over the seeds, with its standard deviation. The columns are `HEADS`: the one
    model there is in the end, and the one that was kept of each task.
    """
    columns = [
        demo.last(demo.fine_tuned),
        demo.last(demo.filtered),
        demo.own(demo.fine_tuned),
        demo.own(demo.filtered),
        demo.smoothed,
    ]
    named = [(name, [column[:, t] for column in columns]) for t, name in enumerate(demo.tasks)]
    named.append(("mean", [column.mean(axis=1) for column in columns]))
    return [[name, *map(_percent, values)] for name, values in named]


def findings(demo: Demo) -> list[str]:
    """What the numbers say, whatever they say."""
    return [
        _sentence("The last model on all tasks", "fine-tuned", "filtered", demo.remembering),
        _sentence("Each task's model, just learned", "fine-tuned", "filtered", demo.learning),
        _sentence("Each task's model, but the last's", "filtered", "smoothed", demo.looking_back),
    ]


def drawing(demo: Demo) -> Drawing:
    """On the left who knows what of every task; on the right what smoothing changes, by seed."""
    with styled():
        figure = Figure(figsize=(7.6, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    series = {
        "last model, fine-tuned": demo.last(demo.fine_tuned),
        "last model, filtered": demo.last(demo.filtered),
        "own model, filtered": demo.own(demo.filtered),
        "own model, smoothed": demo.smoothed,
    }
    for index, (label, values) in enumerate(series.items()):
        _line(left, 100 * values, index, label)
    left.set_ylabel("accuracy (%)")
    left.set_title("Accuracy on every task")
    gains = 100 * (demo.smoothed - demo.own(demo.filtered))
    _dots(right, gains)
    right.set_ylabel("points of accuracy, by seed")
    right.set_title("What smoothing changes")
    for axes in (left, right):
        axes.grid(visible=False, axis="x")
        axes.set_xlim(-0.4, len(demo.tasks) - 0.6)
        axes.set_xlabel("task: images turned by")
        name_tasks(axes, tuple(f"{name.removeprefix('rotation ')}°" for name in demo.tasks))
    with styled():
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=4)
    return Drawing(
        "demo",
        f"Accuracy on test data, {demo.seeds} seeds. Left: means and standard deviations. Right: "
        "dots are seeds, bars their means.",
        " ".join(findings(demo)),
        figure,
    )


def save(demo: Demo, path: Path) -> Path:
    """Write the figure to a file."""
    with styled():
        drawing(demo).figure.savefig(path)
    return path


def _percent(values: Float[np.ndarray, " S"]) -> str:
    spread = Spread.of(100 * values)
    if spread is None:
        return "-"
    mean = f"{spread.mean:.1f}"
    return mean if spread.deviation is None else f"{mean} ± {spread.deviation:.1f}"


def _sentence(what: str, before: str, after: str, gain: Gain) -> str:
    change = 100 * gain.difference.mean
    said = (
        f"{what}: {before} {100 * gain.before:.1f} %, {after} {100 * gain.after:.1f} %, "
        f"{change:+.1f} points"
    )
    if gain.difference.deviation is None:
        return f"{said}."
    count = gain.difference.count
    return f"{said}; better in {gain.wins} of {count} seeds, p = {gain.p:.2g}."


def _line(axes: Axes, values: Float[np.ndarray, "S T"], index: int, label: str) -> None:
    """Means over the seeds, with their standard deviations."""
    places = np.arange(values.shape[1]) + _APART * (index - 1.5)
    mean, style = values.mean(axis=0), look(index)
    axes.plot(places, mean, label=label, **style)
    if len(values) > 1:
        axes.vlines(
            places,
            mean - values.std(axis=0, ddof=1),
            mean + values.std(axis=0, ddof=1),
            color=style["color"],
            linewidth=1,
        )


def _dots(axes: Axes, gains: Float[np.ndarray, "S T"]) -> None:
    """Every seed a dot, their mean a bar."""
    places = np.arange(gains.shape[1])
    color = SERIES[3]
    axes.axhline(0, color=INK, linewidth=0.8)
    aside = np.linspace(-0.15, 0.15, len(gains)) if len(gains) > 1 else np.zeros(1)
    axes.plot((places + aside[:, None]).T, gains.T, ".", color=color, alpha=0.6, markersize=6)
    axes.hlines(gains.mean(axis=0), places - 0.3, places + 0.3, color=color, linewidth=2)
