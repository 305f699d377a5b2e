import gzip
import hashlib
import struct

import numpy as np
import pytest

from backcast import data
from backcast.data import DataError
from backcast.data.idx import NAMES, find_files
from data.idx_sets import idx_bytes, write_set


@pytest.mark.parametrize(
    ("code", "dtype"),
    [(0x08, ">u1"), (0x09, ">i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_every_type_of_number_is_read(tmp_path, code, dtype, pack):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    (tmp_path / "file").write_bytes(pack(idx_bytes(array, code)))
    found = data.read_idx(tmp_path / "file")
    assert np.array_equal(found, array)
    assert found.dtype == np.dtype(dtype).newbyteorder("=")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_four_files_are_a_set(tmp_path, suffix):
    arrays = write_set(tmp_path / "glyphs", suffix=suffix)
    found = data.idx("glyphs", root=tmp_path)
    assert found.name == "glyphs"
    assert np.array_equal(found.x, np.concatenate([arrays[0], arrays[2]]))
    assert found.where(split="test").tolist() == [5, 6, 7]
    assert found.classes == ("0", "1", "2")
    assert found.scale == 255


def test_names_with_a_prefix_and_dots_are_found(tmp_path):
    write_set(tmp_path)
    for name in NAMES:
        (tmp_path / name).rename(tmp_path / f"emnist-{name.replace('-idx', '.idx')}")
    assert len(data.idx(tmp_path, prefix="emnist-")) == 8


def test_missing_files_are_named(tmp_path):
    write_set(tmp_path)
    (tmp_path / NAMES[3]).unlink()
    with pytest.raises(DataError, match=r"lacks t10k-labels-idx1-ubyte"):
        data.idx(tmp_path)


def test_labels_of_another_set_are_refused(tmp_path):
    write_set(tmp_path, labels=4)
    with pytest.raises(DataError, match=r"5 images and .* 4 labels: they are not of one set"):
        data.idx(tmp_path)


def test_files_named_alike_by_mistake_are_refused(tmp_path):
    write_set(tmp_path)
    (tmp_path / NAMES[0]).rename(tmp_path / "images")
    (tmp_path / NAMES[1]).rename(tmp_path / NAMES[0])
    (tmp_path / "images").rename(tmp_path / NAMES[1])
    with pytest.raises(DataError, match=r"shape \(5,\) and .* one of \(5, 4, 4\)"):
        data.idx(tmp_path)


def test_real_numbers_are_not_divided(tmp_path):
    write_set(tmp_path)
    for name, count in ((NAMES[0], 5), (NAMES[2], 3)):
        numbers = np.full((count, 2, 2), 0.25, ">f4")
        (tmp_path / name).write_bytes(idx_bytes(numbers, 0x0D))
    assert (data.idx(tmp_path).inputs(np.arange(8)) == 0.25).all()


GOOD = idx_bytes(np.arange(100, dtype=np.uint8).reshape(4, 5, 5))
ZIPPED = gzip.compress(GOOD, mtime=0)  # with the time in it, two workers disagree on test ids


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an idx file: it begins with nothing"),
        (b"PK\x03\x04....", "not an idx file: it begins with 50 4b"),
        (GOOD[:9], "ends within its header"),
        (GOOD[:-1], "says it holds 100 bytes of numbers and holds 99"),
        (GOOD + b"!", "says it holds 100 bytes of numbers and holds more"),
        (ZIPPED[: len(ZIPPED) // 2], "cannot be read"),
        (ZIPPED[:40] + b"\xff\xff" + ZIPPED[42:], "cannot be read"),
        (ZIPPED[:-6] + b"\0\0" + ZIPPED[-4:], "cannot be read .*CRC"),
        (
            struct.pack(">4B3I", 0, 0, 8, 3, 2**20, 2**10, 2**10),
            "would unpack to 1,099,511,627,776",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, message):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError, match=message):
        data.read_idx(tmp_path / "file")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    head = struct.pack(">4B2I", 0, 0, 8, 2, 2**16, 2**15)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(head + bytes(2**20)))
    with pytest.raises(DataError, match="made to fill the memory"):
        data.read_idx(tmp_path / "bomb.gz")


def test_a_wrong_checksum_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(ZIPPED)
    data.read_idx(tmp_path / "file", hashlib.sha256(GOOD).hexdigest())
    with pytest.raises(DataError, match="not the published file"):
        data.read_idx(tmp_path / "file", hashlib.sha256(b"other").hexdigest())


def test_mnist_is_read_and_checked(real_data):
    folder = real_data("mnist")
    mnist = data.mnist(folder)
    assert mnist.x.shape == (70_000, 28, 28)
    assert len(mnist.where(split="test")) == 10_000
    # MNIST's well-known counts of the ten digits among the 10,000 test images.
    counts = np.bincount(mnist.y[60_000:])
    assert counts.tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    # The published sums, of the unpacked bytes.
    labels = gzip.decompress(find_files(folder)["t10k-labels-idx1-ubyte"].read_bytes())
    assert hashlib.md5(labels).hexdigest() == "27ae3e4e09519cfbb04c329615203637"


def test_another_set_is_not_taken_for_mnist(tmp_path):
    write_set(tmp_path / "mnist")
    with pytest.raises(DataError, match=r"not the published file.*data.idx\(folder\)"):
        data.mnist(tmp_path)
