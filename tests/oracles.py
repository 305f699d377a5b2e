"""Dense truth: matrices and loops as in a textbook, in numpy, with nothing of Backcast in them.

Two forms of it. The float64 functions are the Kalman filter and smoother in covariance form as in
Sarkka (Bayesian Filtering and Smoothing, algorithms 4.2 and 8.2). For matrices whose entries
differ by many orders of magnitude float64 is no truth, so `Exact` computes with 120 digits.
"""

from dataclasses import dataclass

import mpmath
import numpy as np

DIGITS = 120


@dataclass(frozen=True)
class Gaussian:
    """A mean and a covariance."""

    mean: np.ndarray
    covariance: np.ndarray


def predict(belief: Gaussian, q: np.ndarray) -> Gaussian:
    """Add the covariance of the drift (Sarkka, eq. 4.20)."""
    return Gaussian(belief.mean, belief.covariance + np.diag(q))


def update(belief: Gaussian, H: np.ndarray, R: np.ndarray, y: np.ndarray) -> Gaussian:
    """Condition on ``y = H theta + N(0, R)`` (Sarkka, eq. 4.21)."""
    S = H @ belief.covariance @ H.T + R
    K = np.linalg.solve(S, H @ belief.covariance).T
    mean = belief.mean + K @ (y - H @ belief.mean)
    return Gaussian(mean, belief.covariance - K @ S @ K.T)


def kalman_filter(
    prior: Gaussian, tasks: list[tuple[np.ndarray, np.ndarray, np.ndarray]], qs: list[np.ndarray]
) -> tuple[list[Gaussian], list[Gaussian]]:
    """Predicted and filtered beliefs for linear-Gaussian tasks ``(H, R, y)``."""
    predicted, filtered, belief = [], [], prior
    for (H, R, y), q in zip(tasks, qs, strict=True):
        predicted.append(predict(belief, q))
        belief = update(predicted[-1], H, R, y)
        filtered.append(belief)
    return predicted, filtered


def smoother_gain(filtered: Gaussian, predicted: Gaussian) -> np.ndarray:
    """``G_t = C_t (C_{t+1}^-)^-1``."""
    return np.linalg.solve(predicted.covariance, filtered.covariance).T


def rts_smoother(predicted: list[Gaussian], filtered: list[Gaussian]) -> list[Gaussian]:
    """Rauch-Tung-Striebel in covariance form (Sarkka, eq. 8.6)."""
    smoothed = [filtered[-1]]
    for now, ahead in zip(filtered[-2::-1], predicted[:0:-1], strict=True):
        G = smoother_gain(now, ahead)
        later = smoothed[-1]
        smoothed.append(
            Gaussian(
                now.mean + G @ (later.mean - ahead.mean),
                now.covariance + G @ (later.covariance - ahead.covariance) @ G.T,
            )
        )
    return smoothed[::-1]


def joseph_smoother(
    predicted: list[Gaussian], filtered: list[Gaussian], qs: list[np.ndarray]
) -> list[Gaussian]:
    """The same smoother, its covariance in Joseph form: ``(I-G) C (I-G)^T + G (C^s + Q) G^T``.

    The sign before ``Q`` is a plus, unlike in the paper's appendix.
    """
    smoothed = [filtered[-1]]
    for now, ahead, q in zip(filtered[-2::-1], predicted[:0:-1], qs[:0:-1], strict=True):
        G = smoother_gain(now, ahead)
        later, rest = smoothed[-1], np.eye(len(q)) - G
        smoothed.append(
            Gaussian(
                now.mean + G @ (later.mean - ahead.mean),
                rest @ now.covariance @ rest.T + G @ (later.covariance + np.diag(q)) @ G.T,
            )
        )
    return smoothed[::-1]


def drifts(
    predicted: list[Gaussian], filtered: list[Gaussian], smoothed: list[Gaussian]
) -> list[Gaussian]:
    """What all data say of ``theta_{t+1} - theta_t``, with the lag-one covariance ``G C^s``."""
    found = []
    for now, ahead, here, later in zip(
        filtered[:-1], predicted[1:], smoothed[:-1], smoothed[1:], strict=True
    ):
        cross = smoother_gain(now, ahead) @ later.covariance
        covariance = here.covariance + later.covariance - cross - cross.T
        found.append(Gaussian(later.mean - here.mean, covariance))
    return found


def log_evidence(
    predicted: list[Gaussian], tasks: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> float:
    """``sum_t log N(y_t; H m_t^-, H C_t^- H^T + R)`` (Sarkka, eq. 12.11)."""
    total = 0.0
    for belief, (H, R, y) in zip(predicted, tasks, strict=True):
        S, v = H @ belief.covariance @ H.T + R, y - H @ belief.mean
        total -= (v @ np.linalg.solve(S, v) + np.linalg.slogdet(2 * np.pi * S)[1]) / 2
    return total


def batch_posterior(
    prior: Gaussian, tasks: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> Gaussian:
    """The posterior given all tasks at once, in information form: for weights that do not drift."""
    P = np.linalg.inv(prior.covariance)
    b = P @ prior.mean
    for H, R, y in tasks:
        P = P + H.T @ np.linalg.solve(R, H)
        b = b + H.T @ np.linalg.solve(R, y)
    return Gaussian(np.linalg.solve(P, b), np.linalg.inv(P))


class Exact:
    """The operations on a precision ``P``, in 120 digits, returned rounded to float64."""

    def __init__(self, matrix: mpmath.matrix, floor: np.ndarray):
        """Take ``P``, and the diagonal of a matrix that it is known to exceed."""
        self.matrix, self.floor = matrix, floor

    @classmethod
    def diag_low_rank(cls, d: np.ndarray, W: np.ndarray) -> "Exact":
        """``diag(d) + W^T W``, for a ``k x D`` matrix ``W``."""
        with mpmath.workdps(DIGITS):
            rows = mpmath.matrix(W.tolist()) if len(W) else mpmath.matrix(1, len(d))
            return cls(mpmath.diag(d.tolist()) + rows.T * rows, np.asarray(d, float))

    def plus(self, other: "Exact") -> "Exact":
        with mpmath.workdps(DIGITS):
            return Exact(self.matrix + other.matrix, self.floor + other.floor)

    def dense(self) -> np.ndarray:
        return _rounded(self.matrix)

    def mv(self, x: np.ndarray) -> np.ndarray:
        with mpmath.workdps(DIGITS):
            return _rounded(self.matrix * mpmath.matrix(x.tolist()))[:, 0]

    def quad(self, x: np.ndarray) -> float:
        with mpmath.workdps(DIGITS):
            x = mpmath.matrix(x.tolist())
            return float((x.T * self.matrix * x)[0])

    def drift(self, q: np.ndarray) -> np.ndarray:
        """``P (I + Q P)^-1``, which is ``(P^-1 + Q)^-1`` and holds for singular ``P`` too."""
        with mpmath.workdps(DIGITS):
            return _rounded(self.matrix * mpmath.inverse(self._grown(q)))

    def gain(self, q: np.ndarray, x: np.ndarray) -> np.ndarray:
        with mpmath.workdps(DIGITS):
            return _rounded(mpmath.lu_solve(self._grown(q), mpmath.matrix(x.tolist())))[:, 0]

    def solve(self, y: np.ndarray) -> np.ndarray:
        with mpmath.workdps(DIGITS):
            return _rounded(mpmath.lu_solve(self.matrix, mpmath.matrix(y.tolist())))[:, 0]

    def inverse(self) -> np.ndarray:
        with mpmath.workdps(DIGITS):
            return _rounded(mpmath.inverse(self.matrix))

    def logdet(self) -> float:
        with mpmath.workdps(DIGITS):
            return float(mpmath.log(mpmath.det(self.matrix)))

    def _grown(self, q: np.ndarray) -> mpmath.matrix:
        return mpmath.eye(len(q)) + mpmath.diag(q.tolist()) * self.matrix


def _rounded(matrix: mpmath.matrix) -> np.ndarray:
    return np.array(matrix.tolist(), dtype=float)
