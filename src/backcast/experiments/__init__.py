"""Experiments: described by specs, run in folders that resume, compared over seeds.

spec.py      Spec: one run, in TOML. data_spec, stream_spec, network_spec, method_spec: its parts
folder.py    RunFolder: a run on disk, to be read; run_folders: all of them in a folder
log.py       Score, Block: what a run measures, line by line
"""

from backcast.experiments.errors import BusyError, SpecError, StorageError
from backcast.experiments.folder import Facts, RunFolder, run_folders
from backcast.experiments.log import Block, Score
from backcast.experiments.run import run
from backcast.experiments.spec import Spec, built_in

__all__ = [
    "Block",
    "BusyError",
    "Facts",
    "RunFolder",
    "Score",
    "Spec",
    "SpecError",
    "StorageError",
    "built_in",
    "run",
    "run_folders",
]
