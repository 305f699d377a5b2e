"""Compiled code, kept from one call of the command line to the next.

Most of what a short run takes is compiling: kept, it starts four times as fast (measured: the
digits, 16 s and 4 s of processor time). The results are the same to the bit.
"""

import hashlib
import os
import platform
import warnings
from collections.abc import MutableMapping
from pathlib import Path

_SHORTEST = 0.1  # seconds of compiling that are worth a file


def keep(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let jax keep what it compiles, in this process and in those it starts.

    To be called before jax is imported. Where the user has said something about it, or the folder
    cannot be written to, nothing is changed.
    """
    from backcast.data.places import user_folder

    if any(name.startswith(("JAX_COMPILATION_CACHE", "JAX_ENABLE_COMP")) for name in environment):
        return
    folder = user_folder() / "compiled" / machine()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if os.access(folder, os.W_OK):
        environment["JAX_COMPILATION_CACHE_DIR"] = str(folder)
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = str(_SHORTEST)
        # An entry that another process is writing, or was killed at, is compiled once more.
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")


def machine() -> str:
    """A name for the kind of processor: what is compiled for one need not run on another."""
    try:
        text = Path("/proc/cpuinfo").read_text()
        features = next(
            line for line in text.splitlines() if line.startswith(("flags", "Features"))
        )
    except (OSError, StopIteration):
        features = platform.processor()
    return hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:12]
