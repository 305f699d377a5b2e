"""What is on disk is written whole or not at all, and only read if it is what was written."""

import json
import os

import jax.numpy as jnp
import numpy as np
import pytest

from backcast.learning import files
from backcast.learning.files import LoadError, load_arrays, load_record, save_arrays, save_record

ARRAYS = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "number": np.asarray(2.5),
    "half": np.asarray(jnp.arange(3, dtype=jnp.bfloat16)),
    "none": np.zeros((0, 4), np.float32),
    "strided": np.arange(12).reshape(3, 4).T,
    "flag": np.asarray([True, False]),
}


def test_arrays_come_back_as_they_were(tmp_path):
    path, digest = save_arrays(tmp_path / "new" / "folder", "task", ARRAYS)
    loaded = load_arrays(path, digest)
    assert loaded.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)


def test_same_arrays_give_the_same_file(tmp_path):
    assert save_arrays(tmp_path, "task", ARRAYS) == save_arrays(tmp_path, "task", ARRAYS)
    assert len(list(tmp_path.iterdir())) == 1


def test_every_flipped_byte_and_every_cut_is_refused(tmp_path):
    path, digest = save_arrays(tmp_path, "task", {"x": np.arange(3.0)})
    whole = path.read_bytes()
    damaged = [whole[:n] for n in range(len(whole))] + [whole + b"\0"]
    damaged += [bytes([*whole[:i], whole[i] ^ 1, *whole[i + 1 :]]) for i in range(len(whole))]
    for contents in damaged:
        path.write_bytes(contents)
        with pytest.raises(LoadError, match="altered or cut short"):
            load_arrays(path, digest)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(LoadError, match=r"gone\.safetensors cannot be read"):
        load_arrays(tmp_path / "gone.safetensors", "")


def test_a_checksum_that_fits_no_arrays_is_refused(tmp_path):
    path = tmp_path / "text.safetensors"
    path.write_text("not arrays")
    with pytest.raises(LoadError, match="cannot be read"):
        load_arrays(path, files.checksum(path))


def test_records_come_back_as_they_were(tmp_path):
    record = {"name": "ä", "numbers": [0.1, 1e-300, 3], "nothing": None}
    save_record(tmp_path / "r.json", record)
    assert load_record(tmp_path / "r.json") == record


def test_every_changed_record_is_refused(tmp_path):
    path = tmp_path / "r.json"
    save_record(path, {"a": 1})
    whole = path.read_bytes()
    spaces = {i for i, c in enumerate(whole) if c in b" \n"}
    for i in set(range(len(whole))) - spaces:
        path.write_bytes(bytes([*whole[:i], whole[i] ^ 1, *whole[i + 1 :]]))
        with pytest.raises(LoadError):
            load_record(path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"content": 1, "sha256": 2}', "[" * 9999]
)
def test_what_is_no_record_is_refused(tmp_path, text):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(LoadError, match=r"r\.json"):
        load_record(tmp_path / "r.json")


def test_a_missing_record_says_what_to_give(tmp_path):
    with pytest.raises(LoadError, match="Give the folder a learner was saved in"):
        load_record(tmp_path / "learner.json")


def test_a_failed_write_leaves_the_old_contents_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    save_record(path, {"a": 1})
    monkeypatch.setattr(files, "_sync", _no_space)
    with pytest.raises(OSError, match="No space"):
        save_record(path, {"a": 2})
    with pytest.raises(OSError, match="No space"):
        save_arrays(tmp_path, "task", ARRAYS)
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]
    assert load_record(path) == {"a": 1}


def test_files_may_be_read_by_whom_any_file_may(tmp_path):
    old = os.umask(0o027)
    try:
        path, _ = save_arrays(tmp_path, "task", ARRAYS)
        save_record(tmp_path / "r.json", {"a": 1})
    finally:
        os.umask(old)
    assert {oct(p.stat().st_mode & 0o777) for p in (path, tmp_path / "r.json")} == {"0o640"}


def test_a_nan_is_no_number_for_a_record(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        save_record(tmp_path / "r.json", {"a": float("nan")})
    assert json.loads("[]") == list(tmp_path.iterdir())


def _no_space(path):
    raise OSError(28, "No space left on device")
