"""What several commands are told in the same words."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import backcast

# Asking `backcast.experiments` for them would take half a second, for every --help.
_SPECS = sorted(path.stem for path in Path(backcast.__file__).parent.glob("experiments/specs/*"))

Name = Annotated[
    str,
    Parameter(
        help="The path of a TOML file, or the name of a spec that comes with backcast: "
        f"{', '.join(_SPECS)}."
    ),
]
Changes = Annotated[
    list[str] | None,
    Parameter(
        name=("--set", "-s"),
        negative="",
        help="Another value for a field, as in --set method.rank=20; any number of times.",
    ),
]
Seed = Annotated[int | None, Parameter(help="What all chance in the run comes from.")]
Runs = Annotated[Path, Parameter(help="The folder of all runs.")]
DataDir = Annotated[
    Path | None, Parameter(help="The folder of all data, if not that of $BACKCAST_DATA.")
]
Quiet = Annotated[
    bool,
    Parameter(
        name=("--quiet", "-q"),
        negative="",
        show_default=False,
        help="Show no progress; print only where results are.",
    ),
]
Jobs = Annotated[int, Parameter(name=("--jobs", "-j"), help="How many runs to do at a time.")]
Scheduler = Annotated[
    str | None,
    Parameter(help="A dask scheduler, as tcp://host:8786, whose workers do the runs."),
]
