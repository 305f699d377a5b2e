"""Whether one kind of model is better than another: differences seed by seed, and a paired test."""

import itertools
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from backcast.experiments.results import Spread


@final
@dataclass(frozen=True)
class Gain:
    """What one kind of model is better by than another on the same tasks, seed by seed.

    Attributes:
        after: the mean accuracy of the one.
        before: that of the other.
        difference: of the two, over the seeds.
        wins: in how many seeds it is positive.
        p: how probable a mean difference this far from 0, to either side, would be if the two were
            alike: the share of the patterns of signs of the differences that give one (exact
            paired permutation test).
    """

    after: float
    before: float
    difference: Spread
    wins: int
    p: float

    @classmethod
    def of(cls, after: Float[np.ndarray, "S T"], before: Float[np.ndarray, "S T"]) -> "Gain":
        """The gain in the mean over the tasks."""
        by_seed = (after - before).mean(axis=1)
        spread = Spread.of(by_seed)
        if spread is None:
            raise ValueError("There is nothing to compare: no run was finished.")
        return cls(
            float(after.mean()),
            float(before.mean()),
            spread,
            int((by_seed > 0).sum()),
            permutation_test(by_seed),
        )


def permutation_test(differences: Float[np.ndarray, " S"]) -> float:
    """The share of all patterns of signs that give a mean at least this far from 0."""
    signs = np.array(list(itertools.product((1, -1), repeat=len(differences))))
    means = np.abs(signs @ differences)
    # Rounding must not tell apart what is equal.
    return float(np.mean(means >= means[0] * (1 - 1e-9)))
