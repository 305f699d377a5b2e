"""What happens to inputs between one task and the next.

A transform maps float32 inputs (n, ...) in [0, 1] to float32 inputs. None uses chance, a sum of
NumPy's or a function whose last bit differs between machines, unless it rounds that bit away: the
same images come out everywhere, to the bit.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Integer

from backcast.data import DataError, Dataset

Images = Float[np.ndarray, "n ..."]
Transform = Callable[[np.ndarray], np.ndarray]


def identity(x: Images) -> Images:
    """Inputs as they are."""
    return x


def chain(first: Transform, second: Transform) -> Transform:
    """One transform and then another."""
    return lambda x: second(first(x))


def standardise(mean: Sequence[float], deviation: Sequence[float]) -> Transform:
    """``(x - mean) / deviation`` in each channel, the last axis."""
    if len(mean) != len(deviation) or not all(d > 0 for d in deviation):
        raise DataError(
            f"Give as many deviations as means, all above 0; {mean} and {deviation} were given."
        )
    mean32, deviation32 = np.asarray(mean, np.float32), np.asarray(deviation, np.float32)
    return lambda x: (x - mean32) / deviation32


imagenet = standardise((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""The mean and deviation of ImageNet's colours, as the paper uses them for histology."""


def usual_finish(dataset: Dataset) -> Transform:
    """`imagenet` for colour images, and nothing for all else."""
    return imagenet if _is_colour(dataset) else identity


def channels(dataset: Dataset) -> int:
    """How many means `standardise` may have: one for each colour, or column of a table."""
    return dataset.x.shape[-1] if dataset.x.ndim in (2, 4) else 1


def permute(order: Integer[np.ndarray, " p"]) -> Transform:
    """Pixels (colours staying together), or the entries of a table's row, in another order."""

    def transform(x: Images) -> Images:
        return x.reshape(len(x), len(order), -1)[:, order].reshape(x.shape)

    return transform


def positions(dataset: Dataset) -> int:
    """How many places there are for `permute` to exchange."""
    shape = dataset.x.shape[1:]
    return math.prod(shape[:2] if _is_colour(dataset) else shape)


def brighten(shift: float) -> Transform:
    """``x + shift``, kept within [0, 1]."""
    _require_finite(shift, "A shift of brightness")
    return lambda x: np.clip(x + np.float32(shift), 0, 1)


def rotate(degrees: float) -> Transform:
    """Turn images counter-clockwise about their middle, bilinearly; zeros come in from outside."""
    _require_finite(degrees, "An angle in degrees")

    def transform(x: Images) -> Images:
        height, width = x.shape[1:3]
        corners, weights = _bilinear(height, width, math.radians(degrees))
        pixels = x.reshape(len(x), height * width, -1)
        turned = np.zeros_like(pixels)
        for corner, weight in zip(corners, weights, strict=True):
            turned += weight[:, None] * pixels[:, corner]
        return turned.reshape(x.shape)

    return transform


def blur(sigma: float) -> Transform:
    """Convolve images with a Gaussian of this deviation in pixels; the borders are repeated."""
    _require_finite(sigma, "A blur in pixels")
    if sigma < 0:
        raise DataError(f"A blur is a deviation in pixels, at least 0, but {sigma} was given.")
    radius = math.ceil(3 * sigma)
    tail = [_round(math.exp(-0.5 * (i / sigma) ** 2)) for i in range(1, radius + 1)]
    tail = [_round(weight / (1 + 2 * sum(tail))) for weight in tail]
    # The middle is what makes the sum one, so that no image becomes brighter.
    kernel = [np.float32(w) for w in (*tail[::-1], 1 - 2 * sum(tail), *tail)]

    def along(x: Images, axis: int) -> Images:
        border = [(radius, radius) if a == axis else (0, 0) for a in range(x.ndim)]
        padded = np.pad(x, border, mode="edge")
        blurred = np.zeros_like(x)
        for offset, weight in enumerate(kernel):
            stretch = slice(offset, offset + x.shape[axis])
            blurred += weight * padded[(slice(None),) * axis + (stretch,)]
        return blurred

    return lambda x: along(along(x, 1), 2)


def stain(strength: float) -> Transform:
    """Haematoxylin times ``1 + strength`` and eosin times ``1 - strength``, in colour images.

    Stains absorb light: ``-log x`` is linear in their amounts (Beer-Lambert), with the absorbances
    of Ruifrok and Johnston (2001).
    """
    if not -1 <= strength <= 1:
        raise DataError(f"A change of stain lies between -1 and 1, but {strength} was given.")
    absorbance = np.array([[0.650, 0.704, 0.286], [0.072, 0.990, 0.105], [0.268, 0.570, 0.776]])
    absorbance /= np.sqrt((absorbance**2).sum(axis=1, keepdims=True))
    amounts = np.array([1 + strength, 1 - strength, 1.0])
    mix = _round(np.linalg.solve(absorbance, amounts[:, None] * absorbance))
    # Looked up, logarithms and exponentials are the same on every machine. Bytes fall on entries;
    # all else comes out within a grey level.
    density_of = _round(-np.log(np.maximum(np.arange(4081) / 4080, 1 / 255)))
    light_of = _round(np.exp(-np.arange(65536) / 4096)).astype(np.float32)

    def transform(x: Images) -> Images:
        density = density_of[np.rint(np.clip(x, 0, 1) * np.float32(4080)).astype(np.int32)]
        mixed = density[..., 0, None] * mix[0]
        for channel in (1, 2):
            mixed += density[..., channel, None] * mix[channel]
        return light_of[np.clip(np.rint(mixed * 4096), 0, 65535).astype(np.int32)]

    return transform


def require_images(dataset: Dataset, colour: bool = False) -> None:
    """Refuse what is not images, or not colour images."""
    if dataset.x.ndim not in (3, 4) or (colour and not _is_colour(dataset)):
        wanted = "(n, height, width, 3)" if colour else "(n, height, width[, channels])"
        raise DataError(
            f"{dataset.name} has inputs of shape {dataset.x.shape}; this stream needs images "
            f"{wanted}."
        )


def _require_finite(value: float, what: str) -> None:
    if not math.isfinite(value):
        raise DataError(f"{what} is a finite number, but {value} was given.")


def _is_colour(dataset: Dataset) -> bool:
    return dataset.x.ndim == 4 and dataset.x.shape[-1] == 3


def _round(value):
    """To a multiple of 2^-16: machines differ in the last bit of exp, not in the sixteenth."""
    return np.round(np.asarray(value) * 65536) / 65536


def _bilinear(height: int, width: int, angle: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """For each pixel of the turned image, four pixels of the original and their weights."""
    middle = np.array([(height - 1) / 2, (width - 1) / 2])
    row, column = np.indices((height, width)).reshape(2, -1) - middle[:, None]
    cos, sin = math.cos(angle), math.sin(angle)
    source = np.stack([cos * row + sin * column, cos * column - sin * row]) + middle[:, None]
    # Rounded to 2^-12, the products of two weights are exact in float32.
    source = np.round(source * 4096) / 4096
    low = np.floor(source).astype(int)
    high_weight = source - low
    corners, weights = [], []
    for down in (0, 1):
        for right in (0, 1):
            r, c = low[0] + down, low[1] + right
            weight = np.abs(1 - down - high_weight[0]) * np.abs(1 - right - high_weight[1])
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            corners.append(np.where(inside, r * width + c, 0))
            weights.append(np.where(inside, weight, 0).astype(np.float32))
    return corners, weights
