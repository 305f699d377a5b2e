"""Where data are looked for, and what may be read there."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int

from backcast.data.errors import DataError

ROOT = "BACKCAST_DATA"
CACHE = "BACKCAST_CACHE"


def root_folder(root: str | Path | None) -> Path:
    """The folder of all data: the one given, else ``$BACKCAST_DATA``, else this one's own."""
    return Path(root or os.environ.get(ROOT) or user_folder()).expanduser()


def cache_folder(cache: str | Path | None) -> Path:
    """Where what was read once is kept: the one given, else ``$BACKCAST_CACHE``, else a usual."""
    return Path(cache or os.environ.get(CACHE) or user_folder() / "decoded").expanduser()


def locate(path: str | Path, root: str | Path | None, hint: str = "") -> Path:
    """A file or folder: an absolute path, or one below the folder of all data, or below this."""
    path = Path(path).expanduser()
    places = [path] if path.is_absolute() else [root_folder(root) / path, path.absolute()]
    for place in places:
        if place.exists():
            return place
    listed = " nor ".join(str(place) for place in places)
    raise DataError(
        f"There is no {listed}. Give the path, or name the folder that holds it by {ROOT} or a "
        f"data directory. {hint}".rstrip()
    )


def signatures(folder: Path, names: Sequence[str], source: str) -> Int[np.ndarray, "n 2"]:
    """Each file's size and time of change. All must be there, and inside the folder.

    Args:
        folder: the folder.
        names: paths of the files from there, with forward slashes.
        source: what lists them, for messages.
    """
    base = os.path.realpath(folder)
    found = np.empty((len(names), 2), np.int64)
    parents: set[str] = set()
    missing: list[str] = []
    for i, name in enumerate(names):
        parts = name.replace("\\", "/").split("/")
        if ".." in parts or os.path.isabs(name) or ":" in parts[0] or "\0" in name:
            raise _escape(folder, name, source)
        path = os.path.join(base, name)
        try:
            status = os.lstat(path)
        except OSError:
            missing.append(name)
            continue
        if (parent := os.path.dirname(path)) not in parents:
            _refuse_link_out(base, parent, folder, name, source)
            parents.add(parent)
        if stat.S_ISLNK(status.st_mode):
            _refuse_link_out(base, path, folder, name, source)
        found[i] = status.st_size, status.st_mtime_ns
    if missing:
        raise DataError(
            f"{source} lists {len(names):,} files and {len(missing):,} of them are not in "
            f"{folder}; the first is {missing[0]}. Was the archive unpacked to its end?"
        )
    return found


def _refuse_link_out(base: str, path: str, folder: Path, name: str, source: str) -> None:
    if os.path.commonpath([base, os.path.realpath(path)]) != base:
        raise _escape(folder, name, source)


def _escape(folder: Path, name: str, source: str) -> DataError:
    return DataError(
        f"{source} lists {name!r}, which leads out of {folder}. No file outside is read: correct "
        "the entry, or copy the file into the folder."
    )


def user_folder() -> Path:
    """A folder for data that this user's programs keep and can fetch again."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "backcast"
