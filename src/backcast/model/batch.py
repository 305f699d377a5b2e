"""Examples as the model room passes them around."""

from typing import NamedTuple

from jaxtyping import Array, PyTree, Shaped


class Batch(NamedTuple):
    """Some examples: every array has a leading axis over them.

    Attributes:
        x: inputs, an array or a pytree of arrays.
        y: targets, as the likelihood takes them.
        weights: weights or masks over the leading axes of the outputs (see
            `backcast.model.reduction`), or None for ones.
    """

    x: PyTree[Array]
    y: PyTree[Array]
    weights: Shaped[Array, "n ..."] | None = None
