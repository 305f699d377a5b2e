"""Images on disk that a table lists: WILDS' histology patches, or anyone's folder of images."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from backcast.data.cache import key_of, stored
from backcast.data.columns import Kind, labels_of, numbers, read_columns, require, typed
from backcast.data.dataset import Dataset
from backcast.data.errors import DataError
from backcast.data.images import Mode, decode, decode_all, require_pillow
from backcast.data.places import cache_folder, locate, signatures

CAMELYON17 = (
    "CAMELYON17 as WILDS published it is 455,954 patches in 10.7 GB: download "
    "https://worksheets.codalab.org/rest/bundles/0xe45e15f39fb54e9d9e919556af67aabe/contents/blob/ "
    "and unpack it into a folder camelyon17_v1.0, so that camelyon17_v1.0/metadata.csv is there. "
    "The first time it is read it is decoded into a cache (BACKCAST_CACHE) of another 12.6 GB, or "
    "of 3.2 GB at size=48."
)


def wilds(
    folder: str | Path = "camelyon17_v1.0",
    classes: tuple[str, ...] = ("normal", "tumor"),
    size: int | None = None,
    name: str | None = None,
    root: str | Path | None = None,
    cache: str | Path | None = None,
) -> Dataset:
    """Histology patches in the layout of WILDS' ``camelyon17``.

    ``metadata.csv`` has a row per patch: ``patient``, ``node``, ``x_coord``, ``y_coord``, ``tumor``
    (its class) and more, all of which become columns (``slide``, ``center``). The patches are in
    ``patches/patient_P_node_N/patch_patient_P_node_N_x_X_y_Y.png``. They are decoded once and kept,
    memory-mapped: 27 kB a patch, a quarter of it at ``size=48``.

    Args:
        folder: the folder of ``metadata.csv``; if relative, below ``root``.
        classes: what the values 0, 1 ... of ``tumor`` are called.
        size: average the patches to this many pixels a side; None leaves them as they are.
        name: what to call the set; its folder's name if None.
        root: the folder of all data, if not ``$BACKCAST_DATA``.
        cache: where decoded patches are kept, if not ``$BACKCAST_CACHE`` nor a usual place.
    """
    table = locate(Path(folder) / "metadata.csv", root, CAMELYON17)
    text = read_columns(table)
    place = ("patient", "node", "x_coord", "y_coord")
    require(text, (*place, "tumor"), table)
    files = [
        f"patient_{p}_node_{n}/patch_patient_{p}_node_{n}_x_{x}_y_{y}.png"
        for p, n, x, y in zip(*(text[column].tolist() for column in place), strict=True)
    ]
    labels = numbers(text["tumor"], "tumor", table)
    _refuse_contradictions(files, text["tumor"], table)
    if not np.isin(labels, np.arange(len(classes))).all():
        raise DataError(
            f"{table}, column 'tumor': classes are 0 ... {len(classes) - 1} ({', '.join(classes)}) "
            f"and it holds {', '.join(sorted(set(text['tumor'].tolist())))}."
        )
    return Dataset(
        name or table.resolve().parent.name,
        _images(table, table.parent / "patches", files, size, "RGB", cache),
        labels.astype(np.int32),
        classes,
        {column: typed(values) for column, values in text.items()},
        scale=255.0,
    )


def image_table(
    folder: str | Path,
    table: str = "labels.csv",
    file: str = "file",
    label: str = "label",
    target: Kind = "class",
    size: int | None = None,
    mode: Mode = "RGB",
    name: str | None = None,
    root: str | Path | None = None,
    cache: str | Path | None = None,
) -> Dataset:
    """A folder of images (PNG, JPEG, BMP, TIFF) and a CSV table that says what they are.

    Args:
        folder: holds the images; if relative, below ``root``.
        table: the CSV table in it: a row per image.
        file: its column of paths, from the folder.
        label: its column of what is to be predicted. All columns are kept by name.
        target: whether the labels are classes (text or numbers) or numbers to be predicted.
        size: average images to this many pixels a side; None if all are of one size.
        mode: ``RGB`` for (n, h, w, 3), ``L`` for grey (n, h, w).
        name: what to call the set; its folder's name if None.
        root: the folder of all data, if not ``$BACKCAST_DATA``.
        cache: where decoded images are kept, if not ``$BACKCAST_CACHE`` nor a usual place.
    """
    path = locate(Path(folder) / table, root)
    text = read_columns(path)
    require(text, (file, label), path)
    _refuse_contradictions(text[file].tolist(), text[label], path)
    y, classes = labels_of(text[label], label, path, target)
    return Dataset(
        name or path.resolve().parent.name,
        _images(path, path.parent, text[file].tolist(), size, mode, cache),
        y,
        classes,
        {column: typed(values) for column, values in text.items()},
        scale=255.0,
    )


def _refuse_contradictions(files: Sequence[str], labels: np.ndarray, table: Path) -> None:
    """A file may be listed twice (by two doctors, say), as long as they agree."""
    first = {}
    for file, label in zip(files, labels.tolist(), strict=True):
        if first.setdefault(file, label) != label:
            raise DataError(
                f"{table} lists {file} twice, once labelled '{first[file]}' and once '{label}'. "
                "Correct one of the rows, or leave it out."
            )


def _images(
    table: Path,
    folder: Path,
    files: Sequence[str],
    size: int | None,
    mode: Mode,
    cache: str | Path | None,
) -> np.ndarray:
    """The listed images, from the cache where the list and the files are the same as then."""
    require_pillow()
    if size is not None and size < 1:
        raise DataError(f"A size is a number of pixels, at least 1, but {size} was given.")
    files_now = signatures(folder, files, str(table))
    key = key_of("\n".join(files).encode(), files_now.tobytes(), f"{size} {mode}".encode())
    paths = [folder / file for file in files]
    shape = (len(files), *decode(paths[0], size, mode).shape)
    return stored(cache_folder(cache), key, shape, lambda: decode_all(paths, size, mode))
