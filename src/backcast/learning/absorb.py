"""Absorbing a task that was trained on: the curvature at its mode, and the belief it leads to."""

from typing import Any, NamedTuple, final

import jax
from jaxtyping import Array, Key, PyTree

from backcast.inference import Update, update, update_by_penalties
from backcast.learning.curvature_settings import CurvatureSettings
from backcast.learning.examples import ArrayExamples, Examples, Leading
from backcast.learning.fit import DivergedError, Fitted, Problem
from backcast.learning.settings import Settings
from backcast.learning.structures import Learned


@final
class Absorbed(NamedTuple):
    """What a task leaves.

    Attributes:
        params: the parameters to predict by.
        update: the belief after the task, and what the task added to it.
        report: how it went, in plain numbers.
    """

    params: PyTree
    update: Update
    report: dict[str, Any]


def absorb(problem: Problem, fitted: Fitted, settings: Settings, key: Key[Array, ""]) -> Absorbed:
    """Find the curvature of a task at its mode, and add it to the belief.

    Raises:
        DivergedError: the network's outputs, its curvature or the belief are not finite any more.
    """
    params, total = fitted.weights.params, problem.examples.total
    task = Learned(
        problem.model.with_params(params, fitted.weights.state),
        fitted.likelihood,
        _chosen(problem.examples, settings.curvature, key),
        settings.curvature,
        problem.model.params,
        fitted.weights.optimizer,
        jax.random.fold_in(key, 1),
    )
    at_mode = settings.centre == "mode"
    try:
        found = settings.structure.curvature(task)
        updated = (update if at_mode else update_by_penalties)(
            problem.belief,
            params,
            found.precision,
            settings.absorption(total),
            settings.rank,
            settings.remainder,
        )
    except ValueError as error:
        # Whatever else could be wrong was refused at the door.
        raise DivergedError(f"Training diverged: {error}") from error
    report = {
        "examples": total,
        "epochs": len(fitted.losses),
        "best_epoch": fitted.epoch,
        "losses": fitted.losses,
        "validation_losses": fitted.held_out,
        **found.report,
    }
    if updated.spectrum is not None:
        report["retained"] = updated.spectrum.retained.tolist()
        report["deflated"] = updated.spectrum.deflated.tolist()
    return Absorbed(updated.belief.mean if at_mode else params, updated, report)


def _chosen(examples: Examples, settings: CurvatureSettings, key: Key[Array, ""]) -> Leading:
    count = examples.count if settings.examples is None else settings.examples
    if isinstance(examples, ArrayExamples):
        examples = examples.sample(count, settings.batch_size, key)
    return Leading(examples, min(count, examples.count))
