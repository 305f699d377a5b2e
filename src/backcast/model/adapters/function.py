"""Plain functions: ``(apply, params)`` and ``(apply, params, state)``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from backcast.model.adapters.parts import Conventions, Parts, conventions
from backcast.model.network import Adapter


def stateless(apply: Callable[..., Any], params: PyTree) -> Parts:
    """Take apart ``apply(params, x) -> outputs``."""
    return Parts(_arrays(params), {}, {}, Stateless(apply, conventions(apply)))


def stateful(apply: Callable[..., Any], params: PyTree, state: PyTree) -> Parts:
    """Take apart ``apply(params, state, x) -> (outputs, state)``."""
    return Parts(_arrays(params), {}, _arrays(state), Stateful(apply, conventions(apply)))


@final
@dataclass(frozen=True)
class Stateless(Adapter):
    """Calls ``apply(params, x)``."""

    function: Callable[..., Any]
    wants: Conventions

    def forward(self, weights, buffers, state, x, key, train):
        """The outputs; there is no state."""
        return self.function(weights, x, **_keywords(self.wants, key, train)), state

    def rebuild(self, weights, buffers, state):
        """``(apply, params)``."""
        return self.function, weights


@final
@dataclass(frozen=True)
class Stateful(Adapter):
    """Calls ``apply(params, state, x)``."""

    function: Callable[..., Any]
    wants: Conventions

    def forward(self, weights, buffers, state, x, key, train):
        """The outputs and the state, as the function returns them."""
        result = self.function(weights, state, x, **_keywords(self.wants, key, train))
        if not (isinstance(result, tuple) and len(result) == 2):
            raise ValueError(
                "A function given with a state must return (outputs, new_state), but this one "
                f"returned a {type(result).__name__}. Return the state as well, or give "
                "(apply, params) with apply(params, x) -> outputs."
            )
        return result

    def rebuild(self, weights, buffers, state):
        """``(apply, params, state)``."""
        return self.function, weights, state


def _keywords(wants: Conventions, key, train: bool) -> dict[str, Any]:
    keywords: dict[str, Any] = dict(wants.mode(train))
    if wants.key:
        keywords["key"] = wants.key_for(key, train)
    return keywords


def _arrays(values: PyTree) -> PyTree:
    return jax.tree.map(jnp.asarray, values)
