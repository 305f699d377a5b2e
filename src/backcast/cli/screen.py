"""Text for people: tables and numbers."""

import contextlib
import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 160  # columns for what is read by no terminal


def console(*, errors: bool = False) -> "Console":
    """Where text goes: results to standard output, all else to standard error."""
    from rich.console import Console

    file = sys.stderr if errors else sys.stdout
    return Console(
        file=file,
        width=None if file.isatty() else _WIDE,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )


def say(words: str, *, errors: bool = False) -> None:
    """Print a line as it is, however long."""
    print(words, file=sys.stderr if errors else sys.stdout)


def table(
    rows: Sequence[Sequence[str]], heads: Sequence[str], *, words: int = 1, title: str = ""
) -> None:
    """Print a table.

    Args:
        rows: its rows.
        heads: what its columns are.
        words: how many columns, from the left, are words; the others are numbers.
        title: what it is about.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(
        title=Text(title) if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for index, head in enumerate(heads):
        if index < words:
            drawn.add_column(Text(head), overflow="fold")
        else:
            # Words may be broken where the window is narrow, and numbers not.
            widest = max([*(len(row[index]) for row in rows), *map(len, head.split())])
            drawn.add_column(Text(head), justify="right", min_width=widest)
    for row in rows:
        drawn.add_row(*map(Text, row))
    console().print(drawn)
    say("")


@contextlib.contextmanager
def waiting(words: str, shown: bool = True) -> Iterator[None]:
    """Show that something is being done, on a terminal."""
    if not (shown and sys.stderr.isatty()):
        yield
        return
    with console(errors=True).status(words):
        yield


def number(value: int | float | None, digits: int = 4) -> str:
    """A number with so many decimals, or a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


def short(value: int | float) -> str:
    """A number of any size in few characters."""
    return f"{value:.3g}"


def size(amount: int | float | None) -> str:
    """Bytes, in the largest unit that leaves a number above 1."""
    if amount is None:
        return "-"
    power = min(int(math.log10(max(amount, 1))) // 3, 4)
    scaled = amount / 1000**power
    decimals = 0 if power == 0 or scaled >= 100 else 1
    return f"{scaled:.{decimals}f} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def duration(seconds: int | float) -> str:
    """Seconds, minutes and hours."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"
