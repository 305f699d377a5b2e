"""Progress that is shown where someone watches."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec


@contextlib.contextmanager
def bar(title: str, total: int | None, unit: str = "") -> Iterator[Callable[[int], object]]:
    """A progress bar on a terminal, and nothing elsewhere; call it with how much was added.

    Args:
        title: what is being done.
        total: how much there is to do; None if that is not known.
        unit: what is counted; bytes if empty.
    """
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield lambda _: None
        return
    from rich import progress
    from rich.console import Console

    counted = progress.MofNCompleteColumn() if unit else progress.DownloadColumn()
    columns = ("{task.description}", progress.BarColumn(), counted, unit)
    with progress.Progress(
        *columns, progress.TimeRemainingColumn(), console=Console(stderr=True)
    ) as shown:
        task = shown.add_task(title, total=total)
        yield lambda amount: shown.advance(task, amount)
