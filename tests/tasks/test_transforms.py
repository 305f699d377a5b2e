"""Changes of inputs against closed forms, SciPy, and the formulas in double precision."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from backcast.data import DataError
from backcast.tasks import transforms

NOISE = np.random.default_rng(0).integers(0, 256, (3, 12, 15, 3)).astype(np.float32) / 255
GREY = NOISE[..., 0]


@given(st.floats(-1, 1))
def test_brightness_is_added_and_clipped(shift):
    expected = np.minimum(np.maximum(NOISE.astype(float) + shift, 0), 1)
    np.testing.assert_allclose(transforms.brighten(shift)(NOISE), expected, atol=1e-6)


def test_imagenet_is_its_published_mean_and_deviation():
    x = np.broadcast_to(np.float32([0.485, 0.456, 0.406]), (1, 2, 2, 3))
    assert (transforms.imagenet(x) == 0).all()
    x = x + np.float32([0.229, 0.224, 0.225])
    np.testing.assert_allclose(transforms.imagenet(x), 1, rtol=1e-6)


@pytest.mark.parametrize("x", [NOISE[:, :12, :12], GREY[:, :12, :12]], ids=["colour", "grey"])
@pytest.mark.parametrize("turns", [0, 1, 2, 3, -1])
def test_quarter_turns_are_exact(x, turns):
    np.testing.assert_array_equal(transforms.rotate(90.0 * turns)(x), np.rot90(x, turns, (1, 2)))


@pytest.mark.parametrize("x", [NOISE, GREY], ids=["colour", "grey"])
@pytest.mark.parametrize("degrees", [7.0, 20.0, 80.0, -33.3])
def test_rotation_is_scipys(x, degrees):
    expected = ndimage.rotate(
        x.astype(float), degrees, (2, 1), reshape=False, order=1, mode="grid-constant"
    )
    # Places are rounded to 2^-12 of a pixel.
    np.testing.assert_allclose(transforms.rotate(degrees)(x), expected, atol=1e-3)


def test_rotation_is_counter_clockwise():
    right = np.zeros((1, 9, 9), np.float32)
    right[0, 4, 8] = 1
    row, column = np.unravel_index(transforms.rotate(40.0)(right)[0].argmax(), (9, 9))
    assert row < 4 < column


@pytest.mark.parametrize("x", [NOISE, GREY], ids=["colour", "grey"])
@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.0, 2.5])
def test_blur_is_scipys(x, sigma):
    expected = x.astype(float)
    for axis in (1, 2):
        if sigma:
            expected = ndimage.gaussian_filter1d(
                expected, sigma, axis, mode="nearest", radius=int(np.ceil(3 * sigma))
            )
    np.testing.assert_allclose(transforms.blur(sigma)(x), expected, atol=1e-4)


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.7])
def test_blur_makes_nothing_brighter(sigma):
    white = np.ones((1, 8, 8), np.float32)
    np.testing.assert_allclose(transforms.blur(sigma)(white), white, rtol=3e-7)


def mixed(x, strength):
    """Beer and Lambert's law with the absorbances of Ruifrok and Johnston, in double precision."""
    stains = np.array([[0.650, 0.704, 0.286], [0.072, 0.990, 0.105], [0.268, 0.570, 0.776]])
    stains /= np.linalg.norm(stains, axis=1, keepdims=True)
    amounts = -np.log(np.maximum(x, 1 / 255)) @ np.linalg.inv(stains)
    return np.minimum(np.exp(-(amounts * [1 + strength, 1 - strength, 1]) @ stains), 1)


@pytest.mark.parametrize("strength", [-1.0, -0.5, 0.0, 0.25, 1.0])
def test_stains_obey_the_law_of_absorption(strength):
    expected = mixed(NOISE.astype(float), strength)
    np.testing.assert_allclose(transforms.stain(strength)(NOISE), expected, atol=1 / 2550)
    between = np.random.default_rng(1).random((2, 5, 5, 3)).astype(np.float32)
    np.testing.assert_allclose(
        transforms.stain(strength)(between), mixed(between.astype(float), strength), atol=1 / 100
    )


def test_more_haematoxylin_is_bluer():
    tissue = np.broadcast_to(np.float32([0.7, 0.5, 0.7]), (1, 2, 2, 3))
    pink, blue = (transforms.stain(s)(tissue)[0, 0, 0] for s in (-0.5, 0.5))
    assert blue[0] - blue[1] < pink[0] - pink[1]


@pytest.mark.parametrize("x", [NOISE, GREY, GREY[:, :, 0]], ids=["colour", "grey", "table"])
def test_permuted_pixels_keep_their_colours(x):
    count = int(np.prod(x.shape[1:3]))
    order = np.random.default_rng(2).permutation(count)
    pixels, moved = (a.reshape(len(x), count, -1) for a in (x, transforms.permute(order)(x)))
    for place in range(count):
        np.testing.assert_array_equal(moved[:, place], pixels[:, order[place]])


CHANGES = {
    "brighten": transforms.brighten(0.1),
    "rotate": transforms.rotate(30.0),
    "blur": transforms.blur(1.2),
    "stain": transforms.stain(0.3),
    "imagenet": transforms.imagenet,
    "permute": transforms.permute(np.arange(180)[::-1]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_of_each_image_alone_in_single_precision(change):
    before = NOISE.copy()
    together = change(NOISE)
    assert together.dtype == np.float32
    assert together.shape == NOISE.shape
    assert np.array_equal(NOISE, before)
    for i in range(3):
        assert np.array_equal(change(NOISE[i : i + 1])[0], together[i])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: transforms.blur(-1.0), "at least 0, but -1.0"),
        (lambda: transforms.blur(float("inf")), "blur in pixels is a finite number, but inf"),
        (lambda: transforms.brighten(float("nan")), "brightness is a finite number, but nan"),
        (lambda: transforms.rotate(float("inf")), "angle in degrees is a finite number, but inf"),
        (lambda: transforms.standardise((0.1,), (1.0, 1.0)), r"as many deviations as means"),
        (
            lambda: transforms.standardise((0.1,), (0.0,)),
            r"all above 0; \(0.1,\) and \(0.0,\) were",
        ),
        (lambda: transforms.stain(1.1), "between -1 and 1, but 1.1"),
        (lambda: transforms.stain(float("nan")), "between -1 and 1, but nan"),
    ],
)
def test_an_impossible_change_is_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()
