"""Running a spec: alone in its folder, and from where it was left."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from backcast.experiments import lock
from backcast.experiments.errors import StorageError
from backcast.experiments.folder import RunFolder, begin, refuse_other
from backcast.experiments.spec import Spec


def run(
    spec: Spec, runs: str | Path, *, data: str | Path | None = None, progress: bool = True
) -> RunFolder:
    """Run a spec, or go on with it from its last completed task; if it is finished, do nothing.

    Args:
        spec: what to run.
        runs: the folder of all runs; this one's is in it, by the name `Spec.folder`.
        data: the folder of all data, if not ``$BACKCAST_DATA``.
        progress: whether to show bars, if there is a terminal.

    Returns:
        The run's folder, which is now ``done``, or ``diverged`` if training left the finite
        numbers.

    Raises:
        BusyError: another process is working on it.
        SpecError: the spec does not fit the data, or the folder is of another run.
        DataError: there are no such data, or they are damaged.
        LoadError: what the run has left so far is damaged.
        StorageError: the folder cannot be written to.
    """
    folder = RunFolder(Path(runs) / spec.folder, spec)
    with _storing(folder.path):
        folder.path.mkdir(parents=True, exist_ok=True)
        refuse_other(folder)
        if folder.is_finished:
            return folder
        with lock.held(folder.path):
            begin(folder)
            # Whoever held the lock a moment ago may have finished it.
            if not folder.is_finished:
                from backcast.experiments.work import carry_on

                carry_on(folder, None if data is None else Path(data), progress)
    return folder


@contextlib.contextmanager
def _storing(path: Path) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError) as error:
        raise StorageError(
            f"{path} cannot be written to: {error}. What was finished is untouched. Make room or "
            "name another folder, and run it again: it goes on from its last completed task."
        ) from error
