"""Streams: tasks in order of time, made from data. Knows nothing of models or beliefs."""

from backcast.tasks import transforms
from backcast.tasks.classes import by_class, disjoint, pairs
from backcast.tasks.columns import by_column
from backcast.tasks.drift import blurred, brightness, drifting, permuted, rotated, stained
from backcast.tasks.lazy import LazyStream
from backcast.tasks.mixtures import crossfade, imbalanced, mixed
from backcast.tasks.partition import Partition, holdout
from backcast.tasks.task import Examples, Stream, Task

__all__ = [
    "Examples",
    "LazyStream",
    "Partition",
    "Stream",
    "Task",
    "blurred",
    "brightness",
    "by_class",
    "by_column",
    "crossfade",
    "disjoint",
    "drifting",
    "holdout",
    "imbalanced",
    "mixed",
    "pairs",
    "permuted",
    "rotated",
    "stained",
    "transforms",
]
