"""Haiku: ``(transformed, params)`` and ``(transformed, params, state)``."""

from dataclasses import dataclass
from typing import Any, final

import haiku as hk
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from backcast.model.adapters.parts import Conventions, Parts, conventions
from backcast.model.network import Adapter


def stateless(network: Any, params: PyTree) -> Parts:
    """Take apart ``network.apply(params, [rng,] x) -> outputs``.

    Raises:
        TypeError: If the network takes a state.
    """
    if not isinstance(network, hk.Transformed):
        raise TypeError(
            f"{type(network).__name__} was given with params only. If it comes from "
            "hk.transform_with_state, give (transformed, params, state)."
        )
    params = jax.tree.map(jnp.asarray, params)
    return Parts(params, {}, {}, Transformed(network, conventions(network.apply)))


def stateful(network: Any, params: PyTree, state: PyTree) -> Parts:
    """Take apart ``network.apply(params, state, [rng,] x) -> (outputs, state)``.

    Raises:
        TypeError: If the network takes no state.
    """
    if not isinstance(network, hk.TransformedWithState):
        raise TypeError(
            f"{type(network).__name__} was given with a state. If it comes from hk.transform, "
            "give (transformed, params)."
        )
    params, state = jax.tree.map(jnp.asarray, (params, state))
    return Parts(params, {}, state, TransformedWithState(network, conventions(network.apply)))


@final
@dataclass(frozen=True)
class Transformed(Adapter):
    """Calls what ``hk.transform`` made."""

    network: hk.Transformed
    wants: Conventions

    def forward(self, weights, buffers, state, x, key, train):
        """The outputs; there is no state."""
        rng = _rng(self.wants, key)
        return self.network.apply(weights, *rng, x, **self.wants.mode(train)), state

    def rebuild(self, weights, buffers, state):
        """``(transformed, params)``."""
        return self.network, weights


@final
@dataclass(frozen=True)
class TransformedWithState(Adapter):
    """Calls what ``hk.transform_with_state`` made."""

    network: hk.TransformedWithState
    wants: Conventions

    def forward(self, weights, buffers, state, x, key, train):
        """The outputs and the state."""
        rng = _rng(self.wants, key)
        return self.network.apply(weights, state, *rng, x, **self.wants.mode(train))

    def rebuild(self, weights, buffers, state):
        """``(transformed, params, state)``."""
        return self.network, weights, state


def _rng(wants: Conventions, key) -> tuple[Any, ...]:
    """The ``rng`` argument, unless ``hk.without_apply_rng`` took it away.

    A network that is told whether it is training may draw before it asks, and gets a constant when
    it is not. One that is not told must not draw then: Haiku says so.
    """
    if "rng" not in wants.names:
        return ()
    told = wants.train or wants.evaluate
    return (jax.random.key(0) if key is None and told else key,)
