"""Rank reduction: the only lossy step of the filter."""

from typing import get_args

from backcast.linalg import checks
from backcast.linalg.precision import Precision
from backcast.linalg.spectrum import Remainder, Spectrum


def compress(
    precision: Precision, rank: int | None, remainder: Remainder = "diagonal"
) -> tuple[Precision, Spectrum | None]:
    """Keep what ``rank`` has room for; account for the rest or drop it.

    What the rank counts is the structure's own: the rows of a `DiagLowRank`, the products of a
    `Kronecker`; see their ``compressed``.

    Args:
        precision: the precision to compress.
        rank: how much to keep; all of it if None.
        remainder: ``"diagonal"`` adds the deflated rows' squares to the diagonal, so that
            ``diag(P)`` stays what it was; ``"drop"`` forgets them, as the paper does.

    Returns:
        The compressed precision, positive definite if the given one was, and its `Spectrum` if the
        structure has one.
    """
    rank = None if rank is None else checks.count(rank, "The rank")
    if remainder not in get_args(Remainder):
        raise ValueError(f'`remainder` must be "drop" or "diagonal", but {remainder!r} was given.')
    return precision.compressed(rank, remainder)
