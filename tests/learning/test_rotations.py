"""Filtering and smoothing in each layer's eigenbases: exact where it can be, refused where not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backcast as bc
import oracles
from backcast.inference import Belief, Step, predict, smooth, update
from backcast.learning import CurvatureSettings, Learner, Rotations, structures
from backcast.learning.files import LoadError
from backcast.linalg import Rotated
from backcast.model import Batch, Categorical, Gaussian, as_model, rotated_ggn
from learning.small import linear
from linalg.precisions import jitted

pytestmark = pytest.mark.usefixtures("quick_compiles")


def flat(tree):
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(tree)])


def dense(belief):
    return np.asarray(jitted(Rotated.as_dense)(belief.precision))


@pytest.mark.float64
def test_kronecker_curvature_is_filtered_and_smoothed_exactly():
    """A linear network with Gaussian noise has ``E[a a^T] x I``, other inputs in every task."""
    rng = np.random.default_rng(0)
    params = {"w": jnp.zeros((3, 2)), "b": jnp.zeros(2)}
    model, D, deviation, n = as_model((linear, params)), 8, 0.7, 4
    qs = [0.0, 0.3, 0.0, 0.8]
    prior = oracles.Gaussian(rng.normal(size=D), np.eye(D) / 0.4)
    unravel = jax.flatten_util.ravel_pytree(params)[1]
    belief = Rotations().prepared(
        Belief.prior(unravel(jnp.asarray(prior.mean)), 0.4), model, jnp.ones((2, 3))
    )
    tasks, steps = [], []
    for q in qs:
        x, y = rng.normal(size=(n, 3)), rng.normal(size=(n, 2))
        design = np.hstack([np.kron(np.ones((n, 1)), np.eye(2)), np.kron(x, np.eye(2))])
        tasks.append((design, deviation**2 * np.eye(2 * n), y.ravel()))
        predicted = predict(belief, {"w": q, "b": q})
        P = dense(predicted)
        weight = design / deviation**2
        mode = np.linalg.solve(
            P + design.T @ weight, P @ flat(predicted.mean) + weight.T @ y.ravel()
        )
        curvature = rotated_ggn(
            model, Gaussian(deviation), [Batch(x, y)], key=jax.random.key(0)
        ).precision
        updated = update(predicted, unravel(jnp.asarray(mode)), curvature, float(n))
        steps.append(Step(predicted, updated.belief, updated.curvature, {"w": q, "b": q}))
        belief = updated.belief
    predicted, filtered = oracles.kalman_filter(prior, tasks, [np.full(D, q) for q in qs])
    smoothed = oracles.rts_smoother(predicted, filtered)
    found = [s.predicted for s in steps], [s.filtered for s in steps], smooth(steps)
    for kind, truths in zip(found, (predicted, filtered, smoothed), strict=True):
        for got, truth in zip(kind, truths, strict=True):
            np.testing.assert_allclose(flat(got.mean), truth.mean, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(
                dense(got), np.linalg.inv(truth.covariance), rtol=1e-9, atol=1e-9
            )


def test_models_between_tasks_and_noise_that_is_learned(network, drifting):
    learner = Learner(
        network,
        Categorical(),
        structure=Rotations(),
        noise=1e-2,
        epochs=2,
        progress=False,
        curvature=CurvatureSettings(examples=64),
    )
    for task in drifting[:2]:
        learner.observe(*task)
    ends = [model.model.params for model in learner.smooth()]
    for fraction, end in zip((0.0, 1.0), ends, strict=True):
        meant = learner.between(0, fraction).model.params
        np.testing.assert_allclose(flat(meant), flat(end), rtol=1e-4, atol=1e-5)
    learned = learner.learn_noise(bc.LearnedNoise(1e-2))
    assert set(learned.levels) == {"first", "last"}
    learner.belief.precision.drift(learned.noise.variance(learner.belief.mean))


def test_noise_that_differs_within_a_layer_is_refused_before_the_first_task(network, drifting):
    noise = bc.Noise({"*": 0.1, "first/b": 0.2})
    learner = Learner(network, Categorical(), structure=Rotations(), noise=noise, progress=False)
    belief = learner.belief
    with pytest.raises(ValueError, match=r"within a layer .* leaf 'first/w'.* one number in each"):
        learner.observe(*drifting[0])
    assert learner.belief is belief
    assert len(learner.trajectory) == 0


def test_a_layer_that_is_too_wide_is_named_and_its_leading_directions_are_offered():
    wide = (lambda params, x: x @ params["wide"], {"wide": jnp.zeros((4200, 2))})
    x = np.random.default_rng(0).normal(size=(3, 4200)).astype(np.float32)
    settings = {"epochs": 1, "progress": False}
    learner = Learner(wide, Categorical(), structure=Rotations(), **settings)
    with pytest.raises(ValueError, match=r"'wide' is a matrix of 4200 x 2.* such as rank=100"):
        learner.observe(x, np.array([0, 1, 0]))
    learner = Learner(wide, Categorical(), structure=Rotations(5), **settings)
    for _ in range(2):
        learner.observe(x, np.array([0, 1, 0]))
    # Three examples span three directions, which are found without the matrix of 4200 x 4200.
    (directions,) = learner.belief.precision.left
    span = np.linalg.svd(x, full_matrices=False)[2]
    np.testing.assert_allclose(np.linalg.norm(span @ directions[:3].T, axis=0), 1, rtol=1e-3)


def test_a_prior_that_has_rows_is_refused(network, drifting):
    _, params = network
    prior = Belief.prior(params, 1.0, rank=2)
    learner = Learner(network, Categorical(), structure=Rotations(), prior=prior, progress=False)
    with pytest.raises(ValueError, match="DiagLowRank of rank 2, which a rotated precision cannot"):
        learner.observe(*drifting[0])


def test_a_diagonal_prior_is_gone_on_from(network):
    apply, params = network
    diag = jax.tree.map(lambda p: jnp.abs(p) + 1, params)
    prior = Belief(params, bc.DiagLowRank(diag, jax.tree.map(lambda d: d[None][:0], diag)))
    prepared = Rotations().prepared(prior, as_model((apply, params)), jnp.ones((2, 4)))
    assert isinstance(prepared.precision, Rotated)
    np.testing.assert_array_equal(flat(prepared.precision.diagonal()), flat(diag))


def test_a_structure_that_is_not_known_is_named():
    with pytest.raises(LoadError, match="structure 'Spirals', which this version does not know"):
        structures.from_plain({"kind": "Spirals"})
