"""How the data become a sequence of tasks."""

from abc import abstractmethod
from typing import Annotated, Literal, final

from pydantic import Field, model_validator

from backcast import tasks
from backcast.data import Dataset
from backcast.experiments.errors import SpecError
from backcast.experiments.fields import (
    Count,
    NonNegative,
    Positive,
    Real,
    Table,
    Text,
    Whole,
    known_kind,
)
from backcast.tasks import LazyStream, Partition, transforms
from backcast.tasks.transforms import Transform

Several = Annotated[int, Field(strict=True, ge=2)]
Percentage = Annotated[float, Field(strict=True, ge=0, le=100)]


@final
class Standardise(Table):
    """``(x - mean) / deviation``, for each colour or each column of a table, or alike for all.

    Attributes:
        mean: one number, or one for each.
        deviation: as many.
    """

    mean: Annotated[tuple[Real, ...], Field(min_length=1)]
    deviation: Annotated[tuple[Positive, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _one_of_each(self) -> "Standardise":
        if len(self.mean) != len(self.deviation):
            raise ValueError("give as many deviations as means")
        return self

    def transform(self, dataset: Dataset) -> Transform:
        """What it does with the inputs of this set."""
        count = transforms.channels(dataset)
        if len(self.mean) not in (1, count):
            raise SpecError(
                f"stream.normalise: {len(self.mean)} means were given for inputs of shape "
                f"{dataset.x.shape[1:]}; give {' or '.join(map(str, sorted({1, count})))}."
            )
        return transforms.standardise(self.mean, self.deviation)


class StreamSource(Table):
    """Any stream.

    Attributes:
        normalise: what is done with inputs in [0, 1] at last, after the change that makes the
            task: ``"imagenet"``, ``"none"``, or a mean and a deviation; if absent, ImageNet's for
            colour images and nothing for all else.
        examples: how many training examples each task has; if absent, all there are.
        learn: the positions of the tasks to learn; if absent, all. The others are tested on, and
            models for their times are inferred.
    """

    normalise: Literal["imagenet", "none"] | Standardise | None = None
    examples: Count | None = None
    learn: Annotated[tuple[Whole, ...], Field(min_length=1)] | None = None

    @abstractmethod
    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """The tasks, made from these examples."""

    def finish(self, partition: Partition) -> Transform | None:
        """What is done with inputs at last; None for what is usual."""
        dataset = partition.dataset
        if isinstance(self.normalise, Standardise):
            return self.normalise.transform(dataset)
        if self.normalise == "imagenet":
            transforms.require_images(dataset, colour=True)
            return transforms.imagenet
        return transforms.identity if self.normalise == "none" else None


@final
class Permuted(StreamSource):
    """Each task has its own order of the pixels."""

    kind: Literal["permuted"] = "permuted"
    tasks: Several = 5

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.permuted`."""
        return tasks.permuted(partition, self.tasks, self.examples, self.finish(partition), seed)


@final
class Disjoint(StreamSource):
    """Each task has classes of its own, as many as the others."""

    kind: Literal["disjoint"] = "disjoint"
    tasks: Several = 2

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.disjoint`."""
        return tasks.disjoint(partition, self.tasks, self.examples, self.finish(partition), seed)


@final
class Pairs(StreamSource):
    """Two classes to a task."""

    kind: Literal["pairs"] = "pairs"

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.pairs`."""
        return tasks.pairs(partition, self.examples, self.finish(partition), seed)


@final
class ByClass(StreamSource):
    """Each task has the classes it is given."""

    kind: Literal["by-class"] = "by-class"
    groups: tuple[tuple[Whole, ...], ...]

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.by_class`."""
        return tasks.by_class(partition, self.groups, self.examples, self.finish(partition), seed)


@final
class Rotated(StreamSource):
    """Images turn."""

    kind: Literal["rotated"] = "rotated"
    degrees: tuple[Real, ...] = (0.0, 20.0, 40.0, 60.0, 80.0)

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.rotated`."""
        return tasks.rotated(partition, self.degrees, self.examples, self.finish(partition), seed)


@final
class Brightness(StreamSource):
    """Images become brighter."""

    kind: Literal["brightness"] = "brightness"
    shifts: tuple[Real, ...] = (-0.24, -0.12, 0.0, 0.12, 0.24)

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.brightness`."""
        return tasks.brightness(partition, self.shifts, self.examples, self.finish(partition), seed)


@final
class Blurred(StreamSource):
    """Images go out of focus."""

    kind: Literal["blurred"] = "blurred"
    sigmas: tuple[NonNegative, ...] = (0.0, 0.5, 1.0, 1.5, 2.0)

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.blurred`."""
        return tasks.blurred(partition, self.sigmas, self.examples, self.finish(partition), seed)


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
        return tasks.stained(partition, self.strengths, self.examples, self.finish(partition), seed)


@final
class ByColumn(StreamSource):
    """A task for each value of a column, or for neighbouring values joined."""

    kind: Literal["by-column"] = "by-column"
    column: Text
    tasks: Several | None = None
    order: tuple[str | int | float, ...] | None = None

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.by_column`."""
        return tasks.by_column(
            partition,
            self.column,
            self.tasks,
            self.order,
            self.examples,
            self.finish(partition),
            seed,
        )


@final
class Mixed(StreamSource):
    """Each task mixes the values of a column in percentages of its own."""

    kind: Literal["mixed"] = "mixed"
    column: Text
    percentages: tuple[dict[str, Percentage], ...]

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.mixed`."""
        return tasks.mixed(
            partition, self.column, self.percentages, self.examples, self.finish(partition), seed
        )


@final
class Imbalanced(StreamSource):
    """Each task has a percentage of the examples of each value of a column."""

    kind: Literal["imbalanced"] = "imbalanced"
    column: Text
    percentages: tuple[dict[str, Percentage], ...]

    @model_validator(mode="after")
    def _no_number_of_examples(self) -> "Imbalanced":
        if self.examples is not None:
            raise ValueError(
                "the percentages say how many examples each task has; leave `examples` out"
            )
        return self

    def stream(self, partition: Partition, seed: int) -> LazyStream:
        """See `backcast.tasks.imbalanced`."""
        return tasks.imbalanced(
            partition, self.column, self.percentages, self.finish(partition), seed
        )


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
