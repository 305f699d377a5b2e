"""Spread over four devices, a factor stays spread: results lie as their inputs do.

What the devices tell each other are sums of ``k`` or ``k x k`` numbers, never rows.
"""

import jax
import numpy as np
import pytest

from backcast.linalg import DiagLowRank, compress
from linalg.devices import exchanged, is_placed, sharded
from linalg.precisions import size, unflatten

SPACE = {"narrow": (8, 3), "wide": (2, 3, 8), "scale": ()}
D = size(SPACE)


def precision(rank: int) -> DiagLowRank:
    rng = np.random.default_rng(rank)
    d, W = rng.uniform(0.5, 1, D), rng.standard_normal((rank, D))
    return DiagLowRank(
        unflatten(SPACE, d.astype(np.float32)), unflatten(SPACE, W.astype(np.float32))
    )


VECTORS = {
    "mv": lambda P, x, key: P.mv(x),
    "gain": lambda P, x, key: P.gain(jax.tree.map(abs, x), x),
    "solve": lambda P, x, key: P.solve(x),
    "variance": lambda P, x, key: P.variance(),
    "diagonal": lambda P, x, key: P.diagonal(),
    "sample": lambda P, x, key: P.sample(key),
}
PRECISIONS = {
    "add": lambda P, x, key: P.add(precision(2)),
    "scale": lambda P, x, key: P.scale(2.0),
    "drift": lambda P, x, key: P.drift(jax.tree.map(abs, x)),
    "compress": lambda P, x, key: compress(P, 2)[0],
    "drop": lambda P, x, key: compress(P, 2, "drop")[0],
}
NUMBERS = {
    "quad": lambda P, x, key: P.quad(x),
    "logdet": lambda P, x, key: P.logdet(),
}


@sharded
@pytest.mark.parametrize("name", [*VECTORS, *PRECISIONS, *NUMBERS])
def test_results_lie_as_their_inputs_do_and_no_rows_are_sent(name):
    operation = {**VECTORS, **PRECISIONS, **NUMBERS}[name]
    rng = np.random.default_rng(0)
    arguments = (
        precision(3),
        unflatten(SPACE, rng.standard_normal(D).astype(np.float32)),
        jax.random.key(0),
    )
    assert is_placed(arguments[0].diag)
    assert is_placed(arguments[0].factor, spare=1)
    compiled = jax.jit(operation).lower(*arguments).compile()
    assert exchanged(compiled) <= {"all-reduce"}
    result = compiled(*arguments)
    if name in VECTORS:
        assert is_placed(result)
    elif name in PRECISIONS:
        assert is_placed(result.diag)
        assert is_placed(result.factor, spare=1)


@sharded
def test_the_test_sees_what_is_gathered():
    P = precision(3)
    assert not is_placed(jax.device_put(P.factor, jax.devices()[0]), spare=1)
    assert "all-gather" in exchanged(jax.jit(DiagLowRank.as_dense).lower(P).compile())
