"""How the precision of a belief is structured: what a task's curvature is, and what is kept of it.

Elastic weight consolidation, OSLA and low-rank filtering differ in this alone; the loop is one.
"""

import dataclasses
from typing import Any

from backcast.learning.files import LoadError
from backcast.learning.structures.base import Found, Learned, Structure
from backcast.learning.structures.isotropic import Isotropic
from backcast.learning.structures.low_rank import LowRank
from backcast.learning.structures.path_integral import PathIntegral
from backcast.learning.structures.products import Products
from backcast.learning.structures.rotations import Rotations

__all__ = [
    "Found",
    "Isotropic",
    "Learned",
    "LowRank",
    "PathIntegral",
    "Products",
    "Rotations",
    "Structure",
    "as_plain",
    "from_plain",
]

_KINDS: tuple[type[Structure], ...] = (LowRank, Products, Rotations, Isotropic, PathIntegral)


def as_plain(structure: Structure) -> dict[str, Any]:
    """Plain data for a JSON file."""
    return {"kind": type(structure).__name__, **dataclasses.asdict(structure)}


def from_plain(plain: dict[str, Any]) -> Structure:
    """The structure that `as_plain` wrote."""
    fields = {name: value for name, value in plain.items() if name != "kind"}
    kinds: dict[str, Any] = {kind.__name__: kind for kind in _KINDS}
    if plain["kind"] not in kinds:
        raise LoadError(
            f"The precision has the structure {plain['kind']!r}, which this version does not know: "
            f"it knows {', '.join(kinds)}. Update backcast to load it."
        )
    return kinds[plain["kind"]](**fields)
