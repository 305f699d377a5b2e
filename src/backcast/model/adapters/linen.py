"""Flax Linen: ``(module, variables)`` with ``variables = module.init(key, x)``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
from flax import linen
from flax.core import unfreeze

from backcast.model.adapters.parts import Conventions, Parts, conventions
from backcast.model.network import Adapter


def take_apart(module: linen.Module, variables: Any) -> Parts:
    """Take apart a module that maps a batch: its ``params`` are the weights, all else the state.

    Raises:
        ValueError: If the variables have no ``params``.
    """
    if not isinstance(variables, Mapping) or "params" not in variables:
        given = list(variables) if isinstance(variables, Mapping) else type(variables).__name__
        raise ValueError(
            f"The variables of {type(module).__name__} are {given}, without 'params'. Give all of "
            "them, as they come from module.init(key, x): (module, variables)."
        )
    state = jax.tree.map(jnp.asarray, unfreeze(dict(variables)))
    weights = state.pop("params")
    return Parts(weights, {}, state, LinenModule(module, conventions(module)))


@final
@dataclass(frozen=True)
class LinenModule(Adapter):
    """Calls ``module.apply``; when training, all collections but ``params`` may change."""

    module: linen.Module
    wants: Conventions

    def forward(self, weights, buffers, state, x, key, train):
        """The outputs, and the collections that came back."""
        # Flax derives the streams that are not given, such as "dropout", from "params".
        keywords: dict[str, Any] = dict(self.wants.mode(train), mutable=False)
        if key is not None:
            keywords["rngs"] = {"params": key}
        if self.wants.key:
            keywords["key"] = self.wants.key_for(key, train)
        if not train or not state:
            return self.module.apply({"params": weights, **state}, x, **keywords), state
        keywords["mutable"] = list(state)
        outputs, after = self.module.apply({"params": weights, **state}, x, **keywords)
        return outputs, state | unfreeze(after)

    def rebuild(self, weights, buffers, state):
        """``(module, variables)``."""
        return self.module, {"params": weights, **state}
