"""How the data become a sequence of tasks."""

from abc import abstractmethod
from typing import Annotated, Literal, Self, final

from pydantic import Field, model_validator

from backcast import tasks
from backcast.experiments.fields import Count, NonNegative, Real, Table, Text, Whole, known_kind
from backcast.tasks import LazyStream, Partition

Several = Annotated[int, Field(strict=True, ge=2)]
Percentage = Annotated[float, Field(strict=True, ge=0, le=100)]


class StreamSource(Table):
    """Any stream.

    Attributes:
        examples: how many training examples each task has; if absent, all there are.
        learn: the positions of the tasks to learn; if absent, all. The others are tested on, and
            models for their times are inferred.
    """

    examples: Count | None = None
    learn: Annotated[tuple[Whole, ...], Field(min_length=1)] | None = None

    @abstractmethod
    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """The tasks, made from these examples."""


@final
class Permuted(StreamSource):
    """Each task has its own order of the pixels."""

    kind: Literal["permuted"] = "permuted"
    tasks: Several = 5

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.permuted`."""
        return tasks.permuted(partition, self.tasks, self.examples, seed)


@final
class Disjoint(StreamSource):
    """Each task has classes of its own, as many as the others."""

    kind: Literal["disjoint"] = "disjoint"
    tasks: Several = 2

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.disjoint`."""
        return tasks.disjoint(partition, self.tasks, self.examples, seed)


@final
class Pairs(StreamSource):
    """Two classes to a task."""

    kind: Literal["pairs"] = "pairs"

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.pairs`."""
        return tasks.pairs(partition, self.examples, seed)


@final
class ByClass(StreamSource):
    """Each task has the classes it is given."""

    kind: Literal["by-class"] = "by-class"
    groups: tuple[tuple[Whole, ...], ...]

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.by_class`."""
        return tasks.by_class(partition, self.groups, self.examples, seed)


@final
class Rotated(StreamSource):
    """Images turn."""

    kind: Literal["rotated"] = "rotated"
    degrees: tuple[Real, ...] = (0.0, 20.0, 40.0, 60.0, 80.0)

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.rotated`."""
        return tasks.rotated(partition, self.degrees, self.examples, seed=seed)


@final
class Brightness(StreamSource):
    """Images become brighter."""

    kind: Literal["brightness"] = "brightness"
    shifts: tuple[Real, ...] = (-0.24, -0.12, 0.0, 0.12, 0.24)

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.brightness`."""
        return tasks.brightness(partition, self.shifts, self.examples, seed=seed)


@final
class Blurred(StreamSource):
    """Images go out of focus."""

    kind: Literal["blurred"] = "blurred"
    sigmas: tuple[NonNegative, ...] = (0.0, 0.5, 1.0, 1.5, 2.0)

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.blurred`."""
        return tasks.blurred(partition, self.sigmas, self.examples, seed=seed)


@final
class Stained(StreamSource):
    """The stain of histology shifts."""

    kind: Literal["stained"] = "stained"
    strengths: tuple[Annotated[float, Field(strict=True, ge=-1, le=1)], ...] = (
        -0.5,
        -0.25,
        0.0,
        0.25,
        0.5,
    )

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.stained`."""
        return tasks.stained(partition, self.strengths, self.examples, seed=seed)


@final
class ByColumn(StreamSource):
    """A task for each value of a column, or for neighbouring values joined."""

    kind: Literal["by-column"] = "by-column"
    column: Text
    tasks: Several | None = None
    order: tuple[str | int | float, ...] | None = None

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.by_column`."""
        return tasks.by_column(partition, self.column, self.tasks, self.order, self.examples, seed)


@final
class Mixed(StreamSource):
    """Each task mixes the values of a column in percentages of its own."""

    kind: Literal["mixed"] = "mixed"
    column: Text
    percentages: tuple[dict[str, Percentage], ...]

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.mixed`."""
        return tasks.mixed(partition, self.column, self.percentages, self.examples, seed)


@final
class Imbalanced(StreamSource):
    """Each task has a percentage of the examples of each value of a column."""

    kind: Literal["imbalanced"] = "imbalanced"
    column: Text
    percentages: tuple[dict[str, Percentage], ...]

    @model_validator(mode="after")
    def _no_number_of_examples(self) -> Self:
        if self.examples is not None:
            raise ValueError(
                "the percentages say how many examples each task has; leave `examples` out"
            )
        return self

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.imbalanced`."""
        return tasks.imbalanced(partition, self.column, self.percentages, seed)


_Any = (
    Permuted
    | Disjoint
    | Pairs
    | ByClass
    | Rotated
    | Brightness
    | Blurred
    | Stained
    | ByColumn
    | Mixed
    | Imbalanced
)
StreamSpec = Annotated[_Any, Field(discriminator="kind"), known_kind(_Any)]
