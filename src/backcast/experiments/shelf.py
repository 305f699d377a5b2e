"""The runs in a folder by what was run, whatever they were called."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from backcast.experiments.folder import SPEC, RunFolder
from backcast.experiments.spec import Spec


@final
@dataclass(frozen=True)
class Shelf:
    """What lay in a folder of runs when it was looked at.

    Attributes:
        places: the folders by the key that their names end with.
    """

    places: dict[str, tuple[Path, ...]]

    @classmethod
    def of(cls, runs: str | Path) -> "Shelf":
        """The runs in this folder; none, if there is no such folder."""
        found: dict[str, tuple[Path, ...]] = {}
        for file in sorted(Path(runs).glob(f"*/{SPEC}")):
            key = file.parent.name.rpartition("-")[2]
            found[key] = (*found.get(key, ()), file.parent)
        return cls(found)

    def finished(self, spec: Spec) -> RunFolder | None:
        """A run of this spec that is finished, done or diverged; None if there is none."""
        runs = (RunFolder(path, spec) for path in self.places.get(spec.key, ()))
        return next((run for run in runs if run.is_finished), None)
