"""Which examples are for learning, which for choosing and which for reporting."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Bool, Integer, Shaped

from backcast.data import DataError, Dataset
from backcast.tasks import chance

Rows = Integer[np.ndarray, " _"]


@final
@dataclass(frozen=True, eq=False)
class Partition:
    """Rows of a data set for training, for validation and for testing; no row is in two of them.

    Attributes:
        dataset: what the rows are of.
        train: rows to learn from.
        validation: rows to choose settings by.
        test: rows to report on.
    """

    dataset: Dataset
    train: Rows
    validation: Rows
    test: Rows

    def __post_init__(self):
        _refuse_shared_rows(self.dataset, self.parts)

    @property
    def parts(self) -> Mapping[str, np.ndarray]:
        """The three parts by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def limit(
        self,
        train: int | None = None,
        validation: int | None = None,
        test: int | None = None,
        seed: int = 0,
    ) -> "Partition":
        """Fewer examples, drawn with the classes in proportion; None leaves a part whole."""
        asked = {"train": train, "validation": validation, "test": test}
        return replace(
            self,
            **{
                name: self.spread(name, seed)[: at_most(count, len(self.parts[name]), name)]
                for name, count in asked.items()
                if count is not None
            },
        )

    def balanced(self, *parts: str, seed: int = 0) -> "Partition":
        """As many examples of every class as of the rarest, in all parts or in those named.

        The surplus of the others is left out, at random. Plain accuracy is then the balanced one.
        """
        if not self.dataset.classes:
            raise DataError(f"{self.dataset.name} has numbers to predict, and no classes.")
        if unknown := [part for part in parts if part not in self.parts]:
            raise DataError(f"There is no part '{unknown[0]}', but {', '.join(self.parts)}.")
        even = {}
        for part in parts or self.parts:
            rows = self.spread(part, seed, "balance")
            labels = self.dataset.y[rows]
            classes, counts = np.unique(labels, return_counts=True)
            chosen = [rows[labels == c][: counts.min()] for c in classes]
            even[part] = np.sort(np.concatenate([rows[:0], *chosen]))
        return replace(self, **even)

    def spread(self, part: str, seed: int, *purpose: str | int) -> np.ndarray:
        """The rows of a part in random order, the classes in proportion all along it."""
        rows = self.parts[part]
        return chance.spread(rows, strata(self.dataset, rows), seed, part, *purpose)

    def keep(self, rows: Bool[np.ndarray, " n"]) -> "Partition":
        """Only the rows marked true."""
        return replace(self, **{name: part[rows[part]] for name, part in self.parts.items()})


def holdout(
    dataset: Dataset,
    validation: float | int = 0.1,
    test: float | int | Rows | None = None,
    groups: str | None = None,
    within: str | None = None,
    seed: int = 0,
) -> Partition:
    """Set validation and test examples apart, at random, with the classes in proportion.

    Validation data are held out of what is left after the test data: the paper's authors draw them
    from the test set, and so choose by what they report.

    Args:
        dataset: what to divide.
        validation: a share of all examples (0.1), or a number of them (2000).
        test: likewise, or the rows themselves. None takes those that were published as the test
            set (column ``split`` says ``test``).
        groups: a column (patient, slide) whose values must not be divided: examples of one group
            look alike. A share is then met as nearly as whole groups allow; a number is met
            exactly, and what else is in its groups is left out.
        within: a column (centre, year) whose values all parts should have in proportion too.
        seed: what the draw depends on.
    """
    everything = np.arange(len(dataset))
    if test is None:
        test = _published(dataset)
    if isinstance(test, np.ndarray):
        if not len(test) or len(np.intersect1d(test, everything)) != len(test):
            raise DataError(
                f"Test rows are different numbers from 0 to {len(dataset) - 1}, at least one, but "
                f"{test} was given."
            )
        rest = np.setdiff1d(everything, test)
        _refuse_divided(dataset, test, rest, groups)
        rows = {"test": test}
    else:
        rest, rows = everything, {}
        rest, rows["test"] = _set_apart(dataset, rest, test, "test", groups, within, seed)
    rest, rows["validation"] = _set_apart(
        dataset, rest, validation, "validation", groups, within, seed
    )
    if not len(rest):
        raise DataError(
            f"{dataset.name}: nothing is left to train on; ask for less validation and test data."
        )
    partition = Partition(dataset, rest, rows["validation"], rows["test"])
    warn_missing(partition, dataset.name)
    return partition


def strata(dataset: Dataset, rows: Rows) -> Shaped[np.ndarray, " m"] | None:
    """What to keep in proportion: the classes, where there are any."""
    return dataset.y[rows] if dataset.classes else None


def at_most(count: int, available: int, what: str) -> int:
    """Refuse a number of examples that is not positive or not there."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise DataError(f"A number of {what} examples is at least 1, but {count!r} was given.")
    if count > available:
        raise DataError(
            f"{count:,} {what} examples were asked for and there are {available:,}: ask for fewer."
        )
    return count


def warn_missing(partition: Partition, name: str) -> None:
    """Say which classes a part lacks that the whole has."""
    classes = partition.dataset.classes
    if not classes:
        return
    present = np.unique(np.concatenate(list(partition.parts.values())))
    expected = np.unique(partition.dataset.y[present])
    for part, rows in partition.parts.items():
        missing = np.setdiff1d(expected, partition.dataset.y[rows])
        if len(rows) and len(missing):
            listed = ", ".join(f"'{classes[c]}'" for c in missing)
            warnings.warn(
                f"{name}: no {part} example is of class {listed}. Ask for more examples, or "
                "read the results with that in mind.",
                UserWarning,
                stacklevel=3,
            )


def _refuse_shared_rows(dataset: Dataset, parts: Mapping[str, np.ndarray]) -> None:
    owner = np.full(len(dataset), "", "U10")
    for part, rows in parts.items():
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(dataset):
            raise DataError(
                f"Rows of {dataset.name} are numbers from 0 to {len(dataset) - 1}, but the {part} "
                f"rows given go from {rows.min()} to {rows.max()}."
            )
        taken = rows[owner[rows] != ""]
        if len(taken):
            raise DataError(
                f"{len(taken):,} rows of {dataset.name} (the first is {taken[0]}) are both "
                f"{owner[taken[0]]} and {part} rows; each may be in one part."
            )
        owner[rows] = part


def _published(dataset: Dataset) -> np.ndarray:
    rows = dataset.where(split="test") if "split" in dataset.columns else np.array([], int)
    if not len(rows):
        raise DataError(
            f"{dataset.name} has no published test set; say how much to hold out, as in test=0.2."
        )
    return rows


def _refuse_divided(
    dataset: Dataset, test: np.ndarray, rest: np.ndarray, groups: str | None
) -> None:
    if groups is None:
        return
    values = dataset.column(groups)
    both = np.intersect1d(values[test], values[rest])
    if len(both):
        raise DataError(
            f"{dataset.name}: {len(both)} values of '{groups}' (the first is {both[0]}) are in the "
            "test rows given and outside of them. Give whole groups, or let test=0.2 choose them."
        )


def _set_apart(
    dataset: Dataset,
    rows: np.ndarray,
    amount: float | int,
    part: str,
    groups: str | None,
    within: str | None,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The rows that stay, and those set apart."""
    exact = isinstance(amount, int)
    if not exact and not 0 <= amount < 1:
        raise DataError(f"A share of {part} data lies between 0 and 1, but {amount} was given.")
    if amount == 0 and part == "validation":
        return rows, rows[:0]
    wanted = amount if exact else max(round(amount * len(dataset)), math.ceil(amount))
    at_most(wanted, len(rows) - 1, part)
    labels = _joint_strata(dataset, rows, within)
    if groups is None:
        order = chance.spread(rows, labels, seed, "holdout", part)
        return np.sort(order[wanted:]), np.sort(order[:wanted])
    values, member, sizes = np.unique(
        dataset.column(groups)[rows], return_inverse=True, return_counts=True
    )
    order = _spread_groups(member, sizes, labels, seed, part)
    picked = _enough(sizes, order, wanted) if exact else _nearest(sizes, order, wanted)
    if len(picked) == len(values):
        raise DataError(
            f"{dataset.name}: {wanted:,} {part} examples in whole groups of '{groups}' would take "
            f"all {len(values)} that are left; ask for less."
        )
    chosen = np.isin(member, picked)
    taken = rows[chosen]
    if exact:
        strat = None if labels is None else labels[chosen]
        taken = np.sort(chance.spread(taken, strat, seed, "surplus", part)[:wanted])
    return rows[~chosen], taken


def _enough(sizes: np.ndarray, order: np.ndarray, wanted: int) -> np.ndarray:
    """The first groups that hold so many rows."""
    return order[: int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1]


def _nearest(sizes: np.ndarray, order: np.ndarray, wanted: int) -> np.ndarray:
    """Groups, each of which brings their rows nearer to so many; the smallest if none does."""
    picked, total = [], 0
    for group in order:
        if total + sizes[group] / 2 < wanted:
            picked.append(group)
            total += sizes[group]
    return np.array(picked or [sizes.argmin()])


def _joint_strata(dataset: Dataset, rows: np.ndarray, within: str | None) -> np.ndarray | None:
    labels = strata(dataset, rows)
    if within is None:
        return labels
    _, values = np.unique(dataset.column(within)[rows], return_inverse=True)
    return values if labels is None else values * len(dataset.classes) + labels


def _spread_groups(
    member: np.ndarray, sizes: np.ndarray, labels: np.ndarray | None, seed: int, part: str
) -> np.ndarray:
    """Groups in random order, the strata in proportion all along it.

    A group belongs to the stratum of most of its rows, and stands where the middle of its rows does
    among the rows of the stratum.
    """
    order = chance.permutation(len(sizes), seed, "groups", part)
    if labels is None:
        return order
    kinds, kind = np.unique(labels, return_inverse=True)
    votes = np.zeros((len(sizes), len(kinds)), int)
    np.add.at(votes, (member, kind), 1)
    stratum = votes.argmax(axis=1)
    position = np.empty(len(sizes))
    for s in np.unique(stratum):
        members = order[stratum[order] == s]
        ends = np.cumsum(sizes[members])
        position[members] = (ends - sizes[members] / 2) / ends[-1]
    return order[np.argsort(position[order], kind="stable")]
