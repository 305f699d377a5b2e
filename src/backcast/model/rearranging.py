"""What becomes of the axes of an array that is rearranged: where each of them ends up."""

from collections.abc import Callable
from typing import Any

from jax.extend.core import JaxprEqn

Labels = tuple[tuple[int, ...], ...]
"""For each axis of a rearranged array, the axes of the original that make it up, in order."""


def shape_of(atom: Any) -> tuple[int, ...]:
    """The shape of a variable or literal."""
    return atom.aval.shape


def _same(equation: JaxprEqn, labels: Labels) -> Labels | None:
    return labels


def _transposed(equation: JaxprEqn, labels: Labels) -> Labels | None:
    return tuple(labels[axis] for axis in equation.params["permutation"])


def _broadcast(equation: JaxprEqn, labels: Labels) -> Labels | None:
    before = shape_of(equation.invars[0])
    after: list[tuple[int, ...]] = [()] * len(equation.params["shape"])
    for axis, place in enumerate(equation.params["broadcast_dimensions"]):
        if labels[axis] and before[axis] != equation.params["shape"][place]:
            return None
        after[place] = labels[axis]
    return tuple(after)


def _reshaped(equation: JaxprEqn, labels: Labels) -> Labels | None:
    """The labels after columns were joined, or places joined or split; None for anything else."""
    before, after = shape_of(equation.invars[0]), shape_of(equation.outvars[0])
    pieces = [(size, axes) for size, axes in zip(before, labels, strict=True) if size > 1 or axes]
    found: list[tuple[int, ...]] = []
    for size in after:
        taken, joined = 1, []
        if pieces and not pieces[0][1] and pieces[0][0] > size > 1 and pieces[0][0] % size == 0:
            # Places may be told apart again; columns stay together.
            pieces[0] = (pieces[0][0] // size, ())
            found.append(())
            continue
        while pieces and taken * pieces[0][0] <= size and (taken < size or pieces[0][0] == 1):
            length, axes = pieces.pop(0)
            taken *= length
            joined.append(axes)
        if taken != size or (any(joined) and not all(joined)):
            return None
        found.append(tuple(axis for axes in joined for axis in axes))
    return None if pieces else tuple(found)


def _squeezed(equation: JaxprEqn, labels: Labels) -> Labels | None:
    gone = equation.params["dimensions"]
    if any(labels[axis] for axis in gone):
        return None
    return tuple(axes for axis, axes in enumerate(labels) if axis not in gone)


REARRANGING: dict[str, Callable[[JaxprEqn, Labels], Labels | None]] = {
    "broadcast_in_dim": _broadcast,
    "convert_element_type": _same,
    "copy": _same,
    "copy_p": _same,
    "reshape": _reshaped,
    "squeeze": _squeezed,
    "transpose": _transposed,
}
"""By primitive: the labels after an equation; None where they are lost."""
