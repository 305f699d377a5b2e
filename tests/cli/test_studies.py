"""What is set beside a spec is what a file would say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backcast.cli.studies import parted, study, value_of
from backcast.experiments import SpecError
from backcast.experiments.toml import dumps

PLAIN = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.lists(st.integers(0, 9)),
)


@given(PLAIN)
def test_a_value_is_read_as_toml_has_it(value):
    text = dumps({"value": value}).removeprefix("value = ").strip()
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text", ["low-rank", "some/file.npz", "2024-01-01", "", "a = b", "1\nother = 2", "[1, 2"]
)
def test_what_toml_does_not_know_is_a_text(text):
    assert value_of(text) == text


def test_a_field_may_hold_what_its_value_says():
    assert parted("data.path=a=b.csv") == ("data.path", "a=b.csv")
    assert parted(" method.rank = 3 ") == ("method.rank", 3)
    for wrong in ("method.rank", "=3", "method.=3", ".rank=3"):
        with pytest.raises(SpecError, match="give a field and its value"):
            parted(wrong)


def test_fields_of_the_spec_and_beside_it_are_set():
    found = study(
        "digits",
        ["method.rank=3", "training.learning_rate=1", "sweep.seeds=2", "name=other"],
        seed=5,
    )
    assert found.spec.method.rank == 3
    assert found.spec.training.learning_rate == 1.0
    assert found.spec.name == "other"
    assert found.spec.seed == 5
    assert [spec.seed for spec in found.specs()] == [0, 1]


def test_another_kind_of_table_replaces_the_old_one():
    found = study("digits", ["method.kind=none"]).spec
    assert found.method.plain() == {"kind": "none"}


def test_values_are_set_in_the_order_they_are_given():
    changes = ["method.kind=none", "method.kind=low-rank", "method.rank=2", "method.rank=4"]
    assert study("digits", changes).spec.method.rank == 4
