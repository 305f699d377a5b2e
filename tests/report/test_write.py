"""All files of a report, and what becomes of it where it cannot be written."""

import csv

import numpy as np
import pytest
from PIL import Image

from backcast.experiments import StorageError, run_folders
from backcast.report import write_report
from report.stored import forgetful, stored


def test_figures_tables_and_scores_are_written(written):
    page, files = written
    folder = page.parent
    assert {path for path in folder.rglob("*") if path.is_file()} == {page, *files}
    for png in folder.glob("figures/*.png"):
        with Image.open(png) as picture:
            assert picture.width >= 900
            assert len(np.unique(np.asarray(picture.convert("L")))) > 20
        assert png.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    for table in folder.glob("tables/*.csv"):
        assert r"\bottomrule" in table.with_suffix(".tex").read_text(encoding="utf-8")


def test_the_summary_is_what_the_matrices_give(tmp_path):
    matrices = [forgetful(3, 0.05, seed) for seed in range(3)]
    for seed, matrix in enumerate(matrices):
        stored(tmp_path / "runs", matrix, matrix[-1], seed=seed)
    write_report(run_folders(tmp_path / "runs"), tmp_path, "All")
    with (tmp_path / "tables" / "1-summary.csv").open(encoding="utf-8") as file:
        [row] = csv.DictReader(file)
    average = [matrix[-1].mean() for matrix in matrices]
    assert float(row["average accuracy"]) == pytest.approx(np.mean(average))
    assert float(row["average accuracy deviation"]) == pytest.approx(np.std(average, ddof=1))
    lost = [
        np.max(m[:2, :2], axis=0, where=[[1, 0], [1, 1]], initial=0) - m[2, :2] for m in matrices
    ]
    assert float(row["forgetting"]) == pytest.approx(np.mean(lost))
    with (tmp_path / "scores.csv").open(encoding="utf-8") as file:
        scores = list(csv.DictReader(file))
    # untrained and filtered 3 + 8, smoothed 3; two parts; five metrics; three seeds
    assert len(scores) == (3 + 8 + 3) * 2 * 5 * 3


def test_two_specs_of_one_name_are_kept_apart_and_give_the_same_bytes_each_time(tmp_path):
    for rank in (1, 2):
        matrix = forgetful(3, 0.1 / rank, 0)
        stored(tmp_path / "runs", matrix, matrix[-1], method__rank=rank)
    page, files = write_report(run_folders(tmp_path / "runs"), tmp_path / "one", "All")
    text = page.read_text(encoding="utf-8")
    assert "toy (rank 1)" in text
    assert "toy (rank 2)" in text
    write_report(run_folders(tmp_path / "runs"), tmp_path / "two", "All")
    for path in (page, *files):
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(page.parent)).read_bytes()


def test_a_file_in_the_way_is_named_and_left_alone(runs, tmp_path):
    (tmp_path / "report").write_text("mine")
    with pytest.raises(StorageError, match="cannot be written"):
        write_report(run_folders(runs), tmp_path / "report", "All")
    assert (tmp_path / "report").read_text() == "mine"
