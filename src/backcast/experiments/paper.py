"""Tables and figures of a paper: which runs each is made of, and what has come of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

from backcast.experiments.choice import Choice, choice
from backcast.experiments.folder import RunFolder
from backcast.experiments.results import Group, labelled
from backcast.experiments.shelf import Shelf
from backcast.experiments.sources import source
from backcast.experiments.spec import Spec, merged, nested
from backcast.experiments.study import Study
from backcast.experiments.tuning_spec import TuningSpec


@final
@dataclass(frozen=True)
class Row:
    """One row of a table or line of a figure; several, if the sweep of its study has several cases.

    Attributes:
        label: what it is called; cases have their own names.
        study: the name of a built-in study, or the path of one.
        published: what the paper has there, as it prints it.
        changes: other values for fields of the study, by their dotted names.
    """

    label: str
    study: str
    published: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class Panel:
    """Rows that belong together, such as those of one stream of tasks."""

    title: str
    rows: tuple[Row, ...]


@final
@dataclass(frozen=True)
class Plan:
    """The runs of one line.

    Attributes:
        panel: the title of its panel.
        row: the row it is of.
        label: what it is called.
        specs: one for each seed.
        tuning: the search that its settings come from, if there is one.
    """

    panel: str
    row: Row
    label: str
    specs: tuple[Spec, ...]
    tuning: TuningSpec | None

    def quick(self) -> "Plan":
        """The first seed alone, for one epoch: to see whether it works, and not how well."""
        spec = self.specs[0].changed({"training.epochs": 1})
        return replace(self, specs=(spec,), tuning=None)


@final
@dataclass(frozen=True)
class Line:
    """What has come of a plan.

    Attributes:
        plan: what was planned.
        group: the runs that have numbers; None if none has.
        diverged: of the runs that have none, and never will: why.
        choice: how its settings were chosen; None if they were not searched for.
    """

    plan: Plan
    group: Group | None
    diverged: tuple[str, ...]
    choice: Choice | None


def plans(panels: Iterable[Panel]) -> list[Plan]:
    """All lines of these panels, in order."""
    return [plan for panel in panels for row in panel.rows for plan in _of_row(panel.title, row)]


def missing(planned: Iterable[Plan], shelf: Shelf) -> list[Spec]:
    """The specs whose runs are not finished, each once."""
    wanted = {spec.key: spec for plan in planned for spec in plan.specs}
    return [spec for spec in wanted.values() if shelf.finished(spec) is None]


def lines(planned: Iterable[Plan], shelf: Shelf) -> list[Line]:
    """What has come of each plan so far."""
    return [_line(plan, shelf) for plan in planned]


def _of_row(panel: str, row: Row) -> list[Plan]:
    plain = source(row.study)
    for path, value in row.changes.items():
        plain = merged(plain, nested(path, value))
    study = Study.parse(plain)
    together: dict[tuple[str, str], list[Spec]] = {}
    for spec in study.specs():
        together.setdefault((spec.name, spec.group), []).append(spec)
    labels = labelled([specs[0] for specs in together.values()])
    # What is changed or varied is not what the search was about.
    tuning = study.beside.tune if not row.changes and len(together) == 1 else None
    return [
        Plan(panel, row, _label(row, study, label), tuple(specs), tuning)
        for label, specs in zip(labels, together.values(), strict=True)
    ]


def _label(row: Row, study: Study, label: str) -> str:
    """The row's label for the study's own name; for a case, its own name in words."""
    if label.startswith(study.spec.name):
        return row.label + label.removeprefix(study.spec.name)
    return label.replace("-", " ")


def _line(plan: Plan, shelf: Shelf) -> Line:
    found = [run for spec in plan.specs if (run := shelf.finished(spec)) is not None]
    done = tuple(run for run in found if run.state == "done")
    return Line(
        plan,
        Group(plan.label, done) if done else None,
        tuple(_why(run) for run in found if run.state == "diverged"),
        choice(plan.specs[0], plan.tuning, shelf),
    )


def _why(run: RunFolder) -> str:
    return f"seed {run.spec.seed}: {(run.divergence or {})['message']}"
