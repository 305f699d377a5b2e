"""The square root of a batch's curvature in the outputs: one linear map for every kind."""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from backcast.model.batch import Batch
from backcast.model.likelihood import Likelihood
from backcast.model.reduction import weighted_fisher_root, weighted_root

Fisher = Literal["exact", "sampled", "empirical"]


def columns_of(
    outputs: Float[Array, "n *rest C"] | jax.ShapeDtypeStruct, fisher: Fisher
) -> jax.ShapeDtypeStruct:
    """The shape and type of the columns of a batch with such outputs."""
    shape = outputs.shape if fisher == "exact" else outputs.shape[:1]
    return jax.ShapeDtypeStruct(shape, outputs.dtype)


class OutputRoot(NamedTuple):
    """The map ``S`` with the batch's curvature in the outputs ``S S^T``, never formed.

    Attributes:
        spread: ``c -> S c``, from columns to outputs.
        gather: ``u -> S^T u``, its transpose.
        columns: The shape and type of ``c``: ``n`` examples, and the columns each of them has.
    """

    spread: Callable[[Float[Array, "n *columns"]], Float[Array, "n *rest C"]]
    gather: Callable[[Float[Array, "n *rest C"]], Float[Array, "n *columns"]]
    columns: jax.ShapeDtypeStruct

    @property
    def column_count(self) -> int:
        """How many columns each example has."""
        return math.prod(self.columns.shape[1:])

    def column(self, index: Int[Array, ""]) -> Float[Array, "n *rest C"]:
        """The same column of every example: ``S`` times a unit vector."""
        count, *columns = self.columns.shape
        one = jax.nn.one_hot(index, self.column_count, dtype=self.columns.dtype)
        return self.spread(jnp.broadcast_to(one.reshape(columns), (count, *columns)))


def output_root(
    likelihood: Likelihood,
    outputs: Float[Array, "n *rest C"],
    batch: Batch,
    fisher: Fisher,
    key: Key[Array, ""],
) -> OutputRoot:
    """The root for the loss summed over the batch.

    ``"exact"`` has one column for each output: ``S`` is the likelihood's root. The other two have
    one for each example, the gradient of its whole loss in its outputs, so that all tokens of a
    sequence share a column. At drawn targets the products of different tokens' gradients
    average out, and ``E[S S^T]`` is what ``"exact"`` gives; at the true targets they do not, and
    the sum of squared gradients of the examples is what is commonly called the empirical Fisher.
    """
    columns = columns_of(outputs, fisher)
    if fisher == "exact":

        def spread(c):
            return weighted_root(likelihood, outputs, batch.y, c, batch.weights)
    else:
        drawn = likelihood.sample(key, outputs) if fisher == "sampled" else batch.y
        gradient = weighted_fisher_root(likelihood, outputs, batch.y, drawn, batch.weights)

        def spread(c):
            return jnp.expand_dims(c, range(1, outputs.ndim)) * gradient

    transpose = jax.linear_transpose(spread, columns)
    return OutputRoot(spread, lambda u: transpose(u)[0], columns)
