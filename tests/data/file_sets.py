"""Small sets as the files of others: a table, and WILDS' layout of patches."""

import csv
from pathlib import Path

import numpy as np
from PIL import Image


def write_csv(path, rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def write_wilds(folder, count=12, side=8) -> Path:
    """A constant patch for each row; three rows to a slide, and two centres."""
    rows = []
    for i in range(count):
        patient, x = f"{i // 3:03d}", 10 * i
        patch = folder / "patches" / f"patient_{patient}_node_1"
        patch.mkdir(parents=True, exist_ok=True)
        colour = np.broadcast_to(np.array([i, 100 + i, 255 - i], np.uint8), (side, side, 3))
        Image.fromarray(colour).save(patch / f"patch_patient_{patient}_node_1_x_{x}_y_5.png")
        rows.append([i, patient, 1, x, 5, i % 2, i // 3, 2 * i // count, 0])
    heading = ["", "patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split"]
    write_csv(folder / "metadata.csv", [heading, *rows])
    return folder
