"""Running many specs at once, on this machine or on a cluster, with one folder for all of them.

Workers need nothing of each other: a run's folder says whether it is finished, and its lock whether
somebody works on it. So any number of sweeps may share a folder, and what a worker leaves behind
that was killed, another goes on with.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from backcast.experiments import cluster, lock, processes
from backcast.experiments.attempt import Outcome, Place, attempt
from backcast.experiments.errors import SpecError
from backcast.experiments.spec import Spec

_LOOK = 0.5  # seconds between two looks at runs that others work on


Watch = Callable[[Outcome, int, int], None]
"""Is told of each outcome, of how many runs are settled, and of how many there are."""


def sweep(
    specs: Sequence[Spec],
    runs: str | Path,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    data: str | Path | None = None,
    progress: bool = True,
    watch: Watch | None = None,
) -> list[Outcome]:
    """Run all of these specs; those that are finished are not run again.

    One that fails does not keep the others from running. One that another process is working on is
    waited for, and gone on with if that process dies.

    Args:
        specs: what to run.
        runs: the folder of all runs.
        jobs: how many to run at a time on this machine; each gets its share of the processors.
        scheduler: the address of a dask scheduler (``tcp://...``), whose workers do the work. They
            must see ``runs`` under the same path.
        data: the folder of all data, if not ``$BACKCAST_DATA``.
        progress: whether a single job shows a bar, if there is a terminal.
        watch: is told how it goes.

    Returns:
        The outcomes, in the order of the specs.
    """
    if isinstance(jobs, bool) or jobs < 1:
        raise SpecError(f"The number of jobs must be at least 1, but {jobs!r} was given.")
    place = Place(str(Path(runs).absolute()), None if data is None else str(Path(data).absolute()))
    settled: dict[str, Outcome] = {}
    pending = list(specs)
    while pending:
        for outcome in _round(pending, place, jobs, scheduler, progress):
            if outcome.state != "busy":
                settled[outcome.folder] = outcome
                if watch is not None:
                    watch(outcome, len(settled), len(specs))
        pending = [spec for spec in pending if spec.folder not in settled]
        _wait_for_any(Path(runs) / spec.folder for spec in pending)
    return [settled[spec.folder] for spec in specs]


def _round(
    specs: Sequence[Spec], place: Place, jobs: int, scheduler: str | None, progress: bool
) -> Iterator[Outcome]:
    """Each spec attempted once."""
    if scheduler is not None:
        return cluster.attempted(specs, place, scheduler)
    if jobs > 1 and len(specs) > 1:
        return processes.attempted(specs, place, min(jobs, len(specs)))
    return (attempt(spec.plain(), place, None, progress) for spec in specs)


def _wait_for_any(folders: Iterator[Path]) -> None:
    """Wait until one of the folders that others work in is free."""
    watched = list(folders)
    while watched and all(lock.is_held(folder) for folder in watched):
        time.sleep(_LOOK)
