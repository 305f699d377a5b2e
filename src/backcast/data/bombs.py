"""Small files that would fill the memory."""

from pathlib import Path

from backcast.data.errors import DataError

_SUSPICIOUS = 2**30  # bytes; what is smaller cannot hurt
_RATIO = 100  # images and tables compress five-fold, not a hundred-fold


def refuse_bomb(path: Path, unpacked: int, packed: int) -> None:
    """Refuse a file that says it becomes very much larger when unpacked."""
    if unpacked > max(_SUSPICIOUS, _RATIO * packed):
        raise DataError(
            f"{path} holds {packed:,} bytes and would unpack to {unpacked:,}: it is damaged or "
            "made to fill the memory, and is not read."
        )
