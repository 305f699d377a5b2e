"""Likelihoods: how well a network's outputs explain the targets, and how sharply they must.

Outputs have shape ``(n, ..., C)``: ``n`` examples, any axes between (the tokens of a sequence, the
pixels of an image), and a last axis with the numbers that explain one target. An *entry* is one
index of the leading axes ``(n, ...)``; it has one loss. `backcast.model.reduction` sums entries up,
with weights and masks.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PyTree, Shaped


class Likelihood(eqx.Module):
    """``log p(y | f(x))`` as a function of a network's outputs ``f(x)``."""

    @abstractmethod
    def loss(
        self, outputs: Float[Array, "*entries C"], targets: PyTree
    ) -> Float[Array, "*entries"]:
        """``-log p(y | f)`` of every entry."""

    @abstractmethod
    def root(
        self, outputs: Float[Array, "*entries C"], targets: PyTree, v: Float[Array, "*entries C"]
    ) -> Float[Array, "*entries C"]:
        """``S v`` for every entry, where ``S S^T`` is the Hessian of the loss in the outputs.

        Linear in ``v``: ``S^T u`` is had from ``jax.linear_transpose``. If ``v`` is random with
        mean 0 and covariance ``I``, then ``S v`` has the Hessian as its covariance.
        """

    @abstractmethod
    def fisher_root(
        self, outputs: Float[Array, "*entries C"], targets: PyTree, drawn: PyTree
    ) -> Float[Array, "*entries C"]:
        """``g``, the gradient of ``-log p(drawn | f)`` in the outputs, for sums of ``g g^T``.

        With targets drawn by ``sample``, ``E[g g^T] = S S^T``: the Monte-Carlo Fisher. With
        ``drawn = targets`` it is the empirical Fisher. The targets themselves matter only where
        the loss counts some of them more than others: ``g`` carries the root of that weight.
        """

    @abstractmethod
    def sample(self, key: Key[Array, ""], outputs: Float[Array, "*entries C"]) -> Array:
        """Targets drawn from ``p(y | f)``."""

    @abstractmethod
    def mean(self, outputs: Float[Array, "*entries C"]) -> Float[Array, "*entries m"]:
        """The mean of ``p(y | f)``: probabilities, rates or expected values."""

    @abstractmethod
    def predict(self, outputs: Float[Array, "*entries C"]) -> Array:
        """The one target to bet on: a class, a 0 or 1, or the mean."""

    @abstractmethod
    def score(
        self, outputs: Float[Array, "*entries C"], targets: PyTree
    ) -> Float[Array, "*entries"]:
        """How good the prediction of every entry is; higher is better."""

    @abstractmethod
    def fitted(
        self,
        outputs: Float[Array, "n *rest C"],
        targets: PyTree,
        weights: Shaped[Array, "n ..."] | None = None,
    ) -> "Likelihood":
        """The likelihood with its own parameters, if it has any, set to their best values.

        Best is most likely given the outputs; a likelihood without such parameters gives itself.
        """

    @abstractmethod
    def check_targets(
        self, outputs: jax.ShapeDtypeStruct, targets: Any, present: Bool[np.ndarray, "*entries"]
    ) -> None:
        """Refuse targets that ``loss`` cannot take, looking only at the entries present."""

    def check(self, outputs: Any, targets: Any, weights: Any | None = None) -> None:
        """Refuse, before any work starts, what would fail or mislead later.

        Args:
            outputs: The shape and type of the outputs, as from ``jax.eval_shape``.
            targets: The targets, on the host or on a device.
            weights: Weights or masks, if there are any.

        Raises:
            TypeError: The model does not return one array of floats, or targets or weights are not
                of a kind of number that the likelihood takes.
            ValueError: Something else does not fit; the message names the first bad entry.
        """
        if not (hasattr(outputs, "shape") and hasattr(outputs, "dtype")):
            raise TypeError(
                f"the model returns {type(outputs).__name__}; a likelihood needs one array of "
                "shape (examples, ..., outputs). Return only that array"
            )
        if not jnp.issubdtype(outputs.dtype, jnp.floating):
            raise TypeError(f"the model returns {outputs.dtype}; a likelihood needs floats")
        if len(outputs.shape) < 2:
            raise ValueError(
                f"the model returns shape {outputs.shape}; a likelihood needs (examples, ..., "
                "outputs). If it returns one number per example, let it return (examples, 1)"
            )
        if 0 in outputs.shape:
            raise ValueError(
                f"the model returns shape {outputs.shape}, so there is nothing to learn from. Give "
                "at least one example, and a model with at least one output"
            )
        self.check_targets(outputs, targets, _present(outputs, weights))


def output_gradient(
    loss: Callable[[Array, PyTree], Array], outputs: Float[Array, "*entries C"], targets: PyTree
) -> Float[Array, "*entries C"]:
    """The gradient of every entry's loss in its own outputs."""
    return jax.grad(lambda f: jnp.sum(loss(f, targets)))(outputs)


def real_numbers(values: Any, what: str) -> np.ndarray:
    """The values as an array on the host, refused unless they are real numbers or booleans."""
    values = np.asarray(values)
    # NumPy's own issubdtype does not know bfloat16.
    kinds = (jnp.floating, jnp.integer, jnp.bool_)
    if not any(jnp.issubdtype(values.dtype, kind) for kind in kinds):
        raise TypeError(f"{what} are {values.dtype}; they must be an array of real numbers")
    return values


def refuse_first(
    targets: np.ndarray,
    refused: Bool[np.ndarray, "..."],
    present: Bool[np.ndarray, "*entries"],
    reason: str,
) -> None:
    """Raise a ``ValueError`` about the first refused target among the entries present."""
    refused = refused & np.expand_dims(present, tuple(range(present.ndim, refused.ndim)))
    if refused.any():
        where, value = _first(targets, refused)
        raise ValueError(
            f"targets[{where}] is {value}: {reason}. To leave an entry out, give it weight 0"
        )


def _present(outputs: jax.ShapeDtypeStruct, weights: Any | None) -> Bool[np.ndarray, "*entries"]:
    entries = outputs.shape[:-1]
    if weights is None:
        return np.ones(entries, bool)
    weights = real_numbers(weights, "weights")
    if weights.ndim == 0 or weights.shape != entries[: weights.ndim]:
        allowed = " or ".join(str(entries[:k]) for k in range(1, len(entries) + 1))
        raise ValueError(
            f"weights have shape {weights.shape} and the model returns {outputs.shape}; they must "
            f"have {allowed}"
        )
    refused = ~(np.isfinite(weights) & (weights >= 0))
    if refused.any():
        where, value = _first(weights, refused)
        raise ValueError(
            f"weights[{where}] is {value}; weights must be finite and not negative (zero leaves an "
            "entry out)"
        )
    if not weights.any():
        raise ValueError(
            "all weights are zero, so nothing is left to learn from. Give at least one entry a "
            "positive weight"
        )
    missing = tuple(range(weights.ndim, len(entries)))
    return np.broadcast_to(np.expand_dims(weights > 0, missing), entries)


def _first(values: np.ndarray, chosen: Bool[np.ndarray, "..."]) -> tuple[str, Any]:
    index = tuple(int(i) for i in np.unravel_index(np.argmax(chosen), chosen.shape))
    return ", ".join(map(str, index)), values[index]
