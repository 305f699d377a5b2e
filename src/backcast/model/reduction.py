"""Sums and means over entries, with weights and masks.

**Weights and masks** are one thing: non-negative numbers over the leading axes ``(n, ...)`` of the
outputs or the first few of them, or None for ones. An entry of weight zero is not there at all: its
target may be padding (for a loss that ignores some labels, give their entries weight zero), and no
gradient flows from it. Only the network itself must stay finite on it, since what a NaN inside a
network does to its gradients no loss can undo.

Sums go over entries and means over examples,

    mean loss = (1/N) sum_i sum_t w_it loss_it,      N = sum_i max_t w_it,

so that ``N`` times the mean is the negative log-likelihood of all the data and ``N`` times the
curvature of the mean is the curvature of a posterior. A sequence counts as one example however many
of its tokens are masked, one that is masked altogether counts as none, and an example of weight 2
counts as two.

Losses and roots are evaluated in at least float32, whatever the type of the outputs.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Shaped

from backcast.model.likelihood import Likelihood

Weights = Shaped[Array, "n ..."] | None


def total_loss(
    likelihood: Likelihood,
    outputs: Float[Array, "n *rest C"],
    targets: PyTree,
    weights: Weights = None,
) -> Float[Array, ""]:
    """``sum_it w_it loss_it``."""
    outputs, targets, weights = present_entries(outputs, targets, weights)
    return jnp.sum(_times(weights, likelihood.loss(outputs, targets)))


def example_count(outputs: Float[Array, "n *rest C"], weights: Weights = None) -> Float[Array, ""]:
    """``N = sum_i max_t w_it``: how many examples the outputs stand for."""
    weights = over_entries(weights, outputs)
    return jnp.sum(jnp.max(weights, axis=tuple(range(1, weights.ndim))))


def mean_loss(
    likelihood: Likelihood,
    outputs: Float[Array, "n *rest C"],
    targets: PyTree,
    weights: Weights = None,
) -> Float[Array, ""]:
    """``total_loss / example_count``, and zero if no example is present."""
    total = total_loss(likelihood, outputs, targets, weights)
    return _ratio(total, example_count(outputs, weights))


def mean_score(
    likelihood: Likelihood,
    outputs: Float[Array, "n *rest C"],
    targets: PyTree,
    weights: Weights = None,
) -> Float[Array, ""]:
    """``sum_it w_it score_it / sum_it w_it``: of all entries, since a score is read as a share."""
    outputs, targets, weights = present_entries(outputs, targets, weights)
    total = jnp.sum(_times(weights, likelihood.score(outputs, targets)))
    return _ratio(total, jnp.sum(weights))


def weighted_root(
    likelihood: Likelihood,
    outputs: Float[Array, "n *rest C"],
    targets: PyTree,
    v: Float[Array, "n *rest C"],
    weights: Weights = None,
) -> Float[Array, "n *rest C"]:
    """``sqrt(w) S v``, the root for ``total_loss``; divided by ``sqrt(N)``, for the mean."""
    outputs, targets, weights = present_entries(outputs, targets, weights)
    root = likelihood.root(outputs, targets, v.astype(outputs.dtype))
    return _times(jnp.sqrt(weights)[..., None], root).astype(v.dtype)


def weighted_fisher_root(
    likelihood: Likelihood,
    outputs: Float[Array, "n *rest C"],
    targets: PyTree,
    drawn: PyTree,
    weights: Weights = None,
) -> Float[Array, "n *rest C"]:
    """``sqrt(w) g`` with ``g`` as in `Likelihood.fisher_root`, in the type of the outputs."""
    kind = outputs.dtype
    outputs, (targets, drawn), weights = present_entries(outputs, (targets, drawn), weights)
    root = likelihood.fisher_root(outputs, targets, drawn)
    return _times(jnp.sqrt(weights)[..., None], root).astype(kind)


def present_entries(
    outputs: Float[Array, "n *rest C"], targets: PyTree, weights: Weights
) -> tuple[Float[Array, "n *rest C"], PyTree, Float[Array, "n *rest"]]:
    """Outputs in at least float32, targets, and a weight per entry; zeros where one is absent.

    Zero times NaN is NaN, in a gradient also where the value was masked afterwards. So what is
    absent must be gone before the loss sees it.
    """
    weights = over_entries(weights, outputs)

    def present(x):
        x = jnp.asarray(x)
        return jnp.where(jnp.expand_dims(weights > 0, range(weights.ndim, x.ndim)), x, 0)

    return present(outputs).astype(weights.dtype), jax.tree.map(present, targets), weights


def over_entries(weights: Weights, outputs: Float[Array, "n *rest C"]) -> Float[Array, "n *rest"]:
    """Weights for every entry, in at least float32, from weights for the first few axes."""
    kind = jnp.promote_types(outputs.dtype, jnp.float32)
    weights = jnp.ones(outputs.shape[:1], kind) if weights is None else jnp.asarray(weights, kind)
    missing = range(weights.ndim, outputs.ndim - 1)
    return jnp.broadcast_to(jnp.expand_dims(weights, missing), outputs.shape[:-1])


def _times(weights: Float[Array, "..."], x: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.where(weights > 0, weights * x, 0)


def _ratio(total: Float[Array, ""], count: Float[Array, ""]) -> Float[Array, ""]:
    return total / jnp.where(count > 0, count, 1)
