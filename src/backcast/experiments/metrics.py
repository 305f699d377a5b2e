"""How good predicted probabilities are, on one set of examples."""

import numpy as np
from jaxtyping import Float, Int

Logits = Float[np.ndarray, "n C"]
LogP = Float[np.ndarray, "n C"]
Classes = Int[np.ndarray, " n"]

_BINS = 15  # of the confidence, as is usual for the calibration error


def classification(logits: Logits, y: Classes) -> dict[str, float]:
    """All metrics of a classifier's outputs, by name.

    ``accuracy`` and ``balanced_accuracy`` are better when higher; ``nll``, ``ece`` and ``brier``
    when lower.
    """
    log_p = log_softmax(logits)
    return {
        "accuracy": accuracy(log_p, y),
        "balanced_accuracy": balanced_accuracy(log_p, y),
        "nll": negative_log_likelihood(log_p, y),
        "ece": calibration_error(log_p, y),
        "brier": brier_score(log_p, y),
    }


def log_softmax(logits: Logits) -> LogP:
    """The logarithms of the probabilities, in float64: none is minus infinity."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def accuracy(log_p: LogP, y: Classes) -> float:
    """The share of examples whose most probable class is theirs."""
    return float(np.mean(log_p.argmax(axis=1) == y))


def balanced_accuracy(log_p: LogP, y: Classes) -> float:
    """The mean over the classes that there are of the accuracy on each."""
    right = log_p.argmax(axis=1) == y
    return float(np.mean([right[y == c].mean() for c in np.unique(y)]))


def negative_log_likelihood(log_p: LogP, y: Classes) -> float:
    """``-mean log p(y)``."""
    return float(-np.mean(log_p[np.arange(len(y)), y]))


def calibration_error(log_p: LogP, y: Classes, bins: int = _BINS) -> float:
    """The expected calibration error (Guo et al. 2017): ``sum_b n_b / n |accuracy - confidence|``.

    Examples are binned by their confidence, the probability of the most probable class; the bins
    ``(i / b, (i + 1) / b]`` are of equal width.
    """
    confidence = np.exp(log_p.max(axis=1))
    right = log_p.argmax(axis=1) == y
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(place, right - confidence, bins)
    return float(np.abs(gaps).sum() / len(y))


def brier_score(log_p: LogP, y: Classes) -> float:
    """The mean over examples of ``sum_c (p_c - 1[y = c])^2``, from 0 to 2 (Brier 1950)."""
    p = np.exp(log_p)
    chosen = p[np.arange(len(y)), y]
    return float(np.mean((p**2).sum(axis=1) - 2 * chosen + 1))
