"""The idx format of MNIST and its kin: a header of sizes, then the numbers; gzipped or not."""

import gzip
import hashlib
import io
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from backcast.data.bombs import refuse_bomb
from backcast.data.dataset import Dataset
from backcast.data.errors import DataError
from backcast.data.places import locate

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_FILES = {
    ("train", "images"): "train-images-idx3-ubyte",
    ("train", "labels"): "train-labels-idx1-ubyte",
    ("test", "images"): "t10k-images-idx3-ubyte",
    ("test", "labels"): "t10k-labels-idx1-ubyte",
}
NAMES = tuple(_FILES.values())


def idx(
    folder: str | Path,
    prefix: str = "",
    name: str | None = None,
    classes: tuple[str, ...] | None = None,
    root: str | Path | None = None,
) -> Dataset:
    """A set of images in the four idx files that MNIST has: Fashion, Kuzushiji, EMNIST.

    Column ``split`` says which of them were published as ``train`` and which as ``test``.

    Args:
        folder: holds ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same for
            ``t10k``, with or without ``.gz``.
        prefix: what the names begin with (``emnist-letters-``).
        name: what to call the set; its folder's name if None.
        classes: their names; ``0``, ``1`` ... if None.
        root: the folder of all data, if not ``$BACKCAST_DATA``.
    """
    place = locate(folder, root)
    found = find_files(place, prefix)
    if missing := [file for file in NAMES if file not in found]:
        raise DataError(
            f"{place} lacks {', '.join(prefix + file for file in missing)} (with or without .gz)."
        )
    return load_idx(name or place.resolve().name, found, classes)


def load_idx(
    name: str,
    files: dict[str, Path],
    classes: tuple[str, ...] | None = None,
    sha256: dict[str, str] | None = None,
) -> Dataset:
    """The set in four files, checked against the sums of their unpacked bytes if known."""
    arrays = {key: read_idx(files[file], (sha256 or {}).get(file)) for key, file in _FILES.items()}
    for part in ("train", "test"):
        images, labels = arrays[part, "images"], arrays[part, "labels"]
        if images.ndim < 2 or labels.ndim != 1:
            raise DataError(
                f"{files[_FILES[part, 'images']]} holds an array of shape {images.shape} and "
                f"{files[_FILES[part, 'labels']].name} one of {labels.shape}; they must be images "
                "(n, height, width) and labels (n,). Were the files named alike by mistake?"
            )
        if len(images) != len(labels):
            raise DataError(
                f"{files[_FILES[part, 'images']]} holds {len(images):,} images and "
                f"{files[_FILES[part, 'labels']].name} {len(labels):,} labels: they are not of one "
                "set."
            )
    y = np.concatenate([arrays["train", "labels"], arrays["test", "labels"]])
    sizes = [len(arrays["train", "labels"]), len(arrays["test", "labels"])]
    if arrays["train", "images"].shape[1:] != arrays["test", "images"].shape[1:]:
        raise DataError(f"{name}: training and test images are of different size.")
    return Dataset(
        name,
        np.concatenate([arrays["train", "images"], arrays["test", "images"]]),
        y,
        classes or tuple(str(c) for c in range(int(y.max(initial=0)) + 1)),
        {"split": np.repeat(["train", "test"], sizes)},
        scale=255.0 if arrays["train", "images"].dtype == np.uint8 else 1.0,
    )


def find_files(folder: Path, prefix: str = "") -> dict[str, Path]:
    """Those of the four files that are there, under any of the names they go by."""
    found = {}
    for file in NAMES:
        for stem in (file, file.replace("-idx", ".idx")):
            for path in (folder / (prefix + stem), folder / f"{prefix}{stem}.gz"):
                if path.is_file():
                    found.setdefault(file, path)
    return found


def read_idx(path: str | Path, sha256: str | None = None) -> Shaped[np.ndarray, "..."]:
    """The array in one idx file; a wrong or damaged file is refused."""
    path = Path(path)
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if not zipped:
                return _read(raw, path, sha256)
            with gzip.GzipFile(fileobj=raw) as file:
                return _read(file, path, sha256)
    except MemoryError as error:
        raise DataError(f"{path} does not fit into the memory that is free.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path} cannot be read ({error}). Delete it and get it again; an interrupted download "
            "looks like this."
        ) from error


def _read(file: io.BufferedIOBase, path: Path, sha256: str | None) -> np.ndarray:
    header = file.read(4)
    if len(header) < 4 or header[:2] != b"\0\0" or header[2] not in _TYPES:
        raise DataError(
            f"{path} is not an idx file: it begins with {header.hex(' ') or 'nothing'}."
        )
    axes = file.read(4 * header[3])
    if len(axes) < 4 * header[3]:
        raise DataError(f"{path} ends within its header. Delete it and get it again.")
    shape = struct.unpack(f">{header[3]}I", axes)
    dtype = np.dtype(_TYPES[header[2]])
    expected = math.prod(shape) * dtype.itemsize
    refuse_bomb(path, expected, path.stat().st_size)
    body = file.read(expected + 1)
    if len(body) != expected:
        amount = "more" if len(body) > expected else f"{len(body):,}"
        raise DataError(
            f"{path} says it holds {expected:,} bytes of numbers and holds {amount}. Delete it and "
            "get it again."
        )
    if sha256 and hashlib.sha256(header + axes + body).hexdigest() != sha256:
        raise DataError(
            f"{path} is not the published file: its checksum differs. Delete it and get it again; "
            "or, if it is another set in the same format, load it with data.idx(folder)."
        )
    return np.frombuffer(body, dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)
