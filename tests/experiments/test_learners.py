"""What a spec makes of optimisers, likelihoods and memory, against formulas written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backcast.experiments.errors import SpecError
from backcast.experiments.learners import learner_for, likelihood_for, optimizer_for
from backcast.experiments.network_spec import TrainingSpec
from backcast.experiments.networks import network
from backcast.learning import Isotropic, LowRank, PathIntegral, Products, Rotations
from backcast.model import Categorical
from experiments.small import small

THETA, G = np.array([1.0, -2.0]), np.array([3.0, 4.0])


def steps_of(count, **training):
    """Where ``count`` steps with the gradient ``G`` lead from ``THETA``."""
    spec = TrainingSpec.parse({"learning_rate": 0.1, **training})
    optimizer, theta = optimizer_for(spec), jnp.asarray(THETA)
    state = optimizer.init(theta)
    for _ in range(count):
        updates, state = optimizer.update(jnp.asarray(G), state, theta)
        theta = theta + updates
    return np.asarray(theta)


def test_descent_with_momentum():
    sgd = {"kind": "sgd"}
    np.testing.assert_allclose(steps_of(2, optimizer=sgd), THETA - 0.2 * G, rtol=1e-6)
    found = steps_of(2, optimizer={**sgd, "momentum": 0.5})
    np.testing.assert_allclose(found, THETA - 0.1 * (G + (0.5 * G + G)), rtol=1e-6)


def test_long_gradients_are_cut_and_weights_decay():
    sgd = {"kind": "sgd"}
    found = steps_of(1, optimizer=sgd, clip=1.0)  # |G| = 5
    np.testing.assert_allclose(found, THETA - 0.1 * G / 5, rtol=1e-6)
    found = steps_of(1, optimizer=sgd, weight_decay=0.5)
    np.testing.assert_allclose(found, THETA - 0.1 * (G + 0.5 * THETA), rtol=1e-6)
    found = steps_of(1, optimizer=sgd, clip=1.0, weight_decay=0.5)
    np.testing.assert_allclose(found, THETA - 0.1 * (G / 5 + 0.5 * THETA), rtol=1e-6)


def test_adam_with_its_averages():
    found = steps_of(1, optimizer={"kind": "adam", "b1": 0.5, "b2": 0.8})
    np.testing.assert_allclose(found, THETA - 0.1 * np.sign(G), rtol=1e-5)
    gradient = G - 1.0
    optimizer = optimizer_for(TrainingSpec.parse({"optimizer": {"kind": "adam", "b1": 0.5}}))
    state = optimizer.init(jnp.zeros(2))
    _, state = optimizer.update(jnp.asarray(G), state, jnp.zeros(2))
    updates, _ = optimizer.update(jnp.asarray(gradient), state, jnp.zeros(2))
    m = (0.5 * 0.5 * G + 0.5 * gradient) / (1 - 0.5**2)
    v = (0.999 * 0.001 * G**2 + 0.001 * gradient**2) / (1 - 0.999**2)
    np.testing.assert_allclose(updates, -1e-3 * m / np.sqrt(v), rtol=1e-3)


def test_equal_specs_share_an_optimiser_and_what_is_compiled_for_it():
    assert optimizer_for(TrainingSpec()) is optimizer_for(TrainingSpec())


def test_balanced_classes_count_alike():
    training = TrainingSpec(class_weights="balanced")
    shares = np.array([0.5, 0.25, 0.25, 0.0])
    weights = np.asarray(likelihood_for(training, shares).class_weights)
    np.testing.assert_allclose(weights * shares, [1 / 3, 1 / 3, 1 / 3, 0], rtol=1e-6)
    assert likelihood_for(TrainingSpec(), shares).class_weights is None
    assert isinstance(likelihood_for(TrainingSpec(), shares), Categorical)


@pytest.fixture
def built(tmp_path):
    """The learner of the small spec with changes."""

    def make(**changes):
        spec = small(**changes)
        net = network(spec.network, (8, 8), 10, jax.random.key(0))
        return learner_for(spec, net, np.full(10, 0.1), tmp_path / "learner", False)

    return make


def test_everything_that_a_spec_says_reaches_the_learner(built):
    learner = built(
        method={
            "rank": 3,
            "strength": 7.0,
            "prior": 0.5,
            "scale": "mean",
            "remainder": "drop",
            "curvature": {
                "examples": "all",
                "batch_size": 9,
                "fisher": "sampled",
                "diagonal": "none",
                "rank": 5,
            },
        },
        training={"epochs": 4, "batch_size": 11, "patience": 2, "restart": False},
        seed=6,
    )
    found = learner.settings
    assert (found.rank, found.strength, found.prior, found.scale, found.remainder, found.seed) == (
        3,
        7.0,
        0.5,
        "mean",
        "drop",
        6,
    )
    assert (found.curvature.examples, found.curvature.batch_size, found.curvature.rank) == (
        None,
        9,
        5,
    )
    assert (found.curvature.fisher, found.curvature.diagonal) == ("sampled", "none")
    training = found.training
    assert (training.epochs, training.batch_size, training.patience, training.restart) == (
        4,
        11,
        2,
        False,
    )


def test_levels_of_drift_go_to_their_weights(built):
    noise = [{"weights": "*", "variance": 0.25}, {"weights": "dense0/*", "relative": 0.5}]
    learner = built(method__noise=noise)
    params = learner.model.model.params
    q = learner.noise.variance(params)
    np.testing.assert_allclose(q["dense1"]["kernel"], 0.25)
    layer = np.concatenate([np.ravel(leaf) for leaf in params["dense0"].values()]).astype(float)
    np.testing.assert_allclose(q["dense0"]["kernel"], 0.5 * np.mean(layer**2), rtol=1e-5)


def test_every_method_has_its_structure_of_precision(built):
    def settings(**method):
        return built(method={"strength": 3.0, "prior": 0.5, **method}).settings

    ewc = settings(kind="ewc", curvature={"examples": "all", "fisher": "empirical"})
    assert (ewc.structure, ewc.centre) == (LowRank(0), "penalties")
    assert (ewc.curvature.examples, ewc.curvature.fisher) == (None, "empirical")
    assert settings(kind="ewc", penalties="one").centre == "mode"
    assert settings(kind="kronecker", products=3).structure == Products(3)
    assert settings(kind="rotated", noise=1e-3).structure == Rotations()
    assert settings(kind="rotated", rank=100).structure == Rotations(100)
    assert settings(kind="l2").structure == Isotropic()
    found = settings(kind="si", damping=0.1, scale="mean")
    assert found.structure == PathIntegral(damping=0.1)
    assert (found.strength, found.prior, found.scale) == (3.0, 0.5, "mean")


def test_noise_for_weights_that_are_not_there_is_told(built):
    noise = [{"weights": "nothing*", "variance": 1.0}]
    with pytest.raises(SpecError, match="matches no parameter"):
        built(method={"kind": "low-rank", "noise": noise})
