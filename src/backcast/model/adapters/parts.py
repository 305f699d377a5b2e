"""What each adapter takes a network apart into, and how a network likes to be called."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import PRNGKeyArray, PyTree

from backcast.model.network import Adapter


class Parts(NamedTuple):
    """A network taken apart.

    Attributes:
        weights: All its parameters.
        buffers: Arrays that are neither parameters nor state; ``{}`` if none.
        state: What its forward pass carries along; ``{}`` if nothing.
        adapter: How to call it and to put it together again.
    """

    weights: PyTree
    buffers: PyTree
    state: PyTree
    adapter: Adapter


class Conventions(NamedTuple):
    """Which of the usual keywords a network's signature takes, found out once.

    Attributes:
        names: The names of all its parameters, in order.
        train: Its names for "this is training".
        evaluate: Its names for "this is not".
        key: Whether it takes a ``key``.
        needs_key: Whether it cannot be called without one.
    """

    names: tuple[str, ...]
    train: tuple[str, ...]
    evaluate: tuple[str, ...]
    key: bool
    needs_key: bool

    def mode(self, train: bool) -> dict[str, bool]:
        """The keywords that say whether this is training."""
        return dict.fromkeys(self.train, train) | dict.fromkeys(self.evaluate, not train)

    def key_for(self, key: PRNGKeyArray | None, train: bool) -> PRNGKeyArray | None:
        """The key to pass to a network that takes one.

        A network that splits its key before it asks whether it is training needs one even for a
        deterministic pass; it gets a constant.

        Raises:
            ValueError: If the network needs a key to train and there is none.
        """
        if key is None and self.needs_key:
            if train:
                raise ValueError(missing_key("signature asks for a `key`"))
            return jax.random.key(0)
        return key


def conventions(call: Callable[..., Any]) -> Conventions:
    """Read the conventions of a callable from its signature."""
    try:
        parameters = inspect.signature(call).parameters
    except ValueError:  # a callable written in C tells nothing about itself
        parameters = {}
    named = {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    key = named.get("key")
    return Conventions(
        names=tuple(parameters),
        train=tuple(n for n in ("train", "training", "is_training") if n in named),
        evaluate=tuple(
            n for n in ("deterministic", "use_running_average", "inference") if n in named
        ),
        key=key is not None,
        needs_key=key is not None and key.default is key.empty,
    )


def missing_key(reason: str) -> str:
    """The message for a network that cannot be trained without randomness."""
    return (
        f"This network's {reason}, and no key was given. "
        "Pass one: model.apply(params, state, x, key=jax.random.key(0), train=True)."
    )
