"""The demo: fair, and its numbers are those of the models it keeps."""

import math

import numpy as np
import pytest
from scipy import stats

from backcast.experiments import SpecError, Study
from backcast.experiments.demo import (
    FILTERED,
    FINE_TUNED,
    Demo,
    compared,
    demo,
)
from backcast.experiments.gain import Gain, permutation_test
from backcast.experiments.itinerary import itinerary
from backcast.experiments.variations import lists
from backcast.report.demo import HEADS, findings, rows, save

SMALL = {"stream.degrees": [0.0, 10.0, 20.0], "stream.examples": 20, "training.epochs": 3}


@pytest.fixture(scope="module")
def small(quick_compiles, tmp_path_factory) -> Demo:
    """The demo with two seeds, three tasks and few steps."""
    kinds = (
        [Study.read(name).spec.changed({**SMALL, "seed": seed}) for seed in (0, 1)]
        for name in (FINE_TUNED, FILTERED)
    )
    return compared(*kinds, tmp_path_factory.mktemp("demo"), progress=False)


def accuracy(model, examples) -> float:
    return float(np.mean(np.asarray(model.predict(examples.x)) == examples.y))


def test_its_columns_are_what_the_kept_models_score_on_test_data(small):
    for group, smooths in ((small.fine_tuned, False), (small.filtered, True)):
        for seed, run in enumerate(group.runs):
            learner = run.learner()
            tests = [task.test for task in itinerary(run.spec, None).stream]
            last = [accuracy(learner.model, test) for test in tests]
            own = [accuracy(m, test) for m, test in zip(learner.filtered(), tests, strict=True)]
            np.testing.assert_allclose(small.last(group)[seed], last, atol=1e-9)
            np.testing.assert_allclose(small.own(group)[seed], own, atol=1e-9)
            if smooths:
                back = [accuracy(m, test) for m, test in zip(learner.smooth(), tests, strict=True)]
                np.testing.assert_allclose(small.smoothed[seed], back, atol=1e-9)


def test_both_methods_differ_in_nothing_but_the_method():
    specs = [Study.read(name).spec.plain() for name in (FINE_TUNED, FILTERED)]
    for spec in specs:
        del spec["name"], spec["method"]
    assert specs[0] == specs[1]


def test_both_methods_begin_alike(small):
    for pair in zip(small.fine_tuned.runs, small.filtered.runs, strict=True):
        untrained = [[s.metrics for s in run.scores if s.stage == "untrained"] for run in pair]
        assert untrained[0] == untrained[1] != []


def test_no_seed_chooses_by_what_another_reports_on():
    study = Study.read(FILTERED)
    seeds = [*range(8), *study.beside.tune.seeds]
    assert set(study.beside.tune.seeds).isdisjoint(range(8))
    parts = [study.spec.changed({"seed": seed}).data.partition(None, seed) for seed in seeds]
    reported = parts[0].test
    assert len(reported) == 539
    for part in parts:
        np.testing.assert_array_equal(part.test, reported)
        assert not np.isin(np.concatenate([part.train, part.validation]), reported).any()


@pytest.mark.parametrize("name", [FINE_TUNED, FILTERED])
def test_its_settings_are_among_those_that_were_searched(name):
    study = Study.read(name)
    for path, values in lists(study.beside.tune.fields, "tune").items():
        value = study.spec.plain()
        for field in path.split("."):
            value = value[field]
        assert value in values


def test_the_table_tells_means_and_deviations_in_per_cent(small):
    told = rows(small)
    assert [row[0] for row in told] == [*small.tasks, "mean"]
    assert all(len(row) == len(HEADS) for row in told)
    mean, deviation = (
        float(word) for word in told[0][HEADS.index("own model,\nsmoothed")].split("±")
    )
    a, b = 100 * small.smoothed[:, 0]
    assert mean == pytest.approx((a + b) / 2, abs=0.06)
    assert deviation == pytest.approx(abs(a - b) / math.sqrt(2), abs=0.06)
    mean = float(told[-1][HEADS.index("last model,\nfine-tuned")].split("±")[0])
    assert mean == pytest.approx(100 * small.last(small.fine_tuned).mean(), abs=0.06)


def test_what_is_said_is_what_was_found(small):
    for said, gain in zip(
        findings(small), (small.remembering, small.learning, small.looking_back), strict=True
    ):
        assert f"{100 * (gain.after - gain.before):+.1f} points" in said
        assert f"in {gain.wins} of 2 seeds" in said


def test_the_last_task_has_nothing_to_look_back_from(small):
    np.testing.assert_array_equal(small.smoothed[:, -1], small.own(small.filtered)[:, -1])
    earlier = (small.smoothed - small.own(small.filtered))[:, :-1].mean(axis=1)
    assert small.looking_back.difference.mean == pytest.approx(earlier.mean())


def test_the_figure_is_written(small, tmp_path):
    path = save(small, tmp_path / "demo.png")
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("seeds", [0, -1, 17, True])
def test_a_number_of_seeds_it_cannot_test_with_is_refused(seeds, tmp_path):
    with pytest.raises(SpecError, match="from 1 to 16"):
        demo(tmp_path, seeds=seeds)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("count", [2, 5, 8])
def test_the_paired_test_is_scipys_exact_one(count):
    rng = np.random.default_rng(count)
    for differences in (rng.normal(0.5, 1, count), rng.integers(-2, 4, count) / 539):
        truth = stats.permutation_test(
            (differences,), np.sum, permutation_type="samples", n_resamples=np.inf
        )
        assert permutation_test(differences) == pytest.approx(truth.pvalue)


def test_no_difference_is_no_evidence():
    gain = Gain.of(np.full((8, 5), 0.9), np.full((8, 5), 0.9))
    assert (gain.p, gain.wins) == (1.0, 0)


def test_a_gain_is_of_means_over_tasks():
    gain = Gain.of(np.array([[0.9, 0.7], [0.8, 0.8]]), np.array([[0.8, 0.6], [0.9, 0.8]]))
    assert gain.after == pytest.approx(0.8)
    assert gain.before == pytest.approx(0.775)
    assert gain.difference.mean == pytest.approx(0.025)
    assert gain.difference.deviation == pytest.approx(0.15 / math.sqrt(2))
    assert gain.wins == 1


@pytest.mark.slow
def test_filtering_remembers_and_smoothing_improves_the_earlier_tasks(tmp_path):
    """Over 8 seeds, on held-out data."""
    found = demo(tmp_path, progress=False)
    assert found.remembering.difference.count == 8
    assert found.remembering.difference.mean > 0.02
    assert found.remembering.p < 0.05
    assert found.looking_back.difference.mean > 0.005
    assert found.looking_back.p < 0.05
