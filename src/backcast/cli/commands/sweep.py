"""``backcast sweep``: many variations of an experiment."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, final

from cyclopts import Parameter

from backcast.cli import compiled, options, screen

if TYPE_CHECKING:
    from backcast.experiments import Outcome


def command(
    spec: options.Name,
    /,
    *,
    changes: options.Changes = None,
    seeds: Annotated[
        int | None, Parameter(help="How many seeds to run each variation with, from 0.")
    ] = None,
    jobs: options.Jobs = 1,
    scheduler: options.Scheduler = None,
    runs: options.Runs = Path("runs"),
    data_dir: options.DataDir = None,
    quiet: options.Quiet = False,
) -> int:
    """Run every variation that the spec's [sweep] table asks for; those finished are not repeated.

    Any number of sweeps, on any number of machines, may share the folder of runs. With a dask
    scheduler its workers do the runs; they must see that folder under the same path.
    """
    compiled.keep()
    from backcast.cli.studies import study
    from backcast.experiments import sweep

    if seeds is not None:
        changes = [*(changes or ()), f"sweep.seeds={seeds}"]
    specs = study(spec, changes).specs()
    shown = not quiet
    outcomes = sweep(
        specs,
        runs,
        jobs=jobs,
        scheduler=scheduler,
        data=data_dir,
        progress=shown,
        watch=Watch(runs, time.monotonic()) if shown else None,
    )
    return concluded(outcomes, runs, shown)


@final
@dataclass(frozen=True)
class Watch:
    """Tells of each run that is settled.

    Attributes:
        runs: the folder of all runs.
        began: when the sweep began.
    """

    runs: Path
    began: float

    def __call__(self, outcome: "Outcome", settled: int, total: int) -> None:
        """One more run is settled."""
        spent = time.monotonic() - self.began
        left = f", {screen.duration(spent / settled * (total - settled))} left" * (settled < total)
        result = _result(self.runs / outcome.folder) if outcome.state == "done" else outcome.message
        screen.say(
            f"{settled}/{total} {outcome.folder} {outcome.state}: {result} "
            f"({screen.duration(spent)}{left})",
            errors=True,
        )


def concluded(outcomes: Sequence["Outcome"], runs: Path, shown: bool) -> int:
    """Say how a sweep went.

    Returns:
        The exit code: 1 if a run failed or diverged.
    """
    from backcast.experiments import RunFolder, groups

    wrong = [outcome for outcome in outcomes if outcome.state != "done"]
    done = [RunFolder.open(runs / o.folder) for o in outcomes if o.state == "done"]
    if shown and done:
        found = groups(done)
        rows = [
            [
                group.label,
                str(len(group.runs)),
                spread(group.spread("average_accuracy")),
                spread(group.spread("smoothed_accuracy")),
                spread(group.spread("forgetting")),
            ]
            for group in found
        ]
        heads = ["Run", "seeds", "average accuracy", "smoothed accuracy", "forgetting"]
        screen.table(rows, heads, title="On the test data")
    elif not shown:
        for folder in done:
            screen.say(str(folder.path))
    for outcome in wrong:
        screen.say(f"{outcome.folder} {outcome.state}: {outcome.message}", errors=True)
    return 1 if wrong else 0


def spread(found: Any) -> str:
    """A mean with its standard deviation over the seeds."""
    if found is None:
        return "-"
    mean = f"{found.mean:.4f}"
    return mean if found.deviation is None else f"{mean} ± {found.deviation:.4f}"


def _result(path: Path) -> str:
    from backcast.experiments import RunFolder

    final = RunFolder.open(path).final or {}
    return f"average accuracy {screen.number(final['test']['average_accuracy'])}"
