"""``backcast report``: a page, figures and tables about runs."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from backcast.cli import options, screen


def command(
    folders: Annotated[list[Path], Parameter(help="Folders of runs, or folders that hold runs.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="The folder to write to.")] = Path("report"),
    title: Annotated[str, Parameter(help="What the page is called.")] = "Backcast report",
    quiet: options.Quiet = False,
) -> int:
    """Write one self-contained HTML page about runs, and its figures and tables as files.

    The page needs no network. Figures are PNG and PDF, tables CSV and LaTeX (booktabs), and
    scores.csv holds every single score.
    """
    from backcast.experiments import SpecError, run_folders

    found = [run for folder in folders for run in run_folders(folder)]
    runs = list({run.path.resolve(): run for run in found}.values())
    if not runs:
        raise SpecError(
            f"There are no runs in {', '.join(map(str, folders))}. Give folders that "
            "`backcast run` or `backcast sweep` has made."
        )
    if not any(run.state == "done" for run in runs):
        raise SpecError(
            f"None of the {len(runs)} runs is finished ({', '.join(r.path.name for r in runs)}). "
            "Let one finish: the same `backcast run` goes on with it."
        )
    with screen.waiting("drawing", not quiet):
        # Not before there is something to draw: it takes its time.
        from backcast.report import write_report

        page, files = write_report(runs, out, title)
    if quiet:
        screen.say(str(page))
    else:
        screen.say(f"{page}\nand {len(files)} figures and tables beside it in {out}")
    return 0
