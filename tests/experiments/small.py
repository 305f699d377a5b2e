"""A spec of seconds, processes that run it, and what must be the same to the bit."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from backcast.experiments import RunFolder, Spec
from backcast.learning.files import load_record

PLAIN: dict[str, Any] = {
    "name": "small",
    "data": {"kind": "digits", "validation": 60, "test": 100, "limit": {"train": 160}},
    "stream": {"kind": "permuted", "tasks": 3},
    "network": {"kind": "mlp", "hidden": [8]},
    "training": {"epochs": 2, "batch_size": 32, "learning_rate": 0.01},
    "method": {
        "kind": "low-rank",
        "rank": 2,
        "noise": 1e-4,
        "curvature": {"examples": 32, "batch_size": 32},
    },
}

_RUN = """
import sys
from backcast.experiments import BusyError, Spec, run
spec, runs = Spec.read(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
try:
    print(run(spec, runs, progress=False).state)
except BusyError as error:
    print("busy:", error)
"""


def small(**changes: Any) -> Spec:
    """The small spec with changes, in whose names ``__`` stands for a dot."""
    return Spec.parse(PLAIN).changed({k.replace("__", "."): v for k, v in changes.items()})


def started(spec: Spec, runs: Path, cache: Path) -> subprocess.Popen:
    """A process that runs a spec; its first line says that it begins, its last how that ended.

    Args:
        spec: what to run.
        runs: the folder of all runs.
        cache: where XLA keeps what it has compiled, so that not every process compiles.
    """
    file = runs.parent / f"{spec.folder}.toml"
    file.write_text(spec.toml())
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, str(file), str(runs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=compiled_in(cache),
    )


def compiled_in(cache: Path) -> dict[str, str]:
    """The environment of a process that takes from a folder what was compiled before."""
    return os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }


def outcome(folder: RunFolder) -> dict[str, Any]:
    """All that a run leaves behind, but for what tells when and how fast it was."""
    path = folder.path
    learner = load_record(path / "learner" / "learner.json")
    return {
        "files": sorted(str(file.relative_to(path)) for file in path.rglob("*")),
        "arrays": {file.name: file.read_bytes() for file in path.rglob("*.safetensors")},
        "spec": (path / "spec.toml").read_bytes(),
        "facts": folder.facts,
        "blocks": [(b.name, b.scores, _timeless(b.report)) for b in folder.blocks],
        "final": _timeless(folder.final or {}),
        "learner": learner | {"tasks": [_timeless(task["report"]) for task in learner["tasks"]]},
    }


def _timeless(report: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in report.items() if "seconds" not in k and k != "peak_memory"}
