import os
from pathlib import Path

import pytest

from backcast import data
from backcast.tasks import holdout


@pytest.fixture(scope="session")
def digits():
    """The embedded digits, divided."""
    return holdout(data.digits(), validation=0.1, test=0.2)


@pytest.fixture
def real_data():
    """The folder of real data, where the developer or CI has one."""

    def find(name: str) -> Path:
        folder = Path(os.environ.get("BACKCAST_DATA") or "/nonexistent") / name
        if not folder.exists():
            pytest.skip(f"needs {name} in BACKCAST_DATA")
        return folder

    return find
