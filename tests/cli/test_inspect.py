"""What ``backcast inspect`` says of each leaf."""

import jax.numpy as jnp
import pytest

from backcast.cli.commands.inspect import forms
from backcast.linalg import Block, DiagLowRank, Kronecker, Rotated

LAYER = (Block(2, (0,), (1,), 0, (0,)),)
VECTOR = {"bias": jnp.ones(3), "scale": jnp.ones(3), "weight": jnp.ones((4, 3))}
FORMS = {
    "diagonal": (DiagLowRank.isotropic(VECTOR, 1.0), ["diagonal"] * 3),
    "rows": (DiagLowRank.isotropic(VECTOR, 1.0, rank=2), ["diagonal + 2 rows"] * 3),
    "products": (Kronecker.isotropic(VECTOR, 1.0, LAYER), "1 products of 5 x 3"),
    "rotated": (Rotated.isotropic(VECTOR, 1.0, LAYER), "rotated 5 x 3"),
    "leading": (Rotated.isotropic(VECTOR, 1.0, LAYER, 4), "rotated 5 x 3, 4 x 3 kept"),
}


@pytest.mark.parametrize(("precision", "layer"), FORMS.values(), ids=FORMS)
def test_every_leaf_is_told_how_it_is_believed(precision, layer):
    expected = layer if isinstance(layer, list) else [layer, "diagonal", layer]
    assert forms(precision) == expected
