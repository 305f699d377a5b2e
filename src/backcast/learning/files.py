"""Arrays and records on disk: written whole or not at all, and checked when they are read.

Arrays go to safetensors files and everything else to JSON, so reading never executes anything.
"""

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

_BFLOAT16 = np.dtype(jnp.bfloat16)


class LoadError(ValueError):
    """What is on disk cannot be used; the message says why and what to do."""


@contextlib.contextmanager
def temporary(folder: Path) -> Iterator[Path]:
    """A new path for a file that is gone afterwards unless it was settled in the folder.

    It has a place of its own, for writers may put files of theirs beside it.
    """
    place = folder / f".{uuid.uuid4().hex}.part"
    place.mkdir()
    try:
        yield place / "new"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes have left half-written, at whatever depth."""
    for place in list(folder.rglob(".*.part")):
        shutil.rmtree(place, ignore_errors=True)


def settle(part: Path, path: Path) -> None:
    """Give a temporary file its name, durably: a reader sees the old file or the new one, whole.

    Who may read it is as for any file made here, whatever its writer chose.
    """
    part.chmod(part.parent.stat().st_mode & 0o666)
    _sync(part)
    part.replace(path)
    _sync(path.parent)


def save_arrays(folder: Path, stem: str, arrays: Mapping[str, np.ndarray]) -> tuple[Path, str]:
    """Write arrays to a safetensors file that is named after its contents.

    Returns:
        The file, ``stem`` and the beginning of its SHA-256, and the whole of the latter.
    """
    halves = [name for name, array in arrays.items() if array.dtype == _BFLOAT16]
    # NumPy's writer knows no bfloat16: its bits are stored, and its name in the header.
    stored = {
        name: np.asarray(array.view(np.uint16) if name in halves else array, order="C")
        for name, array in arrays.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    with temporary(folder) as part:
        save_file(stored, part, {_BFLOAT16.name: json.dumps(halves)})
        digest = checksum(part)
        path = folder / f"{stem}-{digest[:16]}.safetensors"
        settle(part, path)
    return path, digest


def load_arrays(path: Path, digest: str) -> dict[str, np.ndarray]:
    """Read a file written by `save_arrays`, if its bytes are still the ones that were written."""
    try:
        found = checksum(path)
        if found != digest:
            raise LoadError(
                f"{path} is not the file that was saved: its SHA-256 is {found[:12]}..., but "
                f"{digest[:12]}... was recorded. It was altered or cut short; restore it."
            )
        with safe_open(path, framework="numpy") as file:
            halves = json.loads((file.metadata() or {}).get(_BFLOAT16.name, "[]"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise LoadError(f"{path} cannot be read: {error}.") from error
    return {
        name: array.view(_BFLOAT16) if name in halves else array for name, array in arrays.items()
    }


def save_record(path: Path, record: dict[str, Any]) -> None:
    """Write a JSON object with a checksum of its own."""
    body = json.dumps(record, indent=1, allow_nan=False)
    sealed = {"sha256": hashlib.sha256(body.encode()).hexdigest(), "content": record}
    with temporary(path.parent) as part:
        part.write_text(json.dumps(sealed, indent=1) + "\n", encoding="utf-8")
        settle(part, path)


def load_record(path: Path) -> dict[str, Any]:
    """Read an object written by `save_record`, if it is still what was written."""
    try:
        sealed = json.loads(path.read_text(encoding="utf-8"))
        record, digest = sealed["content"], sealed["sha256"]
        body = json.dumps(record, indent=1, allow_nan=False)
    except FileNotFoundError:
        raise LoadError(
            f"There is no {path.name} in {path.parent}. Give the folder a learner was saved in."
        ) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise LoadError(f"{path} is not a record of this library: {error!r}.") from error
    if hashlib.sha256(body.encode()).hexdigest() != digest or not isinstance(record, dict):
        raise LoadError(
            f"{path} was altered or cut short: its checksum does not fit. Restore it from a copy."
        )
    return record


def checksum(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
