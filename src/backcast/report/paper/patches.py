"""What smoothing gains where data are few, and where they are not."""

from collections.abc import Sequence

import numpy as np

from backcast.experiments import Group
from backcast.experiments.paper import Line, Panel, Row
from backcast.report.paper.against import gains, groups_of
from backcast.report.paper.artefact import Artefact, Shown
from backcast.report.paper.fig3 import earlier
from backcast.report.style import SERIES, Drawing, blank


def show(lines: Sequence[Line]) -> Shown:
    """The gain over the number of examples of a task."""
    found = groups_of(lines)
    drawings = (_drawing([group for _, group in found]),) if found else ()
    return Shown((gains(found, earlier, "all tasks but the last"),), drawings)


def _drawing(found: Sequence[Group]) -> Drawing:
    figure, axes = blank(3.1)
    examples = [group.facts.examples[0] for group in found]
    kinds = [earlier(group, "balanced_accuracy") for group in found]
    better = [100 * (each["smoothed"] - each["filtered"]).mean(axis=1) for each in kinds]
    for count, values in zip(examples, better, strict=True):
        axes.plot([count] * len(values), values, "o", color=SERIES[0], alpha=0.55)
    means = [float(np.mean(values)) for values in better]
    axes.plot(examples, means, color=SERIES[0])
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xticks(examples, [str(count) for count in examples])
    axes.minorticks_off()
    axes.set_xlabel("examples in each task")
    axes.set_ylabel("smoothed - filtered, points")
    told = ", ".join(f"{n}: {mean:+.1f}" for n, mean in zip(examples, means, strict=True))
    return Drawing(
        "patches",
        "What smoothing gains in balanced accuracy over all tasks but the last, in points. Dots "
        "are seeds, the line is their mean.",
        f"Dot chart over the number of examples. {told}.",
        figure,
    )


PATCHES = Artefact(
    "Smoothing, from few examples to many",
    (Panel("Gradual brightness", (Row("patches", "histology-patches"),)),),
    show,
)
