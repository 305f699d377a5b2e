"""The data that comes with the package, so that there is always something to try."""

from importlib import resources

import numpy as np

from backcast.data.dataset import Dataset

DIGITS = resources.files("backcast.data") / "resources" / "digits.npz"


def digits() -> Dataset:
    """1,797 handwritten digits of 13 writers, 8 x 8 pixels of 17 grey levels (0 ... 16).

    The test part of the UCI "Optical Recognition of Handwritten Digits" set by E. Alpaydin and
    C. Kaynak (CC BY 4.0, https://doi.org/10.24432/C50P49).
    """
    with DIGITS.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return Dataset("digits", arrays["x"], arrays["y"], tuple("0123456789"), scale=16.0)
