"""A model tried on tasks."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import jax
import numpy as np

from backcast.experiments.log import Score, Stage
from backcast.experiments.metrics import classification
from backcast.experiments.summary import PARTS
from backcast.learning import DivergedError, Learner, TaskModel
from backcast.learning.task_model import interpolated
from backcast.tasks import LazyStream

_TOGETHER = 2**18  # numbers of input: what convolutions make of them then fits into caches

# Enough to tell settings apart, and few enough not to take longer than training does.
_FORESEEN, _DRAWS = 256, 32


def tried(
    model: TaskModel,
    stream: LazyStream,
    tasks: Sequence[int],
    stage: Stage,
    after: int,
    own: int,
) -> list[Score]:
    """The scores of a model on the validation and test data of some tasks.

    Args:
        model: the network.
        stream: where the tasks are.
        tasks: their positions.
        stage: what kind of model it is.
        after: the last task it is informed by.
        own: the task it is the model of.
    """
    scores = []
    for position in tasks:
        task = stream[position]
        for part, examples in zip(PARTS, (task.test, task.validation), strict=True):
            if len(examples):
                logits = np.asarray(model.outputs(examples.x, _batch_size(examples.x)))
                if not np.isfinite(logits).all():
                    raise DivergedError(
                        f"the {stage} model's outputs are not finite. Lower the learning rate or "
                        "the strength, or clip the gradient."
                    )
                found = classification(logits, examples.y)
                scores.append(Score(stage, after, own, position, part, len(examples), found))
    return scores


def _batch_size(x: np.ndarray) -> int:
    return max(1, _TOGETHER // math.prod(x.shape[1:]))


def smoothed(learner: Learner, stream: LazyStream, learned: Sequence[int]) -> list[Score]:
    """The scores of the smoothed models, each on its own task and on unlearned ones beside it."""
    scores = []
    for model, own in zip(learner.smooth(), learned, strict=True):
        beside = [p for p in range(len(stream)) if own in _neighbours(p, learned)]
        scores += tried(model, stream, sorted([own, *beside]), "smoothed", learned[-1], own)
    return scores


def between(learner: Learner, stream: LazyStream, learned: Sequence[int]) -> list[Score]:
    """The scores of the models inferred for tasks that were not learned, each on its own task."""
    scores = []
    for position, index, fraction in _gaps(stream, learned):
        model = learner.between(index, fraction)
        scores += tried(model, stream, [position], "between", learned[-1], position)
    return scores


def foreseen(
    learner: Learner, stream: LazyStream, learned: Sequence[int], index: int
) -> list[Score]:
    """How well a learned task was foreseen by the belief about it before there were data of it.

    Weights are drawn from the predicted belief, which follows from the tasks before alone. The data
    are some of the task's validation data, on which nothing is ever trained.
    """
    if index == 0 or not len(examples := stream[learned[index]].validation):
        return []
    before, own = learned[index - 1 : index + 1]
    belief = learner.trajectory.steps()[index].predicted
    model = learner.filtered()[index - 1]
    x, y = examples.x[:_FORESEEN], examples.y[:_FORESEEN]
    found = model.predictive_loss(x, y, belief, samples=_DRAWS, batch_size=_batch_size(x))
    if not math.isfinite(found):
        raise DivergedError("what the predicted belief expects is not finite. Lower the noise.")
    return [Score("predicted", before, own, own, "validation", len(y), {"nll": found})]


def averaged(learner: Learner, stream: LazyStream, learned: Sequence[int]) -> list[Score]:
    """The scores of averages of filtered models, each on its own task: what smoothing must beat.

    A task's average has the mean of its weights and of those of the tasks learned next to it, and
    its own state. A task that was not learned has the model on the line between those beside it.
    """
    models, scores = learner.filtered(), []
    for index, own in enumerate(learned):
        near = models[max(index - 1, 0) : index + 2]
        params = jax.tree.map(
            lambda *leaves: sum(leaves) / len(leaves), *(each.model.params for each in near)
        )
        network = models[index].model
        model = replace(models[index], model=network.with_params(params, network.state))
        latest = learned[min(index + 1, len(learned) - 1)]
        scores += tried(model, stream, [own], "averaged", latest, own)
    for position, index, fraction in _gaps(stream, learned):
        earlier, later = models[index : index + 2]
        pairs = (earlier.model.params, earlier.model.state), (later.model.params, later.model.state)
        network = earlier.model.with_params(*interpolated(*pairs, fraction))
        model = replace(earlier, model=network)
        scores += tried(model, stream, [position], "averaged", learned[index + 1], position)
    return scores


def _gaps(stream: LazyStream, learned: Sequence[int]) -> Iterator[tuple[int, int, float]]:
    """The tasks between learned ones: the position, after which of them, how far to the next."""
    for position in range(len(stream)):
        around = _neighbours(position, learned)
        if len(around) == 2:
            begin, time, end = (stream[p].time for p in (around[0], position, around[1]))
            yield position, learned.index(around[0]), (time - begin) / (end - begin)


def _neighbours(position: int, learned: Sequence[int]) -> list[int]:
    """The learned tasks next to one that was not; none for one that was."""
    if position in learned:
        return []
    before = [p for p in learned if p < position]
    behind = [p for p in learned if p > position]
    return before[-1:] + behind[:1]
