"""Which settings to choose, and by what."""

from typing import Annotated, Any, Literal, final

from pydantic import Field, model_validator

from backcast.experiments.fields import Count, Flag, Real, Table, Whole, known_kind
from backcast.experiments.variations import Seeds

Metric = Literal[
    "average_accuracy",
    "average_balanced_accuracy",
    "average_nll",
    "average_ece",
    "average_brier",
    "current_accuracy",
    "smoothed_accuracy",
    "smoothed_balanced_accuracy",
    "smoothed_nll",
    "smoothed_brier",
    "predictive_nll",
]


class Tuning(Table):
    """Any search.

    Attributes:
        metric: the final number to choose by, taken on the validation data.
        seeds: the seeds to average it over; that of the spec alone if absent.
    """

    metric: Metric = "average_accuracy"
    seeds: Seeds | None = None

    @property
    def maximises(self) -> bool:
        """Whether more of the metric is better."""
        return self.metric.endswith("accuracy")


@final
class GridTuning(Tuning):
    """Try all combinations.

    Attributes:
        fields: lists of values by field, such as ``"method.strength" = [1.0, 10.0]``.
    """

    kind: Literal["grid"] = "grid"
    fields: Annotated[dict[str, Any], Field(min_length=1)]


@final
class Between(Table):
    """Any number between two.

    Attributes:
        low: the smallest.
        high: the largest.
        log: whether to search evenly in its logarithm.
        whole: whether it is a whole number.
    """

    low: Real
    high: Real
    log: Flag = False
    whole: Flag = False

    @model_validator(mode="after")
    def _in_order(self) -> "Between":
        if self.low >= self.high or (self.log and self.low <= 0):
            raise ValueError("give a low below high, and above 0 if the search is in logarithms")
        if self.whole and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError("the bounds of whole numbers must be whole")
        return self


@final
class OptunaTuning(Tuning):
    """Let optuna propose what to try next (its tree-structured Parzen estimator).

    Attributes:
        fields: for each field, a range (``{ low = 1.0, high = 1e5, log = true }``) or a list.
        trials: how many to try.
        batch: how many to try at a time; what is proposed depends on it.
        seed: what the proposals depend on.
    """

    kind: Literal["optuna"] = "optuna"
    fields: Annotated[dict[str, Between | tuple[Any, ...]], Field(min_length=1)]
    trials: Count = 20
    batch: Count = 4
    seed: Whole = 0


_Any = GridTuning | OptunaTuning
TuningSpec = Annotated[_Any, Field(discriminator="kind"), known_kind(_Any)]
