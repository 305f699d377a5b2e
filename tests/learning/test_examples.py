"""Examples are checked at the door and then served, every one of them once per epoch."""

import threading

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backcast.learning.examples import (
    ArrayExamples,
    Leading,
    StreamedExamples,
    as_examples,
    padded,
    prefetched,
)
from backcast.model import Batch


def accept(batch):
    pass


def arrays(n):
    return Batch(np.arange(2.0 * n).reshape(n, 2), np.arange(n))


def seen(batches):
    """The targets of all examples present, and the weights of all there are."""
    batches = list(batches)
    y = np.concatenate([np.asarray(b.y) for b in batches])
    weights = np.concatenate([np.asarray(b.weights) for b in batches])
    return y[weights > 0], weights


@given(n=st.integers(1, 30), size=st.integers(1, 12), seed=st.none() | st.integers(0, 3))
def test_an_epoch_has_every_example_once_in_batches_of_one_shape(n, size, seed):
    examples = ArrayExamples(arrays(n), size)
    key = None if seed is None else jax.random.key(seed)
    batches = list(examples.batches(key))
    assert len(batches) == examples.steps
    assert {b.x.shape for b in batches} == {(min(size, n), 2)}
    y, weights = seen(batches)
    assert sorted(y) == list(range(n))
    assert weights.sum() == n == examples.total
    for batch in batches:
        np.testing.assert_array_equal(batch.x[:, 0], 2 * batch.y)
    if seed is None:
        assert list(y) == list(range(n))


@given(n=st.integers(1, 30), size=st.integers(1, 12))
def test_a_stream_serves_what_arrays_do(n, size):
    whole = arrays(n)
    parts = [(whole.x[i : i + size], whole.y[i : i + size]) for i in range(0, n, size)]
    streamed = StreamedExamples(parts, accept)
    assert (streamed.count, streamed.total, streamed.batch_size) == (n, n, min(size, n))
    for ours, theirs in zip(streamed.batches(), ArrayExamples(whole, size).batches(), strict=True):
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_weights_are_counted_per_example_by_their_largest():
    weights = np.asarray([[1.0, 0.0], [0.0, 0.0], [2.0, 1.0]])
    assert ArrayExamples(arrays(3)._replace(weights=weights), 2).total == 3.0


def test_padding_repeats_examples_and_gives_them_no_weight():
    batch = padded(arrays(2), 5)
    np.testing.assert_array_equal(batch.y, [0, 1, 0, 1, 0])
    np.testing.assert_array_equal(batch.weights, [1, 1, 0, 0, 0])


def test_a_sample_is_of_distinct_examples():
    sample = ArrayExamples(arrays(50), 8).sample(20, 4, jax.random.key(1))
    y, _ = seen(sample.batches())
    assert len(set(y)) == 20
    assert list(y) != sorted(y)
    assert ArrayExamples(arrays(5), 8).sample(20, 4, jax.random.key(1)).count == 5


def test_the_leading_batches_can_be_gone_through_again():
    leading = Leading(ArrayExamples(arrays(20), 4), 6)
    assert [len(list(leading)) for _ in range(2)] == [2, 2]


def test_what_can_be_iterated_once_is_kept_for_the_task():
    whole = arrays(6)
    examples = StreamedExamples(
        ((whole.x[i : i + 2], whole.y[i : i + 2]) for i in (0, 2, 4)), accept
    )
    assert [list(seen(examples.batches())[0]) for _ in range(2)] == [list(range(6))] * 2


def test_a_pytree_of_inputs_is_served_whole():
    x = {"image": np.zeros((5, 3)), "age": np.arange(5)}
    examples = as_examples(x, np.arange(5), None, 2, accept)
    assert [b.x["age"].shape for b in examples.batches()] == [(2,)] * 3


def test_lists_are_read_as_arrays():
    examples = as_examples([[1.0, 2.0], [3.0, 4.0]], [0, 1], None, 2, accept)
    (batch,) = examples.batches()
    assert batch.x.shape == (2, 2)


def test_a_stream_that_runs_dry_is_refused():
    class Once:
        def __init__(self):
            self.rounds = 0

        def __iter__(self):
            self.rounds += 1
            whole = arrays(3)
            return iter([(whole.x, whole.y)] * (self.rounds == 1))

    with pytest.raises(ValueError, match="the second time it yields nothing"):
        list(StreamedExamples(Once(), accept).batches())


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        ([], "yields nothing"),
        ([1, 2], "must yield"),
        ([(np.zeros((2, 3)), np.zeros(2)), (np.zeros((2, 4)), np.zeros(2))], "Batch 1"),
        ([(np.zeros((2, 3)), np.zeros(2)), (np.zeros((3, 3)), np.zeros(3))], "Batch 1"),
    ],
)
def test_a_bad_stream_is_refused_at_the_door(stream, message):
    with pytest.raises(ValueError, match=message):
        as_examples(stream, None, None, 4, accept)


@pytest.mark.parametrize("x", [np.zeros((3, 2)), {"a": np.zeros(3)}, 4, "text"])
def test_inputs_without_targets_are_refused(x):
    with pytest.raises(TypeError, match="without targets"):
        as_examples(x, None, None, 4, accept)


def test_every_batch_of_a_stream_is_checked_before_it_is_served():
    def refuse(batch):
        if np.isnan(batch.x).any():
            raise ValueError("x is NaN")

    good, bad = (np.zeros((2, 1)), np.zeros(2)), (np.full((2, 1), np.nan), np.zeros(2))
    with pytest.raises(ValueError, match="x is NaN"):
        StreamedExamples([good, good, bad], refuse)


def test_prefetching_passes_batches_and_errors_on():
    def failing():
        yield arrays(2)
        raise RuntimeError("disk on fire")

    batches = prefetched(failing())
    np.testing.assert_array_equal(next(batches).y, [0, 1])
    with pytest.raises(RuntimeError, match="disk on fire"):
        next(batches)


def test_prefetching_stops_working_when_no_one_wants_more():
    batches = prefetched(iter([arrays(2)] * 1000))
    next(batches)
    batches.close()
    assert "backcast-prefetch" not in {thread.name for thread in threading.enumerate()}
