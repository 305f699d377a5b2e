import os
from pathlib import Path

import pytest

from data.file_sets import write_csv, write_wilds


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """No test reads or fills the cache or data folder of whoever runs it."""
    monkeypatch.setenv("BACKCAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))


@pytest.fixture
def real_data():
    """The folder of real data, where the developer or CI has one."""

    def find(name: str) -> Path:
        folder = Path(os.environ.get("BACKCAST_DATA") or "/nonexistent") / name
        if not folder.exists():
            pytest.skip(f"needs {name} in BACKCAST_DATA")
        return folder

    return find


@pytest.fixture
def wilds_set(tmp_path):
    """A small set in the layout of WILDS' camelyon17."""
    return lambda count=12, side=8: write_wilds(tmp_path / "histology_v1.0", count, side)


@pytest.fixture
def write_table():
    return write_csv
