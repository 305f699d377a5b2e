"""Which data a run learns from, and what of them is held out."""

from abc import abstractmethod
from pathlib import Path
from typing import Annotated, Literal, final

from pydantic import Field

from backcast import data
from backcast.data import Dataset
from backcast.experiments.fields import Amount, Count, Positive, Table, Text, Whole, known_kind
from backcast.tasks import Partition, holdout


@final
class Limit(Table):
    """At most so many examples of each part, the classes in proportion.

    Attributes:
        train: of the training data.
        validation: of the validation data.
        test: of the test data.
    """

    train: Count | None = None
    validation: Count | None = None
    test: Count | None = None


class DataSource(Table):
    """Any data set, and how it is divided; see `backcast.tasks.holdout`.

    Attributes:
        validation: what is held out of the training data to choose settings by.
        test: what is held out to report on; if absent, what was published as the test set.
        groups: a column (patient, slide) whose values are never divided.
        within: a column (centre, year) whose values all parts have in proportion.
        limit: fewer examples, for quick runs.
        seed: what the division depends on; the run's seed if absent. Where settings are chosen over
            several seeds, all must divide alike, or one would choose by what another reports on.
    """

    validation: Amount = 0.1
    test: Amount | None = None
    groups: Text | None = None
    within: Text | None = None
    limit: Limit | None = None
    seed: Whole | None = None

    @abstractmethod
    def dataset(self, root: Path | None) -> Dataset:
        """The whole set, found below the folder of all data."""

    def partition(self, root: Path | None, seed: int) -> Partition:
        """The set, divided at random by the seed, or by that of the spec's own."""
        seed = seed if self.seed is None else self.seed
        parts = holdout(
            self.dataset(root), self.validation, self.test, self.groups, self.within, seed
        )
        if self.limit is None:
            return parts
        available = {name: len(rows) for name, rows in parts.parts.items()}
        fewer = {
            name: min(count, available[name])
            for name, count in self.limit.plain().items()
            if available[name]
        }
        return parts.limit(**fewer, seed=seed)


@final
class Mnist(DataSource):
    """MNIST."""

    kind: Literal["mnist"] = "mnist"

    def dataset(self, root: Path | None) -> Dataset:
        """See `backcast.data.mnist`."""
        return data.mnist(root)


@final
class FashionMnist(DataSource):
    """Fashion-MNIST."""

    kind: Literal["fashion-mnist"] = "fashion-mnist"

    def dataset(self, root: Path | None) -> Dataset:
        """See `backcast.data.fashion_mnist`."""
        return data.fashion_mnist(root)


@final
class Digits(DataSource):
    """The small digits that come with the package."""

    kind: Literal["digits"] = "digits"
    test: Amount | None = 0.2

    def dataset(self, root: Path | None) -> Dataset:
        """See `backcast.data.digits`."""
        return data.digits()


@final
class Idx(DataSource):
    """Images in the four files that MNIST has."""

    kind: Literal["idx"] = "idx"
    folder: Text
    prefix: str = ""

    def dataset(self, root: Path | None) -> Dataset:
        """See `backcast.data.idx`."""
        return data.idx(self.folder, prefix=self.prefix, root=root)


@final
class Npz(DataSource):
    """Arrays of inputs and classes in one file."""

    kind: Literal["npz"] = "npz"
    path: Text
    scale: Positive | None = None

    def dataset(self, root: Path | None) -> Dataset:
        """See `backcast.data.npz`."""
        return data.npz(self.path, scale=self.scale, root=root)


@final
class Csv(DataSource):
    """A table of numbers with a column of classes."""

    kind: Literal["csv"] = "csv"
    path: Text
    label: Text
    inputs: tuple[Text, ...] | None = None

    def dataset(self, root: Path | None) -> Dataset:
        """See `backcast.data.csv_table`."""
        return data.csv_table(self.path, self.label, inputs=self.inputs, root=root)


@final
class Wilds(DataSource):
    """Histology patches in the layout of WILDS' camelyon17."""

    kind: Literal["wilds"] = "wilds"
    folder: Text = "camelyon17_v1.0"
    classes: tuple[Text, ...] = ("normal", "tumor")
    size: Count | None = None

    def dataset(self, root: Path | None) -> Dataset:
        """See `backcast.data.wilds`."""
        return data.wilds(self.folder, classes=self.classes, size=self.size, root=root)


@final
class Images(DataSource):
    """A folder of images and a table that says what they are."""

    kind: Literal["images"] = "images"
    folder: Text
    table: Text = "labels.csv"
    file: Text = "file"
    label: Text = "label"
    size: Count | None = None
    mode: Literal["RGB", "L"] = "RGB"

    def dataset(self, root: Path | None) -> Dataset:
        """See `backcast.data.image_table`."""
        return data.image_table(
            self.folder,
            table=self.table,
            file=self.file,
            label=self.label,
            size=self.size,
            mode=self.mode,
            root=root,
        )


_Any = Mnist | FashionMnist | Digits | Idx | Npz | Csv | Wilds | Images
DataSpec = Annotated[_Any, Field(discriminator="kind"), known_kind(_Any)]
