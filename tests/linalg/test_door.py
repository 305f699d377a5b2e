"""What is refused at the door, and what the person is told."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backcast.linalg import DiagLowRank
from linalg.precisions import jitted

DIAG = {"w": jnp.ones((2, 3)), "b": jnp.ones(3)}
FACTOR = {"w": jnp.ones((4, 2, 3)), "b": jnp.ones((4, 3))}
P = DiagLowRank(DIAG, FACTOR)


@pytest.mark.parametrize(
    ("diag", "factor", "message"),
    [
        ({}, {}, "The diagonal are an empty tree; give at least one array"),
        ({"w": jnp.ones(2, complex)}, FACTOR, "leaf 'w' is complex64, but only arrays of real"),
        ({"w": jnp.ones(2, int)}, FACTOR, "leaf 'w' is int32, but only arrays of real"),
        ({"w": 1.0}, FACTOR, "leaf 'w' is float, but only arrays of real"),
        (DIAG, {"w": FACTOR["w"]}, r"The factor .* lacks \['b'\]"),
        (DIAG, {**FACTOR, "c": FACTOR["b"]}, r"The factor .* has the unknown \['c'\]"),
        (DIAG, {**FACTOR, "w": jnp.ones((4, 3, 2))}, r"'w' has shape \(4, 3, 2\).* \(4, 2, 3\)"),
        (DIAG, {**FACTOR, "w": jnp.ones((5, 2, 3))}, r"'w' has shape \(5, 2, 3\).* \(4, 2, 3\)"),
        (DIAG, {"w": jnp.ones(()), "b": jnp.ones(())}, "need a leading axis: one entry for each"),
    ],
)
def test_a_diagonal_and_rows_that_make_no_precision(diag, factor, message):
    with pytest.raises(ValueError, match=message):
        DiagLowRank(diag, factor)


def test_the_same_leaves_in_other_containers():
    with pytest.raises(ValueError, match="in other containers"):
        DiagLowRank([jnp.ones(3)], (jnp.ones((1, 3)),))


@pytest.mark.parametrize(
    "operation",
    [
        P.mv,
        P.quad,
        P.solve,
        P.color,
        lambda x: P.gain(DIAG, x),
    ],
    ids=["mv", "quad", "solve", "color", "gain"],
)
def test_a_vector_of_another_shape(operation):
    with pytest.raises(ValueError, match=r"'w' has shape \(3, 2\), but the parameters need \(2, 3"):
        operation({"w": jnp.ones((3, 2)), "b": jnp.ones(3)})


def test_noise_and_precisions_of_other_parameters():
    with pytest.raises(ValueError, match=r"The noise q: leaf 'b' has shape \(2,\), .* need \(3,\)"):
        P.drift({"w": 0.1, "b": jnp.ones(2)})
    with pytest.raises(ValueError, match=r"The added precision .* lacks \['b'\]"):
        P.add(DiagLowRank({"w": DIAG["w"]}, {"w": FACTOR["w"]}))


SINGULAR = DiagLowRank({**DIAG, "b": jnp.array([1.0, 0.0, 1.0])}, FACTOR)
NEEDS_POSITIVE = {
    "solve": lambda P: P.solve(DIAG),
    "logdet": lambda P: P.logdet(),
    "variance": lambda P: P.variance(),
    "sample": lambda P: P.sample(jax.random.key(0)),
}


@pytest.mark.parametrize("operation", NEEDS_POSITIVE.values(), ids=NEEDS_POSITIVE.keys())
def test_a_singular_precision_has_no_inverse(operation):
    with pytest.raises(ValueError, match=r"> 0, but 0\.0 was given in leaf 'b'.* add a prior"):
        operation(SINGULAR)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_under_jit_it_is_an_error_when_the_program_runs(value):
    d = {**DIAG, "b": jnp.array([1.0, value, 1.0])}
    assert np.isfinite(jitted(DiagLowRank.logdet)(P))
    with pytest.raises(Exception, match=r"must be finite and > 0, but other .* leaf 'b'"):
        jitted(DiagLowRank.logdet)(DiagLowRank(d, FACTOR))


@pytest.mark.parametrize("precision", [-1.0, np.nan, np.inf])
def test_an_isotropic_precision_is_a_number_at_least_zero(precision):
    with pytest.raises(
        ValueError, match=r"The precision must be finite and >= 0, but .* was given"
    ):
        DiagLowRank.isotropic(DIAG, precision)


def test_a_rank_is_at_least_zero():
    with pytest.raises(ValueError, match="The rank must be a whole number >= 0, but -1 was given"):
        DiagLowRank.isotropic(DIAG, 1.0, rank=-1)


def test_isotropic_is_a_multiple_of_the_identity_with_room_for_rows():
    P = DiagLowRank.isotropic({"w": jnp.ones((2, 2), jnp.bfloat16)}, 3.0, rank=2)
    assert P.rank == 2
    assert P.diag["w"].dtype == jnp.float32
    np.testing.assert_array_equal(P.as_dense(), 3 * np.eye(4))
