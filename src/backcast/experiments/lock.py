"""One process at a time works in a folder. The system lets go of the lock when a process dies."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from backcast.experiments.errors import BusyError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

NAME = "lock"


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Work in a folder alone.

    Raises:
        BusyError: another process does.
    """
    with (folder / NAME).open("a+") as file:
        if not _taken_soon(file):
            file.seek(0)
            raise BusyError(
                f"{folder} is being worked on by {file.read().strip() or 'another process'}. "
                "Leave it to that, or stop it first: the run then goes on from its last task."
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def is_held(folder: Path) -> bool:
    """Whether a process works in a folder."""
    try:
        with (folder / NAME).open() as file:  # to be read only: others' results are looked at too
            return not _taken(file, shared=True)
    except FileNotFoundError:
        return False


def _taken_soon(file) -> bool:
    # Whoever only asks whether the folder is being worked in holds the lock for an instant.
    return any(_taken(file) or time.sleep(0.05) for _ in range(5))


def _taken(file, shared: bool = False) -> bool:
    if fcntl is None:
        raise RuntimeError("Runs need file locks, which this system does not have; use WSL.")
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
