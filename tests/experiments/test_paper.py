"""Which runs an artefact needs, which are there, and what has come of them."""

import pytest

from backcast.experiments import Study
from backcast.experiments.choice import choice
from backcast.experiments.paper import Panel, Row, lines, missing, plans
from backcast.experiments.shelf import Shelf
from report.stored import MATRIX_OF_TWO, PLAIN, diverged, stored

TOY = """
name = "toy"
data = { kind = "digits", validation = 0.1 }
stream = { kind = "permuted", tasks = 2 }
network = { kind = "mlp", hidden = [4] }
method = { kind = "low-rank", rank = 3, strength = 2.0 }
sweep = { seeds = 2 }
tune = { kind = "grid", fields = { "method.strength" = [1.0, 2.0, 4.0] } }
"""


@pytest.fixture
def toy(tmp_path):
    (tmp_path / "toy.toml").write_text(TOY)
    return str(tmp_path / "toy.toml")


def run(tmp_path, spec, accuracy, name="another-name"):
    matrix = [[accuracy, 0.1], [accuracy, accuracy]]
    return stored(tmp_path / "runs", matrix, **{**spec.plain(), "name": name})


def planned(*rows):
    return plans([Panel("all", rows)])


def test_a_row_is_its_study_with_changes_and_all_its_seeds(toy):
    [one, two] = planned(Row("one", toy), Row("two", toy, "0.9", {"method.rank": 5}))
    assert [(s.method.rank, s.seed) for s in one.specs] == [(3, 0), (3, 1)]
    assert [(s.method.rank, s.seed) for s in two.specs] == [(5, 0), (5, 1)]
    assert (one.panel, one.label, two.label, two.row.published) == ("all", "one", "two", "0.9")


def test_a_study_of_several_cases_has_a_line_for_each(toy):
    grid = {"sweep.grid": {"method.rank": [1, 2]}}
    cases = {"sweep.cases": [{}, {"name": "no-rank", "method.rank": 0}]}
    found = planned(Row("ranks", toy, None, grid), Row("ours", toy, None, cases))
    assert [plan.label for plan in found] == ["ranks (rank 1)", "ranks (rank 2)", "ours", "no rank"]
    assert all(len(plan.specs) == 2 for plan in found)


def test_a_quick_plan_is_one_seed_and_one_epoch(toy):
    [plan] = planned(Row("one", toy))
    [spec] = plan.quick().specs
    assert spec == plan.specs[0].changed({"training.epochs": 1})
    assert spec.key not in {each.key for each in plan.specs}


def test_runs_are_found_by_what_was_run_whatever_they_are_called(tmp_path, toy):
    found = planned(Row("one", toy), Row("the same again", toy))
    first, second = found[0].specs
    assert missing(found, Shelf.of(tmp_path / "runs")) == [first, second]
    run(tmp_path, first, 0.8)
    assert missing(found, Shelf.of(tmp_path / "runs")) == [second]
    one, again = lines(found, Shelf.of(tmp_path / "runs"))
    for line in (one, again):
        assert line.group.each("average_accuracy") == [0.8]


def test_what_diverged_is_settled_and_is_no_number(tmp_path, toy):
    [plan] = planned(Row("one", toy))
    diverged(tmp_path / "runs", **plan.specs[1].plain())
    assert missing([plan], Shelf.of(tmp_path / "runs")) == [plan.specs[0]]
    [line] = lines([plan], Shelf.of(tmp_path / "runs"))
    assert line.group is None
    assert line.diverged == ("seed 1: <b>Lower</b> it.",)


def searched(tmp_path, toy, *accuracies):
    """What is told of a search whose trials came out so; None has diverged, "-" was not run."""
    study = Study.read(toy)
    for strength, accuracy in zip((1.0, 2.0, 4.0), accuracies, strict=True):
        spec = study.spec.changed({"method.strength": strength})
        if accuracy is None:
            diverged(tmp_path / "runs", **spec.plain())
        elif accuracy != "-":
            run(tmp_path, spec, accuracy)
    return choice(study.spec, study.beside.tune, Shelf.of(tmp_path / "runs"))


def test_a_choice_is_told_from_the_runs_of_its_search(tmp_path, toy):
    found = searched(tmp_path, toy, 0.5, 0.9, 0.7)
    assert (found.used, found.best, found.untried) == (1, 1, 0)
    assert found.words == "best of 3 on validation data"
    assert [trial["value"] for trial in found.as_plain()["trials"]] == [0.5, 0.9, 0.7]


@pytest.mark.parametrize(
    ("accuracies", "words"),
    [
        ((0.9, 0.5, 0.7), "given: another is better on validation data"),
        ((0.5, 0.9, "-"), "given: 1 of 3 trials not run"),
        ((0.5, 0.9, None), "best of 3 on validation data"),
        ((0.5, None, 0.7), "given: another is better on validation data"),
    ],
)
def test_settings_are_called_chosen_only_where_they_were(tmp_path, toy, accuracies, words):
    assert searched(tmp_path, toy, *accuracies).words == words


def test_the_edge_of_a_search_is_told(tmp_path, toy):
    plain = Study.read(toy)
    tuning = plain.beside.tune.model_copy(update={"fields": {"method.strength": [2.0, 3.0, 4.0]}})
    for strength, accuracy in ((2.0, 0.9), (3.0, 0.8), (4.0, 0.7)):
        run(tmp_path, plain.spec.changed({"method.strength": strength}), accuracy)
    found = choice(plain.spec, tuning, Shelf.of(tmp_path / "runs"))
    assert found.words == "best of 3 on validation data, at the edge"


def test_without_a_search_nothing_was_chosen(tmp_path):
    study = Study.parse(PLAIN)
    stored(tmp_path, MATRIX_OF_TWO)
    assert choice(study.spec, study.beside.tune, Shelf.of(tmp_path)) is None
