"""The demo: what filtering and smoothing do on handwritten digits that turn, in under a minute.

`backcast.report.demo` puts it in words and draws it.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float

from backcast.experiments.errors import SpecError
from backcast.experiments.gain import Gain
from backcast.experiments.results import Group
from backcast.experiments.run import run
from backcast.experiments.spec import Spec
from backcast.experiments.study import Study

FILTERED, FINE_TUNED = "demo", "demo-fine-tuned"
SEEDS = 8
MOST_SEEDS = 16  # the paired test looks at all 2^seeds patterns of signs


@final
@dataclass(frozen=True)
class Demo:
    """What the demo found: accuracies on test data, by seed and task.

    Attributes:
        filtered: the runs that filter and smooth.
        fine_tuned: the same without memory, seed by seed.
    """

    filtered: Group
    fine_tuned: Group

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks."""
        return self.filtered.facts.tasks

    @property
    def seeds(self) -> int:
        """How many seeds there are."""
        return len(self.filtered.runs)

    def last(self, group: Group) -> Float[np.ndarray, "S T"]:
        """The last model on every task."""
        return group.matrices()[:, -1]

    def own(self, group: Group) -> Float[np.ndarray, "S T"]:
        """The model kept of every task, as it was when the task had just been learned, on it."""
        return np.einsum("stt->st", group.matrices())

    @property
    def smoothed(self) -> Float[np.ndarray, "S T"]:
        """The smoothed model of every task on it."""
        return self.filtered.own("smoothed")

    @property
    def remembering(self) -> Gain:
        """The last model on all tasks: filtered instead of fine-tuned."""
        return Gain.of(self.last(self.filtered), self.last(self.fine_tuned))

    @property
    def learning(self) -> Gain:
        """The model of every task when it had just been learned: likewise."""
        return Gain.of(self.own(self.filtered), self.own(self.fine_tuned))

    @property
    def looking_back(self) -> Gain:
        """The model of every task but the last: smoothed instead of as it was."""
        return Gain.of(self.smoothed[:, :-1], self.own(self.filtered)[:, :-1])


def demo(out: Path, *, seeds: int = SEEDS, progress: bool = True) -> Demo:
    """Run the demo.

    Both methods see the same tasks, begin with the same weights and take the same number of steps.
    Settings were chosen on validation data with other seeds; see the ``[tune]`` tables of the
    built-in specs ``demo`` and ``demo-fine-tuned``. Runs that are finished are not repeated.

    Args:
        out: the folder for the runs.
        seeds: how many seeds.
        progress: whether to show a bar, if there is a terminal.

    Raises:
        SpecError: there cannot be so many seeds.
        StorageError: the folder cannot be written to.
    """
    if isinstance(seeds, bool) or not 1 <= seeds <= MOST_SEEDS:
        raise SpecError(f"The demo takes from 1 to {MOST_SEEDS} seeds, but {seeds!r} was given.")
    fine_tuned, filtered = (
        [Study.read(name).spec.changed({"seed": seed}) for seed in range(seeds)]
        for name in (FINE_TUNED, FILTERED)
    )
    return compared(fine_tuned, filtered, out, progress)


def compared(fine_tuned: list[Spec], filtered: list[Spec], out: Path, progress: bool) -> Demo:
    """Run these specs, one of each kind for each seed, and compare them."""
    specs = [*fine_tuned, *filtered]
    done = []
    with _bar(len(specs), progress) as begin:
        for spec in specs:
            begin(spec)
            done.append(run(spec, out, progress=False))
    baseline, ours = done[: len(fine_tuned)], done[len(fine_tuned) :]
    return Demo(
        Group(ours[0].spec.name, tuple(ours)), Group(baseline[0].spec.name, tuple(baseline))
    )


@contextmanager
def _bar(total: int, wanted: bool) -> Iterator[Callable[[Spec], None]]:
    """A bar over runs, on standard error if that is a terminal; is told which one begins."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not (wanted and console.is_terminal),
    )
    with bar:
        row = bar.add_task("", total=total)
        begun = itertools.count()

        def begin(spec: Spec) -> None:
            label = f"{spec.name}, seed {spec.seed}"
            bar.update(row, completed=next(begun), description=f"{label:<23}")

        yield begin
        bar.update(row, completed=total)
