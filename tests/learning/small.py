"""Small networks for the learning room."""

import jax
import jax.numpy as jnp


def linear(params, x):
    return x @ params["w"] + params["b"]


def hidden(params, x):
    return jnp.tanh(x @ params["first"]["w"] + params["first"]["b"]) @ params["last"]["w"]


def hidden_params(seed=0):
    a, b = jax.random.split(jax.random.key(seed))
    return {
        "first": {"w": jax.random.normal(a, (4, 6)) / 2, "b": jnp.zeros(6)},
        "last": {"w": jax.random.normal(b, (6, 3)) / 2},
    }
