"""A zoo of tiny networks: four architectures in five libraries, below 300 parameters.

`MLP` maps 4 numbers to 3, `CONV` an image of 6 x 6 to 3 with batch normalisation, `ATTENTION` 5
tokens of 4 numbers to 3 each, and `LSTM` the same tokens to 3 for the last.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import nnx
from jax import lax

N, FEATURES, TOKENS, SIDE, OUTPUTS = 6, 4, 5, 6, 3


@dataclass(frozen=True)
class Animal:
    """A network and inputs for it, made from a key; floats have the default precision."""

    library: str
    architecture: str
    make: Callable[[jax.Array], Any]
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.library}-{self.architecture}"

    def __call__(self, key: jax.Array) -> tuple[Any, jax.Array]:
        ours, theirs = jax.random.split(key)
        return self.make(ours), jax.random.normal(theirs, (N, *self.shape))


def _float():
    return jnp.result_type(float)


# Equinox -----------------------------------------------------------------------------------------


class EquinoxConv(eqx.Module):
    conv: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    head: eqx.nn.Linear

    def __init__(self, key):
        a, b = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(1, 3, 3, key=a)
        self.norm = eqx.nn.BatchNorm(3, "batch", mode="ema", momentum=0.9)
        self.head = eqx.nn.Linear(12, OUTPUTS, key=b)

    def __call__(self, x, state):
        x, state = self.norm(self.conv(x), state)
        return self.head(jnp.tanh(eqx.nn.AvgPool2d(2, 2)(x)).ravel()), state


class EquinoxAttention(eqx.Module):
    attention: eqx.nn.MultiheadAttention
    head: eqx.nn.Linear

    def __init__(self, key):
        a, b = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(2, FEATURES, key=a)
        self.head = eqx.nn.Linear(FEATURES, OUTPUTS, key=b)

    def __call__(self, x):
        return jax.vmap(self.head)(x + self.attention(x, x, x))


class EquinoxLSTM(eqx.Module):
    cell: eqx.nn.LSTMCell
    head: eqx.nn.Linear

    def __init__(self, key):
        a, b = jax.random.split(key)
        self.cell = eqx.nn.LSTMCell(FEATURES, 4, key=a)
        self.head = eqx.nn.Linear(4, OUTPUTS, key=b)

    def __call__(self, x):
        zeros = jnp.zeros(4, x.dtype)
        (h, _), _ = lax.scan(lambda carry, x: (self.cell(x, carry), None), (zeros, zeros), x)
        return self.head(h)


# Flax NNX ----------------------------------------------------------------------------------------


class NnxMLP(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(FEATURES, 8, param_dtype=_float(), rngs=rngs)
        self.head = nnx.Linear(8, OUTPUTS, param_dtype=_float(), rngs=rngs)

    def __call__(self, x):
        return self.head(jnp.tanh(self.hidden(x)))


class NnxConv(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(1, 3, (3, 3), padding="VALID", param_dtype=_float(), rngs=rngs)
        self.norm = nnx.BatchNorm(3, momentum=0.9, param_dtype=_float(), rngs=rngs)
        # Flax makes them float32 whatever the type of the parameters.
        self.norm.mean, self.norm.var = nnx.BatchStat(jnp.zeros(3)), nnx.BatchStat(jnp.ones(3))
        self.head = nnx.Linear(12, OUTPUTS, param_dtype=_float(), rngs=rngs)

    def __call__(self, x):
        x = nnx.avg_pool(self.norm(self.conv(x)), (2, 2), (2, 2))
        return self.head(jnp.tanh(x).reshape(len(x), -1))


def _attend(query, key, value, **_):
    """Flax's own function computes in float32 whatever it is given."""
    scores = jnp.einsum("nqhd,nkhd->nhqk", query, key) / query.shape[-1] ** 0.5
    return jnp.einsum("nhqk,nkhd->nqhd", jax.nn.softmax(scores), value)


class NnxAttention(nnx.Module):
    def __init__(self, rngs):
        self.attention = nnx.MultiHeadAttention(
            2,
            FEATURES,
            decode=False,
            param_dtype=_float(),
            attention_fn=_attend,
            rngs=rngs,
        )
        self.head = nnx.Linear(FEATURES, OUTPUTS, param_dtype=_float(), rngs=rngs)

    def __call__(self, x):
        return self.head(x + self.attention(x))


class NnxLSTM(nnx.Module):
    def __init__(self, rngs):
        cell = nnx.LSTMCell(FEATURES, 4, param_dtype=_float(), rngs=rngs)
        self.recurrent = nnx.RNN(cell, rngs=rngs)
        self.head = nnx.Linear(4, OUTPUTS, param_dtype=_float(), rngs=rngs)

    def __call__(self, x):
        return self.head(self.recurrent(x)[:, -1])


# Flax Linen --------------------------------------------------------------------------------------


class LinenMLP(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = jnp.tanh(nn.Dense(8, param_dtype=_float())(x))
        return nn.Dense(OUTPUTS, param_dtype=_float())(x)


class LinenConv(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.Conv(3, (3, 3), padding="VALID", param_dtype=_float())(x)
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9, param_dtype=_float())(x)
        x = jnp.tanh(nn.avg_pool(x, (2, 2), (2, 2)))
        return nn.Dense(OUTPUTS, param_dtype=_float())(x.reshape(len(x), -1))


class LinenAttention(nn.Module):
    @nn.compact
    def __call__(self, x):
        x += nn.MultiHeadDotProductAttention(2, param_dtype=_float())(x)
        return nn.Dense(OUTPUTS, param_dtype=_float())(x)


class LinenLSTM(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.RNN(nn.LSTMCell(4, param_dtype=_float()))(x)
        return nn.Dense(OUTPUTS, param_dtype=_float())(x[:, -1])


def _linen(module: nn.Module, *shape: int, **keywords) -> Callable[[jax.Array], Any]:
    return lambda key: (module, module.init(key, jnp.zeros((N, *shape), _float()), **keywords))


# Haiku -------------------------------------------------------------------------------------------


def _haiku_mlp(x):
    return hk.Linear(OUTPUTS)(jnp.tanh(hk.Linear(8)(x)))


def _haiku_conv(x, is_training):
    x = hk.Conv2D(3, 3, padding="VALID")(x)
    x = hk.BatchNorm(True, True, 0.9)(x, is_training)
    x = hk.avg_pool(x, (2, 2, 1), (2, 2, 1), "VALID")
    return hk.Linear(OUTPUTS)(jnp.tanh(x).reshape(len(x), -1))


def _haiku_attention(x):
    init = hk.initializers.VarianceScaling(1.0)
    x += hk.MultiHeadAttention(2, 2, w_init=init, model_size=FEATURES)(x, x, x)
    return hk.Linear(OUTPUTS)(x)


def _haiku_lstm(x):
    core = hk.LSTM(4)
    x, _ = hk.dynamic_unroll(core, x, core.initial_state(len(x)), time_major=False)
    return hk.Linear(OUTPUTS)(x[:, -1])


def _haiku(function: Callable, *shape: int) -> Callable[[jax.Array], Any]:
    network = hk.transform(function)
    return lambda key: (network, network.init(key, jnp.zeros((N, *shape), _float())))


def _haiku_with_state(function: Callable, *shape: int) -> Callable[[jax.Array], Any]:
    network = hk.transform_with_state(function)
    return lambda key: (network, *network.init(key, jnp.zeros((N, *shape), _float()), True))


# Plain functions ---------------------------------------------------------------------------------


def _arrays(key: jax.Array, **shapes: tuple[int, ...]) -> dict[str, jax.Array]:
    keys = jax.random.split(key, len(shapes))
    return {
        name: 0.5 * jax.random.normal(key, shape)
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def plain_mlp(params, x):
    return jnp.tanh(x @ params["hidden"] + params["bias"]) @ params["head"]


def plain_conv(params, state, x, train):
    x = lax.conv_general_dilated(
        x, params["kernel"], (1, 1), "VALID", None, None, ("NHWC", "HWIO", "NHWC")
    )
    if train:
        mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
        state = {
            "mean": 0.9 * state["mean"] + 0.1 * mean,
            "variance": 0.9 * state["variance"] + 0.1 * variance,
        }
    else:
        mean, variance = state["mean"], state["variance"]
    x = params["scale"] * (x - mean) / jnp.sqrt(variance + 1e-5)
    x = x.reshape(len(x), 2, 2, 2, 2, 3).mean((2, 4))
    return jnp.tanh(x).reshape(len(x), -1) @ params["head"], state


def plain_attention(params, x):
    scores = jnp.einsum("nsi,ij,ntj->nst", x, params["bilinear"], x)
    return (x + jax.nn.softmax(scores) @ x) @ params["head"]


def plain_lstm(params, x):
    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(x @ params["input"] + h @ params["hidden"], 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    zeros = jnp.zeros((len(x), 4), x.dtype)
    (h, _), _ = lax.scan(step, (zeros, zeros), jnp.swapaxes(x, 0, 1))
    return h @ params["head"]


def _plain(function: Callable, **shapes: tuple[int, ...]) -> Callable[[jax.Array], Any]:
    return lambda key: (function, _arrays(key, **shapes))


def _plain_conv(key: jax.Array) -> Any:
    params = _arrays(key, kernel=(3, 3, 1, 3), scale=(3,), head=(12, OUTPUTS))
    return plain_conv, params, {"mean": jnp.zeros(3), "variance": jnp.ones(3)}


# The zoo -----------------------------------------------------------------------------------------

_VECTOR, _IMAGE, _SEQUENCE = (FEATURES,), (SIDE, SIDE, 1), (TOKENS, FEATURES)

ZOO = [
    Animal(
        "equinox", "mlp", lambda k: eqx.nn.MLP(FEATURES, OUTPUTS, 8, 1, jnp.tanh, key=k), _VECTOR
    ),
    Animal("equinox", "conv", lambda k: eqx.nn.make_with_state(EquinoxConv)(k), (1, SIDE, SIDE)),
    Animal("equinox", "attention", EquinoxAttention, _SEQUENCE),
    Animal("equinox", "lstm", EquinoxLSTM, _SEQUENCE),
    Animal("nnx", "mlp", lambda k: NnxMLP(nnx.Rngs(k)), _VECTOR),
    Animal("nnx", "conv", lambda k: NnxConv(nnx.Rngs(k)), _IMAGE),
    Animal("nnx", "attention", lambda k: NnxAttention(nnx.Rngs(k)), _SEQUENCE),
    Animal("nnx", "lstm", lambda k: NnxLSTM(nnx.Rngs(k)), _SEQUENCE),
    Animal("linen", "mlp", _linen(LinenMLP(), *_VECTOR), _VECTOR),
    Animal("linen", "conv", _linen(LinenConv(), *_IMAGE, train=False), _IMAGE),
    Animal("linen", "attention", _linen(LinenAttention(), *_SEQUENCE), _SEQUENCE),
    Animal("linen", "lstm", _linen(LinenLSTM(), *_SEQUENCE), _SEQUENCE),
    Animal("haiku", "mlp", _haiku(_haiku_mlp, *_VECTOR), _VECTOR),
    Animal("haiku", "conv", _haiku_with_state(_haiku_conv, *_IMAGE), _IMAGE),
    Animal("haiku", "attention", _haiku(_haiku_attention, *_SEQUENCE), _SEQUENCE),
    Animal("haiku", "lstm", _haiku(_haiku_lstm, *_SEQUENCE), _SEQUENCE),
    Animal(
        "plain",
        "mlp",
        _plain(plain_mlp, hidden=(FEATURES, 8), bias=(8,), head=(8, OUTPUTS)),
        _VECTOR,
    ),
    Animal("plain", "conv", _plain_conv, _IMAGE),
    Animal(
        "plain", "attention", _plain(plain_attention, bilinear=(4, 4), head=(4, OUTPUTS)), _SEQUENCE
    ),
    Animal(
        "plain",
        "lstm",
        _plain(plain_lstm, input=(4, 16), hidden=(4, 16), head=(4, OUTPUTS)),
        _SEQUENCE,
    ),
]
