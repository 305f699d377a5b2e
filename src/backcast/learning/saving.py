"""A learner's folder: one file of arrays per task, and a record that says which files count.

Files are never changed once written. The record is replaced last and in one go, so the folder
always holds a whole learner: the one before a save, or the one after.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import backcast.model
from backcast.inference import Belief, Noise, Relative
from backcast.learning.files import LoadError, load_arrays, load_record, save_arrays, save_record
from backcast.learning.settings import Settings
from backcast.learning.trajectory import Shape, Stored, Trajectory, named, restored, restored_rows
from backcast.linalg import DiagLowRank
from backcast.model import Likelihood, Model

FORMAT = 1
RECORD = "learner.json"
BUILT_IN = (
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "GaussianLearnedNoise",
    "HeteroscedasticGaussian",
    "Poisson",
)


@final
@dataclass(frozen=True)
class Contents:
    """All of a learner that goes to disk and comes back.

    Attributes:
        settings: its settings.
        noise: its process noise.
        likelihood: its likelihood, as it was given.
        trajectory: its history.
        optimizer_leaves: the arrays of the optimiser's state where it is carried from task to task.
        own_optimizer: whether the optimiser was the user's own, which cannot be saved.
    """

    settings: Settings
    noise: Noise
    likelihood: Likelihood
    trajectory: Trajectory
    optimizer_leaves: list[Array]
    own_optimizer: bool


def save(folder: Path, contents: Contents, shape: Shape, written: list[Stored]) -> list[Stored]:
    """Write a learner to a folder.

    Args:
        folder: where; made if need be.
        contents: what.
        shape: what the records look like.
        written: the records that are in this folder already; they are not written again.

    Returns:
        The records that are in the folder now.
    """
    stored = []
    for index, entry in enumerate(contents.trajectory.entries):
        if isinstance(entry, Stored) and entry.path.parent == folder:
            stored.append(entry)
        elif index < len(written) and written[index].path.exists():
            stored.append(written[index])
        else:
            record = entry.read() if isinstance(entry, Stored) else entry
            stored.append(Stored.write(record, folder, index, shape))
    levels, noise_arrays = _noise_as_plain(contents.noise)
    prior = contents.trajectory.prior
    base = {
        **named("mean", prior.mean),
        **named("diag", prior.precision.diag),
        **named("factor", prior.precision.factor),
        **named("likelihood", contents.likelihood),
        **named("optimizer", contents.optimizer_leaves),
        **named("noise", noise_arrays),
    }
    path, digest = save_arrays(folder, "base", base)
    record = {
        "format": FORMAT,
        "backcast": backcast.__version__,
        "settings": contents.settings.as_plain(),
        "noise": levels,
        "likelihood": type(contents.likelihood).__name__,
        "own_optimizer": contents.own_optimizer,
        "base": {"file": path.name, "sha256": digest},
        "tasks": [
            {
                "name": entry.name,
                "time": entry.time,
                "file": entry.path.name,
                "sha256": entry.digest,
                "report": entry.report,
            }
            for entry in stored
        ],
    }
    save_record(folder / RECORD, record)
    _remove_stale(folder, {path, *(entry.path for entry in stored)})
    return stored


def load(folder: Path, network: Any, likelihood: Likelihood | None) -> tuple[Model, Contents]:
    """Read a learner, for the network it was saved from.

    Args:
        folder: where it is.
        network: the network, as it was given to the learner.
        likelihood: the likelihood, if it is not one of the built-in ones.
    """
    record = load_record(folder / RECORD)
    if record.get("format") != FORMAT:
        raise LoadError(
            f"{folder / RECORD} has format {record.get('format')!r}, and this version of backcast "
            f"reads format {FORMAT}. Update backcast to load it."
        )
    try:
        return _assembled(folder, record, network, likelihood)
    except (KeyError, TypeError) as error:
        raise LoadError(f"{folder / RECORD} lacks what a learner needs: {error!r}.") from error


def _assembled(
    folder: Path, record: dict[str, Any], network: Any, likelihood: Likelihood | None
) -> tuple[Model, Contents]:
    settings = Settings.from_plain(record["settings"])
    model = backcast.model.as_model(network, settings.trainable)
    path = _inside(folder, record["base"]["file"])
    arrays = load_arrays(path, record["base"]["sha256"])
    likelihood = _likelihood(record["likelihood"], likelihood, arrays, path)
    diag = restored("diag", model.params, arrays, path)
    prior = Belief(
        restored("mean", model.params, arrays, path),
        DiagLowRank(diag, restored_rows("factor", model.params, arrays, path)),
    )
    shape = Shape(model.params, model.state, likelihood)
    tasks = [
        Stored(
            _inside(folder, task["file"]),
            task["sha256"],
            task["name"],
            task["time"],
            task["report"],
            shape,
        )
        for task in record["tasks"]
    ]
    return model, Contents(
        settings,
        _noise_from_plain(record["noise"], arrays),
        likelihood,
        Trajectory(prior, tasks),
        _series("optimizer", arrays),
        record["own_optimizer"],
    )


def _likelihood(
    kind: str, given: Likelihood | None, arrays: dict[str, np.ndarray], path: Path
) -> Likelihood:
    if given is not None and type(given).__name__ != kind:
        raise LoadError(
            f"The learner was saved with the likelihood {kind}, but {type(given).__name__} was "
            "given. Give the same, or none."
        )
    if given is not None:
        return restored("likelihood", given, arrays, path)
    if kind not in BUILT_IN:
        raise LoadError(
            f"The learner was saved with a likelihood of your own, a {kind}. Give it again: "
            "Learner.load(folder, network, likelihood=...)."
        )
    likelihood = getattr(backcast.model, kind)()
    for name, array in arrays.items():
        part, _, field = name.partition(":")
        if part == "likelihood":
            likelihood = eqx.tree_at(
                lambda x, field=field: getattr(x, field),
                likelihood,
                jnp.asarray(array),
                is_leaf=lambda x: x is None,
            )
    return likelihood


def _noise_as_plain(noise: Noise) -> tuple[list[dict[str, Any]], list[Array]]:
    plain, arrays = [], []
    for pattern, level in noise.levels.items():
        relative = isinstance(level, Relative)
        arrays.append(jnp.asarray(level.factor if relative else level, float))
        plain.append({"pattern": pattern, "relative": relative})
    return plain, arrays


def _noise_from_plain(plain: list[dict[str, Any]], arrays: dict[str, np.ndarray]) -> Noise:
    values = _series("noise", arrays)
    return Noise(
        {
            level["pattern"]: Relative(value) if level["relative"] else value
            for level, value in zip(plain, values, strict=True)
        }
    )


def _series(part: str, arrays: dict[str, np.ndarray]) -> list[Array]:
    count = sum(name.startswith(f"{part}:") for name in arrays)
    return [jnp.asarray(arrays[f"{part}:{index}"]) for index in range(count)]


def _inside(folder: Path, name: str) -> Path:
    if Path(name).name != name:
        raise LoadError(f"{folder / RECORD} names the file {name!r}, which is outside its folder.")
    return folder / name


def _remove_stale(folder: Path, used: set[Path]) -> None:
    for path in [*folder.glob("task-*.safetensors"), *folder.glob("base-*.safetensors")]:
        if path not in used:
            path.unlink(missing_ok=True)
