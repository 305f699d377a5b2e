"""Networks of other libraries as `Model`.

Libraries are recognised by where a type was defined, so that none is imported that is not in use.
"""

from typing import Any

import equinox as eqx

from backcast.model.adapters import equinox, function
from backcast.model.adapters.parts import Parts
from backcast.model.adapters.trainable import Patterns, split
from backcast.model.network import Model

_ALLOWED = """Give one of
  Equinox      module, or (module, state) from eqx.nn.make_with_state
  Flax NNX     module
  Flax Linen   (module, variables) with variables = module.init(key, x)
  Haiku        (transformed, params), or (transformed, params, state)
  a function   (apply, params) with apply(params, x) -> outputs
               (apply, params, state) with apply(params, state, x) -> (outputs, state)"""


def as_model(network: Any, trainable: Patterns | None = None) -> Model:
    """A network of any library as a `Model`.

    Where a network takes a keyword such as ``train``, ``is_training``, ``deterministic`` or ``key``
    it gets it; modes set on the network itself, as by ``module.eval()``, are set for it. The
    network is not touched, and what happens to it later does not reach the model.

    Args:
        network: An Equinox or Flax NNX module, ``(module, state)`` of Equinox, ``(module,
            variables)`` of Flax Linen, ``(transformed, params[, state])`` of Haiku, or plain
            ``(apply, params[, state])``. Equinox modules map one example, all others a batch. A
            `Model` may be given to choose anew what is trainable.
        trainable: Glob patterns for the names of the parameters to learn, such as ``"head/*"`` or
            ``["*lora_a", "*lora_b"]`` (``*`` also matches ``/``); one that starts with ``!`` leaves
            out what it matches, as in ``"!*norm*"``: everything but the norms. Where several match
            a name, the last one counts. None for all.

    Raises:
        TypeError: If the network is of no kind that is known.
        ValueError: If a pattern matches nothing, or something in the network does not fit.
    """
    if isinstance(network, Model):
        if trainable is None:
            return network
        weights = eqx.combine(network.params, network.frozen["weights"])
        parts = Parts(weights, network.frozen["buffers"], network.state, network.adapter)
    else:
        parts = _take_apart(network)
    params, frozen = split(parts.weights, trainable)
    return Model(params, parts.state, {"weights": frozen, "buffers": parts.buffers}, parts.adapter)


def _take_apart(network: Any) -> Parts:
    # Haiku's own pair of functions is a tuple as well, but not a network with its parameters.
    given = network if type(network) is tuple else (network,)
    kinds = _library(given[0]), len(given)
    match kinds:
        case "equinox", 1 | 2:
            return equinox.take_apart(*given)
        case "flax.nnx", 1:
            from backcast.model.adapters import nnx

            return nnx.take_apart(*given)
        case "flax.linen", 2:
            from backcast.model.adapters import linen

            return linen.take_apart(*given)
        case "haiku", 2:
            from backcast.model.adapters import haiku

            return haiku.stateless(*given)
        case "haiku", 3:
            from backcast.model.adapters import haiku

            return haiku.stateful(*given)
        case "function", 2:
            return function.stateless(*given)
        case "function", 3:
            return function.stateful(*given)
    kinds = ", ".join(type(part).__name__ for part in given)
    raise TypeError(f"Not a network that Backcast knows: ({kinds}).\n{_ALLOWED}")


def _library(network: Any) -> str | None:
    origins = [kind.__module__ + "." for kind in type(network).__mro__]
    for library in ("equinox", "flax.nnx", "flax.linen", "haiku"):
        if any(origin.startswith(library + ".") for origin in origins):
            return library
    return "function" if callable(network) else None
