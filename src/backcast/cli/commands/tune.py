"""``backcast tune``: settings chosen on validation data."""

import time
from pathlib import Path

from backcast.cli import compiled, options, screen


def command(
    spec: options.Name,
    /,
    *,
    changes: options.Changes = None,
    jobs: options.Jobs = 1,
    scheduler: options.Scheduler = None,
    runs: options.Runs = Path("runs"),
    data_dir: options.DataDir = None,
    quiet: options.Quiet = False,
) -> int:
    """Try the settings that the spec's [tune] table names; take the best on validation data.

    What was found is written to the folder of runs as a spec, NAME-tuned.toml, ready to be run.
    Test data have no say in it.
    """
    compiled.keep()
    from backcast.cli.commands.sweep import Watch
    from backcast.cli.studies import study
    from backcast.experiments import SpecError, sweep, tune

    wanted = study(spec, changes)
    tuning = wanted.beside.tune
    if tuning is None:
        raise SpecError(
            f"{spec} does not say what to tune. Add to it, for instance:\n\n"
            '[tune]\nkind = "grid"\nmetric = "average_nll"\n'
            'fields = { "method.strength" = [0.1, 1.0, 10.0] }'
        )
    shown = not quiet
    tuned = tune(
        wanted.spec,
        tuning,
        runs,
        lambda specs: sweep(
            specs,
            runs,
            jobs=jobs,
            scheduler=scheduler,
            data=data_dir,
            progress=shown,
            watch=Watch(runs, time.monotonic()) if shown else None,
        ),
    )
    path = runs / f"{tuned.spec.name}-tuned.toml"
    if quiet:
        screen.say(str(path))
        return 0
    fields = list(dict.fromkeys(field for c in tuned.candidates for field in c.changes))
    better = sorted(
        tuned.candidates,
        key=lambda c: (c.value is None, -(c.value or 0) if tuning.maximises else (c.value or 0)),
    )
    rows = [
        [
            *(_value(candidate.changes.get(field)) for field in fields),
            screen.number(candidate.value),
        ]
        for candidate in better
    ]
    screen.table(
        rows,
        [*fields, tuning.metric],
        words=0,
        title="On the validation data, best first; - where a run failed or diverged",
    )
    screen.say(f"{path}\nRun it: backcast run {path}")
    return 0


def _value(value: object) -> str:
    return screen.short(value) if isinstance(value, float) else str(value)
