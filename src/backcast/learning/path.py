"""What a parameter contributed while it was learned: the path integral of the task's gradient."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree


class PathState(NamedTuple):
    """The optimiser's own state, and ``-sum g (theta' - theta)`` over the steps so far."""

    inner: Any
    contribution: PyTree


@functools.cache
def with_path(optimizer: optax.GradientTransformation) -> optax.GradientTransformationExtraArgs:
    """The same optimiser, which also adds up by how much each parameter lowered the task's loss.

    The gradient ``g`` is that of the task's loss alone: ``update`` needs a ``value_fn`` that knows
    the rest, as training here gives it (`backcast.learning.steps.Value`). Equal optimisers give the
    same object, so that nothing is compiled twice.
    """
    inner = optax.with_extra_args_support(optimizer)

    def init(params: Any) -> Any:
        return PathState(inner.init(params), jax.tree.map(jnp.zeros_like, params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        steps, after = inner.update(updates, state.inner, params, **extra)
        rest = extra["value_fn"].penalty_gradient(params)
        contribution = jax.tree.map(
            lambda c, g, r, s: c - (g - r.astype(g.dtype)) * s,
            state.contribution,
            updates,
            rest,
            steps,
        )
        return steps, PathState(after, contribution)

    return optax.GradientTransformationExtraArgs(init, update)
