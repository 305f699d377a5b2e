"""The learner of a spec: new, or as a run has left it."""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from backcast.experiments.errors import SpecError
from backcast.experiments.method_spec import (
    L2,
    CurvatureSpec,
    DriftSpec,
    Ewc,
    FineTuning,
    FisherSpec,
    Joint,
    Kronecker,
    LearnedNoiseSpec,
    LowRank,
    MethodSpec,
    Rotated,
    SynapticIntelligence,
)
from backcast.experiments.network_spec import AdamSpec, TrainingSpec
from backcast.experiments.spec import Spec
from backcast.inference import Belief, LearnedNoise, Noise, Relative
from backcast.learning import (
    CurvatureSettings,
    Isotropic,
    Learner,
    PathIntegral,
    Products,
    Rotations,
)
from backcast.learning.saving import RECORD
from backcast.model import Categorical, as_model


def learner_for(
    spec: Spec, network: Any, class_shares: np.ndarray, folder: Path, progress: bool
) -> Learner:
    """The learner that is in the folder, or a new one that saves to it.

    Args:
        spec: what is run.
        network: the network of the spec.
        class_shares: each class's share of the training data.
        folder: where the learner lives.
        progress: whether to show a bar, if there is a terminal.
    """
    optimizer = optimizer_for(spec.training)  # pyright: ignore[reportArgumentType]
    if (folder / RECORD).exists():
        return Learner.load(folder, network, optimizer=optimizer, save=True, progress=progress)
    training = spec.training
    try:
        return Learner(
            network,
            likelihood_for(training, class_shares),
            **_remembering(spec.method, network),
            optimizer=optimizer,
            epochs=training.epochs,
            batch_size=training.batch_size,
            patience=training.patience,
            restart=training.restart,
            seed=spec.seed,
            directory=folder,
            progress=progress,
        )
    except ValueError as error:
        # Such as noise for weights that this network does not have.
        raise SpecError(f"{spec.name}: {error}") from error


def likelihood_for(training: TrainingSpec, class_shares: np.ndarray) -> Categorical:
    """Classes, of equal weight or weighted by ``1 / (C share)``: on average one over the data."""
    if training.class_weights == "equal":
        return Categorical()
    there = class_shares > 0
    return Categorical(np.where(there, 1 / (there.sum() * np.where(there, class_shares, 1)), 0))


@functools.cache
def optimizer_for(training: TrainingSpec) -> optax.GradientTransformation:
    """The optimiser; the same object for equal specs, so that runs share what is compiled."""
    steps = []
    if training.clip is not None:
        steps.append(optax.clip_by_global_norm(training.clip))
    if training.weight_decay:
        steps.append(optax.add_decayed_weights(training.weight_decay))
    chosen = training.optimizer
    if isinstance(chosen, AdamSpec):
        steps.append(optax.adam(training.learning_rate, chosen.b1, chosen.b2))
    else:
        steps.append(optax.sgd(training.learning_rate, chosen.momentum or None))
    return optax.chain(*steps)


def _remembering(method: MethodSpec, network: Any) -> dict[str, Any]:
    """How the learner remembers what it has learned."""
    if isinstance(method, FineTuning | Joint):
        # A precision of zero, to which nothing is added, is no belief at all.
        zeros = jax.tree.map(jnp.zeros_like, as_model(network).params)
        return {
            "rank": 0,
            "strength": 0.0,
            "prior": Belief.prior(zeros, 0.0),
            "curvature": CurvatureSettings(examples=1, batch_size=1, diagonal="none"),
        }
    common = {"strength": method.strength, "prior": method.prior, "scale": method.scale}
    match method:
        case LowRank():
            return common | {
                "rank": method.rank,
                "remainder": method.remainder,
                "noise": _noise(method),
                "curvature": _curvature(method.curvature),
            }
        case Ewc():
            return common | {
                "rank": 0,
                "centre": "mode" if method.penalties == "one" else "penalties",
                "curvature": _curvature(method.curvature),
            }
        case Kronecker():
            return common | {
                "structure": Products(method.products),
                "curvature": _curvature(method.curvature),
            }
        case Rotated():
            return common | {
                "structure": Rotations(method.rank),
                "noise": _noise(method),
                "curvature": _curvature(method.curvature),
            }
        case SynapticIntelligence():
            return common | {"structure": PathIntegral(damping=method.damping)}
        case L2():
            return common | {"structure": Isotropic()}


def _curvature(spec: CurvatureSpec | FisherSpec) -> CurvatureSettings:
    fields = spec.plain()
    return CurvatureSettings(
        **{**fields, "examples": None if spec.examples == "all" else spec.examples}
    )


def _noise(method: LowRank | Rotated) -> Noise | LearnedNoise | float:
    if isinstance(method.noise, LearnedNoiseSpec):
        return LearnedNoise(method.noise.learn)
    if not isinstance(method.noise, tuple):
        return method.noise
    return Noise({level.weights: _level(level) for level in method.noise})


def _level(drift: DriftSpec) -> float | Relative:
    return Relative(drift.relative) if drift.relative is not None else drift.variance or 0.0
