"""A likelihood from any loss, by automatic differentiation."""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Key, PyTree, Shaped

from backcast.model.likelihood import Likelihood, output_gradient, refuse_first


@final
class Custom(Likelihood):
    """``-log p(y | f) = loss(f, y)`` for a loss of the user's own.

    The root comes from the eigenvectors of the loss's Hessian in the ``C`` outputs of each entry:
    ``C x C`` numbers per entry, so it is meant for few outputs. Where the loss is not convex in the
    outputs, negative eigenvalues count as zero: what is added to a precision must be positive
    semi-definite.

    Args:
        loss_function: ``loss(output, target)``, one number for the output of one entry, of shape
            ``(C,)``, and its target, an array or a pytree of arrays. Twice differentiable in the
            output, also at an output and a target of zeros if weights of zero are used: these are
            what it sees of an entry left out.
    """

    loss_function: Callable[[Float[Array, " C"], PyTree], Float[Array, ""]] = eqx.field(static=True)

    def loss(
        self, outputs: Float[Array, "*entries C"], targets: PyTree
    ) -> Float[Array, "*entries"]:
        """The user's loss."""
        return _over_entries(self.loss_function, outputs)(outputs, targets)

    def root(
        self, outputs: Float[Array, "*entries C"], targets: PyTree, v: Float[Array, "*entries C"]
    ) -> Float[Array, "*entries C"]:
        """``S v = U sqrt(max(L, 0)) v`` from the Hessian ``U L U^T`` of each entry."""

        def root_of_one(output, target):
            hessian = jax.hessian(self.loss_function)(output, target)
            # Eigenvalue routines know no half precision.
            hessian = hessian.astype(jnp.promote_types(hessian.dtype, jnp.float32))
            values, vectors = jnp.linalg.eigh(hessian)
            return (vectors * jnp.sqrt(jnp.maximum(values, 0.0))).astype(output.dtype)

        factor = _over_entries(root_of_one, outputs)(outputs, targets)
        return jnp.einsum("...ij,...j->...i", factor, v, precision=lax.Precision.HIGHEST)

    def fisher_root(
        self, outputs: Float[Array, "*entries C"], targets: PyTree, drawn: PyTree
    ) -> Float[Array, "*entries C"]:
        """The gradient of the user's loss."""
        return output_gradient(self.loss, outputs, drawn)

    def sample(self, key: Key[Array, ""], outputs: Float[Array, "*entries C"]) -> Array:
        """Refused: a loss does not say how to draw targets."""
        raise ValueError(
            "a Custom likelihood knows its loss and not how to draw targets from it, so there is "
            "no Monte-Carlo Fisher. Use the GGN, which needs only the loss"
        )

    def mean(self, outputs: Float[Array, "*entries C"]) -> Float[Array, "*entries C"]:
        """The outputs as they are: a loss does not say what they mean."""
        return outputs

    def predict(self, outputs: Float[Array, "*entries C"]) -> Float[Array, "*entries C"]:
        """The outputs as they are."""
        return outputs

    def score(
        self, outputs: Float[Array, "*entries C"], targets: PyTree
    ) -> Float[Array, "*entries"]:
        """The negative loss."""
        return -self.loss(outputs, targets)

    def fitted(
        self,
        outputs: Float[Array, "n *rest C"],
        targets: PyTree,
        weights: Shaped[Array, "n ..."] | None = None,
    ) -> "Custom":
        """Itself: nothing to estimate."""
        return self

    def check_targets(
        self, outputs: jax.ShapeDtypeStruct, targets: Any, present: Bool[np.ndarray, "*entries"]
    ) -> None:
        """Targets for every entry, without NaN, for which the loss is one float."""
        entries = outputs.shape[:-1]
        targets = jax.tree.map(np.asarray, targets)
        for leaf in jax.tree.leaves(targets):
            if leaf.shape[: len(entries)] != entries:
                raise ValueError(
                    f"targets have shape {leaf.shape} and the model returns {outputs.shape}: their "
                    f"leading axes must be {entries}"
                )
            refuse_first(leaf, leaf != leaf, present, "a target is missing")
        loss = jax.eval_shape(_over_entries(self.loss_function, outputs), outputs, targets)
        shape, dtype = getattr(loss, "shape", None), getattr(loss, "dtype", np.dtype(object))
        if shape != entries or not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(
                f"the losses of outputs of shape {outputs.shape} are {loss}; they must be one "
                f"float for each of {entries}. Sum or average what the loss returns for one output"
            )


def _over_entries(function: Callable, outputs: jax.ShapeDtypeStruct | Array) -> Callable:
    for _ in outputs.shape[:-1]:
        function = jax.vmap(function)
    return function
