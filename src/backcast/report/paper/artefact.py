"""A table or figure of the paper: what it is made of, and how it is shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from backcast.experiments.paper import Line, Panel
from backcast.report.style import Drawing
from backcast.report.tables import Table


@final
@dataclass(frozen=True)
class Shown:
    """What there is to see of an artefact.

    Attributes:
        tables: for people, and as files.
        drawings: the figures.
        numbers: tables that are too long for people.
    """

    tables: tuple[Table, ...]
    drawings: tuple[Drawing, ...] = ()
    numbers: tuple[Table, ...] = ()


@final
@dataclass(frozen=True)
class Artefact:
    """A table or figure.

    Attributes:
        title: what it is called.
        panels: the runs it is made of.
        show: how they are shown, once they are there.
    """

    title: str
    panels: tuple[Panel, ...]
    show: Callable[[Sequence[Line]], Shown]
