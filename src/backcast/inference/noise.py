"""Process noise: how far each weight may drift from one task to the next."""

import fnmatch
import glob
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from backcast.linalg import checks, tree


@final
@dataclass(frozen=True)
class Relative:
    """``factor`` times the mean square of a layer's weights (paper: structured ``Q``).

    A layer is the leaves that share all of their name but its last part: ``conv1/kernel`` and
    ``conv1/bias``.
    """

    factor: float | Float[Array, ""]


T = TypeVar("T")
Level = float | Array | np.ndarray | Relative


@final
class Noise:
    """A diagonal ``Q``: the variance of each weight's drift per unit of time.

    ``Noise(1e-6)`` lets every weight drift alike. ``Noise({"*": 1e-6, "conv1/*": 1e-5})`` sets it
    by glob patterns on the names of the leaves (``*`` also matches ``/``): where several match, the
    last one counts, and what none matches does not drift. A level is a variance, an array of
    variances shaped like the leaf, or `Relative` to the size of the layer's weights.
    """

    def __init__(self, levels: Level | Mapping[str, Level] = 0.0):
        """Take one level for all leaves, or levels by pattern."""
        self.levels = dict(levels) if isinstance(levels, Mapping) else {"*": levels}
        self._whole = False  # whether every leaf must have a level of its own
        for pattern, level in self.levels.items():
            value = level.factor if isinstance(level, Relative) else level
            if not checks.is_real(value):
                raise ValueError(
                    f"The noise of '{pattern}' must be a number, an array of real numbers or a "
                    f"Relative, but {value!r} was given."
                )
            checks.nonnegative(
                {pattern: jnp.asarray(value, float)},
                "The noise",
                "It is a variance: give numbers >= 0.",
            )

    @classmethod
    def from_tree(cls, variances: PyTree) -> "Noise":
        """Take the variances leaf by leaf, from a tree like the parameters'."""
        leaves = jax.tree.leaves(variances)
        patterns = [glob.escape(name) for name in tree.names(variances)]
        noise = cls(dict(zip(patterns, leaves, strict=True)))
        noise._whole = True
        return noise

    def variance(self, params: PyTree, dt: float | Float[Array, ""] = 1.0) -> PyTree:
        """``dt * diag(Q)`` for these parameters: a tree like theirs.

        A leaf whose entries share one variance is stored as that one number, in float32 at least:
        a variance is small, and half precision would round it to zero.

        Args:
            params: the parameters that drift; `Relative` levels are taken from their values.
            dt: the time that passes, in the unit in which the levels are stated.
        """
        checks.parameters(params)
        elapsed = checks.nonnegative(
            jnp.asarray(dt), "The time between two tasks (dt)", "Observe tasks in order of time."
        )
        names, leaves = tree.names(params), jax.tree.leaves(params)
        chosen = self._choose(names)
        levels = [
            _resolve(level, name, leaf, names, leaves) * elapsed.astype(tree.accumulator(leaf))
            for level, name, leaf in zip(chosen, names, leaves, strict=True)
        ]
        return jax.tree.unflatten(jax.tree.structure(params), levels)

    def _choose(self, names: list[str]) -> list[Level]:
        found = chosen(self.levels, names)
        forgotten = [name for name, level in zip(names, found, strict=True) if level is None]
        if self._whole and forgotten:
            raise ValueError(
                f"The tree of noise lacks the parameters {forgotten}; give every leaf a variance, "
                "or name leaves by patterns: what none matches does not drift."
            )
        return [0.0 if level is None else level for level in found]

    def __repr__(self) -> str:
        return f"Noise({self.levels!r})"


def chosen(levels: Mapping[str, T], names: list[str]) -> list[T | None]:
    """What the last pattern that matches each name stands for; None where none does."""
    found: list[T | None] = [None] * len(names)
    for pattern, level in levels.items():
        hits = [i for i, name in enumerate(names) if fnmatch.fnmatchcase(name, pattern)]
        if not hits:
            raise ValueError(
                f"The noise pattern '{pattern}' matches no parameter. The names are: "
                f"{', '.join(names)}."
            )
        for i in hits:
            found[i] = level
    return found


def layer_of(name: str) -> str:
    """The layer of a leaf: all of its name but the last part, or a name of one part itself."""
    return name.rpartition("/")[0] or name


def _resolve(
    level: Level, name: str, leaf: Array, names: list[str], leaves: list[Array]
) -> Float[Array, "..."]:
    dtype = tree.accumulator(leaf)
    if isinstance(level, Relative):
        own = layer_of(name)
        layer = [x for other, x in zip(names, leaves, strict=True) if layer_of(other) == own]
        return jnp.asarray(level.factor, dtype) * tree.dot(layer, layer) / sum(map(jnp.size, layer))
    value = jnp.asarray(level, dtype)
    if value.shape not in ((), leaf.shape):
        raise ValueError(
            f"The noise of leaf '{name}' has shape {value.shape}; give one number, or an array of "
            f"the leaf's shape {leaf.shape}."
        )
    return value
