"""Many specs from one, and the file that says which."""

import pytest

from backcast.experiments import SpecError, Study
from backcast.experiments.variations import SweepSpec, flat, seeded
from experiments.small import PLAIN, small


def swept(**sweep):
    return Study.parse({**PLAIN, "sweep": sweep}).specs()


def test_a_grid_is_every_combination_and_every_seed():
    specs = swept(seeds=2, grid={"method.rank": [1, 2], "training.epochs": [3, 4, 5]})
    found = [(s.method.rank, s.training.epochs, s.seed) for s in specs]
    assert found == [(r, e, s) for r in (1, 2) for e in (3, 4, 5) for s in (0, 1)]


def test_a_grid_may_be_written_as_tables():
    dotted = swept(grid={"method.rank": [1, 2], "method.curvature.examples": [8, 16]})
    tables = swept(grid={"method": {"rank": [1, 2], "curvature": {"examples": [8, 16]}}})
    assert dotted == tables


def test_cases_go_together_and_each_with_the_grid():
    specs = swept(
        cases=[{"method": {"kind": "none"}, "name": "nothing"}, {"method.rank": 5}],
        grid={"training.epochs": [3, 4]},
        seeds=[7, 9],
    )
    assert [(s.name, s.method.kind, s.training.epochs, s.seed) for s in specs] == [
        (name, kind, epochs, seed)
        for name, kind in (("nothing", "none"), ("small", "low-rank"))
        for epochs in (3, 4)
        for seed in (7, 9)
    ]


def test_whole_tables_are_values_too():
    specs = swept(grid={"method": [{"kind": "none"}, {"kind": "joint"}, {"rank": 7}]})
    assert [s.method.kind for s in specs] == ["none", "joint", "low-rank"]
    assert specs[2].method.strength == small().method.strength


def test_what_comes_out_alike_is_run_once():
    assert swept(grid={"method.rank": [2, 2]}) == [small()]
    assert seeded([small(), small()], (0, 0)) == [small()]


def test_without_a_sweep_there_is_one():
    assert Study.parse(PLAIN).specs() == [small()]
    assert SweepSpec().specs(small()) == [small()]


def test_changes_reach_every_variation():
    study = Study.parse({**PLAIN, "sweep": {"seeds": 2}}).changed({"method.rank": 9})
    assert [s.method.rank for s in study.specs()] == [9, 9]


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({"seed": 3}, r"sweep: there is no field 'seed', did you mean 'seeds'"),
        ({"seeds": 0}, "seeds: must be at least 1"),
        ({"seeds": []}, "at least 1"),
        ({"grid": {"method.rank": 3}}, r"sweep\.grid\.method\.rank: give a list .* 3 was given"),
        ({"grid": {"method.rank": []}}, "give a list of values"),
        ({"grid": {"method.rnak": [3]}}, r"variation \{'method.rnak': 3\} is no spec\. .*'rank'"),
        ({"cases": [{"method.rank": -1}]}, "is no spec. method.rank: must be at least 0"),
        ({"cases": [3]}, r"cases\[0\]: must be a table"),
    ],
)
def test_what_cannot_be_varied_is_refused(sweep, message):
    with pytest.raises(SpecError, match=message):
        swept(**sweep)


def test_a_field_beside_the_spec_is_known_or_refused():
    with pytest.raises(SpecError, match="no field 'sweeps', did you mean 'sweep'"):
        Study.parse({**PLAIN, "sweeps": {}})


def test_tables_are_flattened():
    assert flat({"a": {"b": 1, "c": {"d": 2}}, "e": [3]}) == {"a.b": 1, "a.c.d": 2, "e": [3]}
