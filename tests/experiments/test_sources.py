"""Which data and streams a spec stands for: those of the functions it names, with its values."""

import gzip

import numpy as np
import pytest
from PIL import Image

from backcast import data, tasks
from backcast.data import DataError
from backcast.experiments import Spec, SpecError
from backcast.tasks import transforms
from data.file_sets import write_csv, write_wilds
from data.idx_sets import write_set
from experiments.small import PLAIN


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Small sets of every form."""
    folder = tmp_path_factory.mktemp("sets")
    write_wilds(folder / "histology", 60)
    write_set(folder / "glyphs", 60, 20)
    rows = [[i, i * i % 7, "ab"[i % 2], 2000 + i // 20] for i in range(60)]
    write_csv(folder / "table.csv", [["a", "b", "kind", "year"], *rows])
    np.savez(folder / "arrays.npz", x=np.arange(240.0).reshape(60, 4), y=np.arange(60) % 3)
    (folder / "pictures").mkdir()
    for i in range(20):
        Image.new("RGB", (6, 6), (i, 9 * i, 0)).save(folder / "pictures" / f"{i}.png")
    listed = [[f"{i}.png", "xy"[i % 2], "nm"[i % 4 // 2]] for i in range(20)]
    write_csv(folder / "pictures" / "labels.csv", [["file", "label", "lab"], *listed])
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BACKCAST_CACHE", str(tmp_path / "cache"))


def spec_of(**parts):
    return Spec.parse({**PLAIN, **parts})


SETS = {
    "digits": ({"kind": "digits"}, lambda root: data.digits()),
    "idx": (
        {"kind": "idx", "folder": "glyphs"},
        lambda root: data.idx(root / "glyphs"),
    ),
    "npz": (
        {"kind": "npz", "path": "arrays.npz", "scale": 2.0, "test": 0.2},
        lambda root: data.npz(root / "arrays.npz", scale=2.0),
    ),
    "csv": (
        {"kind": "csv", "path": "table.csv", "label": "kind", "inputs": ["a", "b"], "test": 0.2},
        lambda root: data.csv_table(root / "table.csv", "kind", ["a", "b"]),
    ),
    "wilds": (
        {"kind": "wilds", "folder": "histology", "classes": ["no", "yes"], "size": 4, "test": 0.2},
        lambda root: data.wilds(root / "histology", ("no", "yes"), 4),
    ),
    "images": (
        {"kind": "images", "folder": "pictures", "mode": "L", "test": 0.2},
        lambda root: data.image_table(root / "pictures", mode="L"),
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_every_kind_of_data_is_read(root, name):
    plain, read = SETS[name]
    source = spec_of(data=plain).data
    found, expected = source.dataset(root), read(root)
    assert (found.name, found.classes, found.scale) == (
        expected.name,
        expected.classes,
        expected.scale,
    )
    assert found.fingerprint() == expected.fingerprint()
    parts = source.partition(root, 4)
    same = tasks.holdout(
        expected, 0.1, plain.get("test", 0.2 if name == "digits" else None), seed=4
    )
    for part, rows in same.parts.items():
        np.testing.assert_array_equal(parts.parts[part], rows)


def test_public_sets_are_read_by_name(real_mnist):
    assert len(spec_of(data={"kind": "mnist"}).data.dataset(real_mnist)) == 70_000


@pytest.fixture
def real_mnist():
    import os
    from pathlib import Path

    folder = Path(os.environ.get("BACKCAST_DATA") or "/nonexistent")
    if not (folder / "mnist").exists():
        pytest.skip("needs mnist in BACKCAST_DATA")
    return folder


def test_groups_and_limits_are_kept(root):
    plain = {"kind": "wilds", "folder": "histology", "test": 0.2, "groups": "slide"}
    whole = spec_of(data=plain).data.partition(root, 0)
    few = spec_of(data={**plain, "limit": {"train": 5, "test": 1000}}).data.partition(root, 0)
    slide = whole.dataset.columns["slide"]
    assert not set(slide[whole.train]) & set(slide[whole.test])
    assert len(few.train) == 5
    np.testing.assert_array_equal(np.sort(few.test), whole.test)  # there are no more


def test_the_division_may_have_a_seed_of_its_own():
    own = spec_of(data={"kind": "digits", "seed": 5}).data
    for part, rows in own.partition(None, 5).parts.items():
        np.testing.assert_array_equal(own.partition(None, 6).parts[part], rows)
    free = spec_of(data={"kind": "digits"}).data
    assert not np.array_equal(free.partition(None, 5).test, free.partition(None, 6).test)


@pytest.fixture(scope="module")
def colours():
    """Two slides in two centres, in colour."""
    row = np.arange(80)
    x = np.random.default_rng(0).integers(0, 256, (80, 6, 6, 3), np.uint8)
    columns = {"center": np.where(row % 2, "n", "s"), "year": 2000 + row % 3}
    whole = data.Dataset("colours", x, row // 2 % 4, tuple("abcd"), columns, 255.0)
    return tasks.holdout(whole, 0.2, 0.2, within="center")


FADE = [{"n": 50.0, "s": 50.0}, {"n": 40.0, "s": 60.0}]
STREAMS = {
    "permuted": ({"tasks": 3, "examples": 9}, lambda p, **o: tasks.permuted(p, 3, 9, **o)),
    "disjoint": ({"tasks": 4}, lambda p, **o: tasks.disjoint(p, 4, **o)),
    "pairs": ({"examples": 12}, lambda p, **o: tasks.pairs(p, 12, **o)),
    "by-class": (
        {"groups": [[3], [0, 1]]},
        lambda p, **o: tasks.by_class(p, [[3], [0, 1]], **o),
    ),
    "rotated": ({"degrees": [0.0, 9.0]}, lambda p, **o: tasks.rotated(p, (0.0, 9.0), **o)),
    "brightness": (
        {"shifts": [0.0, 0.1], "examples": 20},
        lambda p, **o: tasks.brightness(p, (0.0, 0.1), 20, **o),
    ),
    "blurred": ({"sigmas": [0.0, 1.0]}, lambda p, **o: tasks.blurred(p, (0.0, 1.0), **o)),
    "stained": ({"strengths": [-0.5, 0.5]}, lambda p, **o: tasks.stained(p, (-0.5, 0.5), **o)),
    "by-column": (
        {"column": "year", "order": [2001, 2000]},
        lambda p, **o: tasks.by_column(p, "year", order=[2001, 2000], **o),
    ),
    "mixed": (
        {"column": "center", "percentages": FADE, "examples": 11},
        lambda p, **o: tasks.mixed(p, "center", FADE, 11, **o),
    ),
    "imbalanced": (
        {"column": "center", "percentages": [{"n": 50.0}, {"n": 40.0, "s": 60.0}]},
        lambda p, **o: tasks.imbalanced(p, "center", [{"n": 50.0}, {"n": 40.0, "s": 60.0}], **o),
    ),
}
FINISHES = {
    "usual": (None, None),
    "none": ("none", transforms.identity),
    "imagenet": ("imagenet", transforms.imagenet),
    "own": (
        {"mean": [0.1, 0.2, 0.3], "deviation": [2.0, 3.0, 4.0]},
        lambda x: (x - np.float32([0.1, 0.2, 0.3])) / np.float32([2, 3, 4]),
    ),
}


@pytest.mark.filterwarnings("ignore:.*example is of class")
@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("finish", FINISHES)
def test_every_kind_of_stream_is_its_function(colours, kind, finish):
    plain, make = STREAMS[kind]
    stated, transform = FINISHES[finish]
    more = {} if stated is None else {"normalise": stated}
    found = spec_of(stream={"kind": kind, **plain, **more}).stream.stream(colours, 3)
    expected = make(colours, finish=transform, seed=3)
    assert found.names == expected.names
    for a, b in zip(found, expected, strict=True):
        assert a.time == b.time
        for part in ("train", "validation", "test"):
            np.testing.assert_array_equal(getattr(a, part).x, getattr(b, part).x)
            np.testing.assert_array_equal(getattr(a, part).y, getattr(b, part).y)


def test_one_number_standardises_everything(colours):
    plain = {"kind": "disjoint", "normalise": {"mean": [0.5], "deviation": [0.25]}}
    task = spec_of(stream=plain).stream.stream(colours, 0)[0]
    assert (task.train.x.min(), task.train.x.max()) == (-2, 2)


@pytest.mark.filterwarnings("ignore:.*example is of class")
def test_a_table_is_standardised_column_by_column(root):
    spec = spec_of(
        data=SETS["csv"][0],
        stream={
            "kind": "by-column",
            "column": "year",
            "normalise": {"mean": [10.0, 1.0], "deviation": [2.0, 4.0]},
        },
    )
    parts = spec.data.partition(root, 0)
    task = spec.stream.stream(parts, 0)[0]
    rows = parts.train[parts.dataset.columns["year"][parts.train] == 2000]
    np.testing.assert_allclose(task.train.x, (parts.dataset.x[rows] - [10, 1]) / [2, 4])


@pytest.mark.parametrize(
    ("normalise", "error", "message"),
    [
        ({"mean": [0.1, 0.2], "deviation": [1.0, 1.0]}, SpecError, r"2 means .*\(8, 8\); give 1\."),
        ("imagenet", DataError, r"needs images \(n, height, width, 3\)"),
    ],
)
def test_what_does_not_fit_the_inputs_is_refused(normalise, error, message):
    spec = spec_of(stream={"kind": "permuted", "normalise": normalise})
    with pytest.raises(error, match=message):
        spec.stream.stream(spec.data.partition(None, 0), 0)


def test_damaged_data_are_said(tmp_path):
    write_set(tmp_path / "glyphs", suffix=".gz")
    file = tmp_path / "glyphs" / "train-images-idx3-ubyte.gz"
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()))[:-20])
    with pytest.raises(DataError, match=r"train-images.*cannot be read"):
        spec_of(data={"kind": "idx", "folder": "glyphs"}).data.partition(tmp_path, 0)
