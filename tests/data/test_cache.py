import os
import time
from collections import namedtuple

import numpy as np
import pytest

from backcast.data import DataError, cache

SHAPE = (6, 2, 2)
WHOLE = np.arange(24, dtype=np.uint8).reshape(SHAPE)


def pieces():
    yield WHOLE[:4]
    yield WHOLE[4:]


def never():
    raise AssertionError("it was there already")
    yield


def test_made_once_and_mapped(tmp_path):
    first = cache.stored(tmp_path / "new", "key", SHAPE, pieces)
    again = cache.stored(tmp_path / "new", "key", SHAPE, never)
    assert isinstance(again, np.memmap)
    assert not again.flags.writeable
    assert np.array_equal(first, WHOLE)
    assert np.array_equal(again, WHOLE)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError, SystemExit])
def test_an_interruption_leaves_nothing_half_written(tmp_path, interruption):
    def interrupted():
        yield WHOLE[:4]
        raise interruption

    with pytest.raises(interruption):
        cache.stored(tmp_path, "key", SHAPE, interrupted)
    assert list(tmp_path.iterdir()) == []
    assert np.array_equal(cache.stored(tmp_path, "key", SHAPE, pieces), WHOLE)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b[:20], lambda b: b"", lambda b: b"x" * 99]
)
def test_a_damaged_file_is_made_anew(tmp_path, damage):
    cache.stored(tmp_path, "key", SHAPE, pieces)
    file = tmp_path / "key.npy"
    file.write_bytes(damage(file.read_bytes()))
    assert np.array_equal(cache.stored(tmp_path, "key", SHAPE, pieces), WHOLE)


def test_an_unwritable_folder_is_said_and_worked_without(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.warns(UserWarning, match="cannot be kept in .* held in memory.*BACKCAST_CACHE"):
        array = cache.stored(tmp_path / "file", "key", SHAPE, pieces)
    assert np.array_equal(array, WHOLE)


def test_a_full_disk_is_said_and_worked_without(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: usage(100, 90, 10))
    with pytest.warns(UserWarning, match="24 bytes are needed and 10 are free"):
        array = cache.stored(tmp_path, "key", SHAPE, pieces)
    assert np.array_equal(array, WHOLE)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_while_writing_is_worked_without(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "fsync", full)
    with pytest.warns(UserWarning, match="No space left"):
        array = cache.stored(tmp_path, "key", SHAPE, pieces)
    assert np.array_equal(array, WHOLE)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_in_time(tmp_path):
    old, young = tmp_path / "a.part", tmp_path / "b.part"
    old.touch()
    young.touch()
    os.utime(old, (time.time() - 1e6,) * 2)
    cache.stored(tmp_path, "key", SHAPE, pieces)
    assert not old.exists()
    assert young.exists()


def test_keys_tell_parts_apart():
    assert cache.key_of(b"ab", b"c") != cache.key_of(b"a", b"bc")


def test_what_exceeds_the_memory_is_not_tried(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DataError, match="more than half of this machine's memory"):
        cache.stored(tmp_path / "file", "key", (2**50,), never)


def test_what_makes_the_pieces_is_stopped_when_they_cannot_be_kept(tmp_path):
    ended = []

    def wrong():
        try:
            yield "not an array"
        finally:
            ended.append(True)

    with pytest.raises(AttributeError) as kept:  # its traceback holds on to the generator
        cache.stored(tmp_path, "key", SHAPE, wrong)
    assert kept
    assert ended == [True]
