"""Every structure of precision in the one loop, and what is special to each."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import oracles
from backcast.learning import (
    CurvatureSettings,
    Isotropic,
    Learner,
    LowRank,
    PathIntegral,
    Products,
    Rotations,
)
from backcast.model import Categorical, Gaussian
from learning.small import linear

STRUCTURES = {
    "low rank": {"structure": LowRank(3)},
    "elastic": {"structure": LowRank(0), "centre": "penalties"},
    "products": {"structure": Products()},
    "sum of products": {"structure": Products(3)},
    "rotations": {"structure": Rotations(2), "noise": 1e-3},
    "isotropic": {"structure": Isotropic()},
    "path integral": {"structure": PathIntegral()},
}
every = pytest.mark.parametrize("chosen", STRUCTURES.values(), ids=STRUCTURES.keys())


def learner_of(network, **settings):
    common = {"epochs": 3, "batch_size": 32, "progress": False}
    return Learner(network, Categorical(), **(common | settings))


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


@every
def test_saving_and_loading_goes_on_to_the_bit(chosen, network, drifting, tmp_path):
    learner = learner_of(network, **chosen)
    for task in drifting[:2]:
        learner.observe(*task)
    learner.save(tmp_path)
    again = Learner.load(tmp_path, network, progress=False)
    assert again.settings == learner.settings
    same(again.belief, learner.belief)
    for one in (learner, again):
        one.observe(*drifting[2])
    same(again.belief, learner.belief)
    same(again.model.model.params, learner.model.model.params)
    for one, other in zip(learner.smooth(), again.smooth(), strict=True):
        same(one.model.params, other.model.params)


@every
def test_the_third_task_compiles_nothing(chosen, network, drifting, compilations):
    learner = learner_of(network, **chosen)
    for task in drifting[:2]:
        learner.observe(*task)
    before = compilations()
    learner.observe(*drifting[2])
    assert compilations() == before


@pytest.mark.float64
def test_layers_with_kronecker_curvature_get_the_exact_posterior():
    """A linear network with Gaussian noise: one product for each task loses nothing."""
    rng = np.random.default_rng(0)
    params = {"w": jnp.zeros((2, 2)), "b": jnp.zeros(2)}
    learner = Learner(
        (linear, params),
        Gaussian(0.7),
        structure=Products(3),
        prior=0.4,
        optimizer=optax.lbfgs(),
        epochs=60,
        batch_size=100,
        curvature=CurvatureSettings(examples=None),
        progress=False,
    )
    tasks = []
    for n in (5, 9, 7):
        x, y = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
        learner.observe(x, y)
        design = np.concatenate(
            [np.kron(np.ones((n, 1)), np.eye(2)), np.kron(x, np.eye(2))], axis=1
        )
        tasks.append((design, 0.7**2 * np.eye(2 * n), y.ravel()))
    truth = oracles.batch_posterior(oracles.Gaussian(np.zeros(6), np.eye(6) / 0.4), tasks)
    np.testing.assert_allclose(flat(learner.belief.mean), truth.mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        learner.belief.precision.as_dense(), np.linalg.inv(truth.covariance), rtol=1e-9, atol=1e-9
    )
    # What does not drift is the same at all times.
    smoothed = learner.smooth()[0].model.params
    np.testing.assert_allclose(flat(smoothed), flat(learner.belief.mean), rtol=1e-12)


def test_a_penalty_for_every_task_is_one_quadratic(network, drifting):
    learner = learner_of(network, structure=LowRank(0), centre="penalties", strength=3.0)
    for task in drifting[:3]:
        learner.observe(*task)
    theta = jax.tree.map(lambda p: p + 0.3, learner.model.model.params)
    total = jax.tree.map(lambda p: 1.0 * p, theta)  # the prior, N(0, 1)
    for record in learner.trajectory:
        offset = jax.tree.map(jnp.subtract, theta, record.params)
        total = jax.tree.map(jnp.add, total, record.curvature.mv(offset))
    np.testing.assert_allclose(
        flat(learner.belief.gradient(theta)),
        flat(total),
        rtol=1e-3,
        atol=1e-3 * np.ptp(flat(total)),
    )
    # The network that predicts is the one that was trained, not the centre of the penalties.
    assert not np.allclose(flat(learner.belief.mean), flat(learner.model.model.params))


def test_isotropic_penalties_add_up(network, drifting):
    learner = learner_of(network, structure=Isotropic(), strength=2.0, prior=0.5, scale="mean")
    for task in drifting[:2]:
        learner.observe(*task)
    np.testing.assert_allclose(flat(learner.belief.precision.diag), 0.5 + 2 * 2.0)


@pytest.mark.float64
def test_the_path_integral_is_that_of_a_loop():
    """One task of a linear model by full-batch gradient descent, followed by hand."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(8, 2)), rng.normal(size=(8, 2))
    params = {"w": jnp.asarray(rng.normal(size=(2, 2))), "b": jnp.zeros(2)}
    learner = Learner(
        (linear, params),
        Gaussian(1.0),
        structure=PathIntegral(damping=0.1),
        prior=2.0,
        scale="mean",
        strength=3.0,
        optimizer=optax.sgd(0.05),
        epochs=20,
        batch_size=8,
        progress=False,
    )
    learner.observe(x, y)
    theta, design = (
        flat(params),
        np.concatenate([np.kron(np.ones((8, 1)), np.eye(2)), np.kron(x, np.eye(2))], axis=1),
    )
    start, contribution = theta.copy(), np.zeros(6)
    for _ in range(20):
        task = design.T @ (design @ theta - y.ravel()) / 8
        step = -0.05 * (task + 2.0 * theta)
        contribution -= task * step
        theta = theta + step
    truth = 2.0 + 3.0 * 2 * np.maximum(contribution, 0) / ((theta - start) ** 2 + 0.1)
    np.testing.assert_allclose(flat(learner.belief.mean), theta, rtol=1e-9)
    np.testing.assert_allclose(flat(learner.belief.precision.diag), truth, rtol=1e-9)


def test_a_path_goes_over_one_task(network):
    with pytest.raises(ValueError, match="leave restart=True"):
        learner_of(network, structure=PathIntegral(), restart=False)


def test_several_products_have_no_minimum_of_penalties(network):
    with pytest.raises(ValueError, match=r"sum of 2 Kronecker products .* Products\(1\)"):
        learner_of(network, structure=Products(2), centre="penalties")


def test_kronecker_products_refuse_noise_at_once(network):
    with pytest.raises(ValueError, match="process noise of a Kronecker precision must be zero"):
        learner_of(network, structure=Products(), noise=0.1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Products(0), "one product at least"),
        (lambda: LowRank(-1), "rank"),
        (lambda: Rotations(-1), "rank"),
        (lambda: PathIntegral(damping=0.0), "damping"),
        (lambda: LowRank(3, "keep"), "remainder"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_structures_that_cannot_be_are_refused(make, message):
    with pytest.raises(Exception, match=message):
        make()


def test_products_and_rows_remember_what_fine_tuning_forgets(network):
    rng = np.random.default_rng(1)
    tasks = []
    for _ in range(2):
        x = rng.normal(size=(256, 4)).astype(np.float32)
        tasks.append((x, np.argmax(x @ rng.normal(size=(4, 3)), axis=1)))
    adam = optax.adam(1e-2)

    def kept(**chosen):
        learner = learner_of(network, epochs=20, optimizer=adam, **chosen)
        learner.observe(*tasks[0])
        before = learner.score(*tasks[0])
        learner.observe(*tasks[1])
        return learner.score(*tasks[0]) - before

    nothing = kept(structure=LowRank(0), strength=0.0)
    assert kept(structure=Products(), strength=10.0) > nothing
    assert kept(structure=LowRank(3), strength=10.0) > nothing
