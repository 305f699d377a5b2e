"""Which parameters are learned: chosen by patterns on the names of the leaves."""

import fnmatch
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from backcast.linalg import tree

Patterns = str | Sequence[str]


def split(weights: PyTree, patterns: Patterns | None = None) -> tuple[PyTree, PyTree]:
    """The weights to learn and the others, each with None in the place of the other's leaves.

    Integers, booleans and keys among the weights are never learned.

    Raises:
        ValueError: If a pattern matches nothing, there is nothing to learn, or a parameter to learn
            is complex.
    """
    names, (leaves, structure) = tree.names(weights), jax.tree.flatten(weights)
    learnable = [jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in leaves]
    candidates = [name for name, can in zip(names, learnable, strict=True) if can]
    if not candidates:
        raise ValueError("The network has no parameters to learn: no array of floats is in it.")
    chosen = select(candidates, ["*"] if patterns is None else patterns)
    learned = [name in chosen for name in names]
    for name, leaf, learn in zip(names, leaves, learned, strict=True):
        if learn and jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            raise ValueError(
                f"Parameter '{name}' is {leaf.dtype}, and only real numbers can be filtered. Store "
                "its real and imaginary parts in an array each, or leave it out by "
                f"`trainable='!{name}'`."
            )
    params = [leaf if learn else None for leaf, learn in zip(leaves, learned, strict=True)]
    frozen = [None if learn else leaf for leaf, learn in zip(leaves, learned, strict=True)]
    return jax.tree.unflatten(structure, params), jax.tree.unflatten(structure, frozen)


def select(names: Sequence[str], patterns: Patterns) -> set[str]:
    """The names that patterns choose: where several match one, the last of them counts.

    A pattern that starts with ``!`` leaves out what it matches; if the first one does, all others
    are chosen to begin with.
    """
    patterns = [patterns] if isinstance(patterns, str) else list(patterns)
    chosen = set(names) if patterns and patterns[0].startswith("!") else set()
    for pattern in patterns:
        hits = set(fnmatch.filter(names, pattern.removeprefix("!")))
        if not hits:
            raise ValueError(
                f"The trainable pattern '{pattern}' matches no parameter. "
                f"The names are: {', '.join(names)}."
            )
        chosen = chosen - hits if pattern.startswith("!") else chosen | hits
    if not chosen:
        raise ValueError(
            f"trainable={patterns} leaves nothing to learn. Choose some of: {', '.join(names)}."
        )
    return chosen
