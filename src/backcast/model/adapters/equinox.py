"""Equinox: modules that map one example, and ``(module, state)`` pairs."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from backcast.model.adapters.parts import Conventions, Parts, conventions
from backcast.model.network import Adapter


def take_apart(module: eqx.Module, state: Any = None) -> Parts:
    """Take apart a module whose ``__call__`` maps one example.

    The floating arrays are its weights, as Equinox has it, and its other arrays buffers.

    Raises:
        TypeError: If it cannot be called, the state is none, or its signature does not take it.
        ValueError: If it holds stateful layers but comes without a state, or if its batch
            normalisations disagree about the name of the batch axis.
    """
    name = type(module).__name__
    if not callable(module):
        raise TypeError(
            f"{name} is an Equinox module without __call__. Give one that maps a single example."
        )
    wants = conventions(module)
    if state is None:
        _refuse_hidden_state(module)
    elif not isinstance(state, eqx.nn.State):
        raise TypeError(
            f"{name} was given with a {type(state).__name__}, which is no eqx.nn.State. Give the "
            "module alone, or (module, state) from eqx.nn.make_with_state."
        )
    elif len(wants.names) < 2:
        raise TypeError(
            f"{name} was given with a state, but its __call__ takes only "
            f"({', '.join(wants.names)}). Let it be __call__(self, x, state) -> (output, state)."
        )
    weights, rest = eqx.partition(module, eqx.is_inexact_array)
    buffers, static = eqx.partition(rest, eqx.is_array)
    leaves, structure = jax.tree.flatten(static)
    values = {} if state is None else _unpack(state)
    markers = None if state is None else state.tree_flatten()[1]
    adapter = EquinoxModule(tuple(leaves), structure, wants, _batch_axis(module), markers)
    weights, buffers = jax.tree.map(jnp.asarray, (weights, buffers))
    return Parts(weights, buffers, values, adapter)


@final
@dataclass(frozen=True)
class EquinoxModule(Adapter):
    """Calls a module on each example of a batch.

    Attributes:
        leaves: What is no array in the module.
        structure: The module's structure around these leaves.
        wants: How it is called.
        axis: The name its batch normalisations have for the batch's axis.
        markers: The keys of its state, in Equinox's order, or None if it has no state.
    """

    leaves: tuple[Hashable, ...]
    structure: Any
    wants: Conventions
    axis: Hashable
    markers: tuple[Hashable, ...] | None

    def forward(self, weights, buffers, state, x, key, train):
        """Map over the examples, each with a key of its own, with one state for all of them."""
        flags = eqx.nn.inference_mode(self._static(), value=not train)
        network = eqx.combine(weights, buffers, flags)
        keywords = self.wants.mode(train)
        if self.wants.key:
            key = self.wants.key_for(key, train)
        keys = None if key is None else jax.random.split(key, _batch_size(x))

        def call(example, key):
            more = keywords | ({"key": key} if self.wants.key else {})
            if self.markers is None:
                return network(example, **more), {}
            return self._call_with_state(network, example, state, more)

        return jax.vmap(call, out_axes=(0, None), axis_name=self.axis)(x, keys)

    def rebuild(self, weights, buffers, state):
        """The module, or the module and its state."""
        network = eqx.combine(weights, buffers, self._static())
        return network if self.markers is None else (network, self._pack(state))

    def _call_with_state(self, network, example, state, keywords):
        result = network(example, self._pack(state), **keywords)
        if not (isinstance(result, tuple) and len(result) == 2) or not (
            isinstance(result[1], eqx.nn.State)
        ):
            raise ValueError(
                f"{type(network).__name__} was given with a state, so it must return "
                f"(output, state), but it returned a {type(result).__name__}. Return the state "
                "that its last stateful layer returned."
            )
        outputs, after = result
        return outputs, _unpack(after)

    def _static(self) -> Any:
        return jax.tree.unflatten(self.structure, self.leaves)

    def _pack(self, state: dict[str, PyTree]) -> eqx.nn.State:
        markers = self.markers or ()
        return eqx.nn.State.tree_unflatten(markers, [state[str(key)] for key in markers])


def _unpack(state: eqx.nn.State) -> dict[str, PyTree]:
    values, markers = state.tree_flatten()
    return dict(zip(map(str, markers), values, strict=True))


def _refuse_hidden_state(module: eqx.Module) -> None:
    if any(_is(eqx.nn.StateIndex)(part) for part in _parts(module, eqx.nn.StateIndex)):
        name = type(module).__name__
        raise ValueError(
            f"{name} has layers with a state, such as BatchNorm, but no state was given. Make "
            f"both with `eqx.nn.make_with_state({name})(...)` and give (module, state)."
        )


def _batch_axis(module: eqx.Module) -> Hashable:
    norms = [part for part in _parts(module, eqx.nn.BatchNorm) if _is(eqx.nn.BatchNorm)(part)]
    axes = {norm.axis_name for norm in norms}
    if len(axes) > 1:
        raise ValueError(
            f"The batch normalisations of {type(module).__name__} call the batch's axis "
            f"{sorted(map(repr, axes))}. Give all of them the same axis_name."
        )
    return axes.pop() if axes else "batch"


def _parts(module: eqx.Module, kind: type) -> list[Any]:
    return jax.tree.leaves(module, is_leaf=_is(kind))


def _is(kind: type):
    return lambda part: isinstance(part, kind)


def _batch_size(x: PyTree[Array]) -> int:
    return jax.tree.leaves(x)[0].shape[0]
