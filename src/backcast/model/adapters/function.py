"""Plain functions: ``(apply, params)`` and ``(apply, params, state)``."""

from collections.abc import Callable
from typing import Any

from jaxtyping import PyTree

from backcast.model.adapters.parts import Parts, conventions


def stateless(apply: Callable[..., Any], params: PyTree) -> Parts:
    """Take apart ``apply(params, x) -> outputs``."""
    wants = conventions(apply)

    def forward(weights, buffers, state, x, key, train):
        keywords = wants.mode(train)
        if wants.key:
            keywords["key"] = wants.key_for(key, train)
        return apply(weights, x, **keywords), state

    return Parts(params, {}, {}, forward, lambda weights, buffers, state: (apply, weights))


def stateful(apply: Callable[..., Any], params: PyTree, state: PyTree) -> Parts:
    """Take apart ``apply(params, state, x) -> (outputs, state)``."""
    wants = conventions(apply)

    def forward(weights, buffers, state, x, key, train):
        keywords = wants.mode(train)
        if wants.key:
            keywords["key"] = wants.key_for(key, train)
        result = apply(weights, state, x, **keywords)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise ValueError(
                "A function given with a state must return (outputs, new_state), but this one "
                f"returned a {type(result).__name__}. Return the state as well, or give "
                "(apply, params) with apply(params, x) -> outputs."
            )
        return result

    def rebuild(weights, buffers, state):
        return apply, weights, state

    return Parts(params, {}, state, forward, rebuild)
