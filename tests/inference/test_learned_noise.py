"""Learned noise against dense expectation maximisation, and where there is little to learn from."""

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles
from backcast.inference import (
    Belief,
    LearnedNoise,
    Noise,
    Step,
    learn_noise,
    refilter,
    site,
)
from backcast.linalg import DiagLowRank
from linalg.precisions import flatten, size, unflatten

SPACE = {"first": {"b": (4,), "w": (4, 4)}, "last": {"w": (20,)}, "still": (2,)}
D = size(SPACE)
PRIOR = oracles.Gaussian(np.zeros(D), np.eye(D))
GROUPS = [np.arange(0, 20), np.arange(20, 40), np.arange(40, 42)]
pytestmark = [pytest.mark.float64, pytest.mark.usefixtures("quick_compiles")]


@dataclass(frozen=True)
class World:
    """Weights that drift, tasks ``y = H theta + N(0, 1)``, and the noise they are filtered with."""

    times: list[float]
    tasks: list

    @classmethod
    def drawn(cls, levels, times, examples=D, seed=0, seen: float | np.ndarray = 1.0):
        """Rows of zeros fill up tasks of fewer examples, so that all have one shape."""
        rng = np.random.default_rng(seed)
        deviation = np.sqrt(variances(levels))
        theta, before, tasks = rng.standard_normal(D), times[0], []
        for time in times:
            theta = theta + np.sqrt(time - before) * deviation * rng.standard_normal(D)
            H = rng.standard_normal((D, D)) * seen * (np.arange(D) < examples)[:, None]
            tasks.append((H, np.eye(D), H @ theta + rng.standard_normal(D)))
            before = time
        return cls([float(time) for time in times], tasks)

    @property
    def gaps(self):
        return np.diff(self.times)

    def filtered(self, levels):
        """The dense filter's predicted and filtered beliefs, and the noise it used."""
        qs = [gap * variances(levels) for gap in (0.0, *self.gaps)]
        return *oracles.kalman_filter(PRIOR, self.tasks, qs), qs

    def steps(self, levels):
        """What the filter leaves behind."""
        predicted, filtered, qs = self.filtered(levels)
        nothing = tree(np.zeros(D))
        return [
            Step(
                belief(before),
                belief(after),
                DiagLowRank(nothing, tree(H)),
                tree(q),
            )
            for before, after, (H, _, _), q in zip(predicted, filtered, self.tasks, qs, strict=True)
        ]

    def evidence(self, levels):
        return oracles.log_evidence(self.filtered(levels)[0], self.tasks)

    def drifts(self, levels):
        predicted, filtered, _ = self.filtered(levels)
        return oracles.drifts(predicted, filtered, oracles.rts_smoother(predicted, filtered))

    def expected(self, levels):
        """The maximisation step of expectation maximisation."""
        pairs = [(d, gap) for d, gap in zip(self.drifts(levels), self.gaps, strict=True) if gap]
        squares = [(d.mean**2 + np.diag(d.covariance)) / gap for d, gap in pairs]
        return [np.mean(squares, axis=0)[group].mean() for group in GROUPS]

    def improved(self, levels):
        """The longer step, from the same moments."""
        q, moved, seen, inert = variances(levels), np.zeros(D), np.zeros(D), 0.0
        for drift, gap in zip(self.drifts(levels), self.gaps, strict=True):
            if gap:
                moved += drift.mean**2 / (q * gap)
                seen += 1 - np.diag(drift.covariance) / (q * gap)
                inert += 1e-3
        sums = [((moved + inert)[g].sum(), (seen + inert)[g].sum()) for g in GROUPS]
        return [level * np.sqrt(m / s) for level, (m, s) in zip(levels, sums, strict=True)]


def variances(levels):
    return np.concatenate([np.full(len(g), level) for g, level in zip(GROUPS, levels, strict=True)])


def tree(values):
    return unflatten(SPACE, np.asarray(values))


def belief(gaussian):
    rows = np.linalg.cholesky(np.linalg.inv(gaussian.covariance)).T
    return Belief(tree(gaussian.mean), DiagLowRank(tree(np.zeros(D)), tree(rows)))


def prior():
    return Belief.prior(tree(np.zeros(D)), 1.0, D)


def learned(world, start, **more):
    steps = world.steps([0.3, 0.3, 0.3])
    return learn_noise(prior(), steps, world.times, LearnedNoise(start, **more), D)


WORLD = World.drawn([0.05, 0.5, 0.1], [0.0, 1.0, 1.0, 3.5, 4.0], examples=25)


def test_every_iteration_is_that_of_the_dense_smoother():
    """With irregular times, one of them twice, and fewer examples than weights."""
    levels = [0.2, 0.2, 0.2]
    evidence = [WORLD.evidence(levels)]
    for _ in range(3):
        levels = WORLD.improved(levels)
        evidence.append(WORLD.evidence(levels))
    found = learned(WORLD, 0.2, iterations=3, tolerance=0.0)
    np.testing.assert_allclose(list(found.levels.values()), levels, rtol=1e-8)
    np.testing.assert_allclose(np.diff(found.evidence), np.diff(evidence), rtol=1e-7)
    q = found.noise.variance(tree(np.zeros(D)), 2.0)
    np.testing.assert_allclose(q["first"]["w"], 2 * levels[0], rtol=1e-8)


def test_known_noise_is_recovered_and_rests_where_expectation_maximisation_does():
    truth = [0.1, 0.5, 0.2]
    world = World.drawn(truth, range(13), seen=4.0)
    found = learned(world, 0.3)
    assert found.levels.keys() == {"first", "last", "still"}
    levels = list(found.levels.values())
    np.testing.assert_allclose(levels[:2], truth[:2], rtol=0.2)
    assert np.all(np.diff(found.evidence) > 0)
    np.testing.assert_allclose(world.expected(levels), levels, rtol=0.03)


def test_filtering_again_is_filtering_with_the_other_noise():
    levels = [0.01, 3.0, 0.0]
    sites = [site(step) for step in WORLD.steps([0.3, 0.3, 0.3])]
    _, truth, qs = WORLD.filtered(levels)
    for task, after in zip(refilter(prior(), sites, list(map(tree, qs)), D), truth, strict=True):
        found = task.step.filtered
        np.testing.assert_allclose(flatten(found.mean), after.mean, atol=1e-9)
        dense = np.linalg.inv(found.precision.as_dense())
        np.testing.assert_allclose(dense, after.covariance, atol=1e-9)


def test_weights_that_stand_still_are_found_to():
    world = World.drawn([0.0, 0.0, 0.0], range(5), examples=25)
    found = learned(world, 0.1)
    assert max(found.levels.values()) < 0.01
    assert np.all(np.diff(found.evidence) > 0)


def test_of_weights_that_no_task_tells_of_nothing_is_learned():
    seen = np.isin(np.arange(D), GROUPS[1], invert=True)
    world = World.drawn([0.05, 0.5, 0.1], range(5), examples=25, seen=seen)
    found = learned(world, 0.3)
    np.testing.assert_allclose(found.levels["last"], 0.3, rtol=0.01)
    assert found.levels["first"] != pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize("times", [[2.0], [1.0, 1.0]])
def test_without_time_between_tasks_there_is_nothing_to_learn(times):
    world = World.drawn([0.05, 0.5, 0.1], times, examples=25)
    found = learned(world, 0.3)
    assert found.levels == dict.fromkeys(("first", "last", "still"), 0.3)
    assert len(found.evidence) == 1


def test_what_no_pattern_matches_stands_still_and_the_last_pattern_counts():
    params = {"conv": {"w": jnp.ones(2), "b": jnp.ones(1)}, "head": jnp.ones(3)}
    groups, levels = LearnedNoise({"conv/*": 0.1, "*/b": 0.2}).groups(params)
    assert groups.names == ("conv/*", "*/b")
    assert groups.of == (1, 0, None)
    np.testing.assert_allclose(levels, [0.1, 0.2])
    assert LearnedNoise({"conv*": 0.1, "*": 0.2}).groups(params)[0].names == ("*",)
    assert LearnedNoise(0.3).groups(params)[0].of == (0, 0, 1)
    with pytest.raises(ValueError, match="'cnov' matches no parameter"):
        LearnedNoise({"cnov": 0.1}).groups(params)


@pytest.mark.parametrize("start", [0.0, -1.0, np.nan, np.inf, {"*": 0.0}])
def test_learning_starts_from_noise(start):
    with pytest.raises(ValueError, match=r"must start from variances > 0.*such as 0\.1"):
        LearnedNoise(start)


def test_what_cannot_be_approximated_is_not_learned_from():
    """A task that would move the weights beyond all bounds ends the search, not the run."""
    steps = WORLD.steps([0.3, 0.3, 0.3])
    pulled = jax.tree.map(lambda x: x + 1e30, steps[1].filtered.mean)
    steps[1] = Step(
        steps[1].predicted,
        Belief(pulled, steps[1].filtered.precision),
        steps[1].curvature,
        steps[1].q,
    )
    found = learn_noise(prior(), steps, WORLD.times, LearnedNoise(0.1), D)
    assert found.levels == {name: pytest.approx(0.1) for name in ("first", "last", "still")}
    assert isinstance(found.noise, Noise)
    assert not any(np.isnan(b - a) for a, b in itertools.pairwise(found.evidence))
