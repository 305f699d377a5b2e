"""Metrics against SciPy and against their definitions, written out example by example."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from backcast.experiments import metrics


def outputs(n, classes, seed, scale=2.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, classes)).astype(np.float32) * np.float32(scale)
    return logits, rng.integers(0, classes, n)


CASES = given(
    st.integers(1, 60), st.integers(2, 5), st.integers(0, 99), st.sampled_from([0.1, 9.0])
)


def by_definition(logits, y):
    """One example after the other."""
    p = special.softmax(logits.astype(float), axis=1)
    right = [int(np.argmax(row)) == c for row, c in zip(p, y, strict=True)]
    each = [np.mean([r for r, c in zip(right, y, strict=True) if c == k]) for k in sorted(set(y))]
    bins = {}
    for row, r in zip(p, right, strict=True):
        # (i / 15, (i + 1) / 15] holds the confidence.
        i = next(i for i in range(15) if row.max() <= (i + 1) / 15 or i == 14)
        bins.setdefault(i, []).append((row.max(), r))
    gaps = [
        len(b) / len(y) * abs(np.mean([r for _, r in b]) - np.mean([c for c, _ in b]))
        for b in bins.values()
    ]
    return {
        "accuracy": np.mean(right),
        "balanced_accuracy": np.mean(each),
        "nll": np.mean([-np.log(row[c]) for row, c in zip(p, y, strict=True)]),
        "ece": sum(gaps),
        "brier": np.mean(
            [
                sum((row[k] - (k == c)) ** 2 for k in range(len(row)))
                for row, c in zip(p, y, strict=True)
            ]
        ),
    }


@CASES
def test_metrics_are_their_definitions(n, classes, seed, scale):
    logits, y = outputs(n, classes, seed, scale)
    found, expected = metrics.classification(logits, y), by_definition(logits, y)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-9), name


@CASES
def test_log_softmax_is_scipys(n, classes, seed, scale):
    logits, _ = outputs(n, classes, seed, scale)
    np.testing.assert_allclose(
        metrics.log_softmax(logits), special.log_softmax(logits.astype(float), axis=1), atol=1e-12
    )


def test_a_worked_example():
    """Three examples with confidences 0.8, 0.6 and 0.6, the last of them wrong."""
    p = np.array([[0.8, 0.2], [0.4, 0.6], [0.6, 0.4]])
    found = metrics.classification(np.log(p).astype(np.float32), np.array([0, 1, 1]))
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["balanced_accuracy"] == pytest.approx((1 + 1 / 2) / 2)
    assert found["nll"] == pytest.approx(-(np.log(0.8) + np.log(0.6) + np.log(0.4)) / 3, rel=1e-6)
    assert found["brier"] == pytest.approx((2 * 0.2**2 + 2 * 0.4**2 + 2 * 0.6**2) / 3, rel=1e-6)
    # Two bins: one example 0.2 too modest; two with accuracy 1/2 and confidence 0.6. But 0.6 is an
    # edge (9/15), and single precision puts both on the same side of it.
    assert found["ece"] == pytest.approx((1 * 0.2 + 2 * 0.1) / 3, abs=1e-6)


def test_certainty_does_not_overflow():
    logits = np.array([[1e4, -1e4], [3e38, 0.0]], np.float32)
    sure = metrics.classification(logits, np.array([0, 0]))
    assert sure == {"accuracy": 1, "balanced_accuracy": 1, "nll": 0, "ece": 0, "brier": 0}
    wrong = metrics.classification(logits[:1], np.array([1]))
    assert wrong == {"accuracy": 0, "balanced_accuracy": 0, "nll": 2e4, "ece": 1, "brier": 2}


def test_uniform_outputs_are_known():
    found = metrics.classification(np.zeros((8, 4), np.float32), np.arange(8) % 4)
    assert found["nll"] == pytest.approx(np.log(4))
    assert found["brier"] == pytest.approx(3 / 4)
    assert found["ece"] == pytest.approx(0)
