"""Many specs from one: cases, the values of a grid, and seeds."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, final

from pydantic import Field

from backcast.experiments.errors import SpecError
from backcast.experiments.fields import Count, Table, Whole
from backcast.experiments.spec import Spec

Seeds = Count | Annotated[tuple[Whole, ...], Field(min_length=1)]
"""So many seeds, from 0; or a list of them."""


@final
class SweepSpec(Table):
    """Which variations of a spec to run: every case, with every point of the grid and every seed.

    Attributes:
        seeds: the seeds; that of the spec alone if absent.
        grid: lists of values by field, such as ``"method.rank" = [5, 10]``.
        cases: changes of the spec that go together, such as a method with all its settings.
    """

    seeds: Seeds | None = None
    grid: dict[str, Any] = Field(default_factory=dict)
    cases: tuple[dict[str, Any], ...] = ()

    def specs(self, base: Spec) -> list[Spec]:
        """The variations of a spec, each once.

        Raises:
            SpecError: one of them is no spec.
        """
        grid = list(points(lists(self.grid, "sweep.grid")))
        changes = [(case, point) for case in self.cases or ({},) for point in grid]
        return seeded([_varied(base, *change) for change in changes], self.seeds)


def seeded(specs: Iterable[Spec], seeds: int | tuple[int, ...] | None) -> list[Spec]:
    """Each spec with each seed, without repetitions."""
    numbers = range(seeds) if isinstance(seeds, int) else seeds
    found = [
        spec if seed is None else spec.changed({"seed": seed})
        for spec in specs
        for seed in (numbers or [None])
    ]
    return list({spec.folder: spec for spec in found}.values())


def points(values: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """All combinations of one value for each field."""
    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def lists(table: Mapping[str, Any], path: str) -> dict[str, list[Any]]:
    """Lists of values by dotted fields, from tables within tables or dotted names or both."""
    found = {}
    for name, values in flat(table).items():
        if not isinstance(values, list | tuple) or not values:
            raise SpecError(
                f"{path}.{name}: give a list of values to try, as in {name} = [1, 2]; "
                f"{values!r} was given."
            )
        found[name] = list(values)
    return found


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"a": {"b": 1}}`` as ``{"a.b": 1}``."""
    found = {}
    for name, value in table.items():
        inner = flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else None
        found.update({f"{prefix}{name}": value} if inner is None else inner)
    return found


def _varied(base: Spec, case: dict[str, Any], point: dict[str, Any]) -> Spec:
    try:
        return base.changed(case).changed(point)
    except SpecError as error:
        raise SpecError(f"The variation {case | point} is no spec. {error}") from None
