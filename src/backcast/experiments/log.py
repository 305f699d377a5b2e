"""What a run has measured, line by line: blocks of JSON that count only once they are complete."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, final

Part = Literal["test", "validation"]
Stage = Literal["untrained", "filtered", "smoothed", "between", "averaged", "predicted"]


@final
@dataclass(frozen=True)
class Score:
    """How well one model does on one part of one task. Positions are those in the stream, from 0.

    Attributes:
        stage: which kind of model: the one before any task; the ``filtered`` one, as it was when a
            task had been learned; the ``smoothed`` one, informed by all tasks; the one inferred
            for a task that was not learned, ``between`` those that were; or, to compare with, an
            ``averaged`` one, with the mean weights of filtered models of neighbouring tasks.
            ``predicted`` is the belief about a task before there were data of it; it has an
            ``nll`` alone.
        after: the position of the last task that the model is informed by; -1 for none.
        model: the position of the task that it is the model of; -1 for none.
        task: the position of the task it is tried on.
        part: the part of the task's data: settings are chosen on ``validation`` alone.
        examples: how many there were.
        metrics: see `backcast.experiments.metrics.classification`.
    """

    stage: Stage
    after: int
    model: int
    task: int
    part: Part
    examples: int
    metrics: dict[str, float]


@final
@dataclass(frozen=True)
class Block:
    """Scores that were taken together, and what is known of the work before them.

    Attributes:
        name: what was done: ``start``, ``task 0``, ..., or ``smooth``.
        scores: the scores.
        report: how it went: seconds, memory, and for a task what the learner reports of it.
    """

    name: str
    scores: tuple[Score, ...]
    report: dict[str, Any]

    def lines(self) -> str:
        """The block as text; its last line says that it is complete."""
        rows: list[dict[str, Any]] = [{"score": asdict(score)} for score in self.scores]
        rows.append({"end": self.name, "report": self.report})
        return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)


def read(path: Path) -> list[Block]:
    """The complete blocks of a log; whatever a crash has left behind them is passed over."""
    return [block for block, _ in _scanned(path)]


def keep(path: Path, count: int) -> None:
    """Cut a log off after its first blocks."""
    ends = [0, *(end for _, end in _scanned(path))]
    if path.exists():
        os.truncate(path, ends[count])


def append(path: Path, block: Block) -> None:
    """Add a block to a log, durably."""
    with path.open("ab") as file:
        file.write(block.lines().encode())
        file.flush()
        os.fsync(file.fileno())


def _scanned(path: Path) -> Iterator[tuple[Block, int]]:
    """The complete blocks, and how many bytes of the file each ends at."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return
    scores, end = [], 0
    for line in lines:
        row = _row(line)
        if row is None:
            return
        end += len(line)
        if "score" in row:
            scores.append(Score(**row["score"]))
        else:
            yield Block(row["end"], tuple(scores), row["report"]), end
            scores = []


def _row(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and ("score" in row or "end" in row) else None
