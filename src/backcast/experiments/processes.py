"""The runs of a sweep in processes of this machine, by joblib."""

from collections.abc import Iterator, Sequence
from typing import Any

from backcast.experiments import machine
from backcast.experiments.attempt import Outcome, Place, attempt
from backcast.experiments.spec import Spec

_DEATHS = 3  # of workers, one after the other, without a run being finished between


def attempted(specs: Sequence[Spec], place: Place, jobs: int) -> Iterator[Outcome]:
    """Each spec attempted by one of so many processes; a process that is killed is replaced."""
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    threads = max(1, machine.cores() // jobs)
    left = {spec.folder: spec for spec in specs}
    deaths = 0
    while left and deaths < _DEATHS:
        calls = [delayed(attempt)(spec.plain(), place, threads) for spec in left.values()]
        # One run to a call: joblib would otherwise join runs that it takes to be short.
        parallel: Any = Parallel(
            n_jobs=jobs,
            backend="loky",
            return_as="generator_unordered",
            batch_size=1,  # pyright: ignore[reportArgumentType]
        )
        try:
            for outcome in parallel(calls):
                del left[outcome.folder]
                deaths = 0
                yield outcome
        except TerminatedWorkerError:
            deaths += 1
    for folder in left:
        yield Outcome(
            folder,
            "failed",
            f"The processes that worked on it were killed {_DEATHS} times in a row; perhaps memory "
            "ran out. Use fewer jobs. What they completed is kept.",
        )
