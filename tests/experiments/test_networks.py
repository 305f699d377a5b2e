"""The networks of specs against Flax's layers with the same weights, and their beginnings."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen

from backcast.data import DataError
from backcast.experiments.network_spec import CnnSpec, MlpSpec
from backcast.experiments.networks import network
from backcast.learning import Learner
from backcast.linalg import tree
from backcast.model import Categorical, as_model
from backcast.model.layer_gradients import blocks_of

KEY = jax.random.key(3)


class FlaxCnn(linen.Module):
    """The paper's network for histology, in Flax."""

    spec: CnnSpec

    @linen.compact
    def __call__(self, x, train):
        for block, (channels, pool) in enumerate(
            zip(self.spec.channels, self.spec.pools, strict=True)
        ):
            x = linen.relu(linen.Conv(channels, (3, 3), name=f"conv{block}")(x))
            x = linen.BatchNorm(
                use_running_average=not train, momentum=self.spec.momentum, name=f"norm{block}"
            )(x)
            x = linen.max_pool(x, (pool, pool), (pool, pool))
        x = x.reshape(len(x), -1)
        for layer, width in enumerate((*self.spec.hidden, 2)):
            x = linen.Dense(width, name=f"dense{layer}")(x)
            x = linen.relu(x) if layer < len(self.spec.hidden) else x
        return x


def jittered(tree):
    """Biases that are not zero and scales that are not one."""
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda x: jnp.asarray(x + 0.1 * rng.random(x.shape), jnp.float32), tree)


def test_the_convolutional_network_is_flaxs():
    spec = CnnSpec(channels=(3, 2), pools=(2, 3), hidden=(5,))
    # 13 and 11 are divisible by no pool: what does not fill a square is left out.
    x = jnp.asarray(np.random.default_rng(1).random((4, 13, 11, 3)), jnp.float32)
    apply, params, state = network(spec, x.shape[1:], 2, KEY)
    params, state = jittered(params), jittered(state)
    flax = FlaxCnn(spec)
    variables = {"params": params, "batch_stats": state}
    found, unchanged = apply(params, state, x, train=False)
    np.testing.assert_allclose(found, flax.apply(variables, x, False), rtol=1e-5, atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, unchanged, state)
    found, after = apply(params, state, x, train=True)
    expected, changed = flax.apply(variables, x, True, mutable=["batch_stats"])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)  # noqa: E731
    jax.tree.map(close, after, changed["batch_stats"])


def test_all_layers_of_the_convolutional_network_are_found_in_its_computation():
    spec = CnnSpec(channels=(3, 2), pools=(2, 2), hidden=(5,))
    model = as_model(network(spec, (8, 8, 3), 2, KEY))
    names = tree.names(model.params)
    blocks = {names[b.weight]: b for b in blocks_of(model, jnp.zeros((2, 8, 8, 3)))}
    assert blocks.keys() == {f"{layer}/kernel" for layer in ("conv0", "conv1", "dense0", "dense1")}
    assert (blocks["conv1/kernel"].rows, blocks["conv1/kernel"].columns) == ((0, 1, 2), (3,))
    for name, block in blocks.items():
        assert block.bias is not None
        assert names[block.bias] == name.replace("kernel", "bias")


def test_a_task_of_one_batch_has_statistics_that_can_be_used():
    spec = CnnSpec(channels=(2,), pools=(2,), hidden=())
    learner = Learner(
        network(spec, (6, 6, 3), 2, KEY),
        Categorical(),
        rank=1,
        epochs=3,
        batch_size=32,
        optimizer=optax.sgd(0.0),  # so that the statistics of every step are the same
        progress=False,
    )
    rng = np.random.default_rng(0)
    tasks = [rng.random((5, 6, 6, 3)).astype(np.float32) + t for t in range(2)]
    for x in tasks:
        learner.observe(x, np.array([0, 1, 0, 1, 1]))
    mean = np.zeros(2)
    for x, model in zip(tasks, learner.smooth(), strict=True):
        apply, params, _ = network(spec, (6, 6, 3), 2, KEY)
        fresh = {"norm0": {"mean": jnp.zeros(2), "var": jnp.zeros(2)}}
        batch = apply(params, fresh, jnp.asarray(x), train=True)[1]["norm0"]["mean"] / 0.1
        mean = 0.9**3 * mean + (1 - 0.9**3) * np.asarray(batch)
        np.testing.assert_allclose(model.model.state["norm0"]["mean"], mean, rtol=1e-4)
        assert np.isfinite(model.outputs(x)).all()


def test_grey_images_have_one_channel():
    apply, params, state = network(CnnSpec(channels=(2,), pools=(2,)), (6, 6), 3, KEY)
    x = jnp.asarray(np.random.default_rng(1).random((2, 6, 6)), jnp.float32)
    found = apply(params, state, x, train=False)[0]
    np.testing.assert_array_equal(found, apply(params, state, x[..., None], train=False)[0])
    assert found.shape == (2, 3)


@pytest.mark.parametrize("hidden", [(), (7,), (7, 5)])
def test_dense_layers_are_matrices_with_relu_between(hidden):
    apply, params = network(MlpSpec(hidden=hidden), (3, 4), 6, KEY)
    params = jittered(params)
    x = jnp.asarray(np.random.default_rng(1).random((5, 3, 4)), jnp.float32)
    expected = np.asarray(x, float).reshape(5, 12)
    for layer in range(len(hidden) + 1):
        dense = jax.tree.map(lambda leaf: np.asarray(leaf, float), params[f"dense{layer}"])
        expected = expected @ dense["kernel"] + dense["bias"]
        expected = np.maximum(expected, 0) if layer < len(hidden) else expected
    np.testing.assert_allclose(apply(params, x), expected, rtol=1e-5, atol=1e-5)


def test_the_papers_network_has_the_papers_sizes():
    _, params, state = network(CnnSpec(), (96, 96, 3), 2, KEY)
    sizes = {name: {k: v.shape for k, v in layer.items()} for name, layer in params.items()}
    assert sizes["conv0"]["kernel"] == (3, 3, 3, 32)
    assert sizes["conv2"]["kernel"] == (3, 3, 16, 4)
    assert sizes["dense0"]["kernel"] == (2 * 2 * 4, 8)  # 96 / 3 / 4 / 4 = 2
    assert sizes["dense1"]["kernel"] == (8, 2)
    assert state.keys() == {"norm0", "norm1", "norm2"}


def test_weights_begin_as_lecun_has_them():
    _, params = network(MlpSpec(hidden=(300,)), (400,), 10, KEY)
    kernel = params["dense0"]["kernel"]
    assert float(kernel.std()) == pytest.approx(1 / np.sqrt(400), rel=0.02)
    # Cut off at two deviations of the normal distribution before it was cut.
    assert float(jnp.abs(kernel).max()) <= 2 / np.sqrt(400) / 0.87962566 * 1.001
    assert float(jnp.abs(params["dense0"]["bias"]).max()) == 0
    again = network(MlpSpec(hidden=(300,)), (400,), 10, KEY)[1]
    other = network(MlpSpec(hidden=(300,)), (400,), 10, jax.random.key(4))[1]
    assert jnp.array_equal(kernel, again["dense0"]["kernel"])
    assert not jnp.array_equal(kernel, other["dense0"]["kernel"])


def test_images_too_small_to_be_pooled_are_refused():
    with pytest.raises(DataError, match=r"28 x 28 pixels are too small to be pooled by 3, 4, 4"):
        network(CnnSpec(), (28, 28), 10, KEY)
