import csv
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


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
    """A small set in the layout of WILDS' camelyon17: a constant patch for each row."""

    def make(count: int = 12, side: int = 8) -> Path:
        folder = tmp_path / "histology_v1.0"
        rows = []
        for i in range(count):
            patient, x = f"{i // 3:03d}", 10 * i
            patch = folder / "patches" / f"patient_{patient}_node_1"
            patch.mkdir(parents=True, exist_ok=True)
            colour = np.broadcast_to(np.array([i, 100 + i, 255 - i], np.uint8), (side, side, 3))
            Image.fromarray(colour).save(patch / f"patch_patient_{patient}_node_1_x_{x}_y_5.png")
            rows.append([i, patient, 1, x, 5, i % 2, i // 3, i // 6, 0])
        heading = ["", "patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split"]
        write_csv(folder / "metadata.csv", [heading, *rows])
        return folder

    return make


@pytest.fixture
def write_table():
    return write_csv


def write_csv(path: Path, rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path
