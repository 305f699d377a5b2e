import numpy as np
import pytest

from backcast.data import DataError, Dataset, dataset

X = np.arange(24, dtype=np.uint8).reshape(6, 2, 2)
Y = np.array([0, 1, 2, 0, 1, 2])
CLASSES = ("a", "b", "c")


def test_inputs_are_scaled_and_single():
    inputs = Dataset("set", X, Y, CLASSES, scale=255.0).inputs(np.array([5, 0]))
    assert inputs.dtype == np.float32
    assert np.array_equal(inputs, np.float32(X[[5, 0]]) / np.float32(255))


def test_stored_values_are_not_touched():
    x = X.astype(np.float32)
    dataset = Dataset("set", x, Y, CLASSES, scale=2.0)
    dataset.inputs(np.arange(6))
    assert np.array_equal(x, X)


def test_targets_are_classes_or_numbers():
    assert Dataset("set", X, Y, CLASSES).targets(np.array([1])).dtype == np.int32
    assert Dataset("set", X, Y * 0.5).targets(np.array([1])).dtype == np.float32


def test_where_takes_values_as_they_stand_in_the_file():
    columns = {"center": np.array([0, 0, 1, 1, 2, 2]), "split": np.array(list("ababab"))}
    dataset = Dataset("set", X, Y, CLASSES, columns)
    assert dataset.where(center=1).tolist() == [2, 3]
    assert dataset.where(center="1", split="b").tolist() == [3]
    with pytest.raises(DataError, match="no column 'centre'; its columns are: center, split"):
        dataset.where(centre=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": Y[:5]}, "6 inputs and 5 labels"),
        ({"x": X[:0], "y": Y[:0]}, "holds no examples"),
        ({"x": X.astype(str)}, "must be real numbers"),
        ({"classes": ("a", "b")}, "labels go from 0 to 2, and 2 classes are numbered 0 ... 1"),
        ({"y": Y - 1}, "labels go from -1"),
        ({"y": Y * 1.0}, "classes are whole numbers"),
        ({"y": Y * np.nan, "classes": ()}, "must be finite numbers"),
        ({"columns": {"slide": np.arange(3)}}, "'slide' has 3 entries for 6"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(DataError, match=message):
        Dataset(**({"name": "set", "x": X, "y": Y, "classes": CLASSES} | change))


def changed(**change):
    columns = {"slide": np.arange(6), "site": np.array(list("ababab"))}
    return Dataset(
        **({"name": "set", "x": X, "y": Y, "classes": CLASSES, "columns": columns} | change)
    )


@pytest.mark.parametrize(
    "change",
    [
        {"x": np.where(X == 23, 22, X)},
        {"x": X.reshape(6, 4)},
        {"x": X.astype(np.uint16)},
        {"y": Y[::-1].copy()},
        {"classes": ("a", "b", "d")},
        {"columns": {"slide": np.arange(6), "site": np.array(list("ababaa"))}},
        {"columns": {"slide": np.arange(6)}},
    ],
)
def test_a_fingerprint_is_of_everything_that_a_run_may_depend_on(change):
    assert changed().fingerprint() == changed(name="renamed", x=X.copy()).fingerprint()
    assert changed(**change).fingerprint() != changed().fingerprint()


def test_of_much_data_a_part_spread_over_all_is_looked_at(monkeypatch):
    monkeypatch.setattr(dataset, "_FINGERPRINTED", 8)  # bytes; an input has 4, so every third
    same = [changed(x=np.where(row == X // 4, 99, X)).fingerprint() for row in range(6)]
    whole = changed().fingerprint()
    assert [mark == whole for mark in same] == [False, True, True, False, True, True]
