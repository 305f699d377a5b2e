import io
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest

from backcast import data
from backcast.data import DataError, bombs

X = np.arange(24.0).reshape(6, 4)
Y = np.array([3, 5, 3, 5, 3, 5])


def test_npz_of_x_and_y(tmp_path):
    np.savez(tmp_path / "set.npz", x=X, y=Y, site=np.array(list("aabbcc")), other=np.ones(3))
    found = data.npz("set.npz", root=tmp_path)
    assert found.name == "set"
    assert found.classes == ("3", "5")
    assert found.y.tolist() == [0, 1, 0, 1, 0, 1]
    assert found.where(site="b").tolist() == [2, 3]
    assert "other" not in found.columns
    assert found.scale == 1


def test_npz_of_training_and_test_arrays(tmp_path):
    images = np.zeros((6, 2, 2), np.uint8)
    np.savez_compressed(
        tmp_path / "set.npz", x_train=images, y_train=Y, x_test=images[:2], y_test=Y[:2]
    )
    found = data.npz(tmp_path / "set.npz")
    assert len(found) == 8
    assert found.where(split="test").tolist() == [6, 7]
    assert found.scale == 255


def test_npz_of_numbers_to_predict(tmp_path):
    np.savez(tmp_path / "set.npz", x=X, y=Y / 2)
    found = data.npz(tmp_path / "set.npz", target="number")
    assert found.classes == ()
    assert found.targets(np.arange(2)).tolist() == [1.5, 2.5]


def test_arrays_at_hand_need_no_file():
    found = data.from_arrays(X.tolist(), list("babbab"), "mine", columns={"site": list("ppqqrr")})
    assert (found.name, found.classes) == ("mine", ("a", "b"))
    assert found.where(site="q").tolist() == [2, 3]
    assert np.array_equal(found.inputs(np.arange(6)), X)


def test_arrays_of_jax_and_columns_of_data_frames_are_taken():
    text = np.array(list("ppqqrr"), object)  # as pandas keeps it
    found = data.from_arrays(jnp.asarray(X), jnp.asarray(Y, float), columns={"site": text})
    assert found.classes == ("3", "5")
    assert np.array_equal(found.inputs(np.arange(6)), X)
    assert found.columns["site"].dtype.kind == "U"


def test_dates_are_given_as_they_stand_in_the_file(tmp_path, write_table):
    rows = [["x", "y", "day"], [1, "a", "2024-01-31 10:00"], [2, "b", "2024-02-01 10:00:30"]]
    found = data.csv_table(write_table(tmp_path / "t.csv", rows), "y", ["x"])
    assert found.where(day="2024-01-31 10:00").tolist() == [0]
    assert found.where(day="never").tolist() == []


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("unpickling ran code",))


def test_pickled_objects_are_refused(tmp_path):
    np.savez(tmp_path / "set.npz", x=np.array([Trap()] * 2, object), y=Y[:2])
    with pytest.raises(DataError, match="never read, for they may run code"):
        data.npz(tmp_path / "set.npz")


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[:-30], lambda b: b[:100] + b[140:]])
def test_damaged_npz_is_refused(tmp_path, damage):
    np.savez_compressed(
        tmp_path / "set.npz", x=np.random.default_rng(0).random((50, 4)), y=np.arange(50)
    )
    path = tmp_path / "set.npz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"cannot be read as \.npz"):
        data.npz(path)


def npy_header(shape):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    return header.getvalue()


def test_an_array_shorter_than_its_header_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "set.npz", "w") as archive:
        archive.writestr("x.npy", npy_header((10**6, 10**6)))
    with pytest.raises(DataError, match="is shorter"):
        data.npz(tmp_path / "set.npz")


def test_an_npz_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bombs, "_SUSPICIOUS", 2**20)
    np.savez_compressed(tmp_path / "set.npz", x=np.zeros((2**20, 4)), y=np.zeros(2**20))
    with pytest.raises(DataError, match="made to fill the memory"):
        data.npz(tmp_path / "set.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "lacks the column y; it has x"),
        ({"x": X, "y": Y[:5]}, "6 inputs and 5 labels"),
        ({"x": X[0], "y": Y}, r"must be \(n, ...\) and \(n,\)"),
        ({"x": X, "y": np.eye(6)}, r"y \(6, 6\); they must be \(n, ...\) and \(n,\)"),
        ({"x": np.where(X == 9, np.nan, X), "y": Y}, "input 2 is not finite"),
        ({"x": X, "y": np.where(Y == 5, np.nan, Y)}, "'y': entry 2 names no class"),
        ({"x_train": X, "y_train": Y, "x_test": X[:, :3], "y_test": Y}, r"\(6, 4\) and test"),
        ({"x_train": X, "y_train": Y, "x_test": X, "y_test": Y[:2]}, "not as many labels"),
    ],
)
def test_npz_that_does_not_fit_is_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "set.npz", **arrays)
    with pytest.raises(DataError, match=message):
        data.npz(tmp_path / "set.npz")


ROWS = [["id", "year", "heat", "kind"], ["007", 1999, "0.5", "b"], ["010", 2000, "1e1", "a"]]


def test_csv_table(tmp_path, write_table):
    path = write_table(tmp_path / "readings.csv", ROWS)
    found = data.csv_table("readings.csv", "kind", ["year", "heat"], root=tmp_path)
    assert np.array_equal(found.x, np.float32([[1999, 0.5], [2000, 10]]))
    assert found.classes == ("a", "b")
    assert found.y.tolist() == [1, 0]
    assert found.columns["id"].tolist() == ["007", "010"]
    numbers = data.csv_table(path, "heat", ["year"], target="number")
    assert numbers.y.tolist() == [0.5, 10]


def test_numeric_classes_are_in_numeric_order(tmp_path, write_table):
    path = write_table(tmp_path / "t.csv", [["x", "y"], [1, 10], [2, 9], [3, 10]])
    assert data.csv_table(path, "y").classes == ("9", "10")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no rows"),
        ("x,y\n", "has no rows"),
        ("x,y\n1,2\n1\n", "line 3: 1 entries where the heading has 2"),
        ("x,x,y\n1,2,3\n", "two columns named x"),
        ("x,z\n1,2\n", "lacks the column y; it has x, z"),
        ("x,y\n1,2\n,3\n", "column 'x': entry 2 is '', which is not a number"),
        ("x,y\n1,2\nnan,3\n", "column 'x': entry 2 is 'nan'"),
        ('x,y\n"1,2\n', "cannot be read as a CSV table"),
        ("y\n1\n", "at least one"),
    ],
)
def test_a_bad_table_is_refused(tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        data.csv_table(tmp_path / "t.csv", "y")


def test_a_table_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "t.csv").write_bytes("x,y\n1,ü\n".encode("latin-1"))
    with pytest.raises(DataError, match="UTF-8"):
        data.csv_table(tmp_path / "t.csv", "y")
