"""Specs: the same when read back, named by what they say, and clear about what they cannot mean."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backcast.experiments import Spec, SpecError, Study, built_in, toml
from experiments.small import PLAIN, small

HISTOLOGY = {
    "name": "histology",
    "data": {
        "kind": "wilds",
        "folder": "patches",
        "groups": "slide",
        "validation": 0.1,
        "test": 50,
    },
    "stream": {
        "kind": "mixed",
        "column": "center",
        "percentages": [{"0": 100.0}, {"0": 50.0, "1": 50.0}],
        "normalise": {"mean": [0.5], "deviation": [0.25]},
        "learn": [0, 1],
    },
    "network": {"kind": "cnn"},
    "training": {"optimizer": {"kind": "sgd", "momentum": 0.9}, "clip": 1.0},
    "method": {"kind": "low-rank", "noise": [{"weights": "conv*", "relative": 1e-5}]},
}


@pytest.mark.parametrize("plain", [PLAIN, HISTOLOGY], ids=["small", "histology"])
def test_a_spec_comes_back_from_its_file(tmp_path, plain):
    spec = Spec.parse(plain)
    (tmp_path / "spec.toml").write_text(spec.toml(), encoding="utf-8")
    again = Spec.read(tmp_path / "spec.toml")
    assert again == spec
    assert again.key == spec.key


@given(
    st.floats(0, allow_infinity=False),
    st.floats(0, allow_infinity=False, exclude_min=True),
    st.integers(0, 2**62),
    st.lists(st.integers(1, 10**6), max_size=3),
)
def test_every_number_survives_the_file(strength, rate, seed, hidden):
    spec = small(
        method__strength=strength, training__learning_rate=rate, seed=seed, network__hidden=hidden
    )
    again = Spec.parse(toml.parse(spec.toml()))
    assert again == spec
    assert again.key == spec.key


@pytest.mark.parametrize("name", built_in())
def test_what_comes_with_the_package_is_sound(name):
    spec = Study.read(name).spec
    assert spec.name == name
    assert Spec.parse(toml.parse(spec.toml())) == spec


def test_a_key_is_the_same_on_every_machine_and_in_every_version():
    """Frozen: a run that was finished yesterday must be found by its key tomorrow."""
    assert small().folder == "small-e73c4f1e2f"
    assert Spec.parse(HISTOLOGY).folder == "histology-48a20480d9"
    code = (
        "import sys, json; from backcast.experiments import Spec; "
        "print(Spec.parse(json.loads(sys.argv[1])).folder)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, json.dumps(PLAIN)], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == small().folder


def test_noise_may_be_learned():
    spec = small(method__noise={"learn": 0.1})
    assert Spec.parse(toml.parse(spec.toml())) == spec
    assert spec.key != small(method__noise=0.1).key


def test_a_key_is_of_what_is_run_and_not_of_how_it_is_written():
    spec = small()
    backwards = {name: PLAIN[name] for name in reversed(PLAIN)}
    assert Spec.parse(backwards).key == spec.key
    assert Spec.parse({**PLAIN, "training": {**PLAIN["training"], "clip": None}}).key == spec.key
    stated = {**PLAIN, "seed": 0, "method": {**PLAIN["method"], "scale": "examples"}}
    assert Spec.parse(stated).key == spec.key
    assert spec.changed({"name": "other"}).key == spec.key
    others = [small(seed=1), small(method__rank=3), small(training__clip=1.0)]
    assert len({spec.key, *(other.key for other in others)}) == 4
    assert small(seed=1).group == spec.group != small(method__rank=3).group


def test_whole_numbers_may_stand_for_real_ones():
    assert small(method__strength=1) == small(method__strength=1.0)
    assert small(method__strength=1).key == small(method__strength=1.0).key


def test_two_specs_of_one_name_have_folders_of_their_own():
    assert small().folder != small(seed=1).folder
    assert all(spec.folder.startswith("small-") for spec in (small(), small(seed=1)))


def test_a_table_of_another_kind_replaces_and_one_of_the_same_changes():
    spec = small(method={"kind": "low-rank", "strength": 5.0})
    assert (spec.method.rank, spec.method.strength) == (2, 5.0)
    assert small(method={"kind": "none"}).method.plain() == {"kind": "none"}
    assert small(method={"strength": 5.0}) == spec
    assert small(training={"optimizer": {"kind": "sgd"}}).training.epochs == 2
    assert small(network={"kind": "cnn", "pools": [1], "channels": [2]}).network.hidden == (8,)


def refused(message, **changes):
    with pytest.raises(SpecError, match=message):
        small(**changes)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("methd", {}, r"no field 'methd', did you mean 'method'\? There is: name, seed, data"),
        ("method.rnak", 3, r"method: there is no field 'rnak', did you mean 'rank'\? There is: "),
        ("training.optimizer.beta", 0.5, r"training\.optimizer: there is no field 'beta'"),
        ("method.curvature.example", 3, "did you mean 'examples'"),
        (
            "method.kind",
            "lowrank",
            r"method: there is no kind 'lowrank', did you mean 'low-rank'\?",
        ),
        ("data", {"folder": "x"}, "there is no field 'folder'"),
        ("data", {"kind": "idx"}, r"data\.folder: must be given"),
        ("stream", 3, "stream: must be a table with a kind, one of permuted, disjoint"),
        ("method.rank", -1, "method.rank: must be at least 0, but -1 was given"),
        ("method.rank", 2.5, "method.rank: must be a whole number, but 2.5"),
        ("method.rank", True, "method.rank: must be a whole number, but True"),
        ("method.rank", "2", "method.rank: must be a whole number, but '2'"),
        ("method.prior", 0, "method.prior: must be above 0, but 0"),
        ("method.strength", float("nan"), "method.strength: must be a finite number"),
        ("method.strength", float("inf"), "method.strength: must be a finite number"),
        ("method.scale", "big", "method.scale: must be 'examples' or 'mean', but 'big'"),
        ("method.noise", -1.0, r"method\.noise: must be at least 0 or must be a table"),
        ("method.noise", [], "at least 1"),
        ("method.noise", [{"variance": 1.0, "relative": 1.0}], r"method\.noise\[0\]: give either"),
        ("method.noise", [{}], "either a variance or a relative size"),
        ("data.validation", 1.5, "data.validation: is a share, and must be at least 0 and below 1"),
        ("data.validation", -5, "is a number of examples, and must be at least 0"),
        ("data.validation", "some", "must be a share such as 0.1 or a number such as 500"),
        ("data.limit", {"train": 0}, "data.limit.train: must be at least 1"),
        ("seed", -1, "seed: must be at least 0"),
        ("name", "a b", "name: must be up to 64 letters"),
        ("name", "../out", "name: must be up to 64 letters"),
        ("network", {"kind": "cnn", "pools": [2]}, "3 channels and 1 pools"),
        ("training.epochs", 0, "training.epochs: must be at least 1"),
        ("stream.tasks", 1, "stream.tasks: must be at least 2"),
        ("stream.normalise", "imagnet", r"stream\.normalise: must be 'imagenet' or 'none'"),
        (
            "stream.normalise",
            {"mean": [0.1, 0.2], "deviation": [1.0]},
            "as many deviations as means",
        ),
        ("stream.normalise", {"mean": [0.1], "deviation": [0.0]}, "must be above 0"),
        (
            "stream",
            {"kind": "imbalanced", "column": "c", "percentages": [{"a": 1.0}], "examples": 5},
            "leave `examples` out",
        ),
        (
            "stream",
            {"kind": "mixed", "column": "c", "percentages": [{"a": 100.5}]},
            r"stream\.percentages\[0\]\.a: must be at most 100",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(field, value, message):
    refused(message, **{field.replace(".", "__"): value})


def test_everything_that_is_wrong_is_said_at_once():
    with pytest.raises(SpecError) as caught:
        small(method={"rank": -1}, training={"epochs": 0, "batchsize": 5}, seed=-1)
    said = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in said] == ["seed", "training", "method.rank"]


def test_what_is_missing_is_said():
    with pytest.raises(SpecError, match=r"(?s)stream: .*given.*network.*method"):
        Spec.parse({"name": "a", "data": {"kind": "digits"}})


def test_a_spec_never_changes():
    with pytest.raises(ValueError, match="frozen"):
        small().seed = 3


def test_a_name_that_is_no_built_in_is_said_with_what_there_is():
    with pytest.raises(SpecError, match=r"no spec 'permuted-mnis', did you mean 'permuted-mnist'"):
        Study.read("permuted-mnis")
