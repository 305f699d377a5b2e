"""Choosing settings: by what they give on validation data, and by nothing else."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from backcast.experiments.errors import SpecError
from backcast.experiments.folder import RunFolder
from backcast.experiments.spec import Spec
from backcast.experiments.tuning_spec import Between, GridTuning, OptunaTuning, Tuning
from backcast.experiments.variations import lists, points, seeded

Sweep = Callable[[Sequence[Spec]], object]
"""Runs specs, such as ``lambda specs: sweep(specs, runs, jobs=2)``."""


@final
@dataclass(frozen=True)
class Candidate:
    """Settings that were tried.

    Attributes:
        changes: their fields and values.
        value: the mean over the seeds of the metric, on validation data; None if a run diverged
            or failed.
        values: the metric for each seed.
    """

    changes: dict[str, Any]
    value: float | None
    values: tuple[float | None, ...]


@final
@dataclass(frozen=True)
class Tuned:
    """The outcome of a search.

    Attributes:
        spec: the spec with the best settings.
        group: `Spec.group` of the spec that was tuned.
        metric: what they are best by.
        candidates: all that was tried, in order.
    """

    spec: Spec
    group: str
    metric: str
    candidates: tuple[Candidate, ...]

    def as_plain(self) -> dict[str, Any]:
        """Plain data for a JSON file."""
        return {
            "spec": self.spec.plain(),
            "group": self.group,
            "metric": f"validation {self.metric}",
            "candidates": [asdict(candidate) for candidate in self.candidates],
        }


def tune(spec: Spec, tuning: GridTuning | OptunaTuning, runs: str | Path, sweep: Sweep) -> Tuned:
    """Try settings, and take those that are best on validation data.

    Every trial is a run in the folder of all runs, so a search that was stopped goes on when it is
    started again. What was found is also written there, as ``<name>-tuned.toml`` and ``.json``.

    Args:
        spec: what to tune.
        tuning: where to search.
        runs: the folder of all runs.
        sweep: runs specs there.

    Raises:
        SpecError: there is no validation data, no setting could be run, or a search of another
            spec of this name has its outcome there.
    """
    if not spec.data.validation:
        raise SpecError(
            "Settings are chosen on validation data, and this spec holds none out: set "
            "data.validation, as in validation = 0.1."
        )
    several = len(seeded([spec], tuning.seeds)) > 1
    if several and spec.data.test is not None and spec.data.seed is None:
        raise SpecError(
            "The seeds of this search divide the data differently, so that one would choose by "
            "what another is tested on: set data.seed, as in seed = 0, and all divide alike."
        )
    runs = Path(runs)
    _refuse_other(spec, runs)
    if isinstance(tuning, GridTuning):
        tried = _on_grid(spec, tuning, runs, sweep)
    else:
        tried = _proposed(spec, tuning, runs, sweep)
    known = [candidate for candidate in tried if candidate.value is not None]
    if not known:
        raise SpecError(
            f"No setting has {tuning.metric} on validation data: the runs in {runs} failed or "
            "diverged, or their method has no smoothed models to measure."
        )
    # The first of equals, so that the outcome is the same whenever the search is repeated.
    best = max(known, key=lambda candidate: _worth(tuning, candidate))
    tuned = Tuned(spec.changed(best.changes), spec.group, tuning.metric, tuple(tried))
    _write(tuned, runs)
    return tuned


def validation_value(folder: RunFolder, metric: str) -> float | None:
    """The metric of a finished run on validation data; None if it is not there."""
    final_numbers = folder.final
    return None if final_numbers is None else final_numbers["validation"].get(metric)


def _on_grid(spec: Spec, tuning: GridTuning, runs: Path, sweep: Sweep) -> list[Candidate]:
    changes = list(points(lists(tuning.fields, "tune.fields")))
    return _tried(spec, changes, tuning, runs, sweep)


def _proposed(spec: Spec, tuning: OptunaTuning, runs: Path, sweep: Sweep) -> list[Candidate]:
    try:
        import optuna
    except ImportError as error:
        raise SpecError("This search needs optuna: pip install 'backcast[app,tune]'.") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=tuning.seed),
        direction="maximize" if tuning.maximises else "minimize",
    )
    spaces = {name: _distribution(optuna, space) for name, space in tuning.fields.items()}
    found = []
    for start in range(0, tuning.trials, tuning.batch):
        count = min(tuning.batch, tuning.trials - start)
        trials = [study.ask(spaces) for _ in range(count)]
        candidates = _tried(spec, [trial.params for trial in trials], tuning, runs, sweep)
        for trial, candidate in zip(trials, candidates, strict=True):
            failed = optuna.trial.TrialState.FAIL if candidate.value is None else None
            study.tell(trial, candidate.value, failed)
        found += candidates
    return found


def _tried(
    spec: Spec, changes: Sequence[Mapping[str, Any]], tuning: Tuning, runs: Path, sweep: Sweep
) -> list[Candidate]:
    variations = [seeded([spec.changed(change)], tuning.seeds) for change in changes]
    sweep([one for seeds in variations for one in seeds])
    candidates = []
    for change, seeds in zip(changes, variations, strict=True):
        values = tuple(
            validation_value(RunFolder(runs / one.folder, one), tuning.metric) for one in seeds
        )
        known = [value for value in values if value is not None]
        complete = len(known) == len(values)
        mean = math.fsum(known) / len(known) if complete else None
        candidates.append(Candidate(dict(change), mean, values))
    return candidates


def _distribution(optuna: Any, space: Between | tuple[Any, ...]) -> Any:
    if not isinstance(space, Between):
        return optuna.distributions.CategoricalDistribution(space)
    if space.whole:
        return optuna.distributions.IntDistribution(int(space.low), int(space.high), space.log)
    return optuna.distributions.FloatDistribution(space.low, space.high, space.log)


def _worth(tuning: Tuning, candidate: Candidate) -> float:
    value = candidate.value if candidate.value is not None else -math.inf
    return value if tuning.maximises else -value


def _refuse_other(spec: Spec, runs: Path) -> None:
    """Make sure that no outcome of another search is overwritten."""
    from backcast.learning.files import load_record

    path = _outcome(spec, runs)
    if path.exists() and load_record(path).get("group") != spec.group:
        raise SpecError(
            f"{path} is the outcome for another spec that is also named '{spec.name}'. Give this "
            "one another name, use another folder of runs, or move that file away."
        )


def _outcome(spec: Spec, runs: Path) -> Path:
    return runs / f"{spec.name}-tuned.json"


def _write(tuned: Tuned, runs: Path) -> None:
    from backcast.learning.files import save_record, settle, temporary

    path = _outcome(tuned.spec, runs)
    save_record(path, tuned.as_plain())
    with temporary(runs) as part:
        part.write_text(tuned.spec.toml(), encoding="utf-8")
        settle(part, path.with_suffix(".toml"))
