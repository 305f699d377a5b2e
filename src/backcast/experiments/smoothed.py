"""The smoothed models of a run, as files that anyone can read: safetensors and JSON."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from backcast.experiments.errors import SpecError
from backcast.experiments.folder import RunFolder
from backcast.inference import Belief
from backcast.learning.files import save_arrays, save_record
from backcast.learning.trajectory import named
from backcast.linalg import tree

RECORD = "smoothed.json"
_LOADING = (
    "safetensors.numpy.load_file(file) gives arrays by name: weights:<leaf>, variance:<leaf> (of "
    "each weight, by the smoothed belief) and state:<leaf>. Ready models, which need no data: "
    "backcast.experiments.RunFolder.open(run).learner().smooth()."
)


def write_smoothed(run: RunFolder, out: Path) -> list[dict[str, Any]]:
    """Smooth what a run has learned so far, and write each task's model to a file.

    Nothing but the run's folder is needed. One belief is in memory at a time.

    Args:
        run: the run.
        out: where to; made if need be. Files of an earlier call that no longer count are removed.

    Returns:
        What `RECORD` says of each task: its ``name`` and ``time``, its ``file`` and that file's
        ``sha256``; how far its weights ``moved``, relative to their norm; and the mean standard
        deviation of a weight, ``deviation_filtered`` and ``deviation_smoothed``.

    Raises:
        SpecError: there is nothing to smooth.
    """
    if not run.spec.method.smooths:
        raise SpecError(
            f"{run.path} was learned by the method '{run.spec.method.kind}', which keeps no belief "
            "to smooth. Smooth a run of the method 'low-rank' or 'rotated'."
        )
    learner = run.learner()
    trajectory = learner.trajectory
    if not len(trajectory):
        raise SpecError(f"{run.path} has learned no task yet; let it run first.")
    tasks: list[dict[str, Any]] = []
    for index, belief in learner.smooth().beliefs():
        record = trajectory[index]
        variance, facts = _compared(record.filtered, belief)
        arrays = {
            **named("weights", belief.mean),
            **named("variance", variance),
            **named("state", record.state),
        }
        path, digest = save_arrays(out, f"task-{index:04d}", arrays)
        about = {"name": record.name, "time": record.time, "file": path.name, "sha256": digest}
        tasks.append({**about, **{name: float(value) for name, value in facts.items()}})
    tasks.reverse()
    save_record(
        out / RECORD,
        {
            "run": run.path.name,
            "spec": run.spec.plain(),
            "input_shape": list(run.facts.input_shape),
            "classes": list(run.facts.classes),
            "loading": _LOADING,
            "tasks": tasks,
        },
    )
    for stale in set(out.glob("task-*.safetensors")) - {out / task["file"] for task in tasks}:
        stale.unlink()
    return tasks


@jax.jit
def _compared(before: Belief, after: Belief) -> tuple[PyTree, dict[str, Array]]:
    """The smoothed variances, and how the belief has changed."""
    change = jax.tree.map(jnp.subtract, after.mean, before.mean)
    variance = after.precision.variance()
    return variance, {
        "moved": jnp.sqrt(tree.dot(change, change) / tree.dot(before.mean, before.mean)),
        "deviation_filtered": _mean_deviation(before.precision.variance()),
        "deviation_smoothed": _mean_deviation(variance),
    }


def _mean_deviation(variance: PyTree) -> Array:
    leaves = jax.tree.leaves(variance)
    total = jnp.sum(jnp.stack([jnp.sum(jnp.sqrt(leaf)) for leaf in leaves]))
    return total / sum(leaf.size for leaf in leaves)
