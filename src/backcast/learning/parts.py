"""Trees of arrays as flat tables of named arrays, and back: what goes into one file."""

import dataclasses
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from backcast.learning.files import LoadError
from backcast.linalg import Precision, tree


def named(part: str, values: PyTree) -> dict[str, np.ndarray]:
    """The leaves of a tree as host arrays, by their names after that of the part."""
    names = (f"{part}:{name}" for name in tree.names(values))
    return {n: np.asarray(x) for n, x in zip(names, jax.tree.leaves(values), strict=True)}


def restored(part: str, like: PyTree, arrays: dict[str, np.ndarray], path: Path) -> PyTree:
    """The tree that `named` took apart, of the structure and shapes of ``like``."""
    return _filled(part, like, arrays, path, lambda found, wanted: found == wanted)


def restored_levels(part: str, like: PyTree, arrays: dict[str, np.ndarray], path: Path) -> PyTree:
    """A tree of which each leaf is like that of ``like``, or one number."""
    return _filled(part, like, arrays, path, lambda found, wanted: found in ((), wanted))


def named_precision(part: str, precision: Precision) -> dict[str, np.ndarray]:
    """The arrays of a precision, by its fields."""
    found = {}
    for field in _fields(precision):
        found |= named(f"{part}{field}", getattr(precision, field))
    return found


def restored_precision(
    part: str, like: Precision, arrays: dict[str, np.ndarray], path: Path
) -> Precision:
    """The precision that `named_precision` took apart; it may count more or less than ``like``."""

    def field(name: str) -> PyTree:
        exact = name == "diag"
        return _filled(
            f"{part}{name}",
            getattr(like, name),
            arrays,
            path,
            lambda found, wanted: found == wanted if exact else found[1:] == wanted[1:],
        )

    names = _fields(like)
    return eqx.tree_at(
        lambda p: [getattr(p, name) for name in names],
        like,
        [field(name) for name in names],
        is_leaf=lambda x: x is None,
    )


def _fields(precision: Precision) -> list[str]:
    """The names of the fields that hold arrays."""
    fields = dataclasses.fields(precision)
    return [field.name for field in fields if not field.metadata.get("static", False)]


def _filled(part, like, arrays, path, fits) -> PyTree:
    leaves, structure = jax.tree.flatten(like)
    found = []
    for name, leaf in zip(tree.names(like), leaves, strict=True):
        array = arrays.get(f"{part}:{name}")
        if array is None or not fits(array.shape, leaf.shape):
            raise LoadError(
                f"{path} was saved from another network: its {part} has "
                f"{'no leaf' if array is None else f'shape {array.shape} in leaf'} '{name}', where "
                f"this network has shape {leaf.shape}. Load it with the network it was saved from."
            )
        if array.dtype != leaf.dtype:
            raise LoadError(
                f"{path}: leaf '{name}' of its {part} is {array.dtype}, and this network has "
                f"{leaf.dtype}. Load it with the network it was saved from, in the same precision "
                "(see jax_enable_x64)."
            )
        found.append(jnp.asarray(array))
    return jax.tree.unflatten(structure, found)
