import numpy as np
import pytest
from PIL import Image

from backcast.data import DataError, images

COLOURS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)


def saved(path, mode):
    Image.fromarray(COLOURS).convert(mode).save(path)
    return path


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_colours_are_kept_and_transparency_dropped(tmp_path, mode):
    # CAMELYON17's patches are stored as RGBA.
    assert np.array_equal(images.decode(saved(tmp_path / "a.png", mode)), COLOURS)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P"])
def test_grey_and_indexed_images_become_colours(tmp_path, mode):
    assert images.decode(saved(tmp_path / "a.png", mode)).shape == (5, 7, 3)
    assert images.decode(saved(tmp_path / "a.png", mode), mode="L").shape == (5, 7)


@pytest.mark.parametrize("name", ["deep.png", "deep.tif"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_sixteen_bits_are_refused_and_not_cut_off(tmp_path, name, mode):
    Image.fromarray(np.full((5, 7), 4095, np.uint16)).save(tmp_path / name)
    with pytest.raises(DataError, match=r"more than 8 bits a channel .*into an \.npz file"):
        images.decode(tmp_path / name, mode=mode)


def test_many_images_come_in_order_and_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "_CHUNK", 4)
    paths = [tmp_path / f"{i}.png" for i in range(10)]
    for i, path in enumerate(paths):
        Image.new("L", (3, 2), i).save(path)
    pieces = list(images.decode_all(paths, mode="L"))
    assert [len(piece) for piece in pieces] == [4, 4, 2]
    assert np.concatenate(pieces)[:, 1, 2].tolist() == list(range(10))


def test_without_pillow_the_user_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(DataError, match=r"pip install 'backcast\[app\]'"):
        images.require_pillow()
