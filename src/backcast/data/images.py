"""Decoding images: many at a time, and none that is not what it should be."""

import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import UInt8

from backcast.data.errors import DataError
from backcast.data.watching import bar

Mode = Literal["RGB", "L"]

_FORMATS = ("PNG", "JPEG", "BMP", "TIFF")  # not those that run programs, as PostScript does
_BYTES = frozenset({"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "CMYK", "YCbCr", "LAB"})
_MOST_PIXELS = 2**25
_CHUNK = 512


def decode(path: Path, size: int | None = None, mode: Mode = "RGB") -> UInt8[np.ndarray, "h w *c"]:
    """One image, in colour or grey, averaged to ``size`` x ``size`` if that is given."""
    from PIL import Image

    try:
        with path.open("rb") as file, Image.open(file, formats=_FORMATS) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise DataError(
                    f"{path} says it is {image.width} x {image.height} pixels; images of more than "
                    f"{_MOST_PIXELS:,} pixels are not read, for they would fill the memory."
                )
            if image.mode not in _BYTES:  # Pillow would cut off what exceeds 255
                raise DataError(
                    f"{path} has more than 8 bits a channel ({image.mode}), which would be lost. "
                    "Save it with 8 bits, or put the pixels into an .npz file and read that."
                )
            pixels = image.convert(mode)
            if size is not None and pixels.size != (size, size):
                pixels = pixels.resize((size, size), Image.Resampling.BOX)
            return np.asarray(pixels)
    except DataError:
        raise
    except Exception as error:  # decoders raise all sorts of things on damaged files
        raise DataError(
            f"{path} cannot be read as an image ({error}). Get the file again, or take it off the "
            "list."
        ) from error


def decode_all(
    paths: Sequence[Path],
    size: int | None = None,
    mode: Mode = "RGB",
) -> Generator[UInt8[np.ndarray, "m h w *c"]]:
    """All images in order, some hundreds at a time, decoded by as many threads as processors.

    Without ``size`` all must be of the size of the first.
    """
    shape = decode(paths[0], size, mode).shape

    def one(path: Path) -> np.ndarray:
        image = decode(path, size, mode)
        if image.shape != shape:
            raise DataError(
                f"{path} is {image.shape[1]} x {image.shape[0]} pixels and {paths[0].name} "
                f"{shape[1]} x {shape[0]}. Give a size for all, as in size={shape[0]}."
            )
        return image

    # A process may use fewer processors than the machine has.
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    total = len(paths)
    with ThreadPoolExecutor(workers) as pool, bar("Decoding", total, "images") as advance:
        for start in range(0, total, _CHUNK):
            pixels = list(pool.map(one, paths[start : start + _CHUNK]))
            yield np.stack(pixels)
            advance(len(pixels))


def require_pillow() -> None:
    """Say what to install if images cannot be decoded."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise DataError("Images are read by Pillow: pip install 'backcast[app]'.") from error
