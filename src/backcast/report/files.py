"""Files that are there whole or not at all."""

from collections.abc import Callable
from pathlib import Path

from backcast.learning.files import settle, temporary
from backcast.report.style import Drawing, styled


def written(path: Path, text: str) -> Path:
    """A text as a file."""
    _whole(path, lambda part: part.write_text(text, encoding="utf-8"))
    return path


def drawn(path: Path, drawing: Drawing) -> Path:
    """A figure as PNG or PDF, by the path's suffix; its bytes depend on nothing but the figure."""
    kind = path.suffix[1:]
    dates = {"CreationDate": None} if kind == "pdf" else None
    with styled():
        _whole(path, lambda part: drawing.figure.savefig(part, format=kind, metadata=dates))
    return path


def _whole(path: Path, write: Callable[[Path], object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary(path.parent) as part:
        write(part)
        settle(part, path)
