"""A spec with what is to be varied and chosen: all that the TOML file of an experiment may hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from backcast.experiments.errors import SpecError
from backcast.experiments.fields import Table, unknown
from backcast.experiments.sources import source
from backcast.experiments.spec import Spec
from backcast.experiments.tuning_spec import TuningSpec
from backcast.experiments.variations import SweepSpec


@final
class Beside(Table):
    """What may stand beside a spec.

    Attributes:
        sweep: which variations to run.
        tune: which settings to choose.
    """

    sweep: SweepSpec | None = None
    tune: TuningSpec | None = None


@final
@dataclass(frozen=True)
class Study:
    """What an experiment's file holds.

    Attributes:
        spec: what is run.
        beside: how it is varied, and what is chosen.
    """

    spec: Spec
    beside: Beside

    @classmethod
    def read(cls, name_or_path: str | Path) -> "Study":
        """The study in a TOML file, or the built-in one of this name."""
        return cls.parse(source(name_or_path))

    @classmethod
    def parse(cls, plain: Mapping[str, Any]) -> "Study":
        """The study that plain data describe.

        Raises:
            SpecError: it lists what is wrong.
        """
        if problem := unknown(plain, [*Spec.model_fields, *Beside.model_fields]):
            raise SpecError(problem)
        beside = {name: plain[name] for name in Beside.model_fields if name in plain}
        spec = {name: value for name, value in plain.items() if name not in beside}
        return cls(Spec.parse(spec), Beside.parse(beside))

    def changed(self, changes: Mapping[str, Any]) -> "Study":
        """The study with other values in its spec; see `Spec.changed`."""
        return Study(self.spec.changed(changes), self.beside)

    def specs(self) -> list[Spec]:
        """The variations of the spec; itself if none are asked for."""
        return [self.spec] if self.beside.sweep is None else self.beside.sweep.specs(self.spec)
