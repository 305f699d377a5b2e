"""How figures look: on paper, and by names that a page may give other colours to."""

import itertools
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, FAINT, PAPER = "#1b2027", "#d3d8de", "#fefefe"
DARK, LIGHT = "#10151b", "#ffffff"
"""On coloured ground, which is the same on any page."""
SERIES = ("#0b62a8", "#c2410c", "#0f7b5f", "#a3337c", "#776200", "#525c69")
"""Told apart with any kind of colour vision, and at least 4.5:1 on white."""
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("-", "--", "-.", ":")
WIDTH = 5.0  # inches: at this width text is readable on a telephone

RULES: dict[str, Any] = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "pdf.fonttype": 42,  # text stays text
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "backcast",  # the same figure gives the same bytes
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@final
@dataclass(frozen=True)
class Drawing:
    """A figure, and what is said of it.

    Attributes:
        name: for files.
        caption: what it shows.
        description: the same for who cannot see it, with the numbers.
        figure: the figure.
    """

    name: str
    caption: str
    description: str
    figure: Figure


def styled() -> AbstractContextManager[None]:
    """The look, while figures are drawn or written."""
    rules: Any = RULES
    return matplotlib.rc_context(rules)


def blank(height: float) -> tuple[Figure, Axes]:
    """An empty figure of this height, in inches, with one pair of axes."""
    with styled():
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        return figure, figure.subplots()


def pair() -> tuple[Figure, tuple[Axes, Axes]]:
    """An empty figure with two pairs of axes side by side."""
    with styled():
        figure = Figure(figsize=(1.55 * WIDTH, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
    return figure, (left, right)


def look(index: int) -> dict[str, Any]:
    """The colour, marker and line of one of several series."""
    return {
        "color": SERIES[index % len(SERIES)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": LINES[(index // len(SERIES) + index) % len(LINES)],
    }


def legend_below(figure: Figure, axes: Axes, columns: int = 1) -> None:
    """Name the series below the axes, where they hide nothing."""
    with styled():
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=columns)


def name_tasks(axes: Axes, names: tuple[str, ...], begin: float = 0.0, most: int = 12) -> str:
    """Write the names of tasks along the horizontal axis, as many as there is room for.

    Args:
        axes: where.
        names: of all tasks.
        begin: the place of the first.
        most: how many there is room for.

    Returns:
        What the tasks have in common, to name the axis by.
    """
    own, common = told_apart(names)
    places = range(0, len(names), -(-len(names) // most))
    shown = [shortened(own[place], 12) for place in places]
    slanted = sum(map(len, shown)) > 55
    axes.set_xticks(
        [begin + place for place in places],
        shown,
        rotation=35 if slanted else 0,
        ha="right" if slanted else "center",
    )
    return common


def told_apart(names: tuple[str, ...]) -> tuple[list[str], str]:
    """What sets each of the names apart, and the words that all of them begin with.

    ``permutation 0`` and ``permutation 1`` are ``0`` and ``1``, each a ``permutation``.
    """
    words = [name.split(" ") for name in names]
    room = min(map(len, words)) - 1
    alike = itertools.takewhile(lambda each: len(set(each)) == 1, zip(*words, strict=False))
    head = min(sum(1 for _ in alike), room)
    common = " ".join(words[0][:head])
    return [" ".join(each[head:]) for each in words], literal(common or "task")


def shortened(name: str, most: int) -> str:
    """A name in at most so many characters, for a figure."""
    return literal(name if len(name) <= most else f"{name[: most - 1]}…")


def literal(text: str) -> str:
    """Text as it is: a dollar sign begins no formula."""
    return text.replace("$", r"\$")
