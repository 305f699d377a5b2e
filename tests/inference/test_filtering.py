"""Predict and update against dense matrices, and what they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

import oracles
from backcast.inference import Belief, Step, between, predict, smooth, update
from backcast.linalg import DiagLowRank
from inference.linear import error
from linalg.devices import exchanged, is_placed, sharded
from linalg.precisions import SPACES, diag_low_rank, draws, flatten, jitted, size, unflatten
from linalg.test_precision import matrix_error

SPACE = SPACES["flat"]
D = size(SPACE)
TOLERANCE = {np.float32: 1e-4, np.float64: 1e-9}
DTYPES = [np.float32, pytest.param(np.float64, marks=pytest.mark.float64)]
either = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])


def tree(values, space=SPACE, dtype=np.float32):
    return unflatten(space, np.asarray(values, dtype))


def belief(seed: int, rank: int = 3, space=SPACE, dtype=np.float32) -> Belief:
    rng, columns = np.random.default_rng(seed), size(space)
    P = DiagLowRank(
        tree(rng.uniform(0.5, 2, columns), space, dtype),
        tree(rng.standard_normal((rank, columns)), space, dtype),
    )
    return Belief(tree(rng.standard_normal(columns), space, dtype), P)


def dense(P: DiagLowRank) -> np.ndarray:
    return np.asarray(jitted(DiagLowRank.as_dense)(P), float)


@either
@pytest.mark.parametrize("rank", [0, 3, 12])
def test_a_predicted_belief_is_as_much_wider_as_weights_drift(rank, dtype):
    before = belief(rank, rank, dtype=dtype)
    covariance = np.linalg.inv(dense(before.precision))
    for level in (0.0, 1e-8, 1.0, 1e8):
        q = level * np.random.default_rng(1).uniform(0, 1, D) * (np.arange(D) % 3 > 0)
        after = predict(before, tree(q, dtype=dtype))
        truth = oracles.predict(oracles.Gaussian(flatten(before.mean), covariance), q)
        assert error(after, truth) <= TOLERANCE[dtype]


def test_a_leaf_of_noise_may_be_one_number():
    same = {"w": 0.3, "b": 0.0}
    spelt = {"w": jnp.full(4, 0.3), "b": jnp.zeros((1, 2))}
    one, other = (predict(belief(0), q).precision for q in (same, spelt))
    np.testing.assert_allclose(dense(one), dense(other), rtol=1e-6)


@either
def test_an_update_adds_the_strength_times_the_curvature(dtype):
    @given(draw=draws(dtype))
    def check(draw):
        P, exact = diag_low_rank(draw, SPACE, 3, False)
        H, exact_curvature = diag_low_rank(draw, SPACE, 2, True)
        predicted = Belief(unflatten(SPACE, draw.signed(D)), P)
        mode, strength = unflatten(SPACE, draw.signed(D)), draw.with_zeros(1)[0]
        updated = update(predicted, mode, H, float(strength))
        truth = exact.dense() + float(strength) * exact_curvature.dense()
        assert matrix_error(dense(updated.belief.precision), truth) <= TOLERANCE[dtype]
        np.testing.assert_array_equal(flatten(updated.belief.mean), flatten(mode))
        added = float(strength) * exact_curvature.dense()
        assert matrix_error(dense(updated.curvature), added) <= TOLERANCE[dtype]

    check()


@pytest.mark.parametrize("rank", [0, 2])
def test_a_limit_on_the_rows_compresses_the_belief_but_not_the_curvature(rank):
    predicted, H = belief(0), belief(1, 2).precision
    whole = dense(predicted.precision) + 2 * dense(H)
    for remainder in ("diagonal", "drop"):
        updated = update(predicted, predicted.mean, H, 2.0, rank, remainder)
        kept = updated.belief.precision
        assert kept.rank == rank
        assert updated.spectrum.retained.shape == (rank,)
        np.testing.assert_allclose(dense(updated.curvature), 2 * dense(H), rtol=1e-5, atol=1e-5)
        if remainder == "diagonal":
            np.testing.assert_allclose(np.diag(dense(kept)), np.diag(whole), rtol=1e-5)
        else:
            diag = flatten(predicted.precision.diag) + 2 * flatten(H.diag)
            np.testing.assert_allclose(flatten(kept.diag), diag, rtol=1e-6)


def test_what_is_stored_in_16_bits_stays_so():
    wide = belief(0)
    half = lambda values: jax.tree.map(lambda x: x.astype(jnp.bfloat16), values)  # noqa: E731
    P = DiagLowRank(wide.precision.diag, half(wide.precision.factor))
    predicted = predict(Belief(half(wide.mean), P), {"w": 0.1, "b": 0.1})
    updated = update(predicted, half(wide.mean), belief(1, 2).precision, 1.0, 3)
    steps = [Step(predicted, updated.belief, updated.curvature, {"w": 0.1, "b": 0.1})] * 2
    for found in (predicted, updated.belief, *smooth(steps, 3)):
        assert {x.dtype for x in jax.tree.leaves(found.mean)} == {jnp.dtype(jnp.bfloat16)}
        assert {x.dtype for x in jax.tree.leaves(found.precision.diag)} == {jnp.dtype("float32")}
    for found in (predicted, updated.belief):
        kept = jax.tree.leaves(found.precision.factor)
        assert {x.dtype for x in kept} == {jnp.dtype(jnp.bfloat16)}


def filter_twice(first: Belief, levels) -> None:
    for seed, level in enumerate(levels):
        predicted = predict(first, tree(np.full(D, level)))
        curvature = belief(seed, 2).precision
        first = update(predicted, belief(seed).mean, curvature, 1.0 + level, 3).belief


def test_one_compilation_for_each_shape(compilations):
    filter_twice(belief(0), [0.1])
    before = compilations()
    filter_twice(belief(1), [0.0, 0.2, 0.3])
    assert compilations() == before
    predict(belief(0, rank=4), tree(np.zeros(D)))
    assert compilations() > before


def broken(value: float, leaf: str = "w") -> dict:
    """A tree of ones but for one value."""
    whole = tree(np.ones(D))
    return {**whole, leaf: whole[leaf].at[..., 0].set(value)}


NOT_NOISE = {
    "negative": (broken(-1.0), r"finite and >= 0, but -1\.0 was given in leaf 'w'.*square what"),
    "nan": (broken(np.nan), "finite and >= 0, but nan was given in leaf 'w'"),
    "infinite": (broken(np.inf, "b"), "finite and >= 0, but inf was given in leaf 'b'"),
    "negative number": ({"w": -1.0, "b": 0.0}, r"finite and >= 0, but -1\.0 was given"),
    "leaf missing": ({"w": 1.0}, r"The noise q .*lacks \['b'\].*same structure"),
    "unknown leaf": ({"w": 1.0, "b": 1.0, "c": 1.0}, r"has the unknown \['c'\]"),
    "shape": ({"w": jnp.ones(5), "b": 1.0}, r"leaf 'w' has shape \(5,\), but .* need \(4,\)"),
    "complex": ({"w": 1j, "b": 1.0}, "leaf 'w' is not made of real numbers"),
    "container": ([1.0, 1.0], "The noise q does not have the leaves"),
}


@pytest.mark.parametrize(("q", "message"), NOT_NOISE.values(), ids=NOT_NOISE.keys())
def test_noise_that_no_belief_can_drift_by(q, message):
    with pytest.raises(ValueError, match=message):
        predict(belief(0), q)


def test_a_broken_belief_is_not_carried_on():
    whole = belief(0)
    with pytest.raises(ValueError, match=r"predicted belief must be finite, but nan .*'mean/w'"):
        predict(Belief(broken(np.nan), whole.precision), tree(np.zeros(D)))


H = belief(1, 2).precision
MODE = tree(np.ones(D))
NOT_A_TASK = {
    "diverged": (broken(np.nan), H, 1.0, 3, "The mode must be finite, but nan .* learning rate"),
    "mode missing": ({"w": MODE["w"]}, H, 1.0, 3, r"The mode .* lacks \['b'\]"),
    "mode shape": ({**MODE, "w": jnp.ones(5)}, H, 1.0, 3, r"mode: leaf 'w' has shape \(5,\), but"),
    "negative curvature": (
        MODE,
        DiagLowRank(broken(-1.0), H.factor),
        1.0,
        3,
        r"The curvature's diagonal must be finite and >= 0, but -1\.0",
    ),
    "curvature of others": (
        MODE,
        DiagLowRank.isotropic({"v": jnp.ones(3)}, 1.0),
        1.0,
        3,
        r"The curvature .* lacks \['b', 'w'\] and has the unknown \['v'\]",
    ),
    "infinite rows": (
        MODE,
        DiagLowRank(H.diag, jax.tree.map(lambda w: w / 0, H.factor)),
        1.0,
        3,
        "The updated belief must be finite",
    ),
    "negative strength": (MODE, H, -1.0, 3, r"The strength must be finite and >= 0, but -1\.0"),
    "no strength": (MODE, H, np.nan, 3, "The strength must be finite and >= 0, but nan"),
    "rank": (MODE, H, 1.0, -1, "The rank must be a whole number >= 0, but -1 was given"),
}


@pytest.mark.parametrize("task", NOT_A_TASK.values(), ids=NOT_A_TASK.keys())
def test_what_no_task_can_have_taught(task):
    mode, curvature, strength, rank, message = task
    with pytest.raises(ValueError, match=message):
        update(belief(0), mode, curvature, strength, rank)


@jax.jit
def filtered(before: Belief, q, mode, curvature: DiagLowRank, strength) -> Belief:
    return update(predict(before, q), mode, curvature, strength, 3).belief


IN_A_PROGRAM = {
    "noise": ({"q": broken(-1.0)}, "The noise q must be finite and >= 0, but other .*'w'"),
    "belief": (
        {"before": Belief(MODE, DiagLowRank(broken(np.nan), belief(0).precision.factor))},
        r"The (predicted|updated) belief must be finite, but other values were given in leaf",
    ),
    "mode": ({"mode": broken(np.inf, "b")}, "The mode must be finite, but other .*'b'"),
    "curvature": (
        {"curvature": DiagLowRank(broken(-1.0), H.factor)},
        "The curvature's diagonal must be finite and >= 0",
    ),
    "strength": ({"strength": -1.0}, "The strength must be finite and >= 0, but other"),
}


@pytest.mark.parametrize(("wrong", "message"), IN_A_PROGRAM.values(), ids=IN_A_PROGRAM.keys())
def test_under_jit_the_same_is_an_error_when_the_program_runs(wrong, message):
    right = {
        "before": belief(0),
        "q": tree(np.ones(D)),
        "mode": MODE,
        "curvature": H,
        "strength": 1.0,
    }
    # On one device: where one of several stops, XLA has the others wait for it, and then aborts.
    one = jax.devices()[0]
    assert np.isfinite(dense(filtered(**jax.device_put(right, one)).precision)).all()
    with pytest.raises(Exception, match=message):
        jax.block_until_ready(filtered(**jax.device_put({**right, **wrong}, one)))


SPREAD = {"narrow": (8, 3), "wide": (2, 3, 8), "scale": ()}


def two_steps() -> list[Step]:
    q = tree(np.ones(size(SPREAD)), SPREAD)
    first, steps = belief(0, space=SPREAD), []
    for seed in (1, 2):
        predicted = predict(first, q)
        taught = belief(seed, 2, space=SPREAD)
        updated = update(predicted, taught.mean, taught.precision, rank=3)
        steps.append(Step(predicted, updated.belief, updated.curvature, q))
        first = updated.belief
    return steps


def lies_as_placed(result: Belief) -> bool:
    vectors = is_placed(result.mean) and is_placed(result.precision.diag)
    return vectors and is_placed(result.precision.factor, spare=1)


@sharded
def test_beliefs_stay_spread_over_the_devices():
    steps = two_steps()
    for step in steps:
        assert lies_as_placed(step.predicted)
        assert lies_as_placed(step.filtered)
        assert is_placed(step.curvature.factor, spare=1)
    for smoothed in smooth(steps, 3):
        assert lies_as_placed(smoothed)
    assert lies_as_placed(between(steps, 0, 0.5, 3))


@sharded
def test_devices_send_each_other_sums_and_no_rows():
    def all_of_it(steps):
        later = predict(steps[-1].filtered, steps[-1].q)
        updated = update(later, later.mean, steps[-1].curvature, rank=3)
        return updated.belief, smooth(steps, 3), between(steps, 0, 0.5, 3)

    compiled = jax.jit(all_of_it).lower(two_steps()).compile()
    assert exchanged(compiled) <= {"all-reduce"}
