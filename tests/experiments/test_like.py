"""Specs that are like a built-in one."""

import pytest

from backcast.experiments import SpecError, Study, built_in
from backcast.experiments.variations import flat, lists

LIKE = """
like = "permuted-mnist"
name = "mine"
[method]
rank = 3
[method.curvature]
diagonal = "exact"
"""


def read(tmp_path, text):
    (tmp_path / "mine.toml").write_text(text)
    return Study.read(tmp_path / "mine.toml")


def test_a_spec_like_another_is_that_one_with_changes(tmp_path):
    changes = {"name": "mine", "method.rank": 3, "method.curvature.diagonal": "exact"}
    found = read(tmp_path, LIKE).spec
    assert found == Study.read("permuted-mnist").spec.changed(changes)
    assert found.method.curvature.examples == 128


def test_what_is_varied_and_chosen_is_of_each_file_alone(tmp_path):
    assert Study.read("permuted-mnist").beside.sweep is not None
    assert Study.read("permuted-mnist").beside.tune is not None
    beside = read(tmp_path, LIKE).beside
    assert (beside.sweep, beside.tune) == (None, None)
    assert len(read(tmp_path, LIKE + "[sweep]\nseeds = 2\n").specs()) == 2


def test_a_table_of_another_kind_replaces_and_defaults_are_those_of_the_base(tmp_path):
    text = 'like = "digits"\n[method]\nkind = "none"\n[training.optimizer]\nb1 = 0.8\n'
    found = read(tmp_path, text).spec
    assert found.method.plain() == {"kind": "none"}
    assert found.training.optimizer.plain() == {"kind": "adam", "b1": 0.8, "b2": 0.999}


@pytest.mark.parametrize("name", ["permuted-mnis", 3])
def test_what_there_is_nothing_like_is_refused(tmp_path, name):
    with pytest.raises(SpecError, match=f"like: there is no built-in spec '{name}'"):
        read(tmp_path, f"like = {name!r}\n")


def test_the_runs_of_the_paper_are_found_again():
    """Frozen, as all keys are: the results in the repository name them."""
    keys = {name: Study.read(name).spec.key for name in ("permuted-mnist", "disjoint-mnist")}
    assert keys == {"permuted-mnist": "807c52dc4e", "disjoint-mnist": "4e983a135a"}


@pytest.mark.parametrize("name", built_in())
def test_what_is_in_use_is_among_what_a_search_tries(name):
    study = Study.read(name)
    if study.beside.tune is not None:
        for field, values in lists(study.beside.tune.fields, "fields").items():
            assert flat(study.spec.plain())[field] in values
            assert all(study.spec.changed({field: value}) for value in values)
