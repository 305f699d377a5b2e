import gzip
import hashlib
from dataclasses import replace

import pytest

from backcast import data
from backcast.data import DataError, public
from backcast.data.idx import NAMES
from data.idx_sets import write_set


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A small set published as Fashion-MNIST, and what was fetched of it."""
    write_set(tmp_path / "published", suffix=".gz")
    files = {name: (tmp_path / "published" / f"{name}.gz").read_bytes() for name in NAMES}
    monkeypatch.setattr(
        public,
        "_FASHION",
        replace(
            public._FASHION,
            classes=("a", "b", "c"),
            md5={name: hashlib.md5(content).hexdigest() for name, content in files.items()},
        ),
    )
    fetched = []

    def fetch(base, checksums, folder, name):
        fetched.append(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for file in checksums:
            (folder / file).write_bytes(files[file.removesuffix(".gz")])

    monkeypatch.setattr(public, "fetch", fetch)
    return fetched


@pytest.mark.parametrize("folder", ["fashion-mnist", "fashion_mnist", "FashionMNIST/raw"])
def test_it_is_found_where_others_put_it(tmp_path, small, folder):
    write_set(tmp_path / folder)
    found = data.fashion_mnist(tmp_path)
    assert len(found) == 8
    assert found.name == "Fashion-MNIST"
    assert found.classes == ("a", "b", "c")
    assert small == []


def test_it_is_fetched_once(tmp_path, small):
    assert len(data.fashion_mnist(tmp_path / "new")) == 8
    assert len(data.fashion_mnist(tmp_path / "new")) == 8
    assert small == [tmp_path / "new" / "fashion-mnist"]


def test_what_an_interruption_left_out_is_fetched(tmp_path, small):
    data.fashion_mnist(tmp_path)
    (tmp_path / "fashion-mnist" / f"{NAMES[2]}.gz").unlink()
    assert len(data.fashion_mnist(tmp_path)) == 8
    assert len(small) == 2


def test_beside_a_read_only_folder_it_goes_to_the_users_own(tmp_path, small, monkeypatch):
    monkeypatch.setattr(public.os, "access", lambda *_: False)  # root may write anywhere
    assert len(data.fashion_mnist(tmp_path)) == 8
    assert small == [tmp_path / "user" / "backcast" / "fashion-mnist"]
    assert len(data.fashion_mnist(tmp_path)) == 8
    assert len(small) == 1


def test_a_damaged_file_is_not_taken(tmp_path, small):
    data.fashion_mnist(tmp_path)
    file = tmp_path / "fashion-mnist" / f"{NAMES[0]}.gz"
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes())[:-3]))
    with pytest.raises(DataError, match=f"{file.name}.*Delete it and get it again"):
        data.fashion_mnist(tmp_path)


def test_the_published_sums_are_of_the_published_form():
    for published in (public._MNIST, public._FASHION):
        assert list(published.md5) == list(NAMES)
        assert all(len(md5) == 32 for md5 in published.md5.values())
        assert published.address.startswith("https://")
