"""Which network learns, and by which optimiser. What comes in and goes out is the data's affair."""

from typing import Annotated, Literal, final

from pydantic import Field, model_validator

from backcast.experiments.fields import (
    Count,
    Flag,
    Fraction,
    NonNegative,
    Positive,
    Table,
    known_kind,
)


@final
class MlpSpec(Table):
    """Dense layers with ReLU between.

    Attributes:
        hidden: the width of each hidden layer.
    """

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[Count, ...] = (400, 400)


@final
class CnnSpec(Table):
    """Blocks of 3 x 3 convolution, ReLU, batch normalisation and pooling, then dense layers.

    The values are those of the paper's network for histology.

    Attributes:
        channels: of each convolution.
        pools: the size of the max-pooling after each, which is also its stride; 1 for none.
        hidden: the width of each hidden dense layer.
        momentum: what the running statistics keep of their old value in each step.
    """

    kind: Literal["cnn"] = "cnn"
    channels: Annotated[tuple[Count, ...], Field(min_length=1)] = (32, 16, 4)
    pools: tuple[Count, ...] = (3, 4, 4)
    hidden: tuple[Count, ...] = (8,)
    momentum: Fraction = 0.9

    @model_validator(mode="after")
    def _one_pool_per_convolution(self) -> "CnnSpec":
        if len(self.channels) != len(self.pools):
            raise ValueError(
                f"there are {len(self.channels)} channels and {len(self.pools)} pools; give one "
                "of each for every block"
            )
        return self


_Network = MlpSpec | CnnSpec
NetworkSpec = Annotated[_Network, Field(discriminator="kind"), known_kind(_Network)]


@final
class AdamSpec(Table):
    """Adam."""

    kind: Literal["adam"] = "adam"
    b1: Fraction = 0.9
    b2: Fraction = 0.999


@final
class SgdSpec(Table):
    """Stochastic gradient descent.

    Attributes:
        momentum: what the velocity keeps in each step.
    """

    kind: Literal["sgd"] = "sgd"
    momentum: Fraction = 0.0


_Optimizer = AdamSpec | SgdSpec


@final
class TrainingSpec(Table):
    """How each task is trained on; see `backcast.Learner`.

    Attributes:
        epochs: how often to go through a task's examples, at most.
        batch_size: how many examples a step uses.
        learning_rate: of the optimiser.
        optimizer: which one.
        clip: the largest norm a gradient may have; longer ones are scaled down to it.
        weight_decay: ``w`` of ``w/2 |theta|^2``, whose gradient is added before the optimiser.
        patience: stop a task when its validation loss has not fallen for so many epochs.
        restart: whether each task starts with a fresh state of the optimiser.
        class_weights: ``"balanced"`` lets every class count alike, however rare it is.
    """

    epochs: Count = 10
    batch_size: Count = 128
    learning_rate: Positive = 1e-3
    optimizer: Annotated[_Optimizer, Field(discriminator="kind"), known_kind(_Optimizer)] = (
        AdamSpec()
    )
    clip: Positive | None = None
    weight_decay: NonNegative = 0.0
    patience: Count | None = None
    restart: Flag = True
    class_weights: Literal["equal", "balanced"] = "equal"
