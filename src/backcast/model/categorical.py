"""One of several classes."""

from collections.abc import Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, Key, Shaped

from backcast.model.likelihood import Likelihood, real_numbers, refuse_first


@final
class Categorical(Likelihood):
    """Classes ``0 ... C-1`` with probabilities ``p = softmax(f)``; the outputs ``f`` are logits.

    Class weights ``c`` multiply the loss and its Hessian, ``c_y``, and nothing else: they do not
    change what is sampled or predicted, nor how many examples there are. Choose them to average one
    over the data if a task is to count for as much as without them.

    Args:
        class_weights: A weight for each class, or None for equal ones.
    """

    class_weights: Float[Array, " C"] | None

    def __init__(self, class_weights: ArrayLike | Sequence[ArrayLike] | None = None):
        if class_weights is not None:
            _check_class_weights(np.asarray(class_weights))
            class_weights = jnp.asarray(class_weights, float)
        self.class_weights = class_weights

    def loss(
        self, outputs: Float[Array, "*entries C"], targets: Int[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """``-c_y log softmax(f)_y``."""
        log_p = jax.nn.log_softmax(outputs)
        chosen = jnp.take_along_axis(log_p, jnp.asarray(targets)[..., None], axis=-1)[..., 0]
        return -self._weight(outputs, targets) * chosen

    def root(
        self,
        outputs: Float[Array, "*entries C"],
        targets: Int[Array, "*entries"],
        v: Float[Array, "*entries C"],
    ) -> Float[Array, "*entries C"]:
        """``sqrt(c_y) (sqrt(p) v - p <sqrt(p), v>)``: ``S S^T = c_y (diag(p) - p p^T)``."""
        sqrt_p = jnp.exp(0.5 * jax.nn.log_softmax(outputs))
        along = sqrt_p * jnp.sqrt(self._weight(outputs, targets))[..., None]
        return along * (v - sqrt_p * jnp.sum(sqrt_p * v, axis=-1, keepdims=True))

    def fisher_root(
        self,
        outputs: Float[Array, "*entries C"],
        targets: Int[Array, "*entries"],
        drawn: Int[Array, "*entries"],
    ) -> Float[Array, "*entries C"]:
        """``sqrt(c_y) (p - e_d)``, with the weight of the target ``y`` whatever was drawn."""
        chosen = jax.nn.one_hot(drawn, outputs.shape[-1], dtype=outputs.dtype)
        weight = jnp.sqrt(self._weight(outputs, targets))[..., None]
        return weight * (jax.nn.softmax(outputs) - chosen)

    def sample(
        self, key: Key[Array, ""], outputs: Float[Array, "*entries C"]
    ) -> Int[Array, "*entries"]:
        """Classes drawn with probabilities ``p``."""
        return jax.random.categorical(key, outputs)

    def mean(self, outputs: Float[Array, "*entries C"]) -> Float[Array, "*entries C"]:
        """The probabilities of the classes."""
        return jax.nn.softmax(outputs)

    def predict(self, outputs: Float[Array, "*entries C"]) -> Int[Array, "*entries"]:
        """The most probable class."""
        return jnp.argmax(outputs, axis=-1)

    def score(
        self, outputs: Float[Array, "*entries C"], targets: Int[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """1 where the most probable class is the target's, else 0."""
        return (self.predict(outputs) == targets).astype(outputs.dtype)

    def fitted(
        self,
        outputs: Float[Array, "n *rest C"],
        targets: Int[Array, "n *rest"],
        weights: Shaped[Array, "n ..."] | None = None,
    ) -> "Categorical":
        """Itself: nothing to estimate."""
        return self

    def check_targets(
        self, outputs: jax.ShapeDtypeStruct, targets: Any, present: Bool[np.ndarray, "*entries"]
    ) -> None:
        """Integer classes of the outputs' leading shape, each below the number of outputs."""
        *entries, classes = outputs.shape
        targets = real_numbers(targets, "targets")
        if classes < 2:
            raise ValueError(
                "the model returns one output per target and Categorical needs one per class. For "
                "two classes from a single logit use Bernoulli"
            )
        if self.class_weights is not None and self.class_weights.shape != (classes,):
            raise ValueError(
                f"there are {self.class_weights.size} class weights and the model has {classes} "
                "outputs: give one weight per class"
            )
        if targets.shape != tuple(entries):
            remedy = "Give one class per target"
            if targets.shape == outputs.shape:
                remedy = "If they are one-hot, give targets.argmax(-1)"
            elif targets.shape == (*entries, 1):
                remedy = "Drop their last axis: targets[..., 0]"
            raise ValueError(
                f"targets have shape {targets.shape} and the model returns {outputs.shape}, so "
                f"they must have {tuple(entries)}. {remedy}"
            )
        if not np.issubdtype(targets.dtype, np.integer):
            raise TypeError(
                f"targets are {targets.dtype} and classes are integers: give targets.astype(int)"
            )
        refuse_first(
            targets,
            (targets < 0) | (targets >= classes),
            present,
            f"classes are 0 ... {classes - 1}, one for each output of the model",
        )

    def _weight(
        self, outputs: Float[Array, "*entries C"], targets: Int[Array, "*entries"]
    ) -> Float[Array, "*entries"] | Float[Array, ""]:
        if self.class_weights is None:
            return jnp.ones((), outputs.dtype)
        return self.class_weights.astype(outputs.dtype)[targets]


def _check_class_weights(weights: np.ndarray) -> None:
    usable = weights.ndim == 1 and bool(np.all(np.isfinite(weights) & (weights >= 0)))
    if not (usable and weights.any()):
        raise ValueError(
            f"class weights are {weights.tolist()}; they must be a list of finite numbers, one per "
            "class, none negative and not all zero"
        )
