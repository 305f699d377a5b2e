"""What is known of the machine."""

import subprocess
import sys

import numpy as np
import psutil

from backcast.experiments import machine


def test_the_peak_of_memory_is_that_of_the_work():
    machine.forget_peak()
    before = machine.peak_memory()
    block = np.ones(2**25)  # 256 MB, touched
    during = machine.peak_memory()
    assert during - before > 0.8 * block.nbytes
    del block
    assert machine.peak_memory() > 0.99 * during  # the system counts by batches of pages
    machine.forget_peak()
    assert machine.peak_memory() < during - 2**27
    assert machine.peak_memory() >= 0.5 * psutil.Process().memory_info().rss


def test_the_size_of_the_machine_is_psutils():
    found = machine.environment()
    assert found["memory"] == psutil.virtual_memory().total
    assert 1 <= found["cores"] <= psutil.cpu_count()


def test_threads_are_limited_before_the_first_computation():
    code = """
import sys, psutil
from backcast.experiments import machine
machine.limit_threads(int(sys.argv[1]))
import jax.numpy as jnp
(jnp.ones((500, 500)) @ jnp.ones((500, 500))).block_until_ready()
print(machine.environment()["threads"], psutil.Process().num_threads())
"""

    def counted(threads):
        command = [sys.executable, "-c", code, str(threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        stated, alive = map(int, done.stdout.split())
        assert stated == threads
        return alive

    assert counted(9) >= counted(1) + 8


def test_a_package_that_no_repository_tracks_has_no_commit(monkeypatch, tmp_path):
    (tmp_path / "__init__.py").touch()
    monkeypatch.setattr("backcast.__file__", str(tmp_path / "__init__.py"))
    assert machine.commit() == {"commit": None}
    monkeypatch.setenv("PATH", "")  # no git
    assert machine.commit() == {"commit": None}
