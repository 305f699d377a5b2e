"""Sequences of linear-Gaussian tasks, filtered by Backcast and by the dense oracle."""

from dataclasses import dataclass

import numpy as np

import oracles
from backcast.inference import Belief, Step, predict, update
from backcast.linalg import DiagLowRank
from linalg.precisions import flatten, jitted, size, unflatten


@dataclass(frozen=True)
class Story:
    """Tasks ``y = H theta + N(0, 1)``, the drifts that lead to them, and the prior."""

    space: object
    prior: oracles.Gaussian
    tasks: list
    qs: list

    @classmethod
    def drawn(cls, rng, space, length: int, noise: float = 1.0, examples: int = 3):
        """Irregular times; a third of the drifts are zero, and so is the first."""
        D = size(space)
        prior = oracles.Gaussian(rng.standard_normal(D), np.diag(rng.uniform(0.5, 2, D)))
        tasks = [
            (rng.standard_normal((examples, D)), np.eye(examples), rng.standard_normal(examples))
            for _ in range(length)
        ]
        level = noise * rng.uniform(0.1, 1, D) * (rng.random(D) > 1 / 3)
        qs = [level * dt for dt in (0, *rng.uniform(0.1, 3, length - 1))]
        return cls(space, prior, tasks, qs)

    def dense(self):
        """Predicted and filtered beliefs of the oracle."""
        return oracles.kalman_filter(self.prior, self.tasks, self.qs)

    def steps(self, dtype, rank: int | None = None) -> list[Step]:
        """What Backcast's filter leaves behind; with ``rank`` rows, it compiles for one shape.

        As many rows as parameters truncate nothing.
        """
        tree = lambda values: unflatten(self.space, np.asarray(values, dtype))  # noqa: E731
        diag = 1 / np.diag(self.prior.covariance)
        none = np.zeros((rank or 0, diag.size))
        belief = Belief(tree(self.prior.mean), DiagLowRank(tree(diag), tree(none)))
        steps = []
        for (H, _, y), q in zip(self.tasks, self.qs, strict=True):
            q = tree(q)
            predicted = predict(belief, q)
            P = np.asarray(jitted(DiagLowRank.as_dense)(predicted.precision), float)
            m = flatten(predicted.mean)
            mode = np.linalg.solve(P + H.T @ H, P @ m + H.T @ y)
            curvature = DiagLowRank(tree(np.zeros_like(m)), tree(H))
            updated = update(predicted, tree(mode), curvature, rank=rank)
            steps.append(Step(predicted, updated.belief, updated.curvature, q))
            belief = updated.belief
        return steps


def error(belief: Belief, truth: oracles.Gaussian) -> float:
    """The largest error of mean and precision: in standard deviations, and in their units."""
    P = np.linalg.inv(truth.covariance)
    deviation = np.sqrt(np.diag(truth.covariance))
    mean = np.abs(flatten(belief.mean) - truth.mean) / (deviation + np.abs(truth.mean))
    unit = np.sqrt(np.diag(P))
    got = np.asarray(jitted(DiagLowRank.as_dense)(belief.precision), float)
    matrix = np.abs(got - P) / np.outer(unit, unit)
    return float(max(mean.max(), matrix.max()))
