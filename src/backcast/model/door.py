"""The door: examples are looked at before any work starts with them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from backcast.linalg import tree
from backcast.model.batch import Batch
from backcast.model.likelihood import Likelihood
from backcast.model.network import Model


def check_batch(model: Model, likelihood: Likelihood, batch: Batch) -> None:
    """Refuse examples that the network or the likelihood cannot take.

    The network is traced, not run; again for the same shapes, it is not even traced.

    Raises:
        TypeError: If something is not of a kind of number that it must be of.
        ValueError: If there are no examples, inputs and targets differ in how many they are, an
            input is NaN or infinite, the network does not take the inputs, or the likelihood does
            not take the outputs, targets or weights.
    """
    examples = _count(batch.x, "x")
    targets = _count(batch.y, "y")
    if examples != targets:
        raise ValueError(f"x has {examples} examples and y has {targets}: give one y for each x")
    if examples == 0:
        raise ValueError("there are no examples: x and y are empty. Give at least one")
    check_finite(batch.x)
    outputs = output_shape(model, batch.x)
    shape = getattr(outputs, "shape", ())
    if len(shape) > 1 and shape[0] != examples:
        raise ValueError(
            f"the network returns {shape} for {examples} examples: the first axis of its outputs "
            "must be that of the examples"
        )
    likelihood.check(outputs, batch.y, batch.weights)


def check_finite(x: PyTree) -> None:
    """Refuse inputs that are NaN or infinite, or would be in the precision in use."""
    for name, leaf in zip(tree.names(x), jax.tree.leaves(x), strict=True):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            values = leaf.astype(jax.dtypes.canonicalize_dtype(leaf.dtype), copy=False)
            # The sum needs no memory, and is only finite if every term is.
            if np.isfinite(values.sum()):
                continue
        bad = ~np.isfinite(np.asarray(values))
        if bad.any():
            first = tuple(int(i) for i in np.unravel_index(np.argmax(bad), bad.shape))
            raise ValueError(
                f"{_named('x', name)}{list(first)} is {np.asarray(leaf)[first]} ({bad.sum()} of "
                f"{bad.size} numbers are NaN or infinite in {values.dtype}): inputs must be "
                "finite. Fill in what is missing, or leave the example out"
            )


def output_shape(model: Model, x: PyTree) -> Any:
    """The shape and type of the outputs, without computing them.

    Raises:
        ValueError: If the network does not take these inputs.
    """
    try:
        return jax.eval_shape(_outputs, model, x)
    except Exception as error:
        shapes = ", ".join(
            f"{_named('x', name)} of shape {leaf.shape} and type {leaf.dtype}"
            for name, leaf in zip(tree.names(x), jax.tree.leaves(x), strict=True)
        )
        raise ValueError(
            f"the network does not take {shapes}, of which the first axis is that of the examples. "
            f"It says: {type(error).__name__}: {error}"
        ) from error


def _outputs(model: Model, x: PyTree) -> PyTree:
    return model.apply(model.params, model.state, x)[0]


def _count(arrays: PyTree, what: str) -> int:
    """The length of the first axis, which all arrays must share."""
    names, leaves = tree.names(arrays), jax.tree.leaves(arrays)
    if not leaves:
        raise ValueError(f"{what} holds no array. Give one with an axis over the examples first")
    for name, leaf in zip(names, leaves, strict=True):
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")) or leaf.dtype == object:
            raise TypeError(
                f"{_named(what, name)} is a {type(leaf).__name__}, not an array of numbers. Give "
                f"np.asarray({what}), with an axis over the examples first"
            )
        if leaf.ndim == 0:
            raise ValueError(
                f"{_named(what, name)} is a single number. Give an array with an axis over the "
                "examples first"
            )
    counts = {_named(what, name): len(leaf) for name, leaf in zip(names, leaves, strict=True)}
    if len(set(counts.values())) > 1:
        raise ValueError(f"the arrays differ in how many examples they have: {counts}")
    return len(leaves[0])


def _named(what: str, name: str) -> str:
    return what if name == "." else f"{what}/{name}"
