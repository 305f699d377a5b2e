"""How settings were chosen: by what the trials of a search gave on validation data."""

import math
from dataclasses import dataclass
from typing import Any, final

from backcast.experiments.shelf import Shelf
from backcast.experiments.spec import Spec
from backcast.experiments.tune import Candidate, validation_value
from backcast.experiments.tuning_spec import GridTuning, TuningSpec
from backcast.experiments.variations import lists, points, seeded


@final
@dataclass(frozen=True)
class Choice:
    """The trials of a search, and whether the settings in use are what it found.

    Attributes:
        metric: what was compared, on validation data.
        candidates: all settings that were to be tried.
        untried: how many of them have not been run.
        used: which of them is in use; None if none of them is.
        best: which of them is best; None if none has a value.
    """

    metric: str
    candidates: tuple[Candidate, ...]
    untried: int
    used: int | None
    best: int | None

    @property
    def words(self) -> str:
        """How the settings in use were chosen."""
        count = len(self.candidates)
        if self.untried:
            return f"given: {self.untried} of {count} trials not run"
        if self.best is not None and self.best == self.used:
            edge = count > 2 and self.best in (0, count - 1) and self.is_line
            return f"best of {count} on validation data{', at the edge' if edge else ''}"
        return "given: another is better on validation data"

    @property
    def is_line(self) -> bool:
        """Whether one field alone was varied, so that there is a first and a last."""
        return all(len(candidate.changes) == 1 for candidate in self.candidates)

    def as_plain(self) -> dict[str, Any]:
        """Plain data for a JSON file."""
        return {
            "metric": f"validation {self.metric}",
            "words": self.words,
            "trials": [{"changes": each.changes, "value": each.value} for each in self.candidates],
        }


def choice(spec: Spec, tuning: TuningSpec | None, shelf: Shelf) -> Choice | None:
    """What a search on a grid has found, as far as its runs are there; None without such a search.

    Args:
        spec: with the settings in use, and its first seed.
        tuning: the search.
        shelf: where its runs are.
    """
    if not isinstance(tuning, GridTuning):
        return None
    changes = list(points(lists(tuning.fields, "tune.fields")))
    found = [_candidate(spec, change, tuning, shelf) for change in changes]
    candidates = tuple(candidate for candidate, _ in found)
    groups = [spec.changed(change).group for change in changes]
    known = [index for index, each in enumerate(candidates) if each.value is not None]
    sign = 1 if tuning.maximises else -1
    return Choice(
        tuning.metric,
        candidates,
        sum(not tried for _, tried in found),
        groups.index(spec.group) if spec.group in groups else None,
        max(known, key=lambda index: sign * (candidates[index].value or 0.0), default=None),
    )


def _candidate(
    spec: Spec, changes: dict[str, Any], tuning: GridTuning, shelf: Shelf
) -> tuple[Candidate, bool]:
    """A candidate, and whether all of its runs are finished."""
    runs = [shelf.finished(one) for one in seeded([spec.changed(changes)], tuning.seeds)]
    values = tuple(None if run is None else validation_value(run, tuning.metric) for run in runs)
    known = [value for value in values if value is not None]
    mean = math.fsum(known) / len(known) if len(known) == len(values) else None
    return Candidate(changes, mean, values), all(run is not None for run in runs)
