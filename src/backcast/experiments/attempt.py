"""One attempt at a run, whatever comes of it, in whatever process."""

from dataclasses import dataclass
from typing import Any, Literal, final

from backcast.data import DataError
from backcast.experiments import machine
from backcast.experiments.errors import BusyError, SpecError, StorageError
from backcast.experiments.run import run
from backcast.experiments.spec import Spec


@final
@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        folder: the name of its folder.
        state: ``busy`` if another process works on it.
        message: what went wrong, if anything did.
    """

    folder: str
    state: Literal["done", "diverged", "failed", "busy"]
    message: str = ""


@final
@dataclass(frozen=True)
class Place:
    """Where runs and data are, for any process.

    Attributes:
        runs: the folder of all runs.
        data: the folder of all data, or None for the usual one.
    """

    runs: str
    data: str | None


def attempt(
    plain: dict[str, Any], place: Place, threads: int | None, progress: bool = False
) -> Outcome:
    """Run a spec, whatever comes of it.

    Args:
        plain: the spec as plain data.
        place: where runs and data are.
        threads: how many threads this process may compute with; None leaves it as it is.
        progress: whether to show bars.
    """
    if threads is not None:
        machine.limit_threads(threads)
    spec = Spec.parse(plain)
    try:
        folder = run(spec, place.runs, data=place.data, progress=progress)
    except BusyError as error:
        return Outcome(spec.folder, "busy", str(error))
    except (SpecError, DataError, StorageError) as error:
        return Outcome(spec.folder, "failed", str(error))
    except Exception as error:
        return Outcome(spec.folder, "failed", f"{type(error).__name__}: {error}")
    if folder.divergence is not None:
        return Outcome(spec.folder, "diverged", folder.divergence["message"])
    return Outcome(spec.folder, "done")
