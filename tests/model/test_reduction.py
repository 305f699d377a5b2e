"""Sums over entries against loops in numpy, with weights of every shape and entries left out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backcast.model import Categorical, Custom, Gaussian, GaussianLearnedNoise, Poisson
from backcast.model.reduction import (
    example_count,
    mean_loss,
    mean_score,
    present_entries,
    total_loss,
    weighted_fisher_root,
    weighted_root,
)

N, TOKENS, CLASSES = 4, 3, 3
pytestmark = pytest.mark.float64


def sequences(seed=0):
    rng = np.random.default_rng(seed)
    outputs = jnp.asarray(rng.normal(size=(N, TOKENS, CLASSES)))
    return outputs, jnp.asarray(rng.integers(0, CLASSES, (N, TOKENS)))


def weights_of(rank, seed=0):
    """Some zero, some not, for the first `rank` axes of the entries."""
    if rank == 0:
        return None
    shape = (N, TOKENS)[:rank]
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2, shape) * (rng.uniform(size=shape) > 0.3)
    weights.flat[0] = 1.0
    return jnp.asarray(weights)


def by_hand(values, weights):
    """Loops: the total over entries, the number of examples, the total of the weights."""
    w = np.ones((N, TOKENS)) if weights is None else np.asarray(weights)
    w = np.broadcast_to(w[:, None], (N, TOKENS)) if w.ndim == 1 else w
    total = sum(w[i, t] * values[i, t] for i in range(N) for t in range(TOKENS))
    return total, sum(max(w[i]) for i in range(N)), w.sum()


@pytest.mark.parametrize("rank", [0, 1, 2])
@given(seed=st.integers(0, 1000))
def test_losses_and_scores_are_weighted_as_written(rank, seed):
    likelihood, weights = Categorical(), weights_of(rank, seed)
    outputs, targets = sequences(seed)
    losses = np.asarray(likelihood.loss(outputs, targets))
    total, examples, _ = by_hand(losses, weights)
    np.testing.assert_allclose(total_loss(likelihood, outputs, targets, weights), total)
    np.testing.assert_allclose(example_count(outputs, weights), examples)
    np.testing.assert_allclose(mean_loss(likelihood, outputs, targets, weights), total / examples)
    right, _, entries = by_hand(np.asarray(likelihood.score(outputs, targets)), weights)
    np.testing.assert_allclose(mean_score(likelihood, outputs, targets, weights), right / entries)


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("likelihood", [Categorical([0.5, 1.0, 2.0]), Poisson()], ids=str)
def test_the_weighted_root_squared_is_the_hessian_of_the_total(likelihood, rank):
    outputs, targets = sequences()
    if isinstance(likelihood, Poisson):
        targets = jnp.round(jnp.abs(3 * outputs))
    weights = weights_of(rank)

    @jax.jit
    def both(outputs):
        size = outputs.size
        hessian = jax.hessian(lambda f: total_loss(likelihood, f, targets, weights))(outputs)
        units = jnp.eye(size).reshape(size, *outputs.shape)
        root = jax.vmap(lambda v: weighted_root(likelihood, outputs, targets, v, weights))(units)
        return hessian.reshape(size, size), root.reshape(size, size).T

    hessian, S = both(outputs)
    np.testing.assert_allclose(S @ S.T, hessian, atol=1e-10)


def test_the_weighted_fisher_root_carries_the_root_of_the_weight():
    outputs, targets = sequences()
    weights = weights_of(2)
    g = weighted_fisher_root(Categorical(), outputs, targets, targets, weights)
    gradient = jax.grad(lambda f: total_loss(Categorical(), f, targets, weights))(outputs)
    np.testing.assert_allclose(jnp.sqrt(weights)[..., None] * g, gradient, atol=1e-12)


def test_an_example_of_weight_two_is_two_examples():
    outputs, targets = sequences()
    once = jnp.array([1.0, 2.0, 0.0, 1.0])
    rows = jnp.array([0, 1, 1, 3])
    np.testing.assert_allclose(
        mean_loss(Categorical(), outputs, targets, once),
        mean_loss(Categorical(), outputs[rows], targets[rows]),
    )


def test_masked_tokens_do_not_change_how_many_examples_there_are():
    outputs, _ = sequences()
    mask = jnp.ones((N, TOKENS), bool).at[0, 1:].set(False).at[1].set(False)
    assert example_count(outputs, mask) == N - 1


LEFT_OUT = [
    (Categorical(), jnp.array([[0], [-100]])),
    (Gaussian(), jnp.array([[[0.3, 1.0]], [[jnp.nan, jnp.inf]]])),
    (Custom(lambda f, y: jnp.sum((f - y) ** 4)), jnp.array([[1.0], [jnp.nan]])),
]


@pytest.mark.parametrize(("likelihood", "targets"), LEFT_OUT, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize(
    "mask", [jnp.array([True, False]), jnp.array([[1.0], [0.0]])], ids=["1", "2"]
)
def test_what_is_left_out_is_not_there(likelihood, targets, mask):
    """Whatever its target and outputs are: the losses, gradients and roots are those without it."""
    outputs = jnp.array([[[0.5, -1.0]], [[jnp.nan, jnp.inf]]])
    v = jnp.ones_like(outputs)
    rest = outputs[:1], targets[:1]

    def loss(f, y, w=None):
        return mean_loss(likelihood, f, y, w)

    np.testing.assert_allclose(loss(outputs, targets, mask), loss(*rest))
    gradient = jax.grad(loss)(outputs, targets, mask)
    np.testing.assert_allclose(gradient[:1], jax.grad(loss)(*rest))
    root = weighted_root(likelihood, outputs, targets, v, mask)
    np.testing.assert_allclose(root[:1], weighted_root(likelihood, *rest, v[:1]))
    fisher = weighted_fisher_root(likelihood, outputs, targets, targets, mask)
    np.testing.assert_allclose(fisher[:1], weighted_fisher_root(likelihood, *rest, targets[:1]))
    for absent in (gradient, root, fisher):
        np.testing.assert_array_equal(absent[1], 0)


def test_with_nothing_present_all_is_zero():
    outputs, targets = sequences()
    nothing = jnp.zeros(N)
    loss, gradient = jax.value_and_grad(lambda f: mean_loss(Categorical(), f, targets, nothing))(
        outputs
    )
    assert loss == 0
    assert mean_score(Categorical(), outputs, targets, nothing) == 0
    np.testing.assert_array_equal(gradient, 0)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_half_precision_outputs_have_losses_in_single_precision(dtype):
    outputs, targets = sequences()
    outputs = outputs.astype(dtype)
    loss = mean_loss(Categorical(), outputs, targets)
    assert loss.dtype == jnp.float32
    np.testing.assert_allclose(
        loss, mean_loss(Categorical(), outputs.astype(jnp.float64), targets), rtol=1e-6
    )
    assert weighted_root(Categorical(), outputs, targets, outputs).dtype == dtype
    assert weighted_fisher_root(Categorical(), outputs, targets, targets).dtype == dtype


def test_targets_of_a_tree_are_cut_leaf_by_leaf():
    outputs = jnp.ones((2, 3, 1))
    targets = {"a": jnp.full((2, 3), jnp.nan), "b": jnp.full((2, 3, 5), jnp.nan)}
    _, present, _ = present_entries(outputs, targets, jnp.array([1.0, 0.0]))
    for leaf in jax.tree.leaves(present):
        assert np.isnan(leaf[0]).all()
        np.testing.assert_array_equal(leaf[1], 0)


def test_a_likelihood_that_was_fitted_compiles_nothing_anew():
    compiled = []

    @jax.jit
    def loss(likelihood, outputs, targets):
        compiled.append(1)
        return mean_loss(likelihood, outputs, targets)

    outputs = jnp.ones((3, 1))
    for start in (GaussianLearnedNoise(), GaussianLearnedNoise(jnp.ones(1))):
        loss(start, outputs, 2 * outputs)
        loss(start.fitted(outputs, 2 * outputs), outputs, 2 * outputs)
    assert len(compiled) == 2
