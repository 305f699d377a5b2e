import os
import struct
import time
import zlib

import numpy as np
import pytest
from PIL import Image

from backcast import data
from backcast.data import DataError, images


def first_patch(folder):
    return sorted(folder.glob("patches/*/*.png"))[0]


def test_patches_labels_and_columns_are_read(wilds_set):
    histology = data.wilds(wilds_set())
    assert histology.x.shape == (12, 8, 8, 3)
    assert histology.x[:, 3, 4].tolist() == [[i, 100 + i, 255 - i] for i in range(12)]
    assert histology.y.tolist() == [0, 1] * 6
    assert histology.classes == ("normal", "tumor")
    assert histology.name == "histology_v1.0"
    assert histology.columns["patient"][3] == "001"
    assert histology.where(center=1).tolist() == [6, 7, 8, 9, 10, 11]
    assert "" not in histology.columns


def test_the_second_time_nothing_is_decoded(wilds_set, monkeypatch):
    folder = wilds_set()
    before = data.wilds(folder)
    monkeypatch.setattr(images, "decode_all", None)
    again = data.wilds(folder)
    assert isinstance(again.x, np.memmap)
    assert np.array_equal(again.x, before.x)


def test_a_changed_patch_is_seen(wilds_set):
    folder = wilds_set()
    data.wilds(folder)
    Image.new("RGB", (8, 8), (7, 7, 7)).save(first_patch(folder))
    assert (data.wilds(folder).x[0] == 7).all()


def test_half_size_is_the_mean_of_four_pixels(wilds_set):
    folder = wilds_set()
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    Image.fromarray(noise).save(first_patch(folder))
    half = data.wilds(folder, size=4).x
    assert half.shape == (12, 4, 4, 3)
    mean = noise.reshape(4, 2, 4, 2, 3).mean(axis=(1, 3))
    assert np.abs(half[0] - mean).max() <= 1  # Pillow rounds after each of the two directions


def test_progress_is_drawn_for_a_terminal(wilds_set, monkeypatch, capsys):
    data.wilds(wilds_set())
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    data.wilds(wilds_set(), size=2)
    shown = capsys.readouterr().err
    assert "Decoding" in shown
    assert "12/12" in shown


def test_without_the_set_the_user_is_told_where_it_is(tmp_path):
    with pytest.raises(DataError, match=r"10\.7 GB: download https://worksheets\.codalab\.org"):
        data.wilds(root=tmp_path)


def test_a_folder_is_found_below_the_folder_of_all_data(wilds_set, monkeypatch):
    folder = wilds_set()
    monkeypatch.setenv("BACKCAST_DATA", str(folder.parent))
    assert len(data.wilds(folder.name)) == 12


def test_rows_without_a_file_are_counted(wilds_set):
    folder = wilds_set()
    missing = first_patch(folder)
    missing.unlink()
    with pytest.raises(
        DataError, match=rf"lists 12 files and 1 of them are not in .*{missing.name}"
    ):
        data.wilds(folder)


def test_a_truncated_patch_is_named(wilds_set):
    folder = wilds_set(side=64)
    patch = sorted(folder.glob("patches/*/*.png"))[5]
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(patch)
    patch.write_bytes(patch.read_bytes()[:3000])
    with pytest.raises(DataError, match=rf"{patch.name} cannot be read as an image"):
        data.wilds(folder)
    assert not list((folder.parent / "cache").iterdir())


def test_patches_of_two_sizes_are_refused(wilds_set):
    folder = wilds_set()
    Image.new("RGB", (9, 8)).save(sorted(folder.glob("patches/*/*.png"))[5])
    with pytest.raises(DataError, match=r"is 9 x 8 pixels and .* 8 x 8. Give a size"):
        data.wilds(folder)
    assert data.wilds(folder, size=8).x.shape == (12, 8, 8, 3)


@pytest.mark.parametrize("side", [6_000, 12_000, 40_000])
def test_an_image_bomb_is_refused(wilds_set, side):
    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    folder = wilds_set()
    first_patch(folder).write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(bytes(10_000)))
        + chunk(b"IEND", b"")
    )
    with pytest.raises(DataError, match=r"fill the memory|bomb"):
        data.wilds(folder)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("patient", "../../../etc", "leads out of"),
        ("tumor", "2", r"classes are 0 \.\.\. 1"),
        ("tumor", "yes", "'yes', which is not a number"),
    ],
)
def test_hostile_metadata_is_refused(wilds_set, column, value, message):
    folder = wilds_set()
    table = folder / "metadata.csv"
    lines = [line.split(",") for line in table.read_text().splitlines()]
    lines[2][lines[0].index(column)] = value
    table.write_text("\n".join(",".join(line) for line in lines))
    with pytest.raises(DataError, match=message):
        data.wilds(folder)


def test_a_missing_column_is_named(wilds_set, write_table):
    folder = wilds_set()
    write_table(folder / "metadata.csv", [["patient", "node"], ["000", "1"]])
    with pytest.raises(
        DataError, match="lacks the columns x_coord, y_coord, tumor; it has patient"
    ):
        data.wilds(folder)


@pytest.mark.parametrize("label", ["1", "0"])
def test_a_patch_listed_twice_must_have_one_label(wilds_set, label):
    folder = wilds_set()
    table = folder / "metadata.csv"
    lines = [line.split(",") for line in table.read_text().splitlines()]
    lines.append([*lines[1][:5], label, *lines[1][6:]])
    table.write_text("\n".join(",".join(line) for line in lines))
    if label == lines[1][5]:
        assert len(data.wilds(folder)) == 13
    else:
        with pytest.raises(DataError, match=r"_x_0_y_5\.png twice, once labelled '0' and once '1'"):
            data.wilds(folder)


def picture_table(tmp_path, write_table, files):
    folder = tmp_path / "pictures"
    for i, file in enumerate(files):
        if ".." not in file and not file.startswith("/"):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (6, 4), (i, 0, 0)).save(folder / file)
    rows = [[file, "cat" if i % 2 else "ant", 2000 + i] for i, file in enumerate(files)]
    write_table(folder / "labels.csv", [["file", "label", "year"], *rows])
    return folder


def test_a_folder_of_images_with_a_table(tmp_path, write_table):
    folder = picture_table(tmp_path, write_table, ["a/one.png", "two.jpg", "three.bmp"])
    pictures = data.image_table(folder)
    assert pictures.x.shape == (3, 4, 6, 3)
    assert pictures.classes == ("ant", "cat")
    assert pictures.y.tolist() == [0, 1, 0]
    assert pictures.columns["year"].tolist() == [2000, 2001, 2002]
    assert data.image_table(folder, mode="L", size=2).x.shape == (3, 2, 2)


def test_numbers_may_be_what_is_predicted(tmp_path, write_table):
    folder = picture_table(tmp_path, write_table, ["a.png", "b.png"])
    ages = data.image_table(folder, label="year", target="number")
    assert ages.classes == ()
    assert ages.y.tolist() == [2000, 2001]


def test_an_image_without_a_class_is_named(tmp_path, write_table):
    folder = picture_table(tmp_path, write_table, ["a.png", "b.png"])
    write_table(folder / "labels.csv", [["file", "label"], ["a.png", "cat"], ["b.png", " "]])
    with pytest.raises(DataError, match="column 'label': entry 2 names no class"):
        data.image_table(folder)


@pytest.mark.parametrize("escape", ["../secret.png", "/etc/secret.png", "a/../../secret.png"])
def test_no_listed_path_leads_out(tmp_path, write_table, escape):
    Image.new("RGB", (6, 4)).save(tmp_path / "secret.png")
    folder = picture_table(tmp_path, write_table, ["one.png", escape])
    with pytest.raises(DataError, match=r"leads out of .* No file outside is read"):
        data.image_table(folder)


@pytest.mark.parametrize("name", ["link.png", "link/secret.png"])
def test_no_symbolic_link_leads_out(tmp_path, write_table, name):
    folder = picture_table(tmp_path, write_table, ["one.png"])
    (tmp_path / "outside").mkdir()
    Image.new("RGB", (6, 4)).save(tmp_path / "outside" / "secret.png")
    target = tmp_path / "outside" / ("secret.png" if name == "link.png" else "")
    (folder / name.split("/")[0]).symlink_to(target)
    write_table(folder / "labels.csv", [["file", "label"], ["one.png", "a"], [name, "b"]])
    with pytest.raises(DataError, match="leads out of"):
        data.image_table(folder)


def test_programs_are_not_run_to_decode(tmp_path, write_table):
    folder = picture_table(tmp_path, write_table, ["one.png"])
    (folder / "one.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 4\nshowpage\n")
    with pytest.raises(DataError, match="cannot be read as an image"):
        data.image_table(folder)


def test_real_patches_load_fast(real_data):
    folder = real_data("breakhis96")
    start = time.perf_counter()
    first = data.wilds(folder, ("benign", "malignant"))
    middle = time.perf_counter()
    again = data.wilds(folder, ("benign", "malignant"))
    end = time.perf_counter()
    assert first.x.shape == again.x.shape == (6772, 96, 96, 3)
    assert np.bincount(first.y).tolist() == [2188, 4584]
    row = 4321
    patient, x, y = (first.columns[c][row] for c in ("patient", "x_coord", "y_coord"))
    file = (
        folder
        / f"patches/patient_{patient}_node_0"
        / (f"patch_patient_{patient}_node_0_x_{x}_y_{y}.png")
    )
    assert np.array_equal(again.x[row], np.asarray(Image.open(file).convert("RGB")))
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        assert middle - start <= 30
    assert end - middle <= 1
