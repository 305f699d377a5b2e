"""Which data sets are here, and where the others are to be had."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import final

from backcast.data.embedded import DIGITS
from backcast.data.errors import DataError
from backcast.data.patches import CAMELYON17
from backcast.data.places import root_folder
from backcast.data.public import ensure, place_of, public_sets, target_of

_WILDS = ("camelyon17", "camelyon17_v1.0", 10_700_000_000)


@final
@dataclass(frozen=True)
class Entry:
    """A data set that is known by name.

    Attributes:
        name: as specs have it.
        size: of what is to be downloaded, or of what came with the package, in bytes.
        found: where it is, or None if it is not here.
        advice: how to get it.
    """

    name: str
    size: int
    found: Path | None
    advice: str


def catalogue(root: str | Path | None = None) -> list[Entry]:
    """All data sets that are known by name.

    Args:
        root: the folder of all data, if not ``$BACKCAST_DATA``.
    """
    digits = Path(str(DIGITS))
    entries = [Entry("digits", digits.stat().st_size, digits, "It comes with backcast.")]
    for name, public in public_sets().items():
        advice = (
            f"`backcast data get {name}` downloads it from {public.address} to "
            f"{target_of(public, root)}."
        )
        entries.append(Entry(name, public.size, place_of(public, root), advice))
    name, folder, size = _WILDS
    here = root_folder(root) / folder
    found = here if (here / "metadata.csv").is_file() else None
    return [*entries, Entry(name, size, found, CAMELYON17)]


def get(name: str, root: str | Path | None = None) -> Path:
    """The folder of a public set, downloaded if it is not here.

    Args:
        name: as specs have it.
        root: the folder of all data, if not ``$BACKCAST_DATA``.
    """
    known = public_sets()
    if name in known:
        return ensure(known[name], root)
    for entry in catalogue(root):
        if entry.name == name and entry.found is not None:
            return entry.found
        if entry.name == name:
            raise DataError(f"{name} is not downloaded for you. {entry.advice}")
    close = difflib.get_close_matches(name, known, 1)
    meant = f", did you mean '{close[0]}'?" if close else "."
    raise DataError(
        f"There is no data set '{name}'{meant} There is: {', '.join(known)}. Others are given by "
        "their path in the [data] of a spec."
    )
