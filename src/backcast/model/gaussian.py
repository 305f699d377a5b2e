"""Real targets with Gaussian noise: known, learned, or told by the network."""

import math
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Bool, Float, Key

from backcast.model.independent import (
    Independent,
    Outputs,
    Targets,
    Weights,
    bounded_exponent,
    exp_then_tangent,
)
from backcast.model.reduction import present_entries


class Homoscedastic(Independent):
    """``y = f + s e`` with standard normal ``e`` and the same ``s`` for all inputs."""

    noise: eqx.AbstractVar[Float[Array, ""] | Float[Array, " C"]]

    def losses(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """``1/2 ((y - f) / s)^2 + log s + 1/2 log 2 pi``."""
        noise = self._noise(outputs)
        return (
            0.5 * ((targets - outputs) / noise) ** 2 + jnp.log(noise) + 0.5 * math.log(2 * math.pi)
        )

    def root_diagonal(self, outputs: Outputs) -> Outputs:
        """``1 / s``."""
        return jnp.broadcast_to(1 / self._noise(outputs), outputs.shape)

    def sample(self, key: Key[Array, ""], outputs: Outputs) -> Outputs:
        """``f + s e``."""
        noise = jax.random.normal(key, outputs.shape, outputs.dtype)
        return outputs + self._noise(outputs) * noise

    def mean(self, outputs: Outputs) -> Outputs:
        """The outputs."""
        return outputs

    def predict(self, outputs: Outputs) -> Outputs:
        """The outputs."""
        return outputs

    def scores(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """The negative squared error."""
        return -((targets - outputs) ** 2)

    def refused(self, targets: np.ndarray) -> tuple[Bool[np.ndarray, "..."], str]:
        """None."""
        return np.zeros(targets.shape, bool), ""

    def _noise(self, outputs: Outputs) -> Float[Array, ""] | Float[Array, " C"]:
        if self.noise.shape not in ((), outputs.shape[-1:]):
            raise ValueError(
                f"there are {self.noise.size} noise levels and the model has {outputs.shape[-1]} "
                "outputs: give one number, or one per output"
            )
        return self.noise.astype(outputs.dtype)


@final
class Gaussian(Homoscedastic):
    """Real targets with noise of a known size: ``y = f + s e``.

    Args:
        noise: The standard deviation ``s``: one number, or one for each output.
    """

    noise: Float[Array, ""] | Float[Array, " C"]

    def __init__(self, noise: ArrayLike | Sequence[ArrayLike] = 1.0):
        self.noise = _standard_deviation(noise)

    def fitted(self, outputs: Outputs, targets: Targets, weights: Weights = None) -> "Gaussian":
        """Itself: the noise is known."""
        return self


@final
class GaussianLearnedNoise(Homoscedastic):
    """Real targets with noise of a size to be learned; ``fitted`` learns it.

    Args:
        noise: The standard deviation to start from. One number stays one number; with one for each
            output, each is learned by itself.
    """

    noise: Float[Array, ""] | Float[Array, " C"]

    def __init__(self, noise: ArrayLike | Sequence[ArrayLike] = 1.0):
        self.noise = _standard_deviation(noise)

    def fitted(
        self, outputs: Outputs, targets: Targets, weights: Weights = None
    ) -> "GaussianLearnedNoise":
        """``s^2 = sum w (y - f)^2 / sum w``, the most likely noise.

        It is too small where the network has fitted the noise itself: give it outputs for data held
        out of the training if there are any. It is never below the rounding of the targets.
        """
        targets = self.aligned(outputs, targets)
        outputs, targets, weights = present_entries(outputs, targets, weights)
        weights = jnp.broadcast_to(weights[..., None], outputs.shape)
        axes = tuple(range(outputs.ndim - self.noise.ndim))

        def root_mean_square(x):
            total = jnp.sum(weights, axis=axes)
            return jnp.sqrt(jnp.sum(weights * x**2, axis=axes) / jnp.where(total > 0, total, 1.0))

        kind = jnp.finfo(outputs.dtype)
        rounding = jnp.maximum(kind.eps * root_mean_square(targets), jnp.sqrt(kind.tiny))
        noise = jnp.maximum(root_mean_square(targets - outputs), rounding)
        return type(self)(noise.astype(self.noise.dtype))


@final
class HeteroscedasticGaussian(Independent):
    """Real targets with noise that depends on the input: ``y = mu + exp(s / 2) e``.

    The outputs are the means ``mu`` and then the log-variances ``s``, on one last axis of ``2 m``.
    The Hessian of this loss is indefinite, so its expectation over ``y`` is used in its place: the
    Fisher information, ``diag(exp(-s), 1/2)``, which is positive and depends on no target.
    """

    def losses(self, outputs: Outputs, targets: Float[Array, "*entries m"]) -> Array:
        """``1/2 ((y - mu)^2 exp(-s) + s + log 2 pi)``."""
        mean, log_variance = _halves(outputs)
        precision = exp_then_tangent(-log_variance)
        return 0.5 * ((targets - mean) ** 2 * precision + log_variance + math.log(2 * math.pi))

    def root_diagonal(self, outputs: Outputs) -> Outputs:
        """``exp(-s / 2)`` for the means and ``sqrt(1/2)`` for the log-variances."""
        _, log_variance = _halves(outputs)
        of_means = jnp.exp(0.5 * bounded_exponent(-log_variance))
        return jnp.concatenate([of_means, jnp.full_like(of_means, math.sqrt(0.5))], axis=-1)

    def sample(self, key: Key[Array, ""], outputs: Outputs) -> Float[Array, "*entries m"]:
        """``mu + exp(s / 2) e``."""
        mean, log_variance = _halves(outputs)
        noise = jax.random.normal(key, mean.shape, mean.dtype)
        return mean + jnp.exp(0.5 * bounded_exponent(log_variance)) * noise

    def mean(self, outputs: Outputs) -> Float[Array, "*entries m"]:
        """The first half of the outputs."""
        return _halves(outputs)[0]

    def predict(self, outputs: Outputs) -> Float[Array, "*entries m"]:
        """The mean."""
        return self.mean(outputs)

    def scores(self, outputs: Outputs, targets: Float[Array, "*entries m"]) -> Array:
        """The negative squared error."""
        return -((targets - self.mean(outputs)) ** 2)

    def fitted(
        self, outputs: Outputs, targets: Targets, weights: Weights = None
    ) -> "HeteroscedasticGaussian":
        """Itself: the network says what the noise is."""
        return self

    def refused(self, targets: np.ndarray) -> tuple[Bool[np.ndarray, "..."], str]:
        """None."""
        return np.zeros(targets.shape, bool), ""


def _standard_deviation(
    noise: ArrayLike | Sequence[ArrayLike],
) -> Float[Array, ""] | Float[Array, " C"]:
    # A noise computed under jit has no value yet to look at.
    if not isinstance(noise, Tracer):
        values = np.asarray(noise)
        if values.ndim > 1 or not bool(np.all(np.isfinite(values) & (values > 0))):
            raise ValueError(
                f"noise is {values.tolist()}; it is a standard deviation: one positive number, or "
                "one for each output"
            )
    noise = jnp.asarray(noise)
    return noise.astype(jnp.result_type(noise, float))


def _halves(outputs: Outputs) -> tuple[Array, Array]:
    if outputs.shape[-1] % 2:
        raise ValueError(
            f"the model has {outputs.shape[-1]} outputs; HeteroscedasticGaussian needs two for "
            "each target: first all means, then all log-variances"
        )
    mean, log_variance = jnp.split(outputs, 2, axis=-1)
    return mean, log_variance
