"""Runs read back and compared: what was run with several seeds belongs together."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float

from backcast.experiments import summary
from backcast.experiments.folder import Facts, RunFolder
from backcast.experiments.log import Part, Stage
from backcast.experiments.spec import Spec
from backcast.experiments.variations import flat


@final
@dataclass(frozen=True)
class Spread:
    """A number over several runs.

    Attributes:
        mean: over the runs.
        deviation: their standard deviation (of a sample); None for a single run.
        low: the smallest.
        high: the largest.
        count: how many runs there are.
    """

    mean: float
    deviation: float | None
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Spread | None":
        """The spread of the values that are known; None if none is."""
        known = [float(value) for value in values if value is not None and math.isfinite(value)]
        if not known:
            return None
        deviation = float(np.std(known, ddof=1)) if len(known) > 1 else None
        return cls(float(np.mean(known)), deviation, min(known), max(known), len(known))


@final
@dataclass(frozen=True)
class Group:
    """Finished runs of one spec with several seeds.

    Attributes:
        label: its name, and what sets it apart from others of that name.
        runs: one for each seed, in order of the seeds.
    """

    label: str
    runs: tuple[RunFolder, ...]

    @property
    def facts(self) -> Facts:
        """What is known of the stream; the same for all seeds but for the numbers of examples."""
        return self.runs[0].facts

    def each(self, number: str, part: Part = "test") -> list[float | None]:
        """A final number of each seed, such as ``average_accuracy``."""
        return [_final(run)[part].get(number) for run in self.runs]

    def spread(self, number: str, part: Part = "test") -> Spread | None:
        """A final number over the seeds."""
        return Spread.of(self.each(number, part))

    def cost(self, number: str) -> Spread | None:
        """``seconds``, ``evaluation_seconds`` or ``peak_memory`` over the seeds."""
        return Spread.of(_final(run)[number] for run in self.runs)

    def matrices(self, metric: str = "accuracy", part: Part = "test") -> Float[np.ndarray, "S T T"]:
        """`summary.matrix` of each seed."""
        return self._stacked(lambda scores, n: summary.matrix(scores, n, metric, part))

    def own(
        self, stage: Stage, metric: str = "accuracy", part: Part = "test"
    ) -> Float[np.ndarray, "S T"]:
        """Each task's own model of this stage on it, for each seed; see `summary.own`."""
        return self._stacked(lambda scores, n: summary.own(scores, n, stage, metric, part))

    def so_far(self, metric: str = "accuracy", part: Part = "test") -> Float[np.ndarray, "S L"]:
        """After each learned task, the mean over the tasks so far, for each seed."""
        learned = self.facts.learned
        rows = [summary.average_so_far(R, learned) for R in self.matrices(metric, part)]
        return np.array(rows, float)

    def _stacked(self, take: Callable[[Any, int], np.ndarray]) -> np.ndarray:
        return np.stack([take(run.scores, len(run.facts.tasks)) for run in self.runs])


def groups(folders: Iterable[RunFolder]) -> list[Group]:
    """The finished runs, those together that differ in nothing but the seed."""
    together: dict[tuple[str, str], list[RunFolder]] = {}
    for folder in folders:
        if folder.state == "done":
            together.setdefault((folder.spec.name, folder.spec.group), []).append(folder)
    members = [tuple(sorted(runs, key=lambda run: run.spec.seed)) for runs in together.values()]
    labels = labelled([runs[0].spec for runs in members])
    return [Group(label, runs) for label, runs in zip(labels, members, strict=True)]


def labelled(specs: Sequence[Spec]) -> list[str]:
    """For each spec its name; and where several have the same name, the values that differ."""
    labels = []
    for spec in specs:
        own = _values(spec)
        alike = [_values(other) for other in specs if other.name == spec.name]
        stated = [
            f"{_named(field)} {value}"
            for field, value in sorted(own.items())
            if any(_differs(field, own, values) for values in alike)
        ]
        labels.append(" ".join([spec.name, *([f"({', '.join(stated)})"] if stated else [])]))
    return labels


def _differs(field: str, own: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a run of this name has another value there, not just another kind of table."""
    if field in other:
        return own[field] != other[field]
    parts = field.split(".")
    kinds = [".".join([*parts[:depth], "kind"]) for depth in range(1, len(parts))]
    return all(own.get(kind) == other.get(kind) for kind in kinds)


def _named(field: str) -> str:
    """A field in one word: its own, or for the kind of a table that of the table."""
    *_, table, name = ["", *field.split(".")]
    return table if name == "kind" else name


def rows(folders: Iterable[RunFolder]) -> list[dict[str, Any]]:
    """All scores of all runs, one row for each run, model, task and metric."""
    return [
        {
            "name": folder.spec.name,
            "run": folder.path.name,
            "group": folder.spec.group,
            "seed": folder.spec.seed,
            "stage": score.stage,
            "after": score.after,
            "model": score.model,
            "task": score.task,
            "task_name": folder.facts.tasks[score.task],
            "part": score.part,
            "examples": score.examples,
            "metric": metric,
            "value": value,
        }
        for folder in folders
        for score in folder.scores
        for metric, value in score.metrics.items()
    ]


def _values(spec: Spec) -> dict[str, Any]:
    values = flat(spec.plain()).items()
    return {field: value for field, value in values if field not in ("name", "seed")}


def _final(run: RunFolder) -> dict[str, Any]:
    return run.final or {"test": {}, "validation": {}}
