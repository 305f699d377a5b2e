"""What a person who waits is shown."""

import importlib.util
import sys
from abc import ABC, abstractmethod
from typing import Any, final


class Progress(ABC):
    """Is told how a task is coming along.

    Attributes:
        interval: how many steps to take between two looks.
    """

    interval: int

    @abstractmethod
    def begin(self, title: str, steps: int) -> None:
        """A task begins that takes so many steps."""

    @abstractmethod
    def look(self, steps: int, loss: float, score: float) -> None:
        """So many steps are done, with these means over the epoch."""

    @abstractmethod
    def stage(self, title: str) -> None:
        """Training is over and something else is being done."""

    @abstractmethod
    def done(self) -> None:
        """The task was learned, perhaps in fewer steps than it might have taken."""

    @abstractmethod
    def end(self) -> None:
        """The task is over, well or not."""


@final
class Silent(Progress):
    """Shows nothing, and so never has to look before an epoch is over."""

    interval = sys.maxsize

    def begin(self, title: str, steps: int) -> None:
        """Nothing."""

    def look(self, steps: int, loss: float, score: float) -> None:
        """Nothing."""

    def stage(self, title: str) -> None:
        """Nothing."""

    def done(self) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


@final
class Bar(Progress):
    """A bar with loss, score and the time left, drawn by rich on standard error."""

    interval = 50

    def __init__(self, score: str):
        """Name the score."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as TimeLeft

        self._score = score
        self._task: Any = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[seen]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeLeft(compact=True),
            console=Console(stderr=True),
        )

    def begin(self, title: str, steps: int) -> None:
        """Draw an empty bar, below the finished ones."""
        self._bar.start()
        self._task = self._bar.add_task(title, total=steps, seen="compiling")
        self._title = title

    def look(self, steps: int, loss: float, score: float) -> None:
        """Move the bar."""
        seen = f"loss {loss:.4f}  {self._score} {score:.4f}"
        self._bar.update(self._task, completed=steps, seen=seen)

    def stage(self, title: str) -> None:
        """Say what is being done."""
        self._bar.update(self._task, description=f"{self._title}: {title}", refresh=True)

    def done(self) -> None:
        """Fill the bar."""
        completed = self._bar.tasks[self._task].completed
        self._bar.update(self._task, description=self._title, total=completed)

    def end(self) -> None:
        """Leave the bar as it is."""
        self._bar.stop()
        self._bar.remove_task(self._task)


def watched(score: str) -> Progress:
    """A bar if a person is looking, that is, standard error is a terminal and rich is there."""
    if sys.stderr.isatty() and importlib.util.find_spec("rich") is not None:
        return Bar(score)
    return Silent()
