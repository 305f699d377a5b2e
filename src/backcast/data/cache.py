"""Arrays that were costly to make, kept in files and mapped into memory."""

import contextlib
import hashlib
import math
import os
import secrets
import shutil
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from backcast.data.errors import DataError

_ABANDONED = 24 * 3600  # seconds after which a half-written file is nobody's


def key_of(*parts: bytes) -> str:
    """A name for what is made from these bytes."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:32]


def stored(
    folder: Path,
    key: str,
    shape: tuple[int, ...],
    make: Callable[[], Generator[np.ndarray]],
) -> UInt8[np.ndarray, "n ..."]:
    """The array of this key, memory-mapped; made and written the first time.

    A file appears under its name only when it is complete. Where it cannot be written, the array
    is made in memory, and a warning says so.

    Args:
        folder: where arrays are kept.
        key: of what the array depends on.
        shape: of the whole array.
        make: yields it in pieces, from the start.
    """
    path = folder / f"{key}.npy"
    array = _mapped(path, shape)
    if array is not None:
        return array
    try:
        with contextlib.closing(make()) as pieces:  # closed, it stops its threads
            _write(path, shape, pieces)
    except OSError as error:
        _refuse_too_much(folder, math.prod(shape), error)
        warnings.warn(
            f"Decoded images cannot be kept in {folder} ({error}), so they are held in memory, and "
            "decoded again next time. Name another folder by BACKCAST_CACHE.",
            UserWarning,
            stacklevel=3,
        )
        return _in_memory(shape, make())
    array = _mapped(path, shape)
    return _in_memory(shape, make()) if array is None else array


def _mapped(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None  # not there yet, or damaged: it is made anew
    return array if array.shape == shape and array.dtype == np.uint8 else None


def _refuse_too_much(folder: Path, needed: int, error: OSError) -> None:
    """Systems promise memory they do not have, and then end the process: so it is asked before."""
    pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    if pages and needed > (most := pages * os.sysconf("SC_PAGE_SIZE") // 2):
        raise DataError(
            f"Decoded images cannot be kept in {folder} ({error}), and {needed:,} bytes are more "
            f"than half of this machine's memory ({most:,}). Name a folder with room for them by "
            "BACKCAST_CACHE, or ask for a smaller size."
        ) from error


def _write(path: Path, shape: tuple[int, ...], pieces: Iterator[np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path.parent)
    needed, free = math.prod(shape), shutil.disk_usage(path.parent).free
    if needed > free:
        raise OSError(f"{needed:,} bytes are needed and {free:,} are free")
    part = path.with_name(f"{path.stem}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        # Written, not mapped: a full disk is then an error, where a mapping would end the process.
        with part.open("xb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            for piece in pieces:
                file.write(piece.data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _remove_abandoned(folder: Path) -> None:
    for part in folder.glob("*.part"):
        if time.time() - part.stat().st_mtime > _ABANDONED:
            part.unlink(missing_ok=True)


def _in_memory(shape: tuple[int, ...], pieces: Iterator[np.ndarray]) -> np.ndarray:
    array, start = np.empty(shape, np.uint8), 0
    for piece in pieces:
        array[start : start + len(piece)] = piece
        start += len(piece)
    return array
