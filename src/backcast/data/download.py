"""Fetching public files: checked, shown, and never half there."""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from backcast.data.errors import DataError


def fetch(base: str, checksums: Mapping[str, str], folder: Path, name: str) -> None:
    """Download files into a folder.

    A file appears there only when it is complete and its checksum right.

    Args:
        base: what their addresses begin with.
        checksums: for each file, ``algorithm:hex``.
        folder: where they go.
        name: what they are, for the progress bar and messages.
    """
    try:
        import pooch
        import requests
    except ImportError as error:
        raise DataError(
            f"{by_hand(base, checksums, folder, name)} (To have it done: pip install "
            "'backcast[app]'.)"
        ) from error
    for file, checksum in checksums.items():
        with _bar(f"{name}: {file}") as bar:
            get: Any = pooch.HTTPDownloader(progressbar=bar, chunk_size=2**16, timeout=20)
            try:
                pooch.retrieve(base + file, checksum, file, folder, downloader=get)
            except (requests.RequestException, OSError, ValueError) as error:
                if isinstance(error, requests.ConnectionError | requests.Timeout):
                    reason = "there is no connection, or it broke off"
                elif "hash" in str(error):
                    reason = "what came is not the published file"
                else:
                    reason = str(error)
                raise DataError(
                    f"{file} could not be downloaded: {reason}. Try again; or by hand: "
                    f"{by_hand(base, checksums, folder, name)}"
                ) from error


def by_hand(base: str, checksums: Mapping[str, str], folder: Path, name: str) -> str:
    """What to do without a network."""
    return f"Put these files of {name} into {folder}: {', '.join(checksums)}. They are at {base} ."


class _Bar:
    """What pooch draws on, drawn by rich."""

    def __init__(self, progress: Any, task: Any):
        self._progress, self._task = progress, task

    @property
    def total(self) -> int:
        return self._progress.tasks[self._task].total

    @total.setter
    def total(self, value: int) -> None:
        self._progress.update(self._task, total=value)

    def update(self, amount: int) -> None:
        self._progress.advance(self._task, amount)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        pass


@contextlib.contextmanager
def _bar(title: str) -> Iterator[Any]:
    """A progress bar where someone watches."""
    if not sys.stderr.isatty():
        yield False
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield _Bar(progress, progress.add_task(title, total=None))
