"""Many runs at once: in this process, in several, and on a cluster over TCP."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from backcast.experiments import RunFolder, SpecError, lock, run, run_folders, sweep
from experiments.small import compiled_in, outcome, small

BROKEN = small(data={"kind": "npz", "path": "nowhere.npz"})
DIVERGING = small(training__learning_rate=1e30)
SEEDS = [  # compiled in a third of the time that a curvature takes
    small(seed=seed, training__epochs=50, method={"kind": "none"}) for seed in range(4)
]


@pytest.fixture
def shared_compilations(compiled, monkeypatch):
    """Processes started from here find what others have compiled."""
    for name, value in compiled_in(compiled).items():
        monkeypatch.setenv(name, value)


def undisturbed(specs, runs):
    """What these runs leave when nothing happens to them."""
    return [outcome(run(spec, runs, progress=False)) for spec in specs]


def outcomes(specs, runs):
    return [outcome(RunFolder(runs / spec.folder, spec)) for spec in specs]


def test_one_after_the_other_and_none_keeps_another_from_running(tmp_path):
    seen = []
    specs = [BROKEN, small(), DIVERGING]
    found = sweep(
        specs,
        tmp_path,
        progress=False,
        watch=lambda outcome, settled, count: seen.append((outcome.folder, settled, count)),
    )
    assert [(o.folder, o.state) for o in found] == [
        (BROKEN.folder, "failed"),
        (small().folder, "done"),
        (DIVERGING.folder, "diverged"),
    ]
    assert "nowhere.npz" in found[0].message
    assert "Task 0 (permutation 0): Training diverged" in found[2].message
    assert seen == [(spec.folder, i + 1, 3) for i, spec in enumerate(specs)]


def test_what_is_finished_is_not_run_again(finished, tmp_path, monkeypatch):
    runs = finished.path.parent
    before = {path: path.stat().st_mtime_ns for path in finished.path.rglob("*")}
    assert [o.state for o in sweep([small(), small()], runs, progress=False)] == ["done", "done"]
    assert {path: path.stat().st_mtime_ns for path in finished.path.rglob("*")} == before


def test_nothing_to_run_is_no_error(tmp_path):
    assert sweep([], tmp_path) == []


@pytest.mark.parametrize("jobs", [0, -1, True])
def test_a_number_of_jobs_is_positive(tmp_path, jobs):
    with pytest.raises(SpecError, match="jobs must be at least 1"):
        sweep([small()], tmp_path, jobs=jobs)


def killed(runs, settled, deadline=120):
    """Kill, once, a process that works in one of the runs; says in which."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        for folder in run_folders(runs) if runs.is_dir() else []:
            text = (folder.path / "lock").read_text() if lock.is_held(folder.path) else ""
            owner = re.match(r"process (\d+) ", text)
            begun = (folder.path / "learner").exists()
            if owner and begun and int(owner[1]) != os.getpid() and folder.path.name not in settled:
                os.kill(int(owner[1]), signal.SIGKILL)
                return folder.path.name
        time.sleep(0.002)
    return None


@contextmanager
def killing(runs, settled):
    """While the body runs, a process of the sweep is killed in the middle of its work."""
    victims = []
    thread = threading.Thread(target=lambda: victims.append(killed(runs, settled)))
    thread.start()
    yield victims
    thread.join()


def test_processes_share_the_work_and_one_that_is_killed_loses_nothing(
    tmp_path, shared_compilations
):
    runs, settled = tmp_path / "runs", []
    with killing(runs, settled) as victims:
        found = sweep([*SEEDS, BROKEN], runs, jobs=2, watch=lambda o, *_: settled.append(o.folder))
    assert victims != [None]
    assert [o.state for o in found] == ["done"] * 4 + ["failed"]
    assert "nowhere.npz" in found[-1].message
    assert sorted(settled) == sorted(o.folder for o in found)
    for folder in (RunFolder(runs / spec.folder, spec) for spec in SEEDS):
        assert folder.environment["threads"] == max(1, folder.environment["cores"] // 2)
    assert outcomes(SEEDS, runs) == undisturbed(SEEDS, tmp_path / "undisturbed")


def test_a_run_that_another_process_works_on_is_waited_for(tmp_path):
    """And gone on with, if that process leaves it."""
    (tmp_path / small().folder).mkdir()
    held = threading.Event()

    def other():
        with lock.held(tmp_path / small().folder):
            held.set()
            time.sleep(1.0)

    thread = threading.Thread(target=other)
    thread.start()
    held.wait()
    began = time.monotonic()
    assert [o.state for o in sweep([small()], tmp_path, progress=False)] == ["done"]
    assert time.monotonic() - began > 0.9
    thread.join()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def cluster(workers, folder):
    """A dask scheduler and workers, each a process of its own; gives the scheduler's address."""
    address = f"tcp://127.0.0.1:{free_port()}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    dask = [sys.executable, "-m", "distributed.cli"]
    port = address.rpartition(":")[2]
    scheduler = [f"{dask[2]}.dask_scheduler", "--host", "127.0.0.1", "--port", port]
    worker = [f"{dask[2]}.dask_worker", address, "--no-nanny", "--nthreads", "1"]
    commands = [scheduler] + [worker] * workers
    processes = [subprocess.Popen([*dask[:2], *c, "--no-dashboard"], **quiet) for c in commands]
    try:
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_cluster_does_the_work_and_a_worker_that_is_killed_loses_nothing(
    tmp_path, shared_compilations
):
    runs, settled = tmp_path / "runs", []
    with cluster(2, tmp_path) as address, killing(runs, settled) as victims:
        found = sweep(
            [*SEEDS, BROKEN],
            runs,
            scheduler=address,
            watch=lambda o, *_: settled.append(o.folder),
        )
        assert [o.state for o in found] == ["done"] * 4 + ["failed"]
        assert "nowhere.npz" in found[-1].message
        # Another round on what is left of the cluster repeats nothing.
        stamps = {path: path.stat().st_mtime_ns for path in runs.glob("*/DONE")}
        assert {o.state for o in sweep(SEEDS, runs, scheduler=address)} == {"done"}
        assert {path: path.stat().st_mtime_ns for path in runs.glob("*/DONE")} == stamps
    assert victims != [None]
    assert outcomes(SEEDS, runs) == undisturbed(SEEDS, tmp_path / "undisturbed")


def test_a_cluster_that_is_not_there_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("backcast.experiments.cluster._PATIENCE", 1)
    address = f"tcp://127.0.0.1:{free_port()}"
    with pytest.raises(SpecError, match=rf"No dask scheduler answers at {address}.*dask worker"):
        sweep([small()], tmp_path, scheduler=address)
    with pytest.raises(SpecError, match=r"No dask scheduler answers at ftp://here"):
        sweep([small()], tmp_path, scheduler="ftp://here")
    with cluster(0, tmp_path) as address:
        monkeypatch.setattr("backcast.experiments.cluster._PATIENCE", 10)
        with pytest.raises(SpecError, match=r"has no workers.*dask worker tcp"):
            sweep([small()], tmp_path, scheduler=address)
