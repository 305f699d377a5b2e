"""How a task's curvature is computed: plain data."""

from dataclasses import dataclass
from typing import Any, Literal, final

from backcast.linalg import checks


@final
@dataclass(frozen=True)
class CurvatureSettings:
    """How a task's curvature is computed; see `backcast.model.ggn`.

    Attributes:
        examples: how many of the task's examples to use, chosen at random; None for all of them.
        batch_size: how many are looked at together; batches of a stream are taken as they come.
        fisher: which matrix: the generalised Gauss-Newton matrix, which is the exact Fisher matrix
            of every likelihood here, or its estimate from sampled or from the given targets.
        diagonal: how the diagonal that the rows leave over is had, or that it is left out.
        rank: how many rows the curvature has; as many as the belief if None.
    """

    examples: int | None = 1024
    batch_size: int = 128
    fisher: Literal["exact", "sampled", "empirical"] = "exact"
    diagonal: Literal["exact", "sampled", "none"] = "exact"
    rank: int | None = None

    def __post_init__(self):
        """Refuse what no curvature can be computed with."""
        for name in ("examples", "batch_size"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value < 1):
                raise ValueError(f"curvature: {name} must be >= 1, but {value!r} was given.")
        one_of("fisher", self.fisher, ("exact", "sampled", "empirical"))
        one_of("diagonal", self.diagonal, ("exact", "sampled", "none"))
        if self.rank is not None:
            checks.count(self.rank, "curvature: the rank")


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is not among those allowed."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, but {value!r} was given.")
