"""Fetching public files: checked, shown, and never half there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backcast.data.errors import DataError
from backcast.data.watching import bar

_PIECE = 2**16  # bytes
_PATIENCE = 20  # seconds without an answer


def fetch(base: str, checksums: Mapping[str, str], folder: Path, name: str) -> None:
    """Download files into a folder.

    A file appears there only when it is complete and its checksum right.

    Args:
        base: what their addresses begin with.
        checksums: for each file, ``algorithm:hex``.
        folder: where they go.
        name: what they are, for the progress bar and messages.
    """
    by_hand = (
        f"put these files of {name} into {folder}: {', '.join(checksums)}. They are at {base} ."
    )
    try:
        import pooch
        import requests
    except ImportError as error:
        raise DataError(
            f"{name} is not there, and nothing is installed to download it with. Install it (pip "
            f"install 'backcast[app]'), or {by_hand}"
        ) from error

    def get(url: str, output_file: str, _: Any) -> None:
        with (
            requests.get(url, stream=True, timeout=_PATIENCE) as response,
            open(output_file, "wb") as file,
        ):
            response.raise_for_status()
            size = int(response.headers.get("content-length", 0)) or None
            with bar(f"{name}: {url.rpartition('/')[2]}", size) as advance:
                for piece in response.iter_content(_PIECE):
                    file.write(piece)
                    advance(len(piece))

    broken = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
    for file, checksum in checksums.items():
        try:
            pooch.retrieve(base + file, checksum, file, folder, downloader=get)  # pyright: ignore[reportArgumentType]
        except (requests.RequestException, OSError, ValueError) as error:
            if isinstance(error, broken):
                reason = "there is no connection, or it broke off"
            elif "hash" in str(error):
                reason = "what came is not the published file"
            else:
                reason = str(error)
            raise DataError(
                f"{file} could not be downloaded: {reason}. Try again, or {by_hand}"
            ) from error
