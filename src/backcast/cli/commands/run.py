"""``backcast run``: one experiment, from where it was left."""

from pathlib import Path
from typing import TYPE_CHECKING

from backcast.cli import compiled, options, screen

if TYPE_CHECKING:
    from backcast.experiments import RunFolder


def command(
    spec: options.Name,
    /,
    *,
    changes: options.Changes = None,
    seed: options.Seed = None,
    runs: options.Runs = Path("runs"),
    data_dir: options.DataDir = None,
    quiet: options.Quiet = False,
) -> int:
    """Run an experiment, or go on with it from its last completed task.

    It lives in a folder of its own in the folder of all runs, named after everything that
    determines it. A run that is finished is not repeated: its numbers are shown.
    """
    compiled.keep()
    from backcast.cli.studies import study
    from backcast.experiments import RunFolder, run

    wanted = study(spec, changes, seed).spec
    if not quiet:
        _say_what_is_there(RunFolder(runs / wanted.folder, wanted))
    folder = run(wanted, runs, data=data_dir, progress=not quiet)
    if folder.divergence is not None:
        screen.say(f"{folder.path} diverged. {folder.divergence['message']}", errors=True)
        return 1
    if quiet:
        screen.say(str(folder.path))
    else:
        _show(folder)
    return 0


def _say_what_is_there(folder: "RunFolder") -> None:
    """If the run was begun before, say how far it came."""
    if folder.state == "done":
        screen.say(f"{folder.path} is finished; nothing is run again.\n", errors=True)
    elif learned := sum(name.startswith("task ") for name in folder.reports):
        tasks = len(folder.facts.learned)
        screen.say(f"{folder.path}: going on after {learned} of {tasks} tasks.", errors=True)


def _show(folder: "RunFolder") -> None:
    """The final numbers of a run, and each task's."""
    from backcast.experiments.results import groups

    final = folder.final or {}
    test = final["test"]
    [group] = groups([folder])
    learned = group.facts.learned
    after = group.matrices()[0]
    ways = {"just learned": after.diagonal(), "last model": after[learned[-1]]}
    if folder.spec.method.smooths:
        ways["smoothed"] = group.own("smoothed")[0]
        if len(learned) < len(group.facts.tasks):
            ways["between"] = group.own("between")[0]
    rows = [
        [name, *("-" if value != value else f"{value:.4f}" for value in values)]
        for name, values in zip(group.facts.tasks, zip(*ways.values(), strict=True), strict=True)
    ]
    screen.table(rows, ["Accuracy on", *ways], title="Accuracy on the test data of each task")
    numbers = [
        ("average accuracy", "of the last model on all tasks", test["average_accuracy"]),
        ("smoothed accuracy", "of each task's smoothed model on it", test["smoothed_accuracy"]),
        ("forgetting", "from its best to the last model", test["forgetting"]),
        ("nll", "of the last model", test["average_nll"]),
        ("calibration error", "of the last model", test["average_ece"]),
    ]
    for name, meaning, value in numbers:
        if value is not None:
            screen.say(f"{name:<18} {value:8.4f}   {meaning}")
    spent = screen.duration(final["seconds"])
    screen.say(
        f"{'time':<18} {spent:>8}   of learning, {screen.size(final['peak_memory'])} of memory"
    )
    screen.say(f"\n{folder.path}")
    screen.say(f"See also: backcast report {folder.path}, backcast inspect {folder.path}")
