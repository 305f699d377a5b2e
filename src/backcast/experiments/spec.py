"""One run, described completely: the same spec gives the same result, to the bit."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, final

from pydantic import AfterValidator

from backcast.experiments import toml
from backcast.experiments.data_spec import DataSpec
from backcast.experiments.fields import Table, Whole
from backcast.experiments.method_spec import MethodSpec
from backcast.experiments.network_spec import NetworkSpec, TrainingSpec
from backcast.experiments.stream_spec import StreamSpec


def _named(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise ValueError("must be up to 64 letters, digits, dots, dashes and underscores")
    return name


@final
class Spec(Table):
    """What is run.

    Attributes:
        name: what to call it; its folder begins with it.
        seed: what all chance comes from: the data held out, the stream, the initial weights, the
            order of the examples.
        data: which examples.
        stream: how they become tasks.
        network: what learns.
        training: how a task is trained on.
        method: how the tasks before it are remembered.
    """

    name: Annotated[str, AfterValidator(_named)]
    seed: Whole = 0
    data: DataSpec
    stream: StreamSpec
    network: NetworkSpec
    training: TrainingSpec = TrainingSpec()
    method: MethodSpec

    @classmethod
    def read(cls, path: str | Path) -> "Spec":
        """The spec in a TOML file that holds nothing else."""
        return cls.parse(toml.read(Path(path)))

    def toml(self) -> str:
        """The spec as TOML, with every value that it left to us."""
        return toml.dumps(self.plain())

    @property
    def key(self) -> str:
        """A name for what is run: the beginning of the SHA-256 of all fields but the name."""
        return _digest({k: v for k, v in self.plain().items() if k != "name"})

    @property
    def group(self) -> str:
        """A name for what is run with whatever seed."""
        return _digest({k: v for k, v in self.plain().items() if k not in ("name", "seed")})

    @property
    def folder(self) -> str:
        """The name of the run's folder."""
        return f"{self.name}-{self.key}"

    def changed(self, changes: Mapping[str, Any]) -> "Spec":
        """The spec with other values.

        Args:
            changes: values by their fields, as tables within tables or by dotted names
                (``{"method.rank": 5}``). A table of another kind replaces the one that was there;
                one of the same kind, or that names no kind, changes only the fields it has.
        """
        plain = self.plain()
        for path, value in changes.items():
            plain = merged(plain, nested(path, value))
        return type(self).parse(plain)


def nested(path: str, value: Any) -> dict[str, Any]:
    """``{"a.b": 1}`` as ``{"a": {"b": 1}}``."""
    first, _, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}


def merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A table with changes; see `Spec.changed`."""
    if "kind" in changes and changes["kind"] != table.get("kind"):
        return dict(changes)
    result = dict(table)
    for name, value in changes.items():
        old = table.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            value = merged(old, value)
        result[name] = value
    return result


def _digest(plain: Mapping[str, Any]) -> str:
    canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]
