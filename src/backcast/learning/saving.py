"""A learner's folder: one file of arrays per task, and a record that says which files count.

What never changes, such as the prior and the parameters that are not learned, has a file of its
own, so that a save writes one task and little more. Files are never changed once written. The
record is replaced last and in one go, so the folder always holds a whole learner: the one before a
save, or the one after.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

import backcast.model
from backcast.inference import Belief, LearnedNoise, Noise, Relative
from backcast.learning.files import LoadError, load_arrays, load_record, save_arrays, save_record
from backcast.learning.parts import named, named_precision, restored, restored_precision
from backcast.learning.settings import Settings
from backcast.learning.trajectory import Shape, Stored, Trajectory
from backcast.linalg import Block, Kronecker, Precision, Rotated
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
        model: its network, as it was given to the learner.
        settings: its settings.
        noise: its process noise.
        likelihood: its likelihood, as it was given.
        trajectory: its history.
        optimizer_leaves: the arrays of the optimiser's state where it is carried from task to task.
        own_optimizer: whether the optimiser was the user's own, which cannot be saved.
    """

    model: Model
    settings: Settings
    noise: Noise | LearnedNoise
    likelihood: Likelihood
    trajectory: Trajectory
    optimizer_leaves: list[Array]
    own_optimizer: bool


@final
@dataclass(frozen=True)
class Written:
    """What a folder holds already.

    Attributes:
        base: the file of what never changes, and the SHA-256 of its bytes.
        tasks: the records.
    """

    base: tuple[Path, str]
    tasks: list[Stored]


def save(folder: Path, contents: Contents, written: Written | None) -> Written:
    """Write a learner to a folder.

    Args:
        folder: where; made if need be.
        contents: what.
        written: what this learner has put into this folder already; it is not written again.

    Returns:
        What the folder holds now.
    """
    prior = contents.trajectory.prior.precision
    model = contents.model
    shape = Shape(model.params, model.state, contents.likelihood, prior)
    before = [] if written is None else written.tasks
    stored = []
    for index, entry in enumerate(contents.trajectory.entries):
        if isinstance(entry, Stored) and entry.path.parent == folder:
            stored.append(entry)
        elif index < len(before) and before[index].path.exists():
            stored.append(before[index])
        else:
            record = entry.read() if isinstance(entry, Stored) else entry
            stored.append(Stored.write(record, folder, index, shape))
    levels, noise_arrays = _noise_as_plain(contents.noise)
    if written is not None and written.base[0].exists():
        base = written.base
    else:
        base = save_arrays(folder, "base", _constants(contents, noise_arrays))
    optimizer = save_arrays(folder, "optimizer", named("leaf", contents.optimizer_leaves))
    record = {
        "format": FORMAT,
        "backcast": backcast.__version__,
        "settings": contents.settings.as_plain(),
        "noise": levels,
        "likelihood": type(contents.likelihood).__name__,
        "own_optimizer": contents.own_optimizer,
        "blocks": _blocks(prior),
        "base": _reference(base),
        "optimizer": _reference(optimizer),
        "tasks": [
            {
                "name": entry.name,
                "time": entry.time,
                **_reference((entry.path, entry.digest)),
                "report": entry.report,
            }
            for entry in stored
        ],
    }
    save_record(folder / RECORD, record)
    _remove_stale(folder, {base[0], optimizer[0], *(entry.path for entry in stored)})
    return Written(base, stored)


def load(folder: Path, network: Any, likelihood: Likelihood | None) -> tuple[Contents, Written]:
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


def _constants(contents: Contents, noise: list[Array]) -> dict[str, np.ndarray]:
    """What stays the same from task to task, by name."""
    prior, model = contents.trajectory.prior, contents.model
    return {
        **named("mean", prior.mean),
        **named_precision("", prior.precision),
        **named("params", model.params),
        **named("state", model.state),
        **named("frozen", _numbers(model.frozen)),
        **named("likelihood", contents.likelihood),
        **named("noise", noise),
    }


def _assembled(
    folder: Path, record: dict[str, Any], network: Any, likelihood: Likelihood | None
) -> tuple[Contents, Written]:
    settings = Settings.from_plain(record["settings"])
    model = backcast.model.as_model(network, settings.trainable)
    path, digest = _referred(folder, record["base"])
    arrays = load_arrays(path, digest)
    leaves = load_arrays(*_referred(folder, record["optimizer"]))
    model = Model(
        restored("params", model.params, arrays, path),
        restored("state", model.state, arrays, path),
        eqx.combine(restored("frozen", _numbers(model.frozen), arrays, path), model.frozen),
        model.adapter,
    )
    likelihood = _likelihood(record["likelihood"], likelihood, arrays, path)
    mean = restored("mean", model.params, arrays, path)
    like = _with_blocks(settings.structure.prior(mean, 1.0).precision, record["blocks"])
    prior = Belief(mean, restored_precision("", like, arrays, path))
    shape = Shape(model.params, model.state, likelihood, prior.precision)
    tasks = [
        Stored(
            *_referred(folder, task),
            task["name"],
            task["time"],
            task["report"],
            shape,
        )
        for task in record["tasks"]
    ]
    contents = Contents(
        model,
        settings,
        _noise_from_plain(record["noise"], arrays),
        likelihood,
        Trajectory(prior, tasks),
        _series("leaf", leaves),
        record["own_optimizer"],
    )
    return contents, Written((path, digest), tasks)


def _blocks(precision: Precision) -> list[dict[str, Any]]:
    """Where the layers of a precision are, as plain data."""
    if isinstance(precision, Kronecker | Rotated):
        return [dataclasses.asdict(block) for block in precision.blocks]
    return []


def _with_blocks(precision: Precision, plain: list[dict[str, Any]]) -> Precision:
    if not isinstance(precision, Kronecker | Rotated):
        return precision
    blocks = tuple(
        Block(
            block["weight"],
            tuple(block["rows"]),
            tuple(block["columns"]),
            block["bias"],
            tuple(block["bias_axes"]),
        )
        for block in plain
    )
    # The arrays that are read may count more than this: it only says what their trees are.
    return type(precision).isotropic(precision.diag, 0.0, blocks, 1)


def _numbers(frozen: dict[str, PyTree]) -> dict[str, PyTree]:
    """The arrays without the keys of random streams, which start anew in every pass."""
    return eqx.filter(frozen, lambda x: not jnp.issubdtype(x.dtype, jax.dtypes.prng_key))


def _reference(file: tuple[Path, str]) -> dict[str, str]:
    return {"file": file[0].name, "sha256": file[1]}


def _referred(folder: Path, reference: dict[str, str]) -> tuple[Path, str]:
    return _inside(folder, reference["file"]), reference["sha256"]


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


def _noise_as_plain(noise: Noise | LearnedNoise) -> tuple[Any, list[Array]]:
    if isinstance(noise, LearnedNoise):
        return dataclasses.asdict(noise), []
    plain, arrays = [], []
    for pattern, level in noise.levels.items():
        relative = isinstance(level, Relative)
        arrays.append(jnp.asarray(level.factor if relative else level, float))
        plain.append({"pattern": pattern, "relative": relative})
    return plain, arrays


def _noise_from_plain(plain: Any, arrays: dict[str, np.ndarray]) -> Noise | LearnedNoise:
    if isinstance(plain, dict):
        return LearnedNoise(**plain)
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
    for stem in ("base", "optimizer", "task-*"):
        for path in folder.glob(f"{stem}-*.safetensors"):
            if path not in used:
                path.unlink(missing_ok=True)
