"""Noise: what every way of stating it means, and what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

from backcast.inference import Noise, Relative, predict
from backcast.inference.belief import Belief

PARAMS = {
    "conv1": {"kernel": jnp.array([[1.0, 2.0], [3.0, 4.0]]), "bias": jnp.array([2.0, 0.0])},
    "head": {"kernel": jnp.array([[0.5]]), "bias": jnp.array([3.0])},
}


def entries(noise: Noise, params=PARAMS, **time) -> dict[str, np.ndarray]:
    """The variance of every entry, by name."""
    variances = noise.variance(params, **time)
    return {
        f"{layer}/{name}": np.broadcast_to(variances[layer][name], leaf.shape)
        for layer, leaves in params.items()
        for name, leaf in leaves.items()
    }


def test_one_number_is_the_variance_of_every_entry():
    for values in entries(Noise(1e-3)).values():
        np.testing.assert_allclose(values, 1e-3)


def test_no_noise_is_none():
    for values in entries(Noise()).values():
        assert not values.any()


def test_patterns_choose_leaves_the_last_one_wins_and_others_stand_still():
    found = entries(Noise({"conv*": 1.0, "*/bias": 2.0}))
    assert {name: values.flat[0] for name, values in found.items()} == {
        "conv1/kernel": 1.0,
        "conv1/bias": 2.0,
        "head/kernel": 0.0,
        "head/bias": 2.0,
    }


def test_an_array_gives_each_entry_its_own():
    own = np.array([[1.0, 2.0], [3.0, 0.0]])
    np.testing.assert_allclose(entries(Noise({"conv1/kernel": own}))["conv1/kernel"], own)


def test_relative_noise_is_in_units_of_the_layers_mean_square():
    found = entries(Noise({"conv1/*": Relative(0.1), "head/kernel": Relative(2.0)}))
    np.testing.assert_allclose(found["conv1/kernel"], 0.1 * (1 + 4 + 9 + 16 + 4) / 6, rtol=1e-6)
    np.testing.assert_allclose(found["conv1/bias"], 0.1 * 34 / 6, rtol=1e-6)
    np.testing.assert_allclose(found["head/kernel"], 2 * (0.25 + 9) / 2, rtol=1e-6)
    assert not found["head/bias"].any()


def test_a_tree_gives_every_leaf_its_own_and_names_are_no_patterns():
    params = {"w[0-9]": jnp.ones(2), "w1": jnp.ones(2)}
    tree = {"w[0-9]": jnp.array([1.0, 2.0]), "w1": 3.0}
    found = Noise.from_tree(tree).variance(params)
    np.testing.assert_allclose(found["w[0-9]"], [1, 2])
    np.testing.assert_allclose(found["w1"], 3)


def test_noise_grows_with_the_time_that_passes():
    for name, values in entries(Noise({"*": Relative(0.1)}), dt=2.5).items():
        np.testing.assert_allclose(values, 2.5 * entries(Noise(Relative(0.1)))[name], rtol=1e-6)


@pytest.mark.parametrize("half", [jnp.bfloat16, jnp.float16])
def test_small_noise_on_parameters_of_16_bits_is_not_lost(half):
    params = {"w": jnp.full((3000,), 0.01, half)}
    assert float(Noise(1e-9).variance(params)["w"]) == pytest.approx(1e-9, rel=1e-6)
    square = float(params["w"][0]) ** 2
    found = float(Noise(Relative(1e-5)).variance(params)["w"])
    assert found == pytest.approx(1e-5 * square, rel=1e-5)


def test_small_noise_reaches_a_belief_of_16_bits():
    params = {"w": jnp.ones((2,), jnp.float16)}
    drifted = predict(Belief.prior(params, 1e9), Noise(1e-9).variance(params))
    np.testing.assert_allclose(drifted.precision.diag["w"], 5e8, rtol=1e-6)
    assert drifted.mean["w"].dtype == jnp.float16


@pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf])
@pytest.mark.parametrize(
    "form",
    [lambda x: x, Relative, lambda x: np.array([1.0, x])],
    ids=["number", "relative", "array"],
)
def test_noise_is_finite_and_not_negative(form, value):
    with pytest.raises(ValueError, match=r"The noise must be finite and >= 0, .* leaf 'conv\*'"):
        Noise({"conv*": form(value)})


@pytest.mark.parametrize("value", [1j, np.ones(2, complex), np.array([True])])
def test_noise_is_real(value):
    with pytest.raises(ValueError, match=r"The noise of 'w' must be a number, an array of real"):
        Noise.__init__.__wrapped__(Noise.__new__(Noise), {"w": value})


def test_a_pattern_that_matches_nothing_lists_what_there_is():
    with pytest.raises(
        ValueError, match=r"'cnov\*' matches no parameter.*conv1/bias, conv1/kernel"
    ):
        Noise({"cnov*": 1.0}).variance(PARAMS)


def test_an_array_of_another_shape():
    with pytest.raises(ValueError, match=r"'conv1/bias' has shape \(3,\).* shape \(2,\)"):
        Noise({"conv1/bias": jnp.ones(3)}).variance(PARAMS)


def test_a_tree_of_other_parameters():
    with pytest.raises(ValueError, match=r"lacks the parameters \['b'\]; give every leaf"):
        Noise.from_tree({"a": 1.0}).variance({"a": jnp.ones(2), "b": jnp.ones(2)})
    with pytest.raises(ValueError, match=r"'b' matches no parameter. The names are: a"):
        Noise.from_tree({"a": 1.0, "b": 1.0}).variance({"a": jnp.ones(2)})
    with pytest.raises(ValueError, match=r"leaf 'a' has shape \(3,\).* leaf's shape \(2,\)"):
        Noise.from_tree({"a": jnp.ones(3)}).variance({"a": jnp.ones(2)})


@pytest.mark.parametrize("dt", [-1.0, np.nan, np.inf])
def test_time_does_not_run_backwards(dt):
    with pytest.raises(ValueError, match=r"time between two tasks .* Observe tasks in order"):
        Noise(1.0).variance(PARAMS, dt=dt)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "The parameters are an empty tree"),
        ({"w": jnp.ones(2, int)}, "leaf 'w' is int32, but only arrays of real floats"),
        ({"w": jnp.ones(2, complex)}, "leaf 'w' is complex64, but only arrays of real floats"),
    ],
)
def test_parameters_that_cannot_drift(params, message):
    with pytest.raises(ValueError, match=message):
        Noise(1.0).variance(params)
