"""By which method the tasks are learned."""

from typing import Annotated, ClassVar, Literal, final

from pydantic import Field, model_validator

from backcast.experiments.fields import Count, NonNegative, Positive, Table, Text, Whole, known_kind


@final
class FineTuning(Table):
    """Plain fine-tuning: every task is learned without regard to those before it."""

    kind: Literal["none"] = "none"
    smooths: ClassVar[bool] = False
    believes: ClassVar[bool] = False


@final
class Joint(Table):
    """All tasks are learned at once, from all of their data: the upper bound."""

    kind: Literal["joint"] = "joint"
    smooths: ClassVar[bool] = False
    believes: ClassVar[bool] = False


@final
class DriftSpec(Table):
    """How far some of the weights drift in a unit of time; see `backcast.Noise`.

    Attributes:
        weights: a glob pattern for their names; where several match, the last one counts.
        variance: the variance of their drift.
        relative: or its ratio to the mean square of the layer's weights.
    """

    weights: Text = "*"
    variance: NonNegative | None = None
    relative: NonNegative | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "DriftSpec":
        if (self.variance is None) == (self.relative is None):
            raise ValueError("give either a variance or a relative size of the drift")
        return self


@final
class LearnedNoiseSpec(Table):
    """How far weights drift is learned, one variance for each layer; see `backcast.LearnedNoise`.

    Attributes:
        learn: the variance to start from.
    """

    learn: Positive


NoiseSpec = NonNegative | LearnedNoiseSpec | Annotated[tuple[DriftSpec, ...], Field(min_length=1)]


@final
class CurvatureSpec(Table):
    """How a task's curvature is computed; see `backcast.CurvatureSettings`.

    Attributes:
        examples: how many of the task's examples to use, or ``"all"``.
        batch_size: how many are looked at together.
        fisher: which matrix.
        diagonal: how the diagonal that the rows leave over is had, or that it is left out.
        rank: how many rows the curvature has; as many as the belief if absent.
    """

    examples: Count | Literal["all"] = 1024
    batch_size: Count = 128
    fisher: Literal["exact", "sampled", "empirical"] = "exact"
    diagonal: Literal["exact", "sampled", "none"] = "exact"
    rank: Whole | None = None


@final
class LowRank(Table):
    """Filtering and smoothing with a diagonal-plus-low-rank precision; see `backcast.Learner`.

    Attributes:
        rank: how many rows the precision keeps; 0 is elastic weight consolidation.
        strength: ``lambda``, what a task's curvature is multiplied by.
        prior: the precision of the belief before the first task (the paper's initial lambda).
        scale: the units of the precision: ``"mean"`` are the paper's.
        remainder: what becomes of the curvature that the rank has no room for.
        noise: how far weights drift: one variance for all, levels for some of them, or learned.
        curvature: how a task's curvature is computed.
    """

    kind: Literal["low-rank"] = "low-rank"
    smooths: ClassVar[bool] = True
    believes: ClassVar[bool] = True
    rank: Whole = 10
    strength: NonNegative = 1.0
    prior: Positive = 1.0
    scale: Literal["examples", "mean"] = "examples"
    remainder: Literal["diagonal", "drop"] = "diagonal"
    noise: NoiseSpec = 0.0
    curvature: CurvatureSpec = CurvatureSpec()


@final
class FisherSpec(Table):
    """How a Fisher matrix is computed, of which one only keeps the diagonal or Kronecker factors.

    Attributes:
        examples: how many of the task's examples to use, or ``"all"``.
        batch_size: how many are looked at together.
        fisher: ``"exact"`` over the model's own predictions, ``"sampled"`` from them, or
            ``"empirical"``: squared gradients at the given targets, example by example.
    """

    examples: Count | Literal["all"] = 1024
    batch_size: Count = 128
    fisher: Literal["exact", "sampled", "empirical"] = "exact"


class Penalised(Table):
    """Any method whose tasks leave a penalty behind.

    Attributes:
        strength: ``lambda``, what a task's curvature or importances are multiplied by.
        prior: the precision of the belief before the first task.
        scale: the units of the precision: ``"mean"`` are the paper's.
    """

    smooths: ClassVar[bool] = False
    believes: ClassVar[bool] = True
    strength: NonNegative = 1.0
    prior: Positive = 1.0
    scale: Literal["examples", "mean"] = "examples"


@final
class Ewc(Penalised):
    """Elastic weight consolidation (Kirkpatrick et al. 2017): a diagonal.

    Attributes:
        penalties: ``"per-task"``: each past task has one, centred at its own mode, as in the paper;
            ``"one"``: there is one, centred at the last mode (online EWC).
        curvature: how the Fisher matrix is computed.
    """

    kind: Literal["ewc"] = "ewc"
    penalties: Literal["per-task", "one"] = "per-task"
    curvature: FisherSpec = FisherSpec()


@final
class Kronecker(Penalised):
    """Kronecker factors in each layer: OSLA (Ritter et al. 2018).

    Attributes:
        products: how many each layer keeps. With 1 the factors of the tasks are added up, as in
            OSLA; with as many as there are tasks the sum of their products is exact.
        curvature: how the factors are computed.
    """

    kind: Literal["kronecker"] = "kronecker"
    products: Count = 1
    curvature: FisherSpec = FisherSpec()


@final
class Rotated(Penalised):
    """Filtering and smoothing with a diagonal in each layer's eigenbases; see `backcast.Rotated`.

    Attributes:
        rank: how many directions are kept on each side of a layer; all of them if absent.
        noise: how far weights drift: one variance for all, levels, one for each layer, or learned.
        curvature: over what it is taken.
    """

    kind: Literal["rotated"] = "rotated"
    smooths: ClassVar[bool] = True
    rank: Whole | None = None
    noise: NoiseSpec = 0.0
    curvature: FisherSpec = FisherSpec()


@final
class L2(Penalised):
    """Each task holds all weights where they are, all alike: its curvature is the identity."""

    kind: Literal["l2"] = "l2"


@final
class SynapticIntelligence(Penalised):
    """Synaptic intelligence (Zenke et al. 2017): a diagonal from the path of training.

    Attributes:
        damping: ``xi``, which keeps parameters that hardly move from counting without bound.
    """

    kind: Literal["si"] = "si"
    damping: Positive = 1e-3


_Any = FineTuning | Joint | L2 | SynapticIntelligence | Ewc | Kronecker | Rotated | LowRank
MethodSpec = Annotated[_Any, Field(discriminator="kind"), known_kind(_Any)]
