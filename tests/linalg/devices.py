"""Where the tests' arrays live: on one device, or spread over four where there are four.

``JAX_NUM_CPU_DEVICES=4 pytest tests/linalg tests/inference`` runs every test on sharded arrays.
"""

import functools
import re

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

SHARDED = len(jax.devices()) == 4
sharded = pytest.mark.skipif(not SHARDED, reason="needs JAX_NUM_CPU_DEVICES=4")


@functools.cache
def _mesh() -> jax.sharding.Mesh:
    return jax.make_mesh((4,), ("devices",), axis_types=(AxisType.Auto,))


def place(values, spare: int = 0):
    """Spread each leaf over the devices, along its last axis that they divide.

    ``spare`` leading axes stay whole: a factor's rows, a batch.
    """
    if not SHARDED:
        return values
    return jax.tree.map(lambda x: jax.device_put(x, _sharding(np.shape(x), spare)), values)


def is_placed(values, spare: int = 0) -> bool:
    """Whether each leaf lives where `place` would have put it."""
    return all(
        leaf.sharding.is_equivalent_to(_sharding(leaf.shape, spare), leaf.ndim)
        for leaf in jax.tree.leaves(values)
    )


def exchanged(compiled: jax.stages.Compiled) -> set[str]:
    """The kinds of messages that the devices send each other in a compiled function."""
    kinds = "all-reduce|all-gather|all-to-all|collective-permute|collective-broadcast"
    return set(re.findall(rf" ({kinds})(?:-start)?\(", compiled.as_text()))


def _sharding(shape: tuple[int, ...], spare: int) -> NamedSharding:
    fitting = [i for i in range(spare, len(shape)) if shape[i] and shape[i] % 4 == 0]
    axes = ["devices" if fitting and i == fitting[-1] else None for i in range(len(shape))]
    return NamedSharding(_mesh(), PartitionSpec(*axes))
