"""Networks of every library: the same outputs, states and gradients as when called by hand."""

import functools
import gc
import subprocess
import sys
import weakref

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx

from backcast.linalg import tree
from backcast.model import as_model
from model.networks import ZOO

everyone = pytest.mark.parametrize("animal", ZOO, ids=str)


def has_state(animal):
    return animal.architecture == "conv"


with_state = pytest.mark.parametrize("animal", [a for a in ZOO if has_state(a)], ids=str)
KEY = jax.random.key(7)


@functools.cache
def born(animal):
    """A network, inputs for it, and the model of it."""
    network, x = animal(jax.random.key(0))
    return network, x, as_model(network)


TRACED = []


@eqx.filter_jit
def evaluate(model, x):
    TRACED.append(model.adapter)
    return model.apply(model.params, model.state, x)


@eqx.filter_jit
def train(model, x, key):
    return model.apply(model.params, model.state, x, key=key, train=True)


def by_hand(animal, network, x, training):
    """Outputs and state as the library's own documentation has one call the network."""
    if animal.library == "equinox":
        if isinstance(network, tuple):
            module, state = network
            module = eqx.nn.inference_mode(module, value=not training)
            mapped = jax.vmap(module, in_axes=(0, None), out_axes=(0, None), axis_name="batch")
            outputs, after = mapped(x, state)
            return outputs, after.tree_flatten()[0]
        return jax.vmap(network)(x), {}
    if animal.library == "nnx":
        module = nnx.clone(network)
        module.train() if training else module.eval()
        return module(x), nnx.state(module, nnx.BatchStat)
    if animal.library == "linen":
        module, variables = network
        if animal.architecture != "conv":
            return module.apply(variables, x), {}
        return module.apply(variables, x, train=training, mutable=["batch_stats"])
    if animal.library == "haiku":
        transformed, *arrays = network
        if animal.architecture == "conv":
            return transformed.apply(*arrays, None, x, is_training=training)
        return transformed.apply(*arrays, None, x), {}
    function, *arrays = network
    if animal.architecture == "conv":
        return function(*arrays, x, training)
    return function(*arrays, x), {}


@pytest.mark.parametrize(
    ("animal", "training"),
    [(animal, False) for animal in ZOO] + [(animal, True) for animal in ZOO if has_state(animal)],
    ids=str,
)
def test_a_model_gives_what_its_library_gives(animal, training):
    network, x, model = born(animal)
    outputs, after = train(model, x, KEY) if training else evaluate(model, x)
    truth, state = eqx.filter_jit(lambda n, x: by_hand(animal, n, x, training))(network, x)
    np.testing.assert_allclose(outputs, truth, rtol=2e-5, atol=1e-6)
    if training:
        ours, theirs = jax.tree.leaves(after), jax.tree.leaves(state)
        for mine, its in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine, its, rtol=2e-5, atol=1e-6)


@with_state
def test_training_changes_the_state_and_evaluating_uses_it(animal):
    _, x, model = born(animal)
    _, after = train(model, 3 * x, KEY)
    before = model.state
    assert jax.tree.structure(after) == jax.tree.structure(before)
    assert tree.names(after) == tree.names(before)
    assert not eqx.tree_equal(after, before)
    outputs, unchanged = evaluate(model, x)
    assert eqx.tree_equal(unchanged, before)
    later, unchanged = evaluate(model.with_params(model.params, after), x)
    assert eqx.tree_equal(unchanged, after)
    assert not np.allclose(outputs, later)


@everyone
def test_every_parameter_can_be_learned(animal):
    _, x, model = born(animal)

    @eqx.filter_jit
    def gradient(model, x):
        def loss(params):
            outputs, _ = model.apply(params, model.state, x, key=KEY, train=True)
            return jnp.sum(jnp.sin(outputs))

        return jax.grad(loss)(model.params)

    assert len(jax.tree.leaves(model.params)) > 1
    for name, leaf in zip(
        tree.names(model.params), jax.tree.leaves(gradient(model, x)), strict=True
    ):
        # What shifts all keys alike, or comes before a normalisation, does nothing.
        if not any(part in name for part in ("key/b", "conv/b", "conv2_d/b", "Conv_0/b")):
            assert np.any(leaf != 0), name


@everyone
def test_networks_of_one_architecture_compile_once(animal):
    _, x, model = born(animal)
    first = evaluate(model, x)[0]
    traced = len(TRACED)
    twin = as_model(animal(jax.random.key(1))[0])
    assert not eqx.tree_equal(model.params, twin.params)
    assert not np.allclose(first, evaluate(twin, x)[0])
    evaluate(model.with_params(twin.params, twin.state), x)
    assert len(TRACED) == traced
    assert hash(model.adapter) == hash(twin.adapter)


@everyone
def test_no_weights_are_kept_alive(animal):
    network, x = animal(jax.random.key(3))
    model = as_model(network)
    evaluate(model, x)
    adapter = model.adapter
    arrays = [weakref.ref(leaf) for leaf in jax.tree.leaves((model.params, model.state))]
    del network, model
    gc.collect()
    assert not [array for array in arrays if array() is not None]
    assert adapter


@everyone
def test_the_users_own_object_comes_back(animal):
    network, x, model = born(animal)
    shifted = model.with_params(jax.tree.map(lambda p: p + 0.1, model.params), model.state)
    again = shifted.unwrap()
    if isinstance(network, tuple):
        assert [type(part) for part in again] == [type(part) for part in network]
    else:
        assert type(again) is type(network)
    np.testing.assert_array_equal(evaluate(as_model(again), x)[0], evaluate(shifted, x)[0])
    assert eqx.tree_equal(as_model(model.unwrap()).params, model.params)


@with_state
def test_a_model_is_a_pytree_that_maps(animal):
    """An ensemble is a model whose arrays have one more axis."""
    _, x, model = born(animal)
    params = jax.tree.map(lambda p: jnp.stack([p, 2 * p]), model.params)
    both = eqx.filter_jit(jax.vmap(lambda p: model.apply(p, model.state, x)[0]))(params)
    np.testing.assert_allclose(both[0], evaluate(model, x)[0], rtol=2e-5, atol=1e-6)


# Dropout -----------------------------------------------------------------------------------------


class EquinoxDropout(eqx.Module):
    linear: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        self.linear, self.dropout = eqx.nn.Linear(4, 8, key=key), eqx.nn.Dropout(0.5)

    def __call__(self, x, *, key):
        return self.dropout(self.linear(x), key=key)


class NnxDropout(nnx.Module):
    def __init__(self, rngs):
        self.linear, self.dropout = nnx.Linear(4, 8, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.dropout(self.linear(x))


class LinenDropout(nn.Module):
    @nn.compact
    def __call__(self, x, deterministic: bool = True):
        return nn.Dropout(0.5, deterministic=deterministic)(nn.Dense(8)(x))


def haiku_dropout(x, is_training):
    return hk.dropout(hk.next_rng_key(), 0.5 if is_training else 0.0, hk.Linear(8)(x))


def plain_dropout(params, x, key=None, training=False):
    x = x @ params
    return x * jax.random.bernoulli(key, 0.5, x.shape) if training else x


X = jnp.ones((3, 4))


def dropouts():
    haiku = hk.transform(haiku_dropout)
    return {
        "equinox": EquinoxDropout(KEY),
        "nnx": NnxDropout(nnx.Rngs(0)),
        "linen": (LinenDropout(), LinenDropout().init(KEY, X)),
        "haiku": (haiku, haiku.init(KEY, X, False)),
        "plain": (plain_dropout, jax.random.normal(KEY, (4, 8))),
    }


@pytest.mark.parametrize("library", dropouts())
def test_dropout_follows_the_key(library):
    model = as_model(dropouts()[library])
    assert model.state == {}
    one, same, other = (train(model, X, jax.random.key(i))[0] for i in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one == 0, other == 0)
    assert 0 < np.mean(one == 0) < 1
    assert not np.array_equal(one[0] == 0, one[1] == 0), "examples share a mask"
    certain = evaluate(model, X)[0]
    np.testing.assert_array_equal(certain, evaluate(model, X)[0])
    assert np.all(certain != 0)


@pytest.mark.parametrize("library", ["equinox", "nnx"])
def test_training_without_the_key_that_is_needed_is_refused(library):
    model = as_model(dropouts()[library])
    with pytest.raises(ValueError, match=r"no key was given.*key=jax.random.key"):
        model.apply(model.params, model.state, X, train=True)


def test_keys_of_the_old_kind_do_as_well():
    model = as_model(NnxDropout(nnx.Rngs(0)))
    train(model, X, jax.random.PRNGKey(0))


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_the_mode_a_module_comes_in_is_given_back_but_does_not_matter(mode):
    network = NnxDropout(nnx.Rngs(0))
    getattr(network, mode)()
    model = as_model(network)
    assert np.any(train(model, X, KEY)[0] == 0)
    assert np.all(evaluate(model, X)[0] != 0)
    assert model.unwrap().dropout.deterministic == network.dropout.deterministic


# NNX shares what others copy ---------------------------------------------------------------------


def test_nnx_modules_and_models_do_not_reach_each_other():
    animal = next(a for a in ZOO if str(a) == "nnx-conv")
    network, x = animal(jax.random.key(0))
    model = as_model(network)
    before = jax.tree.map(np.array, (model.params, model.state))
    theirs = jax.tree.map(np.array, nnx.to_pure_dict(nnx.state(network)))

    model.apply(model.params, model.state, x, train=True)
    model.unwrap()(x)
    assert eqx.tree_equal(jax.tree.map(np.array, nnx.to_pure_dict(nnx.state(network))), theirs)

    network.train()
    network(x)
    network.head.bias[...] += 1.0
    assert eqx.tree_equal(jax.tree.map(np.array, (model.params, model.state)), before)


class Tied(nnx.Module):
    """Two names for one parameter, a counter, a constant, and something sown on the way."""

    def __init__(self, rngs):
        self.inner = nnx.Linear(4, 4, rngs=rngs)
        self.outer = self.inner
        self.calls = nnx.Variable(jnp.array(0))
        self.constant = jnp.array([1.0, 2.0, 3.0, 4.0])

    def __call__(self, x):
        self.calls[...] += 1
        return self.outer(jnp.tanh(self.inner(x))) * self.constant


def test_nnx_parameters_that_are_shared_stay_shared():
    network = Tied(nnx.Rngs(0))
    model = as_model(network)
    assert tree.names(model.params) == ["inner/bias", "inner/kernel"]
    outputs, state = train(model, X, KEY)
    assert state["calls"] == 1
    np.testing.assert_allclose(outputs, network(X), rtol=1e-6)
    again = model.unwrap()
    assert again.inner is again.outer


# What is learned ---------------------------------------------------------------------------------


def named(library, architecture):
    return born(next(a for a in ZOO if (a.library, a.architecture) == (library, architecture)))[2]


@pytest.mark.parametrize(
    ("library", "patterns", "expected"),
    [
        ("equinox", "head/*", ["head/weight", "head/bias"]),
        ("equinox", "!norm*", ["conv/weight", "conv/bias", "head/weight", "head/bias"]),
        ("nnx", ["*kernel", "!conv/*"], ["head/kernel"]),
        (
            "linen",
            ["!BatchNorm*"],
            ["Conv_0/bias", "Conv_0/kernel", "Dense_0/bias", "Dense_0/kernel"],
        ),
        ("haiku", ["!*", "linear/w"], ["linear/w"]),
        ("plain", ["head", "scale"], ["head", "scale"]),
    ],
)
def test_patterns_choose_what_is_learned(library, patterns, expected):
    whole = named(library, "conv")
    part = as_model(whole, patterns)
    assert tree.names(part.params) == expected
    everything = set(tree.names(whole.params))
    assert set(tree.names(part.frozen["weights"])) == everything - set(expected)
    x = jnp.ones((2, 1, 6, 6) if library == "equinox" else (2, 6, 6, 1))
    np.testing.assert_array_equal(evaluate(part, x)[0], evaluate(whole, x)[0])
    halved = part.with_params(jax.tree.map(lambda p: p / 2, part.params), part.state)
    assert not np.allclose(evaluate(halved, x)[0], evaluate(whole, x)[0])
    thawed = as_model(halved, "*")
    assert set(tree.names(thawed.params)) == everything
    np.testing.assert_array_equal(evaluate(thawed, x)[0], evaluate(halved, x)[0])


def test_adapters_of_low_rank_can_be_learned_alone():
    network = nnx.LoRALinear(4, 3, lora_rank=2, rngs=nnx.Rngs(0))
    model = as_model(network, "*lora_*")
    assert tree.names(model.params) == ["lora/lora_a", "lora/lora_b"]
    assert tree.names(model.frozen["weights"]) == ["bias", "kernel"]


def test_what_cannot_be_learned_stays_as_it_is():
    params = {"w": np.ones((4, 2)), "steps": np.arange(3), "on": True, "key": jax.random.key(0)}
    model = as_model((lambda p, x: x @ p["w"] + p["steps"][1], params))
    assert tree.names(model.params) == ["w"]
    np.testing.assert_allclose(evaluate(model, X)[0], 5.0)
    assert model.unwrap()[1]["steps"].dtype == jnp.int32


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("tail/*", r"'tail/\*' matches no parameter. The names are: conv/weight, .*head/bias"),
        (["head/*", "!nrom*"], r"'!nrom\*' matches no parameter"),
        ([], "leaves nothing to learn"),
        (["head/*", "!*"], "leaves nothing to learn.*conv/weight"),
    ],
)
def test_patterns_that_choose_nothing_are_refused(patterns, message):
    with pytest.raises(ValueError, match=message):
        as_model(named("equinox", "conv"), patterns)


def test_complex_parameters_are_refused_unless_left_out():
    params = {"w": jnp.ones(2), "z": jnp.ones(2) * 1j}
    with pytest.raises(ValueError, match=r"'z' is complex64.*trainable='!z'"):
        as_model((lambda p, x: x, params))
    assert tree.names(as_model((lambda p, x: x, params), "!z").params) == ["w"]


# Structures of other kinds -----------------------------------------------------------------------


class Buffered(eqx.Module):
    """A buffer of integers, a constant of numpy, and inputs that are a dictionary."""

    weight: jax.Array
    order: jax.Array
    scale: np.ndarray

    def __call__(self, x):
        return self.scale * (self.weight @ x["b"][self.order] + x["a"])


def test_inputs_are_trees_and_buffers_are_not_learned():
    network = Buffered(jnp.eye(3), jnp.array([2, 1, 0]), np.array([1, 2, 3]))
    model = as_model(network)
    assert tree.names(model.params) == ["weight"]
    x = {"a": jnp.ones((5, 1)), "b": jnp.arange(15.0).reshape(5, 3)}
    np.testing.assert_allclose(evaluate(model, x)[0], (x["b"][:, ::-1] + 1) * np.array([1, 2, 3]))


def test_linen_modules_with_lists_for_fields_compile():
    class Stack(nn.Module):
        sizes: list

        @nn.compact
        def __call__(self, x):
            for size in self.sizes:
                x = nn.Dense(size)(x)
            return x

    module = Stack([5, 2])
    assert evaluate(as_model((module, module.init(KEY, X))), X)[0].shape == (3, 2)


def test_haiku_without_an_rng_argument():
    network = hk.without_apply_rng(hk.transform(lambda x: hk.Linear(2)(x)))
    model = as_model((network, network.init(KEY, X)))
    np.testing.assert_array_equal(train(model, X, KEY)[0], evaluate(model, X)[0])


def test_a_model_is_taken_as_it_is():
    model = named("plain", "mlp")
    assert as_model(model) is model


# Bad input ---------------------------------------------------------------------------------------


class Silent(eqx.Module):
    weight: jax.Array


class NnxSilent(nnx.Module):
    pass


class ForgetsState(eqx.Module):
    norm: eqx.nn.BatchNorm

    def __init__(self, axis="batch"):
        self.norm = eqx.nn.BatchNorm(4, axis, mode="ema")

    def __call__(self, x, state):
        return self.norm(x, state)[0]


class TwoAxes(eqx.Module):
    a: ForgetsState
    b: ForgetsState

    def __init__(self):
        self.a, self.b = ForgetsState("one"), ForgetsState("two")

    def __call__(self, x, state):
        return x, state


class TakesNoState(eqx.Module):
    norm: ForgetsState

    def __init__(self):
        self.norm = ForgetsState()

    def __call__(self, x):
        return x


PLAIN = hk.transform(lambda x: x)
STATEFUL = hk.transform_with_state(lambda x: x)

REFUSED = [
    (
        lambda: jnp.ones(3),
        TypeError,
        r"Not a network.*ArrayImpl(.|\n)*Flax Linen   \(module, variables\)",
    ),
    (lambda: lambda p, x: x, TypeError, r"(.|\n)*\(apply, params\) with apply"),
    (lambda: LinenDropout(), TypeError, r"\(LinenDropout\)(.|\n)*\(module, variables\)"),
    (lambda: PLAIN, TypeError, r"(.|\n)*Haiku        \(transformed, params\)"),
    (lambda: (NnxSilent(), {}), TypeError, "NnxSilent, dict"),
    (lambda: NnxSilent(), TypeError, "NnxSilent is an NNX module without __call__"),
    (lambda: Silent(jnp.ones(2)), TypeError, "Silent is an Equinox module without __call__"),
    (lambda: (PLAIN, {}, {}), TypeError, r"from hk.transform, give \(transformed, params\)"),
    (lambda: (STATEFUL, {}), TypeError, r"give \(transformed, params, state\)"),
    (lambda: (LinenDropout(), {"kernel": 1}), ValueError, r"\['kernel'\], without 'params'"),
    (lambda: (LinenDropout(), X), ValueError, "ArrayImpl.*without 'params'"),
    (lambda: ForgetsState(), ValueError, r"make_with_state\(ForgetsState\)"),
    (lambda: eqx.nn.make_with_state(TwoAxes)(), ValueError, r"'one'.*'two'.*same axis_name"),
    (lambda: eqx.nn.make_with_state(TakesNoState)(), TypeError, r"__call__\(self, x, state\)"),
    (lambda: (eqx.nn.Linear(2, 2, key=KEY), 3), TypeError, "a int, which is no eqx.nn.State"),
    (lambda: (lambda p, x: x, {}), ValueError, "no parameters to learn"),
]


@pytest.mark.parametrize(("make", "kind", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_network_is_refused(make, kind, message):
    with pytest.raises(kind, match=message):
        as_model(make())


def test_an_equinox_module_must_return_its_state():
    model = as_model(eqx.nn.make_with_state(ForgetsState)())
    with pytest.raises(ValueError, match=r"must return \(output, state\).*returned a"):
        model.apply(model.params, model.state, X)


STATE = {"mean": jnp.zeros(2), "count": jnp.array(0)}


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (lambda s: {"mean": s["mean"]}, "another structure"),
        (lambda s: s | {"more": 1.0}, "another structure"),
        (lambda s: s | {"mean": jnp.zeros(3)}, r"state 'mean'.*\(2,\).*\(3,\)"),
        (lambda s: s | {"count": 0.5}, r"state 'count' as int32.*float32"),
    ],
)
def test_a_state_that_changes_its_form_is_refused(after, message):
    model = as_model((lambda p, s, x: (x @ p, after(s)), jnp.ones((4, 2)), STATE))
    with pytest.raises(ValueError, match=message):
        model.apply(model.params, model.state, X, train=True)


def test_a_function_with_a_state_must_return_it():
    model = as_model((lambda p, s, x: x @ p, jnp.ones((4, 2)), STATE))
    with pytest.raises(ValueError, match=r"must return \(outputs, new_state\)"):
        model.apply(model.params, model.state, X, train=True)


def test_only_the_library_in_use_is_imported():
    program = """
import sys, jax, jax.numpy as jnp, equinox as eqx
import backcast.model as bm
bm.as_model(eqx.nn.Linear(2, 2, key=jax.random.key(0)))
bm.as_model((lambda p, x: x @ p, jnp.ones((2, 2))))
print([name for name in ("flax", "haiku") if name in sys.modules])
from flax import linen
module = linen.Dense(2)
bm.as_model((module, module.init(jax.random.key(0), jnp.ones((1, 2)))))
print("haiku" in sys.modules)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split("\n")[:2] == ["[]", "False"]
