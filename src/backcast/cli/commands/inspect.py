"""``backcast inspect``: what a run believes."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from backcast.cli import screen

if TYPE_CHECKING:
    from backcast.experiments import RunFolder
    from backcast.learning import Learner
    from backcast.linalg import Precision

_NOTHING = 1e-6  # of the largest eigenvalue: what rounding leaves of zero in 32 bits


def command(folder: Annotated[Path, Parameter(help="The folder of a run.")], /) -> int:
    """Show what a run believes: rank, eigenvalues of every task, capacity, memory and layers.

    Works while the run goes on, and needs no data.
    """
    from backcast.experiments import RunFolder

    run = RunFolder.open(folder)
    _head(run)
    if not run.spec.method.believes:
        screen.say(f"The method '{run.spec.method.kind}' keeps no belief.")
        return 0
    learner = run.learner()
    entries = learner.trajectory.entries
    if entries and all("retained" in entry.report for entry in entries):
        _tasks(learner)
        _eigenvalues(learner)
    _layers(learner)
    _memory(run, learner)
    return 0


def _head(run: "RunFolder") -> None:
    method, reports = run.spec.method, run.reports
    learned = sum(name.startswith("task ") for name in reports)
    settings = {k: v for k, v in method.plain().items() if not isinstance(v, dict | list)}
    screen.say(f"{run.path.name}: {run.state}, {learned} of {len(run.facts.learned)} tasks learned")
    screen.say(", ".join(f"{name} {value}" for name, value in settings.items()))


def _tasks(learner: "Learner") -> None:
    """How much of the rank each task's belief uses, and how much of the curvature it keeps."""
    rank = learner.settings.rank
    rows = []
    for index, entry in enumerate(learner.trajectory.entries):
        kept, lost = entry.report["retained"], entry.report["deflated"]
        used = sum(value > _NOTHING * kept[0] for value in kept)
        total = math.fsum(kept) + math.fsum(lost)
        rows.append(
            [
                str(index),
                entry.name,
                f"{entry.report['examples']:,.0f}",
                f"{used} of {rank}",
                f"{100 * math.fsum(kept) / total:.1f} %" if total else "-",
                *(screen.short(values[at]) if values else "-" for values, at in _ends(kept, lost)),
            ]
        )
    heads = ["Task", "name", "examples", "rows used", "kept", "largest", "last kept", "first lost"]
    screen.table(rows, heads, words=2, title="Capacity: the curvature that has rows")
    if learner.settings.remainder == "diagonal":
        screen.say("What has no row is not forgotten: it is in the diagonal.")
    else:
        screen.say("What has no row is forgotten (remainder = drop).")


def _ends(kept: list[float], lost: list[float]) -> list[tuple[list[float], int]]:
    return [(kept, 0), (kept, -1), (lost, 0)]


def _eigenvalues(learner: "Learner") -> None:
    rows = [
        [str(index), kind, "  ".join(map(screen.short, entry.report[kind])) or "none"]
        for index, entry in enumerate(learner.trajectory.entries)
        for kind in ("retained", "deflated")
    ]
    screen.table(rows, ["Task", "", "eigenvalues"], words=3, title="Eigenvalues of the rows")


def _layers(learner: "Learner") -> None:
    """Of each leaf, its shape, and what is believed of its weights."""
    import jax
    import numpy as np

    from backcast.linalg import Kronecker, tree

    belief = learner.belief
    precision = belief.precision
    mean, diagonal = jax.tree.leaves(belief.mean), jax.tree.leaves(precision.diagonal())
    # The inverse of several Kronecker products has no structure.
    several = isinstance(precision, Kronecker) and precision.rank > 1
    variance = [None] * len(mean) if several else jax.tree.leaves(precision.variance())
    total = sum(float(np.sum(part, dtype=float)) for part in diagonal)
    rows = [
        [
            name,
            " x ".join(map(str, m.shape)) or "1",
            f"{m.size:,}",
            screen.short(float(np.sqrt(np.mean(np.square(m), dtype=float)))),
            "-" if v is None else screen.short(float(np.mean(np.sqrt(v), dtype=float))),
            f"{100 * float(np.sum(d, dtype=float)) / total:.1f} %" if total else "-",
            form,
        ]
        for name, m, v, d, form in zip(
            tree.names(belief.mean), mean, variance, diagonal, forms(precision), strict=True
        )
    ]
    heads = ["Leaf", "shape", "weights", "size", "deviation", "precision", "as"]
    screen.table(rows, heads, words=2, title="The last belief, leaf by leaf")
    screen.say("size: root mean square of the weights. deviation: the mean of theirs, as believed.")
    screen.say("precision: the leaf's share of the trace. as: how it is believed.")


def forms(precision: "Precision") -> list[str]:
    """What each leaf's part of a precision is: its layer's matrix, or a diagonal."""
    import jax

    from backcast.linalg import DiagLowRank, Kronecker, Rotated

    leaves = jax.tree.leaves(precision.diag)
    rows = f"diagonal + {precision.rank} rows" if precision.rank else "diagonal"
    forms = [rows if isinstance(precision, DiagLowRank) else "diagonal"] * len(leaves)
    if not isinstance(precision, Kronecker | Rotated):
        return forms
    for block, u, v in zip(precision.blocks, precision.left, precision.right, strict=True):
        m, n = block.shape(leaves)
        form = f"{precision.rank} products of {m} x {n}"
        if isinstance(precision, Rotated):
            few = f", {len(u)} x {len(v)} kept" if len(u) < m or len(v) < n else ""
            form = f"rotated {m} x {n}{few}"
        for index in block.leaves:
            forms[index] = form
    return forms


def _memory(run: "RunFolder", learner: "Learner") -> None:
    belief = learner.belief
    disk = sum(path.stat().st_size for path in (run.path / "learner").glob("*"))
    tasks = len(learner.trajectory)
    screen.say(
        f"\nA belief takes {screen.size(_bytes(belief))} of memory, in all; "
        f"{tasks} tasks take {screen.size(disk)} on disk."
    )


def _bytes(values: Any) -> int:
    import jax

    return sum(leaf.nbytes for leaf in jax.tree.leaves(values))
