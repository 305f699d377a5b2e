"""What is said of data sets."""

from backcast.data import public
from data.idx_sets import write_set


def test_missing_sets_are_listed_with_where_to_get_them(backcast, tmp_path):
    code, out, _ = backcast("data", "--data-dir", tmp_path / "sets")
    assert code == 0
    for said in ("digits", "mnist", "fashion-mnist", "camelyon17", "11.6 MB", "10.7 GB"):
        assert said in out
    assert out.count("not here") == 3
    assert f"Looked for in {tmp_path / 'sets'}" in out
    assert f"to {tmp_path / 'sets' / 'mnist'}" in out


def test_what_is_here_is_found(backcast, tmp_path):
    write_set(tmp_path / "sets" / "FashionMNIST" / "raw")
    code, out, _ = backcast("data", "--data-dir", tmp_path / "sets")
    assert code == 0
    assert out.count("not here") == 2
    assert str(tmp_path / "sets" / "FashionMNIST" / "raw") in out


def test_get_downloads_nothing_that_is_here(backcast, tmp_path, monkeypatch):
    monkeypatch.setattr(public, "fetch", _forbidden)
    write_set(tmp_path / "sets" / "mnist")
    code, out, _ = backcast("data", "get", "mnist", "--data-dir", tmp_path / "sets")
    assert (code, out.strip()) == (0, str(tmp_path / "sets" / "mnist"))


def test_get_downloads_to_the_folder_of_data(backcast, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(public, "fetch", lambda *given: asked.append(given))
    code, out, _ = backcast("data", "get", "fashion-mnist", "--data-dir", tmp_path / "sets")
    target = tmp_path / "sets" / "fashion-mnist"
    assert (code, out.strip()) == (0, str(target))
    [(_, checksums, folder, _)] = asked
    assert folder == target
    assert len(checksums) == 4


def _forbidden(*_):
    raise AssertionError("nothing is to be downloaded")
