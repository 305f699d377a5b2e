"""``backcast demo``: what filtering and smoothing do, in a minute and without any download."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from backcast.cli import compiled, options, screen


def command(
    *,
    out: Annotated[Path, Parameter(help="The folder for its runs and its figure.")] = Path("demo"),
    seeds: Annotated[int, Parameter(help="How many seeds, from 1 to 16.")] = 8,
    quiet: options.Quiet = False,
) -> int:
    """Learn handwritten digits that turn, with and without memory, and look back at them.

    The digits come with backcast. Runs that are finished are not repeated.
    """
    compiled.keep()
    from backcast.experiments.demo import demo
    from backcast.report.demo import HEADS, LEGEND, findings, rows, save

    found = demo(out, seeds=seeds, progress=not quiet)
    figure = save(found, out / "demo.png")
    if quiet:
        screen.say(str(figure))
        return 0
    many = "the mean over the seeds ± standard deviation" if found.seeds > 1 else "one seed"
    screen.table(rows(found), HEADS, title=f"Accuracy on test data in %, {many}")
    screen.say(f"{LEGEND}\n")
    for finding in findings(found):
        screen.say(finding)
    screen.say(f"\n{figure}\nSee also: backcast report {out}")
    return 0
