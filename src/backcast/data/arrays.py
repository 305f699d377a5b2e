"""Arrays and tables in single files: ``.npz`` and ``.csv``."""

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Shaped
from numpy.typing import ArrayLike

from backcast.data.bombs import refuse_bomb
from backcast.data.columns import Kind, labels_of, numbers, read_columns, require, typed
from backcast.data.dataset import Dataset
from backcast.data.errors import DataError
from backcast.data.places import locate

_UNREADABLE = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
_PARTS = ("x_train", "y_train", "x_test", "y_test")


def from_arrays(
    x: ArrayLike,
    y: ArrayLike,
    name: str = "data",
    target: Kind = "class",
    columns: Mapping[str, ArrayLike] | None = None,
    scale: float | None = None,
) -> Dataset:
    """Arrays at hand, or whatever NumPy makes arrays of: lists, columns of a data frame.

    Args:
        x: inputs, (n, ...).
        y: what is to be predicted, (n,): classes as numbers or text, or numbers.
        name: what to call the set in tables and messages.
        target: whether ``y`` are classes or numbers to be predicted.
        columns: what else is known of each example, by name.
        scale: the value of ``x`` that stands for 1; 255 for bytes and 1 for all else if None.
    """
    x, y = np.asarray(x), np.asarray(y)
    if x.ndim < 2 or y.ndim != 1:
        raise DataError(
            f"{name}: x has shape {x.shape} and y {y.shape}; they must be (n, ...) and (n,)."
        )
    if x.dtype.kind == "f" and not (finite := np.isfinite(x)).all():
        row = int((~finite.reshape(len(x), -1).all(axis=1)).argmax())
        raise DataError(
            f"{name}: input {row} is not finite. Fill the gaps in, or leave such examples out."
        )
    if y.dtype.kind == "f" and target == "class" and (y == np.floor(y)).all():
        y = y.astype(np.int64)  # `3.0` is class 3
    labels, classes = labels_of(y.astype(str) if target == "class" else y, "y", name, target)
    known = {key: _column(values) for key, values in (columns or {}).items()}
    usual = 255.0 if x.dtype == np.uint8 else 1.0
    return Dataset(name, x, labels, classes, known, usual if scale is None else scale)


def npz(
    path: str | Path,
    target: Kind = "class",
    scale: float | None = None,
    name: str | None = None,
    root: str | Path | None = None,
) -> Dataset:
    """Arrays ``x`` and ``y``, or ``x_train``, ``y_train``, ``x_test`` and ``y_test``, in one file.

    Other arrays with an entry per example become columns.

    Args:
        path: of the file; if relative, below ``root``.
        target: whether ``y`` are classes or numbers to be predicted.
        scale: the value of ``x`` that stands for 1; 255 for bytes and 1 for all else if None.
        name: what to call the set; the file's name if None.
        root: the folder of all data, if not ``$BACKCAST_DATA``.
    """
    path = locate(path, root)
    arrays = _read(path)
    if set(_PARTS) <= arrays.keys():
        parts = {part: arrays.pop(part) for part in _PARTS}
        _same_rest(path, parts["x_train"], parts["x_test"])
        sizes = [len(parts["y_train"]), len(parts["y_test"])]
        if sizes != [len(parts["x_train"]), len(parts["x_test"])]:
            raise DataError(f"{path}: there are not as many labels as inputs.")
        arrays["x"] = np.concatenate([parts["x_train"], parts["x_test"]])
        arrays["y"] = np.concatenate([parts["y_train"], parts["y_test"]])
        arrays["split"] = np.repeat(["train", "test"], sizes)
    require(arrays, ("x", "y"), path)
    x, y = arrays.pop("x"), arrays.pop("y")
    columns = {key: value for key, value in arrays.items() if value.shape == y.shape}
    return from_arrays(x, y, name or path.stem, target, columns, scale)


def csv_table(
    path: str | Path,
    label: str,
    inputs: Sequence[str] | None = None,
    target: Kind = "class",
    name: str | None = None,
    root: str | Path | None = None,
) -> Dataset:
    """A table of numbers: a row per example, with a heading.

    Args:
        path: of the file; if relative, below ``root``.
        label: the column to be predicted.
        inputs: the columns to predict from; None takes all others. All are kept as columns too.
        target: whether the labels are classes or numbers to be predicted.
        name: what to call the set; the file's name if None.
        root: the folder of all data, if not ``$BACKCAST_DATA``.
    """
    path = locate(path, root)
    text = read_columns(path)
    inputs = [c for c in text if c != label] if inputs is None else list(inputs)
    require(text, (label, *inputs), path)
    if label in inputs or not inputs:
        raise DataError(f"The inputs must be columns other than '{label}', and at least one.")
    x = np.stack([numbers(text[column], column, path) for column in inputs], axis=1)
    y, classes = labels_of(text[label], label, path, target)
    columns = {column: typed(values) for column, values in text.items()}
    return Dataset(name or path.stem, x.astype(np.float32), y, classes, columns)


def _column(values: ArrayLike) -> Shaped[np.ndarray, " n"]:
    array = np.asarray(values)
    return array.astype(str) if array.dtype == object else array  # text, in data frames


def _read(path: Path) -> dict[str, Shaped[np.ndarray, "..."]]:
    """All arrays of a file, none of which is larger than its header says or runs code."""
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
            refuse_bomb(path, unpacked, path.stat().st_size)
            for member in archive.infolist():
                with archive.open(member) as file:
                    _check_header(path, member, file)
        with np.load(path, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except DataError:
        raise
    except MemoryError as error:
        raise DataError(f"{path} does not fit into the memory that is free.") from error
    except _UNREADABLE as error:
        raise DataError(
            f"{path} cannot be read as .npz arrays of numbers or text: {error}. Arrays of Python "
            "objects are never read, for they may run code."
        ) from error


def _check_header(path: Path, member: zipfile.ZipInfo, file) -> None:
    version = np.lib.format.read_magic(file)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = read(file)
    promised = int(np.prod([int(s) for s in shape], dtype=object)) * dtype.itemsize
    if not dtype.hasobject and promised > member.file_size:
        raise DataError(
            f"{path}: array '{member.filename}' says it is {shape} and is shorter. Get it again."
        )


def _same_rest(path: Path, first: np.ndarray, second: np.ndarray) -> None:
    if first.shape[1:] != second.shape[1:]:
        raise DataError(
            f"{path}: training inputs are of shape {first.shape} and test inputs {second.shape}."
        )
