"""Folders of runs whose numbers are known, written without any learning."""

from pathlib import Path

import numpy as np

from backcast.experiments import Block, Facts, RunFolder, Score, Spec, log, summary
from backcast.experiments.folder import (
    DIVERGED,
    DONE,
    ENVIRONMENT,
    FACTS,
    LOG,
    begin,
)
from backcast.learning.files import save_record

PLAIN = {
    "name": "toy",
    "data": {"kind": "digits"},
    "stream": {"kind": "permuted", "tasks": 3},
    "network": {"kind": "mlp", "hidden": [4]},
    "method": {"kind": "low-rank", "rank": 3},
}
COMMIT = "0123456789abcdef0123456789abcdef01234567"
ENVIRONMENT_OF_RUN = {
    "backcast": "0.1.0",
    "commit": COMMIT,
    "changed": False,
    "python": "3.11.7",
    "jax": "0.10.2",
    "system": "Linux x86_64",
    "cores": 2,
    "memory": 25_000_000_000,
}


MATRIX_OF_TWO = [[0.9, 0.1], [0.8, 0.9]]


def stored(
    runs: Path,
    matrix,
    smoothed=None,
    names=None,
    learned=None,
    validation=0.0,
    averaged=None,
    beside=None,
    **changes,
) -> RunFolder:
    """A finished run.

    Args:
        runs: the folder of all runs.
        matrix: the accuracy on task ``j`` after task ``i``; NaN where it was not tried.
        smoothed: the accuracy of each task's smoothed model.
        names: of the tasks.
        learned: the positions of those that were learned.
        validation: how much better the accuracy is on validation data.
        averaged: the accuracy on each task of the average of its neighbours' models.
        beside: the accuracy of smoothed models on other tasks, by model and task.
        changes: of `PLAIN`, by dotted names with two underscores for the dot.
    """
    folder = begun(runs, **changes)
    matrix = np.asarray(matrix, float)
    tasks = len(matrix)
    learned = tuple(range(tasks)) if learned is None else learned
    facts = Facts(
        tasks=tuple(names or (f"task {i}" for i in range(tasks))),
        times=tuple(map(float, range(tasks))),
        learned=learned,
        examples=(100,) * tasks,
        input_shape=(8, 8),
        classes=tuple("0123456789"),
        data="known",
    )
    save_record(folder.path / FACTS, facts.as_plain())
    save_record(folder.path / ENVIRONMENT, {"sessions": [ENVIRONMENT_OF_RUN]})
    spent = {"evaluation_seconds": 1.0, "peak_memory": 500_000_000}
    blocks = [
        Block("start", _scores("untrained", -1, -1, dict.fromkeys(range(tasks), 0.1), 0.0), spent)
    ]
    for i in learned:
        row = {j: value for j, value in enumerate(matrix[i]) if np.isfinite(value)}
        report = {"seconds": 2.0, **_spectrum(folder, i), **spent}
        blocks.append(Block(f"task {i}", _scores("filtered", i, i, row, validation), report))
    if smoothed is not None:
        last = learned[-1]
        scores = [
            score
            for j, value in enumerate(smoothed)
            for score in _scores(
                "smoothed" if j in learned else "between", last, j, {j: float(value)}, validation
            )
        ]
        for (model, j), value in (beside or {}).items():
            scores += _scores("smoothed", last, model, {j: value}, validation)
        for j, value in enumerate([] if averaged is None else averaged):
            scores += _scores("averaged", last, j, {j: float(value)}, validation)
        blocks.append(Block("smooth", tuple(scores), spent))
    for block in blocks:
        log.append(folder.path / LOG, block)
    numbers = summary.final(folder.scores, tasks, learned)
    spent = {"seconds": 2.0 * len(learned), **spent}
    save_record(folder.path / DONE, {**numbers, **spent})
    return folder


def begun(runs: Path, **changes) -> RunFolder:
    """A run that was begun and has done nothing yet."""
    named = {name.replace("__", "."): value for name, value in changes.items()}
    spec = Spec.parse(PLAIN).changed(named)
    folder = RunFolder(runs / spec.folder, spec)
    folder.path.mkdir(parents=True)
    begin(folder)
    return folder


def diverged(runs: Path, **changes) -> RunFolder:
    """A run that left the finite numbers."""
    folder = begun(runs, **changes)
    save_record(
        folder.path / DIVERGED, {"task": 1, "name": "task 1", "message": "<b>Lower</b> it."}
    )
    return folder


def forgetful(tasks: int, loss: float, seed: int) -> np.ndarray:
    """A matrix of accuracies that fall by ``loss`` with each task, with some noise."""
    rng = np.random.default_rng(seed)
    after, on = np.indices((tasks, tasks))
    matrix = 0.97 - loss * (after - on) + 0.004 * rng.normal(size=(tasks, tasks))
    return np.where(on <= after, matrix, np.where(on == after + 1, 0.1, np.nan))


def _spectrum(folder, task):
    if folder.spec.method.kind != "low-rank":
        return {"retained": [], "deflated": []}
    return {"retained": [9.0 + task, 3.0 + task / 2, 1.0], "deflated": [0.5, 0.0]}


def _scores(stage, after, model, accuracies, validation) -> tuple[Score, ...]:
    return tuple(
        Score(
            stage,
            after,
            model,
            task,
            part,
            200,
            _metrics(accuracy + gain),
        )
        for task, accuracy in accuracies.items()
        for part, gain in (("test", 0.0), ("validation", validation))
    )


def _metrics(accuracy) -> dict[str, float]:
    return {
        "accuracy": accuracy,
        "balanced_accuracy": accuracy - 0.01,
        "nll": 1.0 - accuracy,
        "ece": 0.02,
        "brier": 1.5 * (1 - accuracy),
    }
