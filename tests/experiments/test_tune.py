"""Settings are chosen on validation data, and nothing that is tested on has a say."""

import itertools
import tomllib

import numpy as np
import pytest

from backcast.data import digits
from backcast.experiments import Spec, SpecError, Study, sweep, tune
from backcast.learning.files import load_record
from experiments.small import PLAIN, small

RATES = [1e-6, 0.02, 1e-4]
GRID = {"kind": "grid", "fields": {"training.learning_rate": RATES}}


def tuned(runs, tuning, spec=None, data=None):
    """What a search finds, and which specs it ran."""
    ran = []

    def watched(specs):
        ran.append([one.folder for one in specs])
        return sweep(specs, runs, data=data, progress=False)

    plain = (spec or small()).plain()
    study = Study.parse({**plain, "tune": tuning})
    return tune(study.spec, study.beside.tune, runs, watched), ran


def test_the_best_of_a_grid_is_found_and_written_down(tmp_path):
    found, ran = tuned(tmp_path, GRID)
    assert found.spec == small(training__learning_rate=0.02)
    assert [c.changes["training.learning_rate"] for c in found.candidates] == RATES
    for candidate in found.candidates:
        spec = small(**{k.replace(".", "__"): v for k, v in candidate.changes.items()})
        final = load_record(tmp_path / spec.folder / "DONE")
        assert candidate.value == final["validation"]["average_accuracy"]
    assert max(c.value for c in found.candidates) == found.candidates[1].value
    assert ran == [[small(training__learning_rate=rate).folder for rate in RATES]]
    assert Spec.read(tmp_path / "small-tuned.toml") == found.spec
    record = load_record(tmp_path / "small-tuned.json")
    assert record["spec"] == found.spec.plain()
    assert record["metric"] == "validation average_accuracy"
    assert [c["value"] for c in record["candidates"]] == [c.value for c in found.candidates]


def test_what_is_better_when_lower_is_minimised(tmp_path):
    found, _ = tuned(tmp_path, {**GRID, "metric": "average_nll"})
    values = [c.value for c in found.candidates]
    assert found.spec.training.learning_rate == RATES[int(np.argmin(values))] == 0.02


def test_seeds_are_averaged(tmp_path):
    spec = small(data__seed=0)
    found, ran = tuned(tmp_path, {**GRID, "seeds": [3, 4]}, spec)
    assert len(ran[0]) == 6
    for candidate in found.candidates:
        assert candidate.value == pytest.approx(np.mean(candidate.values))
    assert found.spec.seed == 0


def test_two_fields_are_combined(tmp_path):
    fields = {"training": {"learning_rate": [1e-6, 0.02]}, "method.strength": [1.0, 2.0]}
    found, _ = tuned(tmp_path, {"kind": "grid", "fields": fields})
    tried = [tuple(c.changes.values()) for c in found.candidates]
    assert tried == list(itertools.product([1e-6, 0.02], [1.0, 2.0]))


@pytest.fixture
def two_worlds(tmp_path):
    """The same digits twice; in one world the labels of the test set are scrambled."""
    whole, worlds = digits(), []
    for name, shift in (("true", 0), ("scrambled", 5)):
        root = tmp_path / name
        root.mkdir()
        np.savez(
            root / "glyphs.npz",
            x_train=whole.x[:400] / 16,
            y_train=whole.y[:400],
            x_test=whole.x[400:600] / 16,
            y_test=(whole.y[400:600] + shift) % 10,
        )
        worlds.append(root)
    data = {"kind": "npz", "path": "glyphs.npz", "validation": 60, "limit": {"train": 160}}
    return worlds, Spec.parse({**PLAIN, "data": data})


@pytest.mark.parametrize(
    "tuning",
    [
        GRID,
        {
            "kind": "optuna",
            "fields": {"training.learning_rate": {"low": 1e-5, "high": 0.1, "log": True}},
            "trials": 4,
            "batch": 2,
        },
    ],
    ids=["grid", "optuna"],
)
def test_scrambled_test_labels_change_no_choice(tmp_path, two_worlds, tuning):
    worlds, spec = two_worlds
    (first, _), (second, _) = (
        tuned(tmp_path / f"runs-{root.name}", tuning, spec, root) for root in worlds
    )
    assert first == second  # the choice, and everything it was made by
    accuracies = [
        load_record(tmp_path / f"runs-{root.name}" / first.spec.folder / "DONE")["test"][
            "average_accuracy"
        ]
        for root in worlds
    ]
    assert accuracies[0] > accuracies[1] + 0.1


OPTUNA = {
    "kind": "optuna",
    "fields": {
        "training.learning_rate": {"low": 1e-5, "high": 0.05, "log": True},
        "training.epochs": {"low": 1, "high": 3, "whole": True},
        "method.noise": [0.0, 1e-3],
    },
    "trials": 5,
    "batch": 2,
}


def test_optuna_proposes_within_bounds_and_the_same_again(tmp_path):
    found, ran = tuned(tmp_path, OPTUNA)
    assert [len(batch) for batch in ran] == [2, 2, 1]
    for candidate in found.candidates:
        assert 1e-5 <= candidate.changes["training.learning_rate"] <= 0.05
        assert candidate.changes["training.epochs"] in (1, 2, 3)
        assert candidate.changes["method.noise"] in (0.0, 1e-3)
    best = max(found.candidates, key=lambda c: c.value)
    assert found.spec.training.learning_rate == best.changes["training.learning_rate"]
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/DONE")}
    assert tuned(tmp_path, OPTUNA) == (found, ran)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/DONE")} == stamps


def test_a_strength_that_makes_training_diverge_is_no_candidate(tmp_path):
    descent = {"optimizer": {"kind": "sgd"}, "learning_rate": 0.1}
    strengths = {"method.strength": [1e12, 0.1]}
    found, _ = tuned(tmp_path, {"kind": "grid", "fields": strengths}, small(training=descent))
    assert [c.value is None for c in found.candidates] == [True, False]
    assert found.spec.method.strength == 0.1


@pytest.mark.parametrize(
    ("changes", "tuning", "message"),
    [
        ({"data__validation": 0}, GRID, "holds none out: set data.validation"),
        (
            {},
            {"kind": "grid", "fields": {"training.learning_rate": [1e30]}},
            "No setting has average_accuracy",
        ),
        (
            {"method": {"kind": "none"}},
            {**GRID, "metric": "smoothed_nll"},
            "No setting has .*smoothed_nll.* no smoothed models",
        ),
        ({}, {**GRID, "seeds": [1, 2]}, "divide the data differently.*data.seed"),
        ({}, {**GRID, "fields": {"method.rnak": [1]}}, "did you mean 'rank'"),
        ({}, {**GRID, "fields": {"method.rank": 1}}, "give a list of values to try"),
    ],
)
def test_what_cannot_be_tuned_is_refused(tmp_path, changes, tuning, message):
    with pytest.raises(SpecError, match=message):
        tuned(tmp_path, tuning, small(**changes))


@pytest.mark.parametrize(
    ("tuning", "message"),
    [
        ({"kind": "grid"}, "tune.fields: must be given"),
        ({"kind": "gird"}, "no kind 'gird', did you mean 'grid'"),
        ({"fields": {}}, "say of which kind: kind = one of grid, optuna"),
        ({**GRID, "metric": "test_accuracy"}, "tune.metric: must be 'average_accuracy'"),
        ({**OPTUNA, "trials": 0}, "tune.trials: must be at least 1"),
        ({**OPTUNA, "fields": {"a": {"low": 2, "high": 1}}}, "give a low below high"),
        ({**OPTUNA, "fields": {"a": {"low": 0, "high": 1, "log": True}}}, "and above 0"),
        ({**OPTUNA, "fields": {"a": {"low": 0.5, "high": 1, "whole": True}}}, "must be whole"),
    ],
)
def test_a_search_that_cannot_be_meant_is_refused(tuning, message):
    with pytest.raises(SpecError, match=message):
        Study.parse({**PLAIN, "tune": tuning})


def test_a_search_comes_from_a_file(tmp_path):
    text = small().toml() + '\n[tune]\nkind = "grid"\nfields = { "method.rank" = [1, 2] }\n'
    assert tomllib.loads(text)["tune"]["kind"] == "grid"
    (tmp_path / "study.toml").write_text(text)
    study = Study.read(tmp_path / "study.toml")
    assert study.spec == small()
    assert study.beside.tune.fields == {"method.rank": [1, 2]}
