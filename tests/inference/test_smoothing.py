"""The filter and smoother against dense ones in covariance form, and against themselves."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles
from backcast.inference import Belief, Step, between, smooth, smooth_backwards
from backcast.linalg import DiagLowRank
from inference.linear import Story, error
from linalg.precisions import SPACES, flatten, size

TOLERANCE = {np.float32: 1e-4, np.float64: 1e-9}
DTYPES = [np.float32, pytest.param(np.float64, marks=pytest.mark.float64)]
SPACE = SPACES["nested"]
D = size(SPACE)
EXAMPLES = 12  # more than parameters: messages have as many rows as are kept from the first on
either = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])


@functools.cache
def four_steps() -> list[Step]:
    """Steps for those tests that ask for no more than a few."""
    return Story.drawn(np.random.default_rng(0), SPACE, 4, examples=EXAMPLES).steps(np.float32, D)


@either
@pytest.mark.parametrize(("name", "length", "rank"), [("sequence", 3, None), ("nested", 20, D)])
def test_every_belief_is_that_of_the_dense_filter_and_smoother(name, length, rank, dtype):
    """Without limit on the rows, and with as many as there are parameters: both are exact."""
    examples = 3 if rank is None else EXAMPLES
    story = Story.drawn(np.random.default_rng(length), SPACES[name], length, examples=examples)
    steps = story.steps(dtype, rank)
    predicted, filtered = story.dense()
    for step, before, after in zip(steps, predicted, filtered, strict=True):
        assert error(step.predicted, before) <= TOLERANCE[dtype]
        assert error(step.filtered, after) <= TOLERANCE[dtype]
    smoothed = smooth(steps, rank)
    for belief, truth in zip(smoothed, oracles.rts_smoother(predicted, filtered), strict=True):
        assert error(belief, truth) <= TOLERANCE[dtype]


@pytest.mark.float64
def test_both_dense_smoothers_agree():
    story = Story.drawn(np.random.default_rng(0), SPACES["flat"], 5)
    predicted, filtered = story.dense()
    joseph = oracles.joseph_smoother(predicted, filtered, story.qs)
    for one, other in zip(oracles.rts_smoother(predicted, filtered), joseph, strict=True):
        np.testing.assert_allclose(one.mean, other.mean, atol=1e-12)
        np.testing.assert_allclose(one.covariance, other.covariance, atol=1e-12)


@either
@pytest.mark.parametrize("noise", [0.0, 1e12, 1e30])
def test_smoothing_has_both_limits(noise, dtype):
    """Without drift every task's belief is the last; with boundless drift, what its data say.

    Each task has more examples than there are weights: what its own data leave open would be the
    middle between its neighbours, however far weights drift.
    """
    story = Story.drawn(np.random.default_rng(1), SPACE, 4, examples=EXAMPLES)
    story = Story(story.space, story.prior, story.tasks, [np.full(D, noise)] * 4)
    together = oracles.batch_posterior(story.prior, story.tasks)
    for belief, (H, _, y) in zip(smooth(story.steps(dtype, D), D), story.tasks, strict=True):
        alone = oracles.Gaussian(np.linalg.solve(H.T @ H, H.T @ y), np.linalg.inv(H.T @ H))
        assert error(belief, alone if noise else together) <= TOLERANCE[dtype]


@either
def test_filtering_weights_that_stand_still_gives_the_posterior_of_all_data(dtype):
    story = Story.drawn(np.random.default_rng(2), SPACE, 20, 0.0, EXAMPLES)
    truth = oracles.batch_posterior(story.prior, story.tasks)
    assert error(story.steps(dtype, D)[-1].filtered, truth) <= TOLERANCE[dtype]


@either
@pytest.mark.parametrize(("index", "fraction"), [(0, 0.3), (2, 0.9)])
def test_between_is_what_a_task_without_data_would_get(index, fraction, dtype):
    story = Story.drawn(np.random.default_rng(3), SPACE, 4, examples=EXAMPLES)
    tasks, qs, q = list(story.tasks), list(story.qs), story.qs[index + 1]
    tasks.insert(index + 1, (np.zeros((0, D)), np.eye(0), np.zeros(0)))
    qs[index + 1 : index + 2] = [fraction * q, (1 - fraction) * q]
    truth = oracles.rts_smoother(*oracles.kalman_filter(story.prior, tasks, qs))[index + 1]
    got = between(story.steps(dtype, D), index, fraction, D)
    assert error(got, truth) <= TOLERANCE[dtype]


@either
@pytest.mark.parametrize(("fraction", "neighbour"), [(0.0, 1), (1.0, 2)])
def test_between_meets_its_neighbours(fraction, neighbour, dtype):
    story = Story.drawn(np.random.default_rng(4), SPACE, 4, examples=EXAMPLES)
    truth = oracles.rts_smoother(*story.dense())[neighbour]
    assert error(between(story.steps(dtype, D), 1, fraction, D), truth) <= TOLERANCE[dtype]


@pytest.mark.float64
def test_a_limited_message_errs_less_the_more_rows_it_has_and_keeps_the_means():
    story = Story.drawn(np.random.default_rng(5), {"w": (12,)}, 3)
    steps, truth = story.steps(np.float64, 12), oracles.rts_smoother(*story.dense())
    errors = []
    for rank in (0, 3, 6):
        limited = smooth(steps, rank=rank)
        for belief, exact in zip(limited, truth, strict=True):
            np.testing.assert_allclose(flatten(belief.mean), exact.mean, atol=1e-9)
        off = np.asarray(limited[0].precision.as_dense()) - np.linalg.inv(truth[0].covariance)
        errors.append(np.linalg.norm(off, 2))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] <= 1e-9 < errors[-2]


def test_smoothing_backwards_looks_at_two_steps_at_a_time():
    steps = four_steps()
    asked = []

    def reading():
        for index in reversed(range(4)):
            asked.append(index)
            yield steps[index]

    backwards = smooth_backwards(reading(), D)
    next(backwards)
    assert asked == [3]
    next(backwards)
    assert asked == [3, 2]
    first = list(backwards)[-1].belief
    np.testing.assert_array_equal(flatten(first.mean), flatten(smooth(steps, D)[0].mean))


def test_other_numbers_compile_nothing_again(compilations):
    smooth(four_steps(), D)
    before = compilations()
    for seed in (8, 9):
        story = Story.drawn(np.random.default_rng(seed), SPACE, 4, examples=EXAMPLES)
        smooth(story.steps(np.float32, D), D)
    assert compilations() == before


@pytest.mark.parametrize("index", [-1, 3, 7])
def test_between_wants_two_neighbours(index):
    steps = four_steps()
    with pytest.raises(ValueError, match="index goes from 0 to 2"):
        between(steps, index, 0.5)
    with pytest.raises(ValueError, match="two tasks at least, but 1 were filtered"):
        between(steps[:1], 0, 0.5)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, np.nan])
def test_between_wants_a_fraction(fraction):
    steps = four_steps()
    with pytest.raises(ValueError, match=r"from 0 .* to 1, but is"):
        between(steps, 0, fraction)


def test_steps_of_different_networks_are_refused():
    rng = np.random.default_rng(11)
    flat = Story.drawn(rng, SPACES["flat"], 1).steps(np.float32)
    nested = four_steps()
    with pytest.raises(ValueError, match=r"A step of the filter .*lacks"):
        smooth([*flat, *nested])


def test_a_broken_step_is_an_error_and_not_a_broken_model():
    steps = four_steps()
    mean = jax.tree.map(lambda x: x.at[...].set(jnp.nan), steps[0].filtered.mean)
    precision: DiagLowRank = steps[0].filtered.precision
    broken = Step(steps[0].predicted, Belief(mean, precision), steps[0].curvature, steps[0].q)
    with pytest.raises(ValueError, match=r"smoothed belief must be finite, but nan .* 'mean"):
        smooth([broken, steps[1]], D)


def test_nothing_smooths_to_nothing():
    assert smooth([]) == []
