"""One process at a time, and none that is dead."""

import os
import subprocess
import sys

import pytest

from backcast.experiments import BusyError, lock

HOLD = """
import sys, time
from pathlib import Path
from backcast.experiments import lock
with lock.held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_is_told_who_is_first(tmp_path):
    assert not lock.is_held(tmp_path)
    with lock.held(tmp_path):
        assert lock.is_held(tmp_path)
        with pytest.raises(BusyError, match=rf"worked on by process {os.getpid()} on "):
            lock.held(tmp_path).__enter__()
        assert lock.is_held(tmp_path)
    assert not lock.is_held(tmp_path)


def test_an_error_lets_go(tmp_path):
    with pytest.raises(RuntimeError), lock.held(tmp_path):
        raise RuntimeError
    assert not lock.is_held(tmp_path)


def test_a_killed_process_lets_go(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as p:
        assert p.stdout is not None
        p.stdout.readline()
        assert lock.is_held(tmp_path)
        with pytest.raises(BusyError, match=f"process {p.pid}"):
            lock.held(tmp_path).__enter__()
        p.kill()
        p.wait()
        assert not lock.is_held(tmp_path)
        with lock.held(tmp_path):
            assert f"process {os.getpid()} " in (tmp_path / "lock").read_text()


def test_looking_writes_nothing(tmp_path):
    assert not lock.is_held(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with lock.held(tmp_path):
        pass
    (tmp_path / "lock").chmod(0o444)
    before = (tmp_path / "lock").stat()
    assert not lock.is_held(tmp_path)
    assert (tmp_path / "lock").stat() == before
