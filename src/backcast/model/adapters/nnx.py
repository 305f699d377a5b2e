"""Flax NNX: modules, which hold their own arrays, states and random streams."""

from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import PRNGKeyArray, PyTree

from backcast.model.adapters.parts import Conventions, Parts, conventions, missing_key
from backcast.model.network import Adapter


def take_apart(module: nnx.Module) -> Parts:
    """Take apart a module that maps a batch.

    Its ``nnx.Param`` are the weights, among them ``nnx.LoRAParam``; its random streams are buffers,
    started anew from the key of each pass; every other variable is state.

    Raises:
        TypeError: If it cannot be called.
    """
    if not callable(module):
        raise TypeError(
            f"{type(module).__name__} is an NNX module without __call__. Give one that maps a "
            "batch."
        )
    # Variables are shared by what is split off; plain dictionaries of arrays are not.
    graph, *states = nnx.split(module, nnx.Param, nnx.RngState, ...)
    weights, streams, state = (nnx.to_pure_dict(part) for part in states)
    weights, state = jax.tree.map(jnp.asarray, (weights, state))
    adapter = NnxModule(graph, _in_mode(module, True), _in_mode(module, False), conventions(module))
    return Parts(weights, streams, state, adapter)


@final
@dataclass(frozen=True)
class NnxModule(Adapter):
    """Calls a module made anew from its graph for each pass, so that nothing of a pass stays in it.

    Attributes:
        given: The graph in the mode it came in.
        training: The graph after ``module.train()``.
        evaluating: The graph after ``module.eval()``.
        wants: How it is called.
    """

    given: nnx.GraphDef
    training: nnx.GraphDef
    evaluating: nnx.GraphDef
    wants: Conventions

    def forward(self, weights, buffers, state, x, key, train):
        """The outputs, and the variables that are neither parameters nor random streams."""
        if train and key is None and jax.tree.leaves(buffers):
            raise ValueError(missing_key("module holds random streams (nnx.Rngs)"))
        keywords: dict[str, Any] = dict(self.wants.mode(train))
        if self.wants.key:
            keywords["key"] = self.wants.key_for(key, train)
        if key is not None:
            buffers = _restarted(buffers, key)
        graph = self.training if train else self.evaluating
        module = nnx.merge(graph, weights, buffers, state)
        outputs = module(x, **keywords)
        nnx.pop(module, nnx.Intermediate)
        return outputs, nnx.to_pure_dict(nnx.state(module, _is_state))

    def rebuild(self, weights, buffers, state):
        """The module."""
        return nnx.merge(self.given, weights, buffers, state)


_is_state = nnx.Not(nnx.Any(nnx.Param, nnx.RngState))


def _in_mode(module: nnx.Module, train: bool) -> nnx.GraphDef:
    copy = nnx.clone(module)
    nnx.Module.train(copy) if train else nnx.Module.eval(copy)
    return nnx.graphdef(copy)


def _restarted(streams: PyTree, key: PRNGKeyArray) -> PyTree:
    """Each stream's key replaced by one of its own derived from ``key``, and its count by zero."""
    leaves, structure = jax.tree.flatten(streams)
    key = key if _is_key(key) else jax.random.wrap_key_data(key)
    keys = jax.random.split(key, len(leaves))
    fresh = [
        jax.random.split(new, leaf.shape) if _is_key(leaf) else jnp.zeros_like(leaf)
        for new, leaf in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, fresh)


def _is_key(leaf: jax.Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
