"""A model tried on tasks."""

from collections.abc import Sequence

import numpy as np

from backcast.experiments.log import Score, Stage
from backcast.experiments.metrics import classification
from backcast.experiments.summary import PARTS
from backcast.learning import DivergedError, Learner, TaskModel
from backcast.tasks import LazyStream

_BATCH = 64  # the outputs of convolutions then fit into caches, which halves the time they take


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
                logits = np.asarray(model.outputs(examples.x, _BATCH))
                if not np.isfinite(logits).all():
                    raise DivergedError(
                        f"the {stage} model's outputs are not finite. Lower the learning rate or "
                        "the strength, or clip the gradient."
                    )
                found = classification(logits, examples.y)
                scores.append(Score(stage, after, own, position, part, len(examples), found))
    return scores


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
    for position in range(len(stream)):
        around = _neighbours(position, learned)
        if len(around) == 2:
            index = learned.index(around[0])
            begin, time, end = (stream[p].time for p in (around[0], position, around[1]))
            model = learner.between(index, (time - begin) / (end - begin))
            scores += tried(model, stream, [position], "between", learned[-1], position)
    return scores


def _neighbours(position: int, learned: Sequence[int]) -> list[int]:
    """The learned tasks next to one that was not; none for one that was."""
    if position in learned:
        return []
    before = [p for p in learned if p < position]
    behind = [p for p in learned if p > position]
    return before[-1:] + behind[:1]
