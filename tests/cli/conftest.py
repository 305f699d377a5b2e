"""The command line in this process."""

import pytest

from backcast.cli import compiled, main


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A folder that programs may keep what they like in."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def backcast(capsys, monkeypatch, tmp_path, cache):
    """Call the command line: the exit code, and what it wrote to both streams."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.delenv("BACKCAST_DATA", raising=False)
    monkeypatch.setattr(compiled, "keep", lambda: None)  # jax is imported already

    def call(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
