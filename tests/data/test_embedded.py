import hashlib

import numpy as np

from backcast import data


def test_digits_are_the_publishers_bytes():
    digits = data.digits()
    assert digits.x.shape == (1797, 8, 8)
    assert np.bincount(digits.y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    # Of the bytes of scikit-learn's copy of the UCI file, images then labels.
    assert hashlib.sha256(digits.x.tobytes() + digits.y.tobytes()).hexdigest() == (
        "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
    )


def test_digits_scale_to_one():
    digits = data.digits()
    inputs = digits.inputs(np.arange(len(digits)))
    assert inputs.dtype == np.float32
    assert (inputs.min(), inputs.max()) == (0, 1)
