"""A Gaussian belief about a network's weights, and how it enters anyone's training loop."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from backcast.linalg import DiagLowRank, Precision, checks, tree


@final
class Belief(eqx.Module):
    """``N(m, P^-1)`` over a pytree of parameters."""

    mean: PyTree
    precision: Precision

    def __check_init__(self):
        """Refuse a mean and a precision of different parameters."""
        checks.parameters(self.mean, "The belief's mean")
        checks.same_tree(self.mean, self.precision.diag, "The belief's precision")

    @classmethod
    def prior(cls, mean: PyTree, precision: float | Array, rank: int = 0) -> "Belief":
        """``N(mean, I / precision)``, with room for ``rank`` rows (see `DiagLowRank.isotropic`)."""
        return cls(mean, DiagLowRank.isotropic(mean, precision, rank))

    def penalty(self, params: PyTree) -> Float[Array, ""]:
        """``1/2 (theta - m)^T P (theta - m)``: added to a task's mean loss (paper, eq. 6)."""
        return self.precision.quad(self._offset(params)) / 2

    def gradient(self, params: PyTree) -> PyTree:
        """``P (theta - m)``: the gradient of `penalty`."""
        return self.precision.mv(self._offset(params))

    def sample(self, key: PRNGKeyArray) -> PyTree:
        """One draw of the parameters."""
        drawn = jax.tree.map(jnp.add, self.mean, self.precision.sample(key))
        return tree.cast_like(self.mean, drawn)

    def _offset(self, params: PyTree) -> PyTree:
        checks.same_tree(self.mean, params, "The parameters given to the belief")
        return jax.tree.map(jnp.subtract, params, self.mean)


class AnchorState(NamedTuple):
    """The belief an optimiser is anchored to: held as state, so a new one recompiles nothing."""

    belief: Belief


def anchor(belief: Belief) -> optax.GradientTransformation:
    """Add ``P (theta - m)`` to the gradient: training with this chained first finds the mode.

    Use it in a loop of your own, before the optimiser::

        optimizer = optax.chain(anchor(belief), optax.adam(1e-3))

    The gradient given must be that of the *mean* loss, and ``update`` must be given ``params``.
    """

    def init(params: Any) -> Any:
        checks.same_tree(belief.mean, params, "The parameters given to the optimiser")
        return AnchorState(belief)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        if params is None:
            raise ValueError(
                "anchor needs the parameters: call optimizer.update(gradients, state, params)."
            )
        pull = state.belief.gradient(params)
        return jax.tree.map(lambda g, p: g + p.astype(g.dtype), updates, pull), state

    return optax.GradientTransformation(init, update)
