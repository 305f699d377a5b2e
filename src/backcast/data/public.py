"""Public sets by name: found where they usually are, or downloaded."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from backcast.data.dataset import Dataset
from backcast.data.download import fetch
from backcast.data.idx import NAMES, find_files, load_idx
from backcast.data.places import root_folder, user_folder


@final
@dataclass(frozen=True)
class Public:
    """A set in four idx files, and how to tell it from another."""

    name: str
    folders: tuple[str, ...]
    address: str
    size: int
    """Of the download, in bytes."""
    md5: dict[str, str]
    """Of the files as published, for what is downloaded."""
    classes: tuple[str, ...]
    sha256: dict[str, str] = field(default_factory=dict)
    """Of the unpacked files, for what is found: others pack them otherwise."""


def _by_file(*sums: str) -> dict[str, str]:
    return dict(zip(NAMES, sums, strict=True))


_MNIST = Public(
    "MNIST",
    ("mnist", "MNIST/raw", "."),
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    11_594_722,
    _by_file(
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    tuple("0123456789"),
    _by_file(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)

_FASHION = Public(
    "Fashion-MNIST",
    ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw"),
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    30_878_645,
    _by_file(
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
)


def mnist(root: str | Path | None = None) -> Dataset:
    """MNIST: 70,000 handwritten digits, 28 x 28; the last 10,000 were published as the test set.

    Looked for in ``root`` or ``$BACKCAST_DATA`` (there, in ``mnist/`` or ``MNIST/raw/``), and
    downloaded (11 MB) if it is not there.
    """
    return _load(_MNIST, root)


def fashion_mnist(root: str | Path | None = None) -> Dataset:
    """Fashion-MNIST: 70,000 articles of clothing, 28 x 28, in MNIST's files.

    Looked for in ``root`` or ``$BACKCAST_DATA`` (there, in ``fashion-mnist/`` or
    ``FashionMNIST/raw/``), and downloaded (30 MB) if it is not there.
    """
    return _load(_FASHION, root)


def public_sets() -> dict[str, Public]:
    """All of them, by the names that specs and the command line have for them."""
    return {"mnist": _MNIST, "fashion-mnist": _FASHION}


def place_of(public: Public, root: str | Path | None) -> Path | None:
    """The folder that holds all files of a set, if there is one."""
    folder = root_folder(root)
    for place in [*(folder / name for name in public.folders), target_of(public, root)]:
        if len(find_files(place)) == len(NAMES):
            return place
    return None


def target_of(public: Public, root: str | Path | None) -> Path:
    """The folder that a set is downloaded to."""
    folder = root_folder(root)
    return (folder if _writable(folder) else user_folder()) / public.folders[0]


def ensure(public: Public, root: str | Path | None) -> Path:
    """The folder that holds all files of a set, downloaded if they are nowhere."""
    place = place_of(public, root)
    if place is None:
        place = target_of(public, root)
        checksums = {f"{file}.gz": f"md5:{md5}" for file, md5 in public.md5.items()}
        fetch(public.address, checksums, place, public.name)
    return place


def _load(public: Public, root: str | Path | None) -> Dataset:
    files = find_files(ensure(public, root))
    return load_idx(public.name, files, public.classes, public.sha256)


def _writable(folder: Path) -> bool:
    """Whether files can be put into a folder, which may have to be made first."""
    existing = next(place for place in [folder, *folder.absolute().parents] if place.exists())
    return os.access(existing, os.W_OK)
