"""``backcast data``: which data sets are here, and where the others are to be had."""

from typing import Annotated

from cyclopts import App, Parameter

from backcast.cli import options, screen

command = App(name="data", help="Show which data sets are here, or download one.")


@command.default
def show(*, data_dir: options.DataDir = None) -> int:
    """Show which data sets are here, where they are looked for, and where to get the others."""
    from backcast.data.catalogue import catalogue
    from backcast.data.places import CACHE, ROOT, cache_folder, root_folder

    entries = catalogue(data_dir)
    rows = [
        [entry.name, screen.size(entry.size), str(entry.found or "not here")] for entry in entries
    ]
    screen.table(rows, ["Data", "size", "where"], words=3)
    for entry in entries:
        if entry.found is None:
            screen.say(f"{entry.name}: {entry.advice}\n")
    screen.say(f"Looked for in {root_folder(data_dir)} (--data-dir, or {ROOT}).")
    screen.say(f"Decoded images are kept in {cache_folder(None)} ({CACHE}).")
    screen.say(
        "Of your own: idx files, .npz arrays, CSV tables, folders of images; see kind in [data]."
    )
    return 0


@command.command
def get(
    name: Annotated[str, Parameter(help="mnist or fashion-mnist.")],
    /,
    *,
    data_dir: options.DataDir = None,
) -> int:
    """Download a public data set, if it is not here; its checksums are verified."""
    from backcast.data.catalogue import get as fetched

    screen.say(str(fetched(name, data_dir)))
    return 0
