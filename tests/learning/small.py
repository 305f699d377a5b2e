"""Small networks for the learning room."""

import jax
import jax.numpy as jnp
import numpy as np


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


def turning(count):
    """Small tasks with three classes whose boundaries turn slowly."""
    rng = np.random.default_rng(0)
    directions, turn = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    tasks = []
    for t in range(count):
        x = rng.normal(size=(64, 4)).astype(np.float32)
        tasks.append((x, np.argmax(x @ (directions + 0.4 * t * turn), axis=1)))
    return tasks
