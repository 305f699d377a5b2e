"""Whatever a run is stopped by, and whenever: it goes on to the same result, to the bit."""

import os
import random
import shutil
import signal
import time

import pytest

from backcast.experiments import BusyError, RunFolder, StorageError, lock, log, run
from experiments.small import outcome, small, started


class PowerCutError(BaseException):
    """Nothing catches it, as nothing catches a power cut."""


def after_writes(monkeypatch, count, error):
    """From the ``count``-th time that something is made durable, raise an error, every time."""
    done = iter(range(10**6))
    sync = os.fsync

    def fsync(handle):
        if next(done) >= count:
            raise error
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)


def writes(monkeypatch, tmp_path):
    """How often a whole run makes something durable."""
    counted = []
    with monkeypatch.context() as patch:
        sync = os.fsync
        patch.setattr(os, "fsync", lambda handle: (counted.append(handle), sync(handle)))
        run(small(), tmp_path / "counted", progress=False)
    return len(counted)


def test_stopped_before_any_write_it_goes_on(finished, tmp_path, monkeypatch):
    expected, stops = outcome(finished), 0
    # Files and folders are synchronised in turn, so every third is one of either kind.
    for count in range(0, writes(monkeypatch, tmp_path), 3):
        runs = tmp_path / str(count)
        with monkeypatch.context() as patch:
            after_writes(patch, count, PowerCutError)
            with pytest.raises(PowerCutError):
                run(small(), runs, progress=False)
        assert outcome(run(small(), runs, progress=False)) == expected
        stops += 1
        shutil.rmtree(runs)
    assert stops > 10


def test_stopped_again_and_again_it_goes_on(finished, tmp_path, monkeypatch):
    """Each attempt gets a little further: never more than a task's work is lost."""
    for _ in range(10):
        with monkeypatch.context() as patch:
            after_writes(patch, 7, PowerCutError)
            try:
                folder = run(small(), tmp_path, progress=False)
                break
            except PowerCutError:
                continue
    assert outcome(folder) == outcome(finished)


@pytest.mark.parametrize("lost", ["smooth", "task 2", "task 1", "start"])
def test_a_log_that_lost_its_end_is_made_good(finished, tmp_path, lost):
    folder = RunFolder(tmp_path / small().folder, small())
    shutil.copytree(finished.path, folder.path)
    (folder.path / "DONE").unlink()
    content = (folder.path / "metrics.jsonl").read_bytes()
    end = content.index(b'"end": "%s"' % lost.encode())
    (folder.path / "metrics.jsonl").write_bytes(content[: end + 5])  # in the middle of a line
    assert lost not in folder.reports
    assert outcome(run(small(), tmp_path, progress=False)) == outcome(finished)


def test_a_log_that_is_ahead_of_the_learner_is_cut(finished, tmp_path, monkeypatch):
    """As when a folder was put together from copies of different times."""
    folder = RunFolder(tmp_path / small().folder, small())
    with monkeypatch.context() as patch:
        after_writes(patch, 15, PowerCutError)
        with pytest.raises(PowerCutError):
            run(small(), tmp_path, progress=False)
    shutil.copy(finished.path / "metrics.jsonl", folder.path)
    assert outcome(run(small(), tmp_path, progress=False)) == outcome(finished)


def test_what_a_killed_process_left_half_written_is_removed(finished, tmp_path):
    folder = tmp_path / small().folder
    (folder / "learner").mkdir(parents=True)
    for place in (folder, folder / "learner"):
        (place / ".0123.part").mkdir()
        (place / ".0123.part" / ".tmpABC").write_bytes(b"half")
    assert outcome(run(small(), tmp_path, progress=False)) == outcome(finished)


# Storage that fails: an error for the person, and the same result once there is room again.


@pytest.mark.parametrize("count", [0, 3, 7, 12, 14, 30])
def test_a_disk_that_fills_up_is_said_and_loses_nothing(finished, tmp_path, monkeypatch, count):
    earlier = run(small(seed=1), tmp_path, progress=False)
    before = outcome(earlier)
    with monkeypatch.context() as patch:
        after_writes(patch, count, OSError(28, "No space left on device"))
        with pytest.raises(StorageError, match=r"cannot be written to: .*No space left.*Make room"):
            run(small(), tmp_path, progress=False)
    assert outcome(earlier) == before
    assert outcome(run(small(), tmp_path, progress=False)) == outcome(finished)


@pytest.mark.parametrize("limit", [50, 600, 3_000, 8_000])
def test_a_real_limit_of_the_system_is_said_and_loses_nothing(finished, tmp_path, limit):
    """No file may exceed ``limit`` bytes: the writers' own errors, from Python and from Rust."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(StorageError, match=f"{small().folder} cannot be written to"):
            run(small(), tmp_path, progress=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list((tmp_path / small().folder).rglob(".*.part"))
    assert outcome(run(small(), tmp_path, progress=False)) == outcome(finished)


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StorageError, match="name another folder"):
        run(small(), tmp_path / "file", progress=False)

    def read_only(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("pathlib.Path.mkdir", read_only)  # root may write anywhere
    with pytest.raises(StorageError, match="Read-only file system"):
        run(small(), tmp_path / "runs", progress=False)
    assert not (tmp_path / "runs").exists()


def test_a_finished_run_can_be_read_where_nothing_can_be_written(finished, monkeypatch):
    def read_only(*_, **__):
        raise OSError(30, "Read-only file system")

    expected = outcome(finished)
    for name in ("write_text", "write_bytes", "touch", "unlink", "replace"):
        monkeypatch.setattr(f"pathlib.Path.{name}", read_only)
    monkeypatch.setattr(os, "fsync", read_only)
    folder = run(small(), finished.path.parent, progress=False)
    assert outcome(folder) == expected
    assert len(list(folder.learner().smooth())) == 3


# Processes that are killed, and processes that meet.


def _killed_at_random(spec, runs, compiled, kills, seed):
    """Start, kill at a random moment, and again; then let it finish."""
    rng, folder = random.Random(seed), RunFolder(runs / spec.folder, spec)
    for _ in range(kills):
        with started(spec, runs, compiled) as process:
            process.stdout.readline()
            wanted = len(folder.blocks) + rng.randrange(3)
            while len(folder.blocks) < wanted and process.poll() is None:
                time.sleep(0.001)
            time.sleep(rng.choice([0, 0.01, 0.1]) * rng.random())
            process.send_signal(signal.SIGKILL)
        yield folder.state
    said, error = started(spec, runs, compiled).communicate(timeout=300)
    assert said.splitlines()[-1:] == ["done"], error


def test_killed_in_the_middle_it_goes_on_in_another_process(finished, tmp_path, compiled):
    states = list(_killed_at_random(small(), tmp_path / "runs", compiled, 3, 2))
    assert states.count("stopped") >= 2
    assert outcome(run(small(), tmp_path / "runs", progress=False)) == outcome(finished)


@pytest.mark.slow
def test_killed_at_twenty_random_moments(tmp_path, compiled):
    spec = small(stream__tasks=20, training__epochs=20)
    states = list(_killed_at_random(spec, tmp_path / "runs", compiled, 20, 1))
    assert states.count("stopped") >= 15
    undisturbed = run(spec, tmp_path / "undisturbed", progress=False)
    assert outcome(run(spec, tmp_path / "runs", progress=False)) == outcome(undisturbed)


def test_of_two_processes_one_works_and_the_other_leaves(tmp_path, compiled):
    spec = small(training__epochs=10**6)
    folder = RunFolder(tmp_path / "runs" / spec.folder, spec)
    with started(spec, tmp_path / "runs", compiled) as first:
        while not (folder.path / "stream.json").exists():
            time.sleep(0.01)
        assert folder.state == "running"
        with pytest.raises(BusyError, match=f"worked on by process {first.pid} on .*Leave it"):
            run(spec, tmp_path / "runs", progress=False)
        second = started(spec, tmp_path / "runs", compiled)
        said, _ = second.communicate(timeout=100)
        assert f"busy: {folder.path} is being worked on by process {first.pid}" in said
        assert second.returncode == 0
        assert first.poll() is None
        first.kill()
        first.wait()
    assert folder.state == "stopped"
    with lock.held(folder.path):
        assert log.read(folder.path / "metrics.jsonl") == folder.blocks
