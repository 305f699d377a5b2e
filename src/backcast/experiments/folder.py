"""A run on disk: what was to be done, by what it was done, and what came of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

from backcast.experiments import lock, log
from backcast.experiments.errors import SpecError
from backcast.experiments.log import Block, Score
from backcast.experiments.spec import Spec

if TYPE_CHECKING:
    from backcast.learning import Learner

State = Literal["done", "diverged", "running", "stopped"]
SPEC, FACTS, ENVIRONMENT, LOG, LEARNER = (
    "spec.toml",
    "stream.json",
    "environment.json",
    "metrics.jsonl",
    "learner",
)
DONE, DIVERGED = "DONE", "DIVERGED"


@final
@dataclass(frozen=True)
class Facts:
    """What is known of a stream once its data have been seen, so that they are needed no more.

    Attributes:
        tasks: the names of the tasks.
        times: when they are.
        learned: the positions of those that are learned.
        examples: how many training examples each has.
        input_shape: the shape of one input.
        classes: the names of the classes.
        data: the fingerprint of the data; see `backcast.data.Dataset.fingerprint`.
    """

    tasks: tuple[str, ...]
    times: tuple[float, ...]
    learned: tuple[int, ...]
    examples: tuple[int, ...]
    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    data: str

    def as_plain(self) -> dict[str, Any]:
        """Plain data for a JSON file."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Facts":
        """The facts that `as_plain` wrote."""
        lists = {name: tuple(values) for name, values in plain.items() if name != "data"}
        return cls(**lists, data=plain["data"])


@final
@dataclass(frozen=True)
class RunFolder:
    """A run's folder, to be read; `backcast.experiments.run` writes it.

    Attributes:
        path: the folder: ``<name>-<key of the spec>``.
        spec: what was to be done.
    """

    path: Path
    spec: Spec

    @classmethod
    def open(cls, path: str | Path) -> "RunFolder":
        """A folder that a run was made in.

        Raises:
            SpecError: it is none.
        """
        path = Path(path)
        if not (path / SPEC).is_file():
            raise SpecError(
                f"{path} is not the folder of a run: it has no {SPEC}. Give a folder that "
                "`backcast run` has made."
            )
        return cls(path, Spec.read(path / SPEC))

    @property
    def state(self) -> State:
        """How far it is: a run that ``stopped`` goes on when it is started again."""
        if (self.path / DONE).exists():
            return "done"
        if (self.path / DIVERGED).exists():
            return "diverged"
        return "running" if lock.is_held(self.path) else "stopped"

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left to do: what diverged once would diverge again."""
        return self.state in ("done", "diverged")

    @property
    def facts(self) -> Facts:
        """What is known of the stream."""
        from backcast.learning import LoadError

        if not (self.path / FACTS).exists():
            raise SpecError(f"{self.path} has not begun: its data were not read yet. Let it run.")
        try:
            return Facts.from_plain(self._record(FACTS))
        except (KeyError, TypeError) as error:
            raise LoadError(
                f"{self.path / FACTS} was not written by this version of backcast: {error!r} is "
                "amiss. Use the version that wrote it, or run the spec anew in another folder."
            ) from error

    @property
    def environment(self) -> dict[str, Any]:
        """By what it was done last: versions, commit, and the size of the machine."""
        return self.environments[-1]

    @property
    def environments(self) -> list[dict[str, Any]]:
        """The same, in order, if it was stopped and went on under others."""
        return self._record(ENVIRONMENT)["sessions"]

    @property
    def blocks(self) -> list[Block]:
        """All that was measured so far, in order."""
        return log.read(self.path / LOG)

    @property
    def scores(self) -> list[Score]:
        """All scores so far."""
        return [score for block in self.blocks for score in block.scores]

    @property
    def reports(self) -> dict[str, dict[str, Any]]:
        """How each piece of work went, by its name: ``start``, ``task 0``, ..., ``smooth``."""
        return {block.name: block.report for block in self.blocks}

    @property
    def final(self) -> dict[str, Any] | None:
        """The final numbers (see `backcast.experiments.summary`), or None if it is not done."""
        return self._record(DONE) if (self.path / DONE).exists() else None

    @property
    def divergence(self) -> dict[str, Any] | None:
        """For a run that diverged, in which ``task``, and the ``message``; else None."""
        return self._record(DIVERGED) if (self.path / DIVERGED).exists() else None

    def learner(self) -> "Learner":
        """The learner as it was left, to smooth, to look into and to predict by; needs no data."""
        from backcast.experiments.networks import network_for
        from backcast.learning import Learner

        return Learner.load(self.path / LEARNER, network_for(self.spec, self.facts), progress=False)

    def _record(self, name: str) -> dict[str, Any]:
        from backcast.learning.files import load_record

        return load_record(self.path / name)


def run_folders(folder: str | Path) -> list[RunFolder]:
    """All runs in a folder, by name; the folder may also be that of a single run."""
    folder = Path(folder)
    if (folder / SPEC).is_file():
        return [RunFolder.open(folder)]
    if not folder.is_dir():
        raise SpecError(f"There is no folder {folder}. Give one that holds runs.")
    return [RunFolder.open(path.parent) for path in sorted(folder.glob(f"*/{SPEC}"))]


def refuse_other(folder: RunFolder) -> None:
    """Make sure that a folder that is there already is this run's.

    Raises:
        SpecError: it is another run's.
    """
    file = folder.path / SPEC
    if file.exists() and (found := Spec.read(file)).key != folder.spec.key:
        raise SpecError(
            f"{file} was changed: it describes another run ({found.key}) than its folder's name "
            "says. Restore it, or move the folder away."
        )


def begin(folder: RunFolder) -> None:
    """Write down what is to be done, and remove what a killed process has left half-written."""
    from backcast.learning.files import remove_leftovers, settle, temporary

    remove_leftovers(folder.path)
    file = folder.path / SPEC
    if not file.exists():
        with temporary(folder.path) as part:
            part.write_text(folder.spec.toml(), encoding="utf-8")
            settle(part, file)
