"""Compiled code is kept where that is possible, and not spoken of where it is not."""

import pytest

from backcast.cli.compiled import keep


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_it_is_kept_in_the_users_cache(home):
    environment = {}
    keep(environment)
    folder = environment["JAX_COMPILATION_CACHE_DIR"]
    assert folder.startswith(str(home / "backcast" / "compiled"))
    assert (home / "backcast" / "compiled").is_dir()


@pytest.mark.parametrize("name", ["JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"])
def test_what_the_user_has_said_is_kept_to(home, name):
    environment = {name: "0"}
    keep(environment)
    assert environment == {name: "0"}
    assert not home.exists()


def test_without_room_for_it_nothing_is_kept(home):
    home.write_text("a file where the folder would be")
    environment = {}
    keep(environment)
    assert environment == {}
