"""The public names, and what importing the package costs."""

import subprocess
import sys

import backcast


def test_every_public_name_is_there():
    for name in backcast.__all__:
        assert getattr(backcast, name) is not None
        assert name in dir(backcast)


def test_no_other_name_is_there():
    assert not hasattr(backcast, "Lerner")


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, backcast; sys.exit('jax' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_core_imports_no_library_of_networks():
    code = (
        "import sys, backcast; backcast.Learner; "
        "sys.exit(any(m in sys.modules for m in ('flax', 'haiku', 'rich', 'matplotlib', 'PIL')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
