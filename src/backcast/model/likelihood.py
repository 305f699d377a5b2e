"""Likelihoods: how well a network's outputs explain the targets, and how sharply they must.

Outputs have shape ``(n, ..., C)``: ``n`` examples, any axes between (the tokens of a sequence, the
pixels of an image), and a last axis with the numbers that explain one target. An *entry* is one
index of the leading axes ``(n, ...)``; it has one loss.

**Weights and masks** are one thing: non-negative numbers over the leading axes or the first few of
them. An entry of weight zero is not there at all; its target may be padding and its outputs NaN.
Sums go over entries and means over examples,

    mean loss = (1/N) sum_i sum_t w_it loss_it,      N = sum_i max_t w_it,

so that ``N`` times the mean is the negative log-likelihood of all the data and ``N`` times the
curvature of the mean is the curvature of a posterior. A sequence counts as one example however many
of its tokens are masked, one that is masked altogether counts as none, and an example of weight 2
counts as two.
"""

from abc import abstractmethod
from typing import Any, Self

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
    ) -> Self:
        """The likelihood with its own parameters, if it has any, set to their best values.

        Best is most likely given the outputs; a likelihood without such parameters gives itself.
        """

    @abstractmethod
    def check_targets(
        self, outputs: jax.ShapeDtypeStruct, targets: Any, present: Bool[np.ndarray, "*entries"]
    ) -> None:
        """Refuse targets that ``loss`` cannot take, looking only at the entries present."""

    def root_shape(self, outputs: Float[Array, "*entries C"]) -> tuple[int, ...]:
        """The shape of the ``v`` that ``root`` takes: ``S`` is square."""
        return outputs.shape

    def check(
        self, outputs: jax.ShapeDtypeStruct, targets: Any, weights: Any | None = None
    ) -> None:
        """Refuse, before any work starts, what would fail or mislead later.

        Args:
            outputs: The shape and type of the outputs, as from ``jax.eval_shape``.
            targets: The targets, on the host or on a device.
            weights: Weights or masks, if there are any.

        Raises:
            TypeError: The model does not return one array of floats.
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
            raise ValueError(f"the model returns shape {outputs.shape}: there is nothing to learn")
        self.check_targets(outputs, targets, _present(outputs, weights))


def total_loss(
    likelihood: Likelihood,
    outputs: Float[Array, "n *rest C"],
    targets: PyTree,
    weights: Shaped[Array, "n ..."] | None = None,
) -> Float[Array, ""]:
    """``sum_it w_it loss_it``, summed in at least float32."""
    if weights is None:
        loss = likelihood.loss(outputs, targets)
        return jnp.sum(loss, dtype=_accumulator(loss))
    weights = over_entries(weights, outputs)
    loss = likelihood.loss(*without_absent(weights, (outputs, targets)))
    return jnp.sum(jnp.where(weights > 0, weights * loss, 0.0))


def example_count(
    outputs: Float[Array, "n *rest C"], weights: Shaped[Array, "n ..."] | None = None
) -> Float[Array, ""]:
    """``N = sum_i max_t w_it``: how many examples the outputs stand for."""
    if weights is None:
        return jnp.asarray(outputs.shape[0], _accumulator(outputs))
    weights = over_entries(weights, outputs)
    return jnp.sum(jnp.max(weights, axis=tuple(range(1, weights.ndim))))


def mean_loss(
    likelihood: Likelihood,
    outputs: Float[Array, "n *rest C"],
    targets: PyTree,
    weights: Shaped[Array, "n ..."] | None = None,
) -> Float[Array, ""]:
    """``total_loss / example_count``, and zero if no example is present."""
    return _ratio(
        total_loss(likelihood, outputs, targets, weights), example_count(outputs, weights)
    )


def mean_score(
    likelihood: Likelihood,
    outputs: Float[Array, "n *rest C"],
    targets: PyTree,
    weights: Shaped[Array, "n ..."] | None = None,
) -> Float[Array, ""]:
    """``sum_it w_it score_it / sum_it w_it``: of all entries, since a score is read as a share."""
    if weights is None:
        score = likelihood.score(outputs, targets)
        return jnp.mean(score, dtype=_accumulator(score))
    weights = over_entries(weights, outputs)
    score = likelihood.score(*without_absent(weights, (outputs, targets)))
    return _ratio(jnp.sum(jnp.where(weights > 0, weights * score, 0.0)), jnp.sum(weights))


def weighted_root(
    likelihood: Likelihood,
    outputs: Float[Array, "n *rest C"],
    targets: PyTree,
    v: Float[Array, "n *rest C"],
    weights: Shaped[Array, "n ..."] | None = None,
) -> Float[Array, "n *rest C"]:
    """``sqrt(w) S v``, the root for ``total_loss``; divided by ``sqrt(N)``, for the mean."""
    if weights is None:
        return likelihood.root(outputs, targets, v)
    weights = over_entries(weights, outputs)
    outputs, targets = without_absent(weights, (outputs, targets))
    return jnp.sqrt(weights).astype(v.dtype)[..., None] * likelihood.root(outputs, targets, v)


def over_entries(
    weights: Shaped[Array, "n ..."], outputs: Float[Array, "n *rest C"]
) -> Float[Array, "n *rest"]:
    """Weights for every entry, in at least float32, from weights for the first few axes."""
    weights = jnp.asarray(weights, _accumulator(outputs))
    missing = outputs.ndim - 1 - weights.ndim
    return jnp.broadcast_to(weights.reshape(*weights.shape, *[1] * missing), outputs.shape[:-1])


def without_absent(weights: Float[Array, "*entries"], tree: PyTree) -> PyTree:
    """Arrays over the entries with zeros where an entry is absent.

    Zero times NaN is NaN, in a gradient also where the value was masked afterwards. So what is
    absent must be gone before the loss sees it.
    """
    return jax.tree.map(
        lambda x: jnp.where(
            jnp.expand_dims(weights > 0, range(weights.ndim, x.ndim)), x, jnp.zeros_like(x)
        ),
        jax.tree.map(jnp.asarray, tree),
    )


def refuse_first(
    targets: np.ndarray,
    refused: Bool[np.ndarray, "..."],
    present: Bool[np.ndarray, "*entries"],
    reason: str,
) -> None:
    """Raise a ``ValueError`` about the first refused target among the entries present."""
    present = np.expand_dims(present, tuple(range(present.ndim, refused.ndim)))
    refused = refused & present
    if refused.any():
        index = np.unravel_index(np.argmax(refused), refused.shape)
        where = ", ".join(str(int(i)) for i in index)
        raise ValueError(f"targets[{where}] is {targets[index]}: {reason}")


def _present(outputs: jax.ShapeDtypeStruct, weights: Any | None) -> Bool[np.ndarray, "*entries"]:
    entries = outputs.shape[:-1]
    if weights is None:
        return np.ones(entries, bool)
    weights = np.asarray(weights)
    if weights.ndim == 0 or weights.shape != entries[: weights.ndim]:
        allowed = " or ".join(str(entries[:k]) for k in range(1, len(entries) + 1))
        raise ValueError(f"weights have shape {weights.shape}; they must have {allowed}")
    refused = ~(np.isfinite(weights) & (weights >= 0))
    if refused.any():
        index = tuple(int(i) for i in np.argwhere(refused)[0])
        where = ", ".join(map(str, index))
        raise ValueError(
            f"weights[{where}] is {weights[index]}; weights must be finite and not negative "
            "(zero leaves an entry out)"
        )
    if not weights.any():
        raise ValueError("all weights are zero: nothing is left to learn from")
    missing = tuple(range(weights.ndim, len(entries)))
    return np.broadcast_to(np.expand_dims(weights > 0, missing), entries)


def _accumulator(x: Array) -> jnp.dtype:
    return jnp.promote_types(x.dtype, jnp.float32)


def _ratio(total: Float[Array, ""], count: Float[Array, ""]) -> Float[Array, ""]:
    return total / jnp.where(count > 0, count, 1.0)
