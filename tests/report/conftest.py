"""Runs with known numbers, and a browser."""

import pytest

from backcast.experiments import run_folders
from backcast.report import write_report
from report import browser
from report.stored import diverged, forgetful, stored

ODD = 'a <b> & "c"'


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Two methods with two seeds on one stream, a longer stream, and two runs without numbers."""
    folder = tmp_path_factory.mktemp("runs")
    names = [f"hospital {name}" for name in (ODD, "north_1", "50 %")]
    for seed in range(2):
        matrix = forgetful(3, 0.02, seed)
        stored(folder, matrix, matrix[-1] + 0.01, names, seed=seed)
        stored(folder, forgetful(3, 0.2, seed), None, names, seed=seed, method={"kind": "none"})
    long = forgetful(14, 0.03, 5)
    long[[1, 4]] = float("nan")
    learned = tuple(i for i in range(14) if i not in (1, 4))
    stored(folder, long, long[-1], learned=learned, name="long", stream__tasks=14)
    diverged(folder, name="hot")
    return folder


@pytest.fixture(scope="session")
def written(runs, tmp_path_factory):
    """A report on them: the page, and all other files."""
    return write_report(run_folders(runs), tmp_path_factory.mktemp("report"), 'Of <i>"runs"</i>')


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium."""
    if browser.DRIVER is None or browser.CHROMIUM is None:
        pytest.skip("needs chromium and chromedriver")
    with browser.running() as window:
        yield window
