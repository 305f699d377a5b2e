"""How large a low-rank matrix is, block by block."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float


def blocks(
    leaves: Iterable[Float[np.ndarray, "k ..."]], most: int
) -> list[list[Float[np.ndarray, "k _"]]]:
    """Each leaf of a factor in at most so many blocks of columns, as equal as can be."""
    flat = [leaf.reshape(len(leaf), -1) for leaf in leaves]
    return [np.array_split(leaf, min(most, leaf.shape[1]), axis=1) for leaf in flat]


def magnitudes(columns: Iterable[Float[np.ndarray, "k _"]]) -> Float[np.ndarray, "B B"]:
    """The root mean square of the entries of ``W^T W`` in each pair of blocks of columns.

    With ``G_a = W_a W_a^T`` it is ``(tr(G_a G_b) / (n_a n_b))^(1/2)``: no entry is ever formed.
    """
    grams = np.stack([w.astype(float) @ w.T.astype(float) / w.shape[1] for w in columns])
    return np.sqrt(np.einsum("aij,bij->ab", grams, grams).clip(min=0))
