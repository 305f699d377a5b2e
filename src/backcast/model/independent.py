"""Likelihoods whose targets are independent of each other given the outputs.

The loss is a sum over the last axis of the targets, and the root of its Hessian is diagonal.
"""

import math
from abc import abstractmethod
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, xlogy
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from backcast.model.likelihood import Likelihood, output_gradient, real_numbers, refuse_first

Outputs = Float[Array, "*entries C"]
Targets = Shaped[Array, "*entries m"] | Shaped[Array, "*entries"]
Weights = Shaped[Array, "n ..."] | None


class Independent(Likelihood):
    """``-log p(y | f) = sum_j -log p(y_j | f)``; a single target may lack its last axis."""

    @abstractmethod
    def losses(self, outputs: Outputs, targets: Float[Array, "*entries m"]) -> Array:
        """``-log p(y_j | f)`` for each ``j``."""

    @abstractmethod
    def root_diagonal(self, outputs: Outputs) -> Outputs:
        """The diagonal of ``S``."""

    @abstractmethod
    def scores(self, outputs: Outputs, targets: Float[Array, "*entries m"]) -> Array:
        """How good the prediction of each ``y_j`` is."""

    @abstractmethod
    def refused(self, targets: np.ndarray) -> tuple[Bool[np.ndarray, "..."], str]:
        """Which targets cannot be, and what they should have been."""

    def loss(self, outputs: Outputs, targets: Targets) -> Float[Array, "*entries"]:
        """The sum of ``losses`` over the last axis."""
        return jnp.sum(self.losses(outputs, self.aligned(outputs, targets)), axis=-1)

    def root(self, outputs: Outputs, targets: Targets, v: Outputs) -> Outputs:
        """``S v`` with the diagonal ``S`` of ``root_diagonal``."""
        return self.root_diagonal(outputs) * v

    def fisher_root(self, outputs: Outputs, targets: Targets, drawn: Targets) -> Outputs:
        """The gradient of the loss of what was drawn."""
        return output_gradient(self.loss, outputs, drawn)

    def score(self, outputs: Outputs, targets: Targets) -> Float[Array, "*entries"]:
        """The mean of ``scores`` over the last axis."""
        return jnp.mean(self.scores(outputs, self.aligned(outputs, targets)), axis=-1)

    def check_targets(
        self, outputs: jax.ShapeDtypeStruct, targets: Any, present: Bool[np.ndarray, "*entries"]
    ) -> None:
        """Finite numbers of the mean's shape that the likelihood does not refuse."""
        targets = real_numbers(targets, "targets")
        jax.eval_shape(self.root_diagonal, outputs)  # refuses outputs that do not fit
        _check_shape(jax.eval_shape(self.mean, outputs).shape, targets.shape)
        refuse_first(targets, ~np.isfinite(targets), present, "targets must be finite")
        refused, reason = self.refused(targets)
        refuse_first(targets, refused, present, reason)

    def aligned(self, outputs: Outputs, targets: Targets) -> Float[Array, "*entries m"]:
        """Targets in the shape of the mean and the type of the outputs."""
        shape = jax.eval_shape(self.mean, outputs).shape
        _check_shape(shape, jnp.shape(targets))
        return jnp.reshape(targets, shape).astype(outputs.dtype)


@final
class Bernoulli(Independent):
    """Each target is 1 with probability ``p = sigmoid(f)``, else 0; outputs are logits."""

    def losses(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """``y softplus(-f) + (1 - y) softplus(f)``, exact however small."""
        return targets * jax.nn.softplus(-outputs) + (1 - targets) * jax.nn.softplus(outputs)

    def root_diagonal(self, outputs: Outputs) -> Outputs:
        """``sqrt(p (1 - p))``."""
        return jnp.exp(0.5 * (jax.nn.log_sigmoid(outputs) + jax.nn.log_sigmoid(-outputs)))

    def sample(self, key: Key[Array, ""], outputs: Outputs) -> Int[Array, "*entries C"]:
        """Zeros and ones."""
        return jax.random.bernoulli(key, self.mean(outputs)).astype(int)

    def mean(self, outputs: Outputs) -> Outputs:
        """The probability of a 1."""
        return jax.nn.sigmoid(outputs)

    def predict(self, outputs: Outputs) -> Int[Array, "*entries C"]:
        """1 where it is the more probable."""
        return (outputs > 0).astype(int)

    def scores(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """1 where the prediction is right, else 0."""
        return (self.predict(outputs) == targets).astype(outputs.dtype)

    def fitted(self, outputs: Outputs, targets: Targets, weights: Weights = None) -> "Bernoulli":
        """Itself: nothing to estimate."""
        return self

    def refused(self, targets: np.ndarray) -> tuple[Bool[np.ndarray, "..."], str]:
        """All but 0 and 1."""
        return (targets != 0) & (targets != 1), "Bernoulli targets are 0 or 1"


@final
class Poisson(Independent):
    """Counts with rate ``r = exp(f)``; the outputs ``f`` are logarithms of rates.

    Rates are followed up to the square root of the largest float (1.8e19 in float32); from there on
    the loss goes on along its tangent, so that a wild step has a finite loss and a way back.
    """

    def losses(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """``exp(f) - y f + log y!``."""
        return exp_then_tangent(outputs) - targets * outputs + gammaln(targets + 1)

    def root_diagonal(self, outputs: Outputs) -> Outputs:
        """``sqrt(r)``."""
        return jnp.exp(0.5 * bounded_exponent(outputs))

    def sample(self, key: Key[Array, ""], outputs: Outputs) -> Int[Array, "*entries C"]:
        """Counts, of rates of at most 2^30 so that they are integers of 32 bits."""
        rate = jnp.minimum(self.mean(outputs).astype(jnp.result_type(float)), 2.0**30)
        return jax.random.poisson(key, rate)

    def mean(self, outputs: Outputs) -> Outputs:
        """The rate."""
        return jnp.exp(bounded_exponent(outputs))

    def predict(self, outputs: Outputs) -> Outputs:
        """The rate."""
        return self.mean(outputs)

    def scores(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """The negative deviance, ``-2 (y log(y / r) - y + r)``: 0 is perfect."""
        log_ratio = xlogy(targets, targets) - targets * outputs
        return -2 * (log_ratio - targets + self.mean(outputs))

    def fitted(self, outputs: Outputs, targets: Targets, weights: Weights = None) -> "Poisson":
        """Itself: nothing to estimate."""
        return self

    def refused(self, targets: np.ndarray) -> tuple[Bool[np.ndarray, "..."], str]:
        """Negative numbers and fractions."""
        return (targets < 0) | (
            targets != np.floor(targets)
        ), "Poisson targets are counts 0, 1, ..."


def bounded_exponent(x: Array) -> Array:
    """``x`` up to where ``exp(x)`` is the square root of the largest float."""
    return jnp.minimum(x, 0.5 * math.log(float(jnp.finfo(x.dtype).max)))


def exp_then_tangent(x: Array) -> Array:
    """``exp``, continued by its tangent beyond the bound: finite, convex, with the right slope."""
    bounded = bounded_exponent(x)
    return jnp.exp(bounded) * (1 + x - bounded)


def _check_shape(expected: tuple[int, ...], given: tuple[int, ...]) -> None:
    allowed = (expected, expected[:-1]) if expected[-1] == 1 else (expected,)
    if given not in allowed:
        raise ValueError(
            f"targets have shape {given} and the model predicts {expected}; targets must have "
            + " or ".join(map(str, allowed))
        )
