"""A task's data at the door: arrays or a stream of batches, checked once and then served."""

import math
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, final

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from backcast.model import Batch

Check = Callable[[Batch], None]
"""Raises an error if a model and a likelihood cannot learn from a batch."""


class Examples(ABC):
    """The examples of one task, served in batches of one shape as often as asked.

    Attributes:
        batch_size: how many examples a batch has.
        count: how many examples there are, whatever their weights.
        total: ``N``, the sum of the examples' weights (see `backcast.model.reduction`).
    """

    batch_size: int
    count: int
    total: float

    @property
    def steps(self) -> int:
        """The number of batches in an epoch."""
        return math.ceil(self.count / self.batch_size)

    @abstractmethod
    def batches(self, key: Key[Array, ""] | None = None) -> Iterator[Batch]:
        """Every example once; what fills the last batch up has weight zero.

        Args:
            key: for a random order, where the order is ours to choose.
        """


@final
class ArrayExamples(Examples):
    """Examples held as arrays, in the host's memory or a device's."""

    def __init__(self, data: Batch, batch_size: int):
        """Take the data, which has passed its checks."""
        self.data = data
        self.count = _length(data)
        self.batch_size = min(batch_size, self.count)
        self.total = total_weight(data)

    @property
    def bytes(self) -> int:
        """How much memory the data takes."""
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self.data))

    def batches(self, key: Key[Array, ""] | None = None) -> Iterator[Batch]:
        """Every example once; in random order if a key is given."""
        order = np.arange(self.count)
        if key is not None:
            order = np.asarray(jax.random.permutation(key, self.count))
        for start in range(0, self.count, self.batch_size):
            chosen = order[start : start + self.batch_size]
            yield padded(jax.tree.map(lambda x, i=chosen: x[i], self.data), self.batch_size)

    def sample(self, count: int, batch_size: int, key: Key[Array, ""]) -> "ArrayExamples":
        """``count`` of the examples chosen at random, or all of them if there are no more."""
        if count >= self.count:
            return ArrayExamples(self.data, batch_size)
        chosen = np.asarray(jax.random.permutation(key, self.count)[:count])
        return ArrayExamples(jax.tree.map(lambda x: x[chosen], self.data), batch_size)


@final
class StreamedExamples(Examples):
    """Examples that come in batches from an iterable of the user's, in the order it chooses."""

    def __init__(self, stream: Iterable[Any], check: Check):
        """Go through the stream once, to check every batch and to count the examples.

        What can be iterated only once is kept in memory until the task has been learned.
        """
        self._stream = stream
        if isinstance(stream, Iterator):
            self._stream = list(stream)
        self.batch_size, self.count, self.total = 0, 0, 0.0
        shapes = None
        for index, item in enumerate(self._stream):
            batch = _as_batch(item)
            check(batch)
            if shapes is None:
                self.batch_size, shapes = _length(batch), _shapes(batch)
            if _shapes(batch) != shapes or _length(batch) > self.batch_size:
                raise ValueError(
                    f"Batch {index} of the stream has examples of the shapes {_shapes(batch)} and "
                    f"{_length(batch)} of them, but batch 0 had {self.batch_size} of {shapes}. "
                    "Every batch must be like the first, or shorter."
                )
            self.count += _length(batch)
            self.total += total_weight(batch)
        if self.count == 0:
            raise ValueError(
                "The stream of batches yields nothing. Give one that yields (x, y) or "
                "(x, y, weights) each time it is iterated over."
            )

    def batches(self, key: Key[Array, ""] | None = None) -> Iterator[Batch]:
        """Every example once, in the order of the stream: shuffling is the stream's own affair."""
        served = 0
        for item in self._stream:
            yield padded(_as_batch(item), self.batch_size)
            served += 1
        if served == 0:
            raise ValueError(
                "The stream of batches can be gone through only once: the second time it yields "
                "nothing. Give a list of batches, or an object whose __iter__ starts anew."
            )


@final
class Leading:
    """The first batches of some examples, as often as asked."""

    def __init__(self, examples: Examples, count: int):
        """Serve as few batches as hold ``count`` examples."""
        self._examples = examples
        self._batches = math.ceil(count / examples.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        """Start anew."""
        for index, batch in enumerate(self._examples.batches()):
            if index == self._batches:
                return
            yield batch


def as_examples(x: Any, y: Any, weights: Any, batch_size: int, check: Check) -> Examples:
    """Take a task as the user gives it, and refuse before any work what could not be learned.

    Args:
        x: inputs, as an array or a pytree of arrays; or, if ``y`` is None, an iterable of batches.
        y: targets.
        weights: weights or masks, or None.
        batch_size: how many examples a batch has; a stream brings its own.
        check: what a batch has to pass.
    """
    if y is not None:
        data = Batch(_as_arrays(x), _as_arrays(y), None if weights is None else np.asarray(weights))
        check(data)
        return ArrayExamples(data, batch_size)
    if not isinstance(x, Iterable) or isinstance(x, dict | str) or hasattr(x, "dtype"):
        raise TypeError(
            f"A {type(x).__name__} was given without targets. Give inputs and targets, or an "
            "iterable of batches (x, y)."
        )
    if weights is not None:
        raise ValueError("A stream brings its weights along: yield (x, y, weights).")
    return StreamedExamples(x, check)


def padded(batch: Batch, size: int) -> Batch:
    """The batch with explicit weights, filled up to ``size`` with examples of weight zero."""
    length = _length(batch)
    weights = np.ones(length, np.float32) if batch.weights is None else np.asarray(batch.weights)
    if length == size:
        return batch._replace(weights=weights)
    x, y = jax.tree.map(lambda leaf: leaf[np.arange(size) % length], (batch.x, batch.y))
    absent = np.zeros((size - length, *weights.shape[1:]), weights.dtype)
    return Batch(x, y, np.concatenate([weights, absent]))


def prefetched(batches: Iterator[Batch], depth: int = 2) -> Iterator[Batch]:
    """The batches, put on the device by a thread that works ahead of the training."""
    waiting: queue.Queue = queue.Queue(depth)
    stopped = threading.Event()

    def offer(item: Any) -> None:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def work() -> None:
        try:
            for batch in batches:
                if stopped.is_set():
                    return
                offer(jax.device_put(batch))
            offer(None)
        except BaseException as error:
            offer(error)

    thread = threading.Thread(target=work, daemon=True, name="backcast-prefetch")
    thread.start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()


def total_weight(batch: Batch) -> float:
    """``N = sum_i max_t w_it``: how many examples the batch stands for."""
    if batch.weights is None:
        return float(_length(batch))
    weights = np.asarray(batch.weights, float)
    return float(weights.max(axis=tuple(range(1, weights.ndim))).sum())


def _as_batch(item: Any) -> Batch:
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        raise ValueError(
            f"The stream yields {type(item).__name__}; it must yield (x, y) or (x, y, weights)."
        )
    x, y, *rest = item
    weights = np.asarray(rest[0]) if rest and rest[0] is not None else None
    return Batch(_as_arrays(x), _as_arrays(y), weights)


def _as_arrays(values: Any) -> PyTree:
    """Arrays of NumPy or JAX; lists are read as arrays, other containers as trees."""
    return jax.tree.map(
        lambda leaf: leaf if isinstance(leaf, jax.Array) else np.asarray(leaf),
        values,
        is_leaf=lambda leaf: isinstance(leaf, list),
    )


def _length(batch: Batch) -> int:
    return jax.tree.leaves(batch.x)[0].shape[0]


def _shapes(batch: Batch) -> list[tuple[int, ...]]:
    return [leaf.shape[1:] for leaf in jax.tree.leaves((batch.x, batch.y, batch.weights))]
