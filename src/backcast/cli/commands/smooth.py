"""``backcast smooth``: the smoothed models of a run, as files."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from backcast.cli import compiled, options, screen


def command(
    folder: Annotated[Path, Parameter(help="The folder of a run.")],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(help="Where to write to, if not to 'smoothed' in that folder.")
    ] = None,
    quiet: options.Quiet = False,
) -> int:
    """Write one model per task, each informed by all tasks, to files. No data are needed.

    Each task gets a safetensors file with its weights, their marginal variances and the network's
    state; smoothed.json says which is which, and how to load them.
    """
    compiled.keep()
    from backcast.experiments import RunFolder
    from backcast.experiments.smoothed import RECORD, write_smoothed

    run = RunFolder.open(folder)
    out = folder / "smoothed" if out is None else out
    with screen.waiting("smoothing", not quiet):
        tasks = write_smoothed(run, out)
    if quiet:
        screen.say(str(out / RECORD))
        return 0
    rows = [
        [
            str(index),
            task["name"],
            task["file"],
            f"{task['moved']:.4f}",
            f"{task['deviation_filtered']:.3g}",
            f"{task['deviation_smoothed']:.3g}",
        ]
        for index, task in enumerate(tasks)
    ]
    heads = ["Task", "name", "file", "moved", "deviation before", "after"]
    screen.table(rows, heads, words=3, title=f"Smoothed models of {run.path.name}")
    screen.say("moved: how far the weights went, relative to their norm.")
    screen.say("deviation: of a weight, the mean over all, by the belief before and after.")
    screen.say(f"\n{out / RECORD}")
    screen.say("To use them in Python, which needs no data:\n")
    screen.say("    from backcast.experiments import RunFolder")
    screen.say(f"    models = RunFolder.open({str(folder)!r}).learner().smooth()")
    screen.say("    models[0].predict_proba(x)")
    return 0
