"""``backcast paper``: the tables and figures of the paper, with our numbers."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from backcast.cli import compiled, options, screen

if TYPE_CHECKING:
    from backcast.experiments import Spec
    from backcast.report.tables import Table

Name = Literal[
    "table1",
    "fig2",
    "fig3",
    "fig5",
    "fig8",
    "fig10",
    "fig11",
    "fig14",
    "between",
    "patches",
    "ablation",
    "twenty",
]


def command(
    name: Annotated[Name, Parameter(help="Which table or figure.")],
    /,
    *,
    quick: Annotated[
        bool,
        Parameter(negative="", help="One seed and one epoch: to see whether it works, in minutes."),
    ] = False,
    as_is: Annotated[
        bool, Parameter(negative="", help="Run nothing: show what there is, and what is missing.")
    ] = False,
    to: Annotated[Path, Parameter(help="The folder that its folder is put into.")] = Path(
        "results"
    ),
    jobs: options.Jobs = 1,
    scheduler: options.Scheduler = None,
    runs: options.Runs = Path("runs"),
    data_dir: options.DataDir = None,
    quiet: options.Quiet = False,
) -> int:
    """Run what is missing of a table or figure of the paper, and write it to a folder.

    The folder gets a page of Markdown, figures as PNG, and as CSV and JSON all numbers with the
    settings, seeds, commits and versions they come from. Runs that are finished are not repeated,
    whatever command has made them.
    """
    compiled.keep()
    from backcast.cli.commands.sweep import Watch
    from backcast.experiments import sweep
    from backcast.experiments.paper import lines, missing, plans
    from backcast.experiments.shelf import Shelf
    from backcast.report.paper import ARTEFACTS, unfinished, write

    artefact, shown = ARTEFACTS[name], not quiet
    planned = plans(artefact.panels)
    if quick:
        planned = [plan.quick() for plan in planned]
    to_do = missing(planned, Shelf.of(runs))
    if shown:
        _say(artefact.title, to_do)
    outcomes = (
        []
        if as_is
        else sweep(
            to_do,
            runs,
            jobs=jobs,
            scheduler=scheduler,
            data=data_dir,
            progress=shown,
            watch=Watch(runs, time.monotonic()) if shown else None,
        )
    )
    found = lines(planned, Shelf.of(runs))
    with screen.waiting("drawing", shown):
        made, paths = write(artefact, found, to / (f"{name}-quick" if quick else name))
    for table in made.tables if shown else ():
        _print(table)
    for outcome in outcomes:
        if outcome.state == "failed":
            screen.say(f"{outcome.folder} failed: {outcome.message}", errors=True)
    wrong = [words for line in found if (words := unfinished(line))]
    for words in wrong:
        screen.say(words, errors=True)
    screen.say(str(paths[0]))
    return 1 if wrong else 0


def _say(title: str, to_do: "Sequence[Spec]") -> None:
    """Say what an artefact is, and which of its runs are missing."""
    screen.say(f"{title}: {len(to_do)} runs are missing.", errors=True)
    for name, count in Counter(spec.name for spec in to_do).items():
        screen.say(f"  {name}: {count}", errors=True)


def _print(table: "Table") -> None:
    from backcast.report.tables import shown

    rows = [
        [shown(cell, column) for cell, column in zip(row, table.columns, strict=True)]
        for row in table.rows
    ]
    words = next((i for i, column in enumerate(table.columns) if column.decimals is not None), 1)
    screen.table(rows, [column.head for column in table.columns], words=words, title=table.title)
