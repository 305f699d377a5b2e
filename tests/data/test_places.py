from pathlib import Path

import pytest

from backcast.data import DataError, places


@pytest.fixture
def three_roots(tmp_path, monkeypatch):
    """A folder given, one named by the environment, and the one of the process."""
    folders = [tmp_path / name for name in ("given", "named", "here")]
    for folder in folders:
        (folder / "set").mkdir(parents=True)
    monkeypatch.setenv("BACKCAST_DATA", str(folders[1]))
    monkeypatch.chdir(folders[2])
    return folders


def test_a_folder_given_goes_before_the_environment_and_that_before_here(three_roots):
    given, named, here = three_roots
    assert places.locate("set", given) == given / "set"
    assert places.locate("set", None) == named / "set"
    (named / "set").rmdir()
    assert places.locate("set", None) == here / "set"
    assert places.locate(given / "set", None) == given / "set"


def test_what_is_nowhere_is_said_with_every_place(three_roots):
    given, _, here = three_roots
    with pytest.raises(DataError) as caught:
        places.locate("absent", given, "It is sold by the metre.")
    message = str(caught.value)
    assert f"There is no {given / 'absent'} nor {here / 'absent'}." in message
    assert "BACKCAST_DATA" in message
    assert message.endswith("It is sold by the metre.")


def test_without_a_setting_data_are_in_the_users_own_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("BACKCAST_DATA", raising=False)
    monkeypatch.delenv("BACKCAST_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert places.root_folder(None) == tmp_path / "backcast"
    assert places.cache_folder(None) == tmp_path / "backcast" / "decoded"
    assert places.cache_folder("~/own") == Path.home() / "own"


def test_a_file_is_known_by_its_size_and_time(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("text")
    before = places.signatures(tmp_path, ["a", "b"], "list")
    assert before.tolist()[0] == [4, (tmp_path / "a").stat().st_mtime_ns]
    (tmp_path / "b").write_text("longer")
    after = places.signatures(tmp_path, ["a", "b"], "list")
    assert after[0].tolist() == before[0].tolist()
    assert after[1].tolist() != before[1].tolist()


@pytest.mark.parametrize("name", ["../a", "b/../../a", "/etc/passwd", "C:/a", "..\\a", "a\0"])
def test_no_name_leads_out(tmp_path, name):
    with pytest.raises(DataError, match="leads out of"):
        places.signatures(tmp_path, [name], "list")


def test_a_link_that_stays_inside_is_followed(tmp_path):
    (tmp_path / "a").write_text("text")
    (tmp_path / "b").symlink_to("a")
    assert len(places.signatures(tmp_path, ["a", "b"], "list")) == 2
