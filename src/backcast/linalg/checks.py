"""Errors for the person who gets them: what was given, what is allowed, what to do next.

Shapes, types and structure are known while tracing and always checked. Values are checked at
once where they are known; under ``jit`` the same message surfaces as an error when the compiled
function runs, never as a silent NaN.

Where a compiled function runs on several devices, the one that finds the error leaves the others
waiting for it, and XLA ends the process: there, check values before they enter the program.
"""

from collections.abc import Callable
from numbers import Integral

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, PyTree

from backcast.linalg import tree


def parameters(params: PyTree, what: str = "The parameters") -> None:
    """Refuse what cannot be filtered: an empty tree, or leaves that are not real floats."""
    leaves = jax.tree.leaves(params)
    if not leaves:
        raise ValueError(f"{what} are an empty tree; give at least one array of real floats.")
    for name, leaf in zip(tree.names(params), leaves, strict=True):
        dtype = getattr(leaf, "dtype", None)
        if dtype is None or not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(
                f"{what}: leaf '{name}' is {dtype or type(leaf).__name__}, but only arrays of real "
                "floats can be filtered; cast it, or keep it out of the parameters (in the "
                "model's state, or by a `trainable` pattern)."
            )


def same_tree(reference: PyTree, given: PyTree, what: str, rows: int | None = None) -> None:
    """Refuse a tree unlike ``reference`` in any leaf; ``rows`` is the leading axis of a factor."""
    expected = _shapes(reference)
    found = _shapes(given)
    missing, unexpected = expected.keys() - found.keys(), found.keys() - expected.keys()
    if missing or unexpected:
        parts = [f"lacks {sorted(missing)}"] * bool(missing)
        parts += [f"has the unknown {sorted(unexpected)}"] * bool(unexpected)
        raise ValueError(
            f"{what} does not have the leaves of the parameters: it {' and '.join(parts)}. "
            "Give a tree of the same structure."
        )
    for name, shape in expected.items():
        shape = shape if rows is None else (rows, *shape)
        if found[name] != shape:
            raise ValueError(
                f"{what}: leaf '{name}' has shape {found[name]}, but the parameters need {shape}."
            )
    if jax.tree.structure(reference) != jax.tree.structure(given):
        raise ValueError(
            f"{what} has the leaves of the parameters in other containers: "
            f"{jax.tree.structure(given)} instead of {jax.tree.structure(reference)}. "
            "Give a tree of the same structure."
        )


def broadcasts(reference: PyTree, given: PyTree, what: str) -> PyTree:
    """``given`` as arrays, if it is a tree like ``reference``; a leaf may be one number."""
    checked = given
    if jax.tree.structure(reference) == jax.tree.structure(given):
        checked = jax.tree.map(lambda x, g: x if jnp.ndim(g) == 0 else g, reference, given)
    same_tree(reference, checked, what)
    for name, leaf in zip(tree.names(given), jax.tree.leaves(given), strict=True):
        if not is_real(leaf):
            raise ValueError(f"{what}: leaf '{name}' is not made of real numbers, but {leaf!r}.")
    return jax.tree.map(lambda x, g: jnp.asarray(g, tree.accumulator(x)), reference, given)


def count(value: int, what: str) -> int:
    """Pass ``value`` on if it is a whole number >= 0."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
        raise ValueError(f"{what} must be a whole number >= 0, but {value!r} was given.")
    return int(value)


def is_real(value: object) -> bool:
    """Whether a value is a number or an array of integers or floats."""
    if isinstance(value, bool):
        return False
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return isinstance(value, int | float)
    return jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating)


def finite(values: PyTree, what: str, remedy: str) -> PyTree:
    """Pass ``values`` on if all of them are finite; else an error that names the leaf."""
    return _passing(values, jnp.isfinite, f"{what} must be finite", remedy)


def nonnegative(values: PyTree, what: str, remedy: str) -> PyTree:
    """Pass ``values`` on if all of them are finite and >= 0; else an error that names the leaf."""
    return _passing(values, _is_nonnegative, f"{what} must be finite and >= 0", remedy)


def positive(values: PyTree, what: str, remedy: str) -> PyTree:
    """Pass ``values`` on if all of them are finite and > 0; else an error that names the leaf."""
    return _passing(values, _is_positive, f"{what} must be finite and > 0", remedy)


def zero(values: PyTree, what: str, remedy: str) -> PyTree:
    """Pass ``values`` on if all of them are zero; else an error that names the leaf."""
    return _passing(values, _is_zero, f"{what} must be zero", remedy)


def is_known(values: PyTree) -> bool:
    """Whether the values can be looked at now, that is, nothing is being traced."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))


def _shapes(values: PyTree) -> dict[str, tuple[int, ...]]:
    leaves = jax.tree.leaves(values)
    return dict(zip(tree.names(values), (jnp.shape(x) for x in leaves), strict=True))


def _is_nonnegative(x: Array) -> Array:
    return (x >= 0) & (x < jnp.inf)


def _is_zero(x: Array) -> Array:
    return x == 0


def _is_positive(x: Array) -> Array:
    return (x > 0) & (x < jnp.inf)


def _passing(values: PyTree, good: Callable[[Array], Array], rule: str, remedy: str) -> PyTree:
    leaves, structure = jax.tree.flatten(values)
    if not leaves:
        return values
    places = [f" in leaf '{name}'" if name != "." else "" for name in tree.names(values)]
    if is_known(values):
        # Known values may be constants of a program that is being traced, which would trace this.
        with jax.ensure_compile_time_eval():
            flags = _any_bad(leaves, good)
            if flags.any():
                first = int(flags.argmax())
                worst = leaves[first][~good(leaves[first])].ravel()[0]
                raise ValueError(f"{rule}, but {worst} was given{places[first]}. {remedy}")
        return values
    messages = [f"{rule}, but other values were given{place}. {remedy}" for place in places]
    flags = jnp.stack([jnp.any(~good(leaf)) for leaf in leaves])
    # The check rides on the smallest leaf, so that no large array passes through the branch.
    carrier = min(range(len(leaves)), key=lambda i: leaves[i].size)
    leaves[carrier] = eqx.branched_error_if(
        leaves[carrier], jnp.any(flags), jnp.argmax(flags), messages
    )
    return jax.tree.unflatten(structure, leaves)


@eqx.filter_jit
def _any_bad(leaves: list[Array], good: Callable[[Array], Array]) -> Array:
    return jnp.stack([jnp.any(~good(leaf)) for leaf in leaves])
