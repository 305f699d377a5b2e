"""One labelled set, whatever it was read from."""

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int, Integer, Shaped

from backcast.data.errors import DataError

_FINGERPRINTED = 2**26  # bytes


@final
@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples as they are stored: nothing is scaled or copied until it is asked for.

    Attributes:
        name: what to call the set in tables and messages.
        x: inputs, (n, ...); may be memory-mapped, and larger than memory.
        y: for each input its class ``0 ... C-1``, or a number to be predicted.
        classes: the names of the classes; empty where ``y`` are numbers.
        columns: what else is known of each example (patient, slide, centre, year), by name.
        scale: the value of ``x`` that stands for 1: 255 for ordinary images.
    """

    name: str
    x: Shaped[np.ndarray, "n ..."]
    y: Shaped[np.ndarray, " _"]
    classes: tuple[str, ...] = ()
    columns: Mapping[str, Shaped[np.ndarray, " _"]] = field(default_factory=dict)
    scale: float = 1.0

    def __post_init__(self):
        if len(self.x) != len(self.y):
            raise DataError(
                f"{self.name}: there are {len(self.x):,} inputs and {len(self.y):,} labels; each "
                "input needs one. Were the two files made together?"
            )
        if len(self.y) == 0:
            raise DataError(f"{self.name} holds no examples.")
        if self.x.dtype.kind not in "uif":
            raise DataError(f"{self.name}: inputs are {self.x.dtype}; they must be real numbers.")
        for name, values in self.columns.items():
            if len(values) != len(self.y):
                raise DataError(
                    f"{self.name}: column '{name}' has {len(values):,} entries for "
                    f"{len(self.y):,} examples."
                )
        if self.classes:
            _check_classes(self.name, self.y, len(self.classes))
        elif self.y.dtype.kind not in "uif" or not np.isfinite(self.y).all():
            raise DataError(f"{self.name}: without classes, all labels must be finite numbers.")

    def __len__(self) -> int:
        return len(self.y)

    def inputs(self, rows: Integer[np.ndarray, " m"]) -> Float[np.ndarray, "m ..."]:
        """Inputs of these rows as float32, divided by ``scale``: pixels lie in [0, 1]."""
        values = self.x[rows].astype(np.float32)
        return values if self.scale == 1 else np.divide(values, np.float32(self.scale), out=values)

    def targets(self, rows: Integer[np.ndarray, " m"]) -> Shaped[np.ndarray, " m"]:
        """Classes of these rows as int32, or their numbers as float32."""
        return self.y[rows].astype(np.int32 if self.classes else np.float32)

    def column(self, name: str) -> Shaped[np.ndarray, " n"]:
        """A column by name."""
        if name not in self.columns:
            known = ", ".join(sorted(self.columns)) or "none"
            raise DataError(f"{self.name} has no column '{name}'; its columns are: {known}.")
        return self.columns[name]

    def fingerprint(self) -> str:
        """A text that is another when labels, columns or inputs are.

        Of inputs that take more than 64 MB, it looks at as many as do, evenly spread.
        """
        digest = hashlib.sha256(repr((self.x.shape, self.x.dtype.str, self.classes)).encode())
        step = -(-self.x.nbytes // _FINGERPRINTED)
        for name, values in {"x": self.x[::step], "y": self.y, **self.columns}.items():
            digest.update(f"{name} {values.dtype.str}".encode())
            digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()[:32]

    def where(self, **values: object) -> Int[np.ndarray, " m"]:
        """The rows whose columns have these values: ``where(center=2, split="test")``."""
        found = np.ones(len(self), bool)
        for name, value in values.items():
            found &= _is(self.column(name), value)
        return np.flatnonzero(found)


def _is(column: np.ndarray, value: object) -> Bool[np.ndarray, " n"]:
    """Where a column has a value, which may be given as it stands in the file."""
    if column.dtype.kind == "M":
        with contextlib.suppress(ValueError):
            return column == np.datetime64(str(value))
    return column.astype(str) == str(value)


def _check_classes(name: str, y: np.ndarray, classes: int) -> None:
    if y.dtype.kind not in "ui":
        raise DataError(f"{name}: labels are {y.dtype}; classes are whole numbers.")
    lowest, highest = int(y.min()), int(y.max())
    if lowest < 0 or highest >= classes:
        raise DataError(
            f"{name}: labels go from {lowest} to {highest}, and {classes} classes are numbered "
            f"0 ... {classes - 1}."
        )
