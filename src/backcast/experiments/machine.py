"""By what a run is done: versions, commit, the machine; and how much memory it takes."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import backcast

_PACKAGES = ("jax", "jaxlib", "numpy", "optax", "equinox", "safetensors")
_STATUS = Path("/proc/self/status")


def environment() -> dict[str, Any]:
    """Versions, commit and size of the machine, in plain data; no names and no paths."""
    import jax

    return {
        "backcast": backcast.__version__,
        **commit(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores(),
        "threads": int(os.environ.get("NPROC") or cores()),
        "memory": _memory(),
        "devices": [device.device_kind for device in jax.devices()],
        "float64": bool(jax.config.read("jax_enable_x64")),
    }


def commit() -> dict[str, Any]:
    """The commit of the package's source, and whether files of it have changed since."""
    source = Path(backcast.__file__).parent
    try:
        # An installed copy may lie within someone else's repository, which does not track it.
        tracked = _git(source, "ls-files", "__init__.py")
        if not tracked:
            return {"commit": None}
        head = _git(source, "rev-parse", "HEAD")
        return {"commit": head, "changed": bool(_git(source, "status", "--porcelain", "--", "."))}
    except (OSError, subprocess.SubprocessError):
        return {"commit": None}


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_threads(threads: int) -> None:
    """Let this process compute with so many threads, if it has not begun to compute.

    XLA's pool of threads is as large as ``NPROC`` says; linear algebra libraries have variables
    of their own.
    """
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)


def forget_peak() -> None:
    """Begin to measure the peak of memory anew, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory() -> int | None:
    """The most bytes of memory this process has held since `forget_peak`, or since its start."""
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return done.stdout.strip()
