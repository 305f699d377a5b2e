"""The work of a run: task by task, each on disk before the next.

The learner's folder is ahead of the log by at most one task. What is in it was trained with keys
that depend on the seed and the task alone, and what is in the log was computed from it. So at
whatever moment a run is killed, what follows is what would have followed.
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from backcast.experiments import log, machine, summary
from backcast.experiments.errors import SpecError
from backcast.experiments.folder import (
    DIVERGED,
    DONE,
    ENVIRONMENT,
    FACTS,
    LEARNER,
    LOG,
    Facts,
    RunFolder,
)
from backcast.experiments.itinerary import Itinerary, Step, itinerary
from backcast.experiments.learners import learner_for
from backcast.experiments.log import Block, Score
from backcast.experiments.networks import network_for
from backcast.experiments.trial import averaged, between, foreseen, smoothed, tried
from backcast.learning import DivergedError, Learner, TaskModel
from backcast.learning.files import save_record
from backcast.model import as_model
from backcast.tasks import Task


def carry_on(folder: RunFolder, data: Path | None, progress: bool) -> None:
    """Do what is left of a run; whoever calls it holds the folder's lock."""
    machine.forget_peak()
    way = itinerary(folder.spec, data)
    _record_facts(folder, way.facts)
    _record_environment(folder)
    network = network_for(folder.spec, way.facts)
    learner = learner_for(folder.spec, network, way.class_shares, folder.path / LEARNER, progress)
    untrained = TaskModel(as_model(network), learner.likelihood, "untrained")
    _cut_log(folder, way, len(learner.trajectory))
    with contextlib.suppress(DivergedError):
        _through(folder, way, learner, untrained)
        save_record(folder.path / DONE, _final(folder))


def _through(folder: RunFolder, way: Itinerary, learner: Learner, untrained: TaskModel) -> None:
    """All blocks, in order; those that are in the log are passed over."""
    everything = range(len(way.stream))
    _once(folder, "start", lambda: tried(untrained, way.stream, everything, "untrained", -1, -1))
    look = _look_at_belief if folder.spec.method.smooths else _look
    for index, step in enumerate(way.steps):
        with _divergence_recorded(folder, step):
            if index == len(learner.trajectory):
                _observe(folder, learner, step.task())
            report = learner.trajectory.entries[index].report
            _once(folder, f"task {step.position}", lambda i=index: look(way, learner, i), report)
    if folder.spec.method.smooths:
        with _divergence_recorded(folder, way.steps[-1]):
            _once(folder, "smooth", lambda: _look_back(way, learner))


@contextlib.contextmanager
def _divergence_recorded(folder: RunFolder, step: Step) -> Iterator[None]:
    """If numbers are not finite any more, that is what has come of the run."""
    try:
        yield
    except DivergedError as error:
        message = f"Task {step.position} ({step.name}): {error}"
        record = {"task": step.position, "name": step.name, "message": message}
        save_record(folder.path / DIVERGED, record)
        raise


def _observe(folder: RunFolder, learner: Learner, task: Task) -> None:
    early = folder.spec.training.patience is not None
    learner.observe(
        *task.train,
        validation=tuple(task.validation) if early else None,
        time=task.time,
        name=task.name,
    )


def _look(way: Itinerary, learner: Learner, index: int) -> list[Score]:
    """The model after a step, tried on all tasks up to the next one."""
    position = way.steps[index].position
    last = index == len(learner.trajectory) - 1
    model = learner.model if last else learner.filtered()[index]
    reach = range(min(position + 2, len(way.stream)))
    return tried(model, way.stream, reach, "filtered", position, position)


def _look_at_belief(way: Itinerary, learner: Learner, index: int) -> list[Score]:
    """The model after a step, and how well the belief before it foresaw it."""
    foresight = foreseen(learner, way.stream, way.facts.learned, index)
    return _look(way, learner, index) + foresight


def _look_back(way: Itinerary, learner: Learner) -> list[Score]:
    learned = way.facts.learned
    looks = (smoothed, between, averaged)
    return [score for look in looks for score in look(learner, way.stream, learned)]


def _once(
    folder: RunFolder,
    name: str,
    look: Callable[[], list[Score]],
    report: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Log a block, if it is not in the log."""
    if name in folder.reports:
        return
    began = time.perf_counter()
    scores = look()
    spent = {
        "evaluation_seconds": time.perf_counter() - began,
        "peak_memory": machine.peak_memory(),
    }
    log.append(folder.path / LOG, Block(name, tuple(scores), {**report, **spent}))


def _cut_log(folder: RunFolder, way: Itinerary, learned: int) -> None:
    """Drop from the log what does not follow from so many steps."""
    possible = ["start", *(f"task {step.position}" for step in way.steps[:learned])]
    if learned == len(way.steps):
        possible.append("smooth")
    pairs = zip(folder.blocks, possible, strict=False)
    agreeing = itertools.takewhile(lambda pair: pair[0].name == pair[1], pairs)
    log.keep(folder.path / LOG, sum(1 for _ in agreeing))


def _record_facts(folder: RunFolder, facts: Facts) -> None:
    if not (folder.path / FACTS).exists():
        save_record(folder.path / FACTS, facts.as_plain())
    elif folder.facts != facts:
        raise SpecError(
            f"{folder.path} was begun with other data: its tasks or their sizes are not those of "
            "the data there are now. Restore the data, or move the folder away to begin anew."
        )


def _record_environment(folder: RunFolder) -> None:
    path = folder.path / ENVIRONMENT
    sessions = folder.environments if path.exists() else []
    now = machine.environment()
    if not sessions or sessions[-1] != now:
        save_record(path, {"sessions": [*sessions, now]})


def _final(folder: RunFolder) -> dict[str, Any]:
    """The final numbers, from the log alone."""
    facts, reports = folder.facts, folder.reports.values()
    peaks = [report["peak_memory"] for report in reports if report["peak_memory"] is not None]
    return {
        **summary.final(folder.scores, len(facts.tasks), facts.learned),
        "seconds": sum(report.get("seconds", 0.0) for report in reports),
        "evaluation_seconds": sum(report["evaluation_seconds"] for report in reports),
        "peak_memory": max(peaks, default=None),
    }
