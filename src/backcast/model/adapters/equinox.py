"""Equinox: modules that map one example, and ``(module, state)`` from ``eqx.nn.make_with_state``."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from backcast.model.adapters.parts import Conventions, Parts, conventions


def take_apart(module: eqx.Module, state: eqx.nn.State | None = None) -> Parts:
    """Take apart a module whose ``__call__`` maps one example.

    The floating arrays are its weights, as Equinox has it, and its other arrays buffers.

    Raises:
        TypeError: If it cannot be called, or its signature does not take the state.
        ValueError: If it holds stateful layers but comes without a state, or if its batch
            normalisations disagree about the name of the batch axis.
    """
    if not callable(module):
        raise TypeError(
            f"{type(module).__name__} is an Equinox module without __call__. "
            "Give it one that maps a single example."
        )
    wants = conventions(module)
    if state is None:
        _refuse_hidden_state(module)
    call = _single(wants) if state is None else _single_with_state(wants, type(module).__name__)
    axis = _batch_axis(module)
    # The modules differ in flags that are not arrays, and so keep no weights alive.
    weights, rest = eqx.partition(module, _is_weight)
    buffers, static = eqx.partition(rest, _is_array)
    training = eqx.nn.inference_mode(static, value=False)
    evaluating = eqx.nn.inference_mode(static, value=True)
    markers = () if state is None else tuple(state.tree_flatten()[1])

    def forward(weights, buffers, state, x, key, train):
        network = eqx.combine(weights, buffers, training if train else evaluating)
        if wants.key:
            key = wants.key_for(key, train)
        keys = None if key is None else jax.random.split(key, _batch_size(x))
        outputs, after = jax.vmap(
            lambda example, key: call(network, example, _pack(state, markers), key, train),
            out_axes=(0, None),
            axis_name=axis,
        )(x, keys)
        return outputs, _unpack(after)

    def rebuild(weights, buffers, state):
        network = eqx.combine(weights, buffers, static)
        return (network, _pack(state, markers)) if markers else network

    return Parts(weights, buffers, _unpack(state), forward, rebuild)
