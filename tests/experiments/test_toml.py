"""What is written as TOML is read back as the same, by Python's own reader."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backcast.experiments import SpecError, toml

VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"])),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TREES = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, TREES, max_size=4))
def test_plain_data_come_back(plain):
    found = tomllib.loads(toml.dumps(plain))
    assert repr(found) == repr(_ordered(plain))  # nan is not equal to itself


def _ordered(table):
    """TOML has the values of a table before the tables in it."""
    own = {k: v for k, v in table.items() if not isinstance(v, dict)}
    return own | {k: _ordered(v) for k, v in table.items() if isinstance(v, dict)}


def test_what_toml_lacks_is_refused():
    with pytest.raises(TypeError, match="TOML has no NoneType"):
        toml.dumps({"a": None})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = = 1", r"bad\.toml is not TOML: .*line 1"),
        (b"a = \xff", r"bad\.toml cannot be read"),
        (b"a = 1\na = 2", "not TOML"),
        (b"a = " + b"[" * 100_000, "not TOML"),
    ],
)
def test_what_is_no_toml_is_refused(tmp_path, content, message):
    (tmp_path / "bad.toml").write_bytes(content)
    with pytest.raises(SpecError, match=message):
        toml.read(tmp_path / "bad.toml")


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(SpecError, match=r"There is no .*none\.toml\. Give the path of a spec"):
        toml.read(tmp_path / "none.toml")
