"""Examples as the model room passes them around."""

from typing import Any, NamedTuple

from jaxtyping import PyTree


class Batch(NamedTuple):
    """Some examples: every array has a leading axis over them, on the host or a device.

    Attributes:
        x: inputs, an array or a pytree of arrays.
        y: targets, as the likelihood takes them.
        weights: weights or masks over the leading axes of the outputs (see
            `backcast.model.reduction`), or None for ones.
    """

    x: PyTree
    y: PyTree
    weights: Any = None
