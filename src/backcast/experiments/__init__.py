"""Experiments: described by specs, run in folders that resume, compared over seeds.

    spec.py       Spec: one run, in TOML; its parts are in data_spec, stream_spec, network_spec
                  and method_spec
    sources.py    TOML files, the specs that come with the package (specs/), those like others
    study.py      Study: a file with a spec and what to vary (variations.py) and to choose
                  (tuning_spec.py)
    run.py        run: does what a spec says, alone in its folder, from where it was left (work.py)
    sweep.py      sweep: many runs, in processes (processes.py) or on a cluster (cluster.py)
    tune.py       tune: chooses settings on validation data
    folder.py     RunFolder: a run on disk, to be read; run_folders: all of them in a folder
    log.py        Score, Block: what a run measures, line by line
    metrics.py    how good predictions are on one set of examples
    summary.py    what the scores of all models on all tasks come down to
    results.py    groups: runs that differ in the seed alone, and their numbers with their spread;
                  rows: all scores as a table
    shelf.py      Shelf: runs by what was run, whatever they were called
    gain.py       Gain: what one kind of model is better by than another, with a paired test
    choice.py     how settings were chosen, told from the runs of the search
    paper.py      tables and figures of a paper: their runs, which are missing, what came of them

To read results: ``for group in groups(run_folders(folder)): group.spread("average_accuracy")``.
"""

from backcast.experiments.attempt import Outcome
from backcast.experiments.errors import BusyError, SpecError, StorageError
from backcast.experiments.folder import Facts, RunFolder, run_folders
from backcast.experiments.log import Block, Score
from backcast.experiments.results import Group, Spread, groups, rows
from backcast.experiments.run import run
from backcast.experiments.sources import built_in
from backcast.experiments.spec import Spec
from backcast.experiments.study import Study
from backcast.experiments.sweep import sweep
from backcast.experiments.tune import Candidate, Tuned, tune

__all__ = [
    "Block",
    "BusyError",
    "Candidate",
    "Facts",
    "Group",
    "Outcome",
    "RunFolder",
    "Score",
    "Spec",
    "SpecError",
    "Spread",
    "StorageError",
    "Study",
    "Tuned",
    "built_in",
    "groups",
    "rows",
    "run",
    "run_folders",
    "sweep",
    "tune",
]
