"""Figure 5: the low-rank part of the precision after each task, for ranks 10 and 20."""

from collections.abc import Sequence
from typing import cast

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from backcast.experiments import RunFolder
from backcast.experiments.magnitudes import blocks, magnitudes
from backcast.experiments.paper import Line, Panel, Row
from backcast.linalg import DiagLowRank, tree
from backcast.report.matrices import SHADES
from backcast.report.paper.artefact import Artefact, Shown
from backcast.report.style import INK, SERIES, Drawing, literal, styled
from backcast.report.tables import Column, Table

_FAINT = 1e-5  # of the largest entry: what is below is white
_BLOCKS = 24  # to a layer
_BINS = 12

PANELS = (
    Panel(
        "Permuted MNIST",
        (
            Row("rank 10", "permuted-mnist", changes={"sweep.seeds": 1}),
            Row("rank 20", "permuted-mnist", changes={"sweep.seeds": 1, "method.rank": 20}),
        ),
    ),
)


def show(lines: Sequence[Line]) -> Shown:
    """A figure for each rank, its numbers in a table, and every eigenvalue in a file."""
    runs = [(line.plan.label, line.group.runs[0]) for line in lines if line.group is not None]
    return Shown(
        (_ends(runs),),
        tuple(_drawing(label, run) for label, run in runs),
        (_eigenvalues(runs),),
    )


def _kept(run: RunFolder) -> list[np.ndarray]:
    """The eigenvalues of the low-rank part after each task."""
    return [np.array(run.reports[f"task {p}"]["retained"]) for p in run.facts.learned]


def _drawing(label: str, run: RunFolder) -> Drawing:
    spectra = _kept(run)
    names = [run.facts.tasks[p] for p in run.facts.learned]
    with styled():
        figure = Figure(figsize=(1.75 * len(names) + 0.8, 4.2), layout="constrained")
        # A single task still has its own column of axes.
        top, bottom = figure.subplots(2, len(names), sharey="row", squeeze=False)
    _maps(figure, list(top), run)
    least, most = (f(f(s[s > 0]) for s in spectra) for f in (min, max))
    edges = np.geomspace(least, most * 1.0001, _BINS + 1)
    for axes, spectrum in zip(bottom, spectra, strict=True):
        axes.hist(spectrum, edges, color=SERIES[0], edgecolor="white", linewidth=0.5)
        axes.set_xscale("log")
        axes.set_xlabel("eigenvalue")
        axes.grid(visible=False, axis="x")
        axes.set_title(f"median {np.median(spectrum):.2g}", fontsize=8)
    bottom[0].set_ylabel("count")
    for axes, name in zip(top, names, strict=True):
        axes.set_title(literal(name), fontsize=9)
    told = " ".join(
        f"After {name}: from {s.max():.3g} to {s.min():.3g}."
        for name, s in zip(names, spectra, strict=True)
    )
    return Drawing(
        f"fig5-{label.replace(' ', '-')}",
        f"Seed {run.spec.seed}, {label}. Top: the low-rank part of the precision after each task, "
        f"each layer in up to {_BLOCKS} blocks; shades are root mean squares of a block's entries, "
        f"white is below {_FAINT:g} of the largest. Bottom: histograms of its eigenvalues.",
        f"Heat maps and histograms of eigenvalues, {label}. {told}",
        figure,
    )


def _maps(figure: Figure, axes: Sequence[Axes], run: RunFolder) -> None:
    """The low-rank part after each task."""
    factors = [cast(DiagLowRank, r.filtered.precision).factor for r in run.learner().trajectory]
    leaves = [blocks(map(np.asarray, jax.tree.leaves(factor)), _BLOCKS) for factor in factors]
    found = [magnitudes([block for leaf in each for block in leaf]) for each in leaves]
    largest = max(values.max() for values in found)
    scale = LogNorm(_FAINT * largest, largest)
    sizes = np.array([len(leaf) for leaf in leaves[0]])
    ends = np.cumsum(sizes)
    for each, values in zip(axes, found, strict=True):
        each.pcolormesh(np.ma.masked_less(values, _FAINT * largest), cmap=SHADES, norm=scale)
        each.set_aspect("equal")
        each.invert_yaxis()
        each.grid(visible=False)
        each.set_xticks([])
        each.set_yticks([])
        for line in (each.axhline, each.axvline):
            for end in ends[:-1]:
                line(end, color=INK, linewidth=0.3)
    axes[0].set_yticks(ends - sizes / 2, tree.names(factors[0]), fontsize=6)
    figure.colorbar(ScalarMappable(scale, SHADES), ax=axes, aspect=20, pad=0.01)


def _ends(runs: Sequence[tuple[str, RunFolder]]) -> Table:
    rows = tuple(
        (label, run.facts.tasks[p], *(f"{f(s):.4g}" for f in (np.max, np.median, np.min, np.sum)))
        for label, run in runs
        for p, s in zip(run.facts.learned, _kept(run), strict=True)
    )
    columns = tuple(map(Column, ("rank", "after", "largest", "median", "smallest", "sum")))
    return Table("spectrum", "Spectrum", "Eigenvalues of the low-rank part.", columns, rows)


def _eigenvalues(runs: Sequence[tuple[str, RunFolder]]) -> Table:
    """Every eigenvalue, those for which there was no room too."""
    rows = tuple(
        (label, run.facts.tasks[p], kind, place, value)
        for label, run in runs
        for p in run.facts.learned
        for kind in ("retained", "deflated")
        for place, value in enumerate(run.reports[f"task {p}"][kind], 1)
    )
    columns = tuple(map(Column, ("rank", "after", "kind", "place", "eigenvalue")))
    return Table("eigenvalues", "Eigenvalues", "All eigenvalues.", columns, rows)


FIG5 = Artefact("Figure 5: the low-rank approximation across training", PANELS, show)
