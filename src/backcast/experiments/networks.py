"""The networks of specs, as plain functions of a batch."""

import itertools
import math
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Key, PyTree

from backcast.data import DataError
from backcast.experiments.folder import Facts
from backcast.experiments.network_spec import CnnSpec, MlpSpec
from backcast.experiments.spec import Spec

_CUT_DEVIATION = 0.87962566103423978  # of a normal variable that is cut off at +-2
_EPSILON = 1e-5  # keeps the batch normalisation of a constant channel finite


def network_for(spec: Spec, facts: Facts) -> tuple[Any, ...]:
    """The network of a run, initialised by its seed, as `backcast.Learner` takes it."""
    key = jax.random.fold_in(jax.random.key(spec.seed), 0x6E6574)  # "net"
    return network(spec.network, facts.input_shape, len(facts.classes), key)


def network(
    spec: MlpSpec | CnnSpec, input_shape: tuple[int, ...], outputs: int, key: Key[Array, ""]
) -> tuple[Any, ...]:
    """A network that maps inputs of this shape to so many outputs.

    Weights are drawn from ``N(0, 1/n)``, cut off at two deviations, for ``n`` inputs of a unit
    (LeCun's initialisation, that of Flax); biases begin at 0.
    """
    if isinstance(spec, MlpSpec):
        shapes = _dense_shapes(math.prod(input_shape), (*spec.hidden, outputs))
        return Mlp(len(shapes)), _begun(shapes, key)
    height, width, *colours = input_shape
    shapes, left = _conv_shapes(spec, (height, width, *(colours or [1])))
    dense = _dense_shapes(left, (*spec.hidden, outputs))
    params, state = _begun(shapes | dense, key), {}
    for block, filters in enumerate(spec.channels):
        zeros, ones = jnp.asarray(np.zeros(filters)), jnp.asarray(np.ones(filters))
        params[f"norm{block}"] = {"scale": ones, "bias": zeros}
        state[f"norm{block}"] = {"mean": zeros, "var": ones}
    return Cnn(spec.pools, len(dense), spec.momentum), params, state


@final
@dataclass(frozen=True)
class Mlp:
    """Dense layers with ReLU between.

    Attributes:
        layers: how many.
    """

    layers: int

    def __call__(self, params: PyTree, x: Float[Array, "n ..."]) -> Float[Array, "n C"]:
        """The outputs for a batch."""
        return _through(params, x.reshape(len(x), -1), self.layers)


@final
@dataclass(frozen=True)
class Cnn:
    """Blocks of convolution, ReLU, batch normalisation and pooling, then dense layers.

    Attributes:
        pools: the size of the pooling of each block.
        layers: how many dense layers.
        momentum: what the running statistics keep of their old value in each step.
    """

    pools: tuple[int, ...]
    layers: int
    momentum: float

    def __call__(
        self, params: PyTree, state: PyTree, x: Float[Array, "n ..."], *, train: bool
    ) -> tuple[Float[Array, "n C"], PyTree]:
        """The outputs for a batch of images ``(n, height, width[, channels])``, and the state."""
        x = x if x.ndim == 4 else x[..., None]
        after = {}
        for block, size in enumerate(self.pools):
            x = jax.nn.relu(_convolved(params[f"conv{block}"], x))
            name = f"norm{block}"
            x, after[name] = self._normalised(params[name], state[name], x, train)
            x = _pooled(x, size)
        return _through(params, x.reshape(len(x), -1), self.layers), after

    def _normalised(self, params, state, x, train):
        if train:
            mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
            keep = self.momentum
            state = {
                "mean": keep * state["mean"] + (1 - keep) * mean,
                "var": keep * state["var"] + (1 - keep) * variance,
            }
        else:
            mean, variance = state["mean"], state["var"]
        slope = params["scale"] * lax.rsqrt(variance + _EPSILON)
        return x * slope + (params["bias"] - mean * slope), state


def _conv_shapes(spec: CnnSpec, shape: tuple[int, ...]) -> tuple[dict[str, tuple[int, ...]], int]:
    """The shapes of the kernels, and how many numbers are left of an image behind them."""
    height, width, channels = shape
    kernels = {}
    for block, (filters, size) in enumerate(zip(spec.channels, spec.pools, strict=True)):
        kernels[f"conv{block}"] = (3, 3, channels, filters)
        height, width, channels = height // size, width // size, filters
    if not height * width:
        raise DataError(
            f"Images of {shape[0]} x {shape[1]} pixels are too small to be pooled by "
            f"{', '.join(map(str, spec.pools))}: choose smaller network.pools."
        )
    return kernels, height * width * channels


def _dense_shapes(inputs: int, widths: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    pairs = enumerate(itertools.pairwise((inputs, *widths)))
    return {f"dense{layer}": pair for layer, pair in pairs}


def _begun(shapes: dict[str, tuple[int, ...]], key: Key[Array, ""]) -> dict[str, Any]:
    """Layers with kernels of these shapes, from a single draw: each shape would be compiled for."""
    sizes = [math.prod(shape) for shape in shapes.values()]
    drawn = np.asarray(jax.random.truncated_normal(key, -2.0, 2.0, (sum(sizes),)))
    pieces = np.split(drawn / _CUT_DEVIATION, np.cumsum(sizes)[:-1])
    return {
        name: {
            "kernel": jnp.asarray(piece.reshape(shape) / math.sqrt(math.prod(shape[:-1]))),
            "bias": jnp.asarray(np.zeros(shape[-1])),
        }
        for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
    }


def _through(params: PyTree, x: Float[Array, "n _"], layers: int) -> Float[Array, "n _"]:
    for layer in range(layers):
        dense = params[f"dense{layer}"]
        x = x @ dense["kernel"] + dense["bias"]
        x = jax.nn.relu(x) if layer < layers - 1 else x
    return x


def _convolved(params: PyTree, x: Float[Array, "n h w c"]) -> Float[Array, "n h w f"]:
    """A 3 x 3 convolution with zeros around, as one product of all patches with a matrix.

    XLA's own convolution takes about ten times as long in a compiled loop on a CPU, backwards most
    of all.
    """
    height, width = x.shape[1:3]
    around = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    shifted = [
        around[:, row : row + height, column : column + width]
        for row in range(3)
        for column in range(3)
    ]
    kernel = params["kernel"]
    return jnp.concatenate(shifted, -1) @ kernel.reshape(-1, kernel.shape[-1]) + params["bias"]


def _pooled(x: Float[Array, "n h w f"], size: int) -> Float[Array, "n i j f"]:
    """The maximum of each square of ``size x size``; what does not fill one is left out."""
    n, height, width, channels = x.shape
    height, width = height // size, width // size
    squares = x[:, : height * size, : width * size].reshape(n, height, size, width, size, channels)
    return squares.max(axis=(2, 4))
