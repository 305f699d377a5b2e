"""Curvature against dense Jacobians and explicit loops, for every library and likelihood."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laplax.curv.ggn import create_ggn_mv

from backcast.linalg import tree
from backcast.model import (
    Batch,
    Bernoulli,
    Categorical,
    Custom,
    Gaussian,
    GaussianLearnedNoise,
    HeteroscedasticGaussian,
    Poisson,
    as_model,
    ggn,
    ggn_product,
)
from backcast.model.ggn_sums import products, squares
from model import dense
from model.networks import ZOO

pytestmark = pytest.mark.usefixtures("quick_compiles")

KEY = jax.random.key(5)
CLASSES = 3

everyone = pytest.mark.parametrize("animal", ZOO, ids=str)
# Each architecture, in four libraries.
some = pytest.mark.parametrize("animal", [ZOO[i] for i in (2, 7, 9, 12)], ids=str)


class Task:
    """A network somewhere, weighted examples for it in two batches, and its dense GGN."""

    def __init__(self, animal):
        network, x = animal(jax.random.key(0))
        model = as_model(network)
        # Batch statistics as after some training, so that it shows where they are left out.
        state = jax.tree.map(
            lambda s: (s + 0.3).astype(float) if jnp.issubdtype(s.dtype, jnp.floating) else s,
            model.state,
        )
        self.model = model.with_params(model.params, state)
        function, params = self.function(x), self.model.params
        self.outputs, J = dense.outputs_and_jacobian(function, params)
        rng = np.random.default_rng(1)
        entries = self.outputs.shape[:-1]
        y = rng.integers(0, CLASSES, entries)
        weights = rng.choice([0.0, 0.5, 1.0, 2.0], entries)
        weights.flat[0] = 1.0
        self.batches = [Batch(x[:3], y[:3], weights[:3]), Batch(x[3:], y[3:], weights[3:])]
        self.H = dense.ggn(J, dense.hessians(dense.categorical, self.outputs, y), weights)

    def function(self, x):
        return lambda params: self.model.apply(params, self.model.state, x)[0]


def near(found, truth, tolerance=1e-8):
    np.testing.assert_allclose(found, truth, rtol=0, atol=tolerance * np.max(np.abs(truth)))


def gram(factor) -> np.ndarray:
    rows = dense.flat_rows(factor)
    return rows.T @ rows


def vector_like(params, seed=3):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda p: jnp.asarray(rng.normal(size=p.shape), p.dtype), params)


@pytest.mark.float64
@everyone
def test_products_and_the_diagonal_are_the_dense_ones(animal):
    task = Task(animal)
    v = vector_like(task.model.params)
    product = ggn_product(task.model, Categorical(), task.batches, v)
    near(dense.flat(product), task.H @ dense.flat(v))
    diagonal = ggn(task.model, Categorical(), task.batches, rank=0, key=KEY).precision
    near(dense.flat(diagonal.diag), np.diag(task.H))
    assert diagonal.rank == 0


@pytest.mark.float64
@some
def test_a_factor_of_full_rank_is_the_dense_matrix(animal):
    task = Task(animal)
    rank = min(len(task.H), task.outputs.size)
    found = ggn(task.model, Categorical(), task.batches, rank=rank, key=KEY, passes=2)
    near(gram(found.precision.factor), task.H)
    near(found.precision.as_dense(), task.H)
    near(found.eigenvalues, np.linalg.eigvalsh(task.H)[::-1][:rank])
    assert np.max(found.residuals) < 1e-8


# Likelihoods, on a network of one layer whose outputs have an axis between ------------------------


def layer(params, x):
    return jnp.tanh(x) @ params


def data(outputs, n=5, seed=2):
    rng = np.random.default_rng(seed)
    x, params = rng.normal(size=(n, 2, 4)), rng.normal(size=(4, outputs)) / 2
    return jnp.asarray(x), jnp.asarray(params), rng


def loss_of_ones_own(f, y):
    return jnp.log(jnp.cosh(f[0] - y)) + jnp.exp(f[1])


def expected_of_heteroscedastic(outputs, targets):
    """The Fisher information: ``exp(-s)`` for the mean, ``1/2`` for the log-variance ``s``."""
    rows = np.asarray(outputs, float).reshape(-1, 2)
    H = [np.diag([np.exp(-s), 0.5]) for _, s in rows]
    return np.reshape(H, (*outputs.shape, 2))


def hessians_of(loss):
    return functools.partial(dense.hessians, loss)


CLASS_WEIGHTS = np.array([0.5, 0.0, 2.0])


def weighted_hessians(outputs, targets):
    return CLASS_WEIGHTS[targets][..., None, None] * dense.hessians(
        dense.categorical, outputs, targets
    )


LIKELIHOODS = {
    "categorical": (
        Categorical,
        lambda rng: rng.integers(0, 3, (5, 2)),
        hessians_of(dense.categorical),
    ),
    "class weights": (
        lambda: Categorical(CLASS_WEIGHTS),
        lambda rng: rng.integers(0, 3, (5, 2)),
        weighted_hessians,
    ),
    "bernoulli": (
        Bernoulli,
        lambda rng: rng.integers(0, 2, (5, 2, 2)),
        hessians_of(dense.bernoulli),
    ),
    "poisson": (Poisson, lambda rng: rng.poisson(2.0, (5, 2, 2)), hessians_of(dense.poisson)),
    "gaussian": (
        lambda: Gaussian(0.7),
        lambda rng: rng.normal(size=(5, 2, 2)),
        hessians_of(functools.partial(dense.gaussian, scale=0.7)),
    ),
    "learned noise": (
        lambda: GaussianLearnedNoise([0.5, 2.0]),
        lambda rng: rng.normal(size=(5, 2, 2)),
        hessians_of(functools.partial(dense.gaussian, scale=jnp.array([0.5, 2.0]))),
    ),
    "heteroscedastic": (
        HeteroscedasticGaussian,
        lambda rng: rng.normal(size=(5, 2, 1)),
        expected_of_heteroscedastic,
    ),
    "custom": (
        lambda: Custom(loss_of_ones_own),
        lambda rng: rng.normal(size=(5, 2)),
        hessians_of(loss_of_ones_own),
    ),
}


@pytest.mark.float64
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_every_likelihood_has_its_dense_curvature(name):
    make, draw, hessians = LIKELIHOODS[name]
    x, params, rng = data(3 if name in ("categorical", "class weights") else 2)
    y, weights = draw(rng), np.array([1.0, 0.0, 2.0, 0.5, 1.0])
    model = as_model((layer, params))
    J = dense.jacobian(lambda p: layer(p, x), params)
    of_entries = np.broadcast_to(weights, (2, 5)).T
    H = dense.ggn(J, hessians(layer(params, x), y), of_entries)
    found = ggn(model, make(), [Batch(x, y, weights)], rank=params.size, key=KEY, passes=2)
    near(gram(found.precision.factor), H)
    near(dense.flat(found.precision.diagonal()), np.diag(H))
    assert found.examples == 4.5


# What is kept of it ------------------------------------------------------------------------------


def wide_task(n=40, seed=4):
    """A task whose GGN has more eigenvectors than are asked for."""
    rng = np.random.default_rng(seed)
    scales = 2.0 ** -np.arange(8)
    x, y = rng.normal(size=(n, 8)) * scales, rng.integers(0, 3, n)
    model = as_model((layer, jnp.asarray(rng.normal(size=(8, 3)))))
    J = dense.jacobian(lambda p: layer(p, x), model.params)
    H = dense.hessians(dense.categorical, layer(model.params, x), y)
    return model, x, y, dense.ggn(J, H, np.ones(n))


@pytest.mark.float64
def test_leading_eigenvectors_are_kept_and_the_rest_goes_to_the_diagonal():
    model, x, y, H = wide_task()
    found = ggn(model, Categorical(), [Batch(x, y)], rank=4, key=KEY)
    values, vectors = np.linalg.eigh(H)
    near(found.eigenvalues, values[::-1][:4])
    near(gram(found.precision.factor), (vectors[:, -4:] * values[-4:]) @ vectors[:, -4:].T)
    near(dense.flat(found.precision.diagonal()), np.diag(H))
    assert np.all(dense.flat(found.precision.diag) > 0)


@pytest.mark.float64
def test_without_the_diagonal_it_is_the_papers():
    model, x, y, H = wide_task()
    found = ggn(model, Categorical(), [Batch(x, y)], rank=4, key=KEY, diagonal="none")
    assert not dense.flat(found.precision.diag).any()
    assert np.linalg.eigvalsh(H - gram(found.precision.factor)).min() > -1e-12


@pytest.mark.float64
def test_rank_0_is_the_diagonal_of_elastic_weight_consolidation():
    model, x, y, _ = wide_task()
    found = ggn(model, Categorical(), [Batch(x, y)], rank=0, key=KEY)
    truth = dense.ewc(lambda p: layer(p, x), model.params, len(x))
    near(dense.flat(found.precision.diag), truth)


@pytest.mark.float64
def test_batches_of_any_size_are_one():
    model, x, y, H = wide_task()
    # The last batch is filled up with examples of weight zero, whose targets may be anything.
    filled_x, filled_y = np.concatenate([x[32:], x[:8]]), np.r_[y[32:], [0] * 8]
    weights = np.r_[np.ones(8), np.zeros(8)]
    batches = [
        Batch(x[:16], y[:16], np.ones(16)),
        Batch(x[16:32], y[16:32], np.ones(16)),
        Batch(filled_x, filled_y, weights),
    ]
    found = ggn(model, Categorical(), batches, rank=4, key=KEY, passes=8)
    one = ggn(model, Categorical(), [Batch(x, y)], rank=4, key=KEY, passes=8)
    assert found.examples == one.examples == 40
    near(gram(found.precision.factor), gram(one.precision.factor))
    near(dense.flat(found.precision.diagonal()), np.diag(H))


@pytest.mark.float64
def test_the_residual_tells_what_is_no_eigenvector():
    model, x, y, H = wide_task()
    one, many = (
        ggn(model, Categorical(), [Batch(x, y)], rank=4, key=KEY, passes=passes)
        for passes in (1, 5)
    )
    largest = np.linalg.eigvalsh(H)[-1]

    def error(curvature):
        rows = dense.flat_rows(curvature.precision.factor)
        units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        values = np.asarray(curvature.eigenvalues)[:, None]
        return np.linalg.norm(units @ H - values * units, axis=1) / largest

    assert np.max(error(one)) > 1e-2
    assert np.all(error(one) <= 3 * np.asarray(one.residuals) + 1e-5)
    assert np.max(one.residuals) > 1e-2
    assert np.max(many.residuals) < 1e-6
    assert np.max(error(many)) < 1e-6


# Fisher matrices ---------------------------------------------------------------------------------


@pytest.mark.float64
def test_the_empirical_fisher_sums_the_gradients_of_whole_examples():
    x, params, rng = data(3)
    y, weights = rng.integers(0, 3, (5, 2)), rng.choice([0.0, 1.0, 2.0], (5, 2))
    J = dense.jacobian(lambda p: layer(p, x), params)
    F = dense.fisher(J, dense.gradients(dense.categorical, layer(params, x), y), weights)
    found = ggn(
        as_model((layer, params)), Categorical(), [Batch(x, y, weights)],
        rank=12, key=KEY, fisher="empirical", passes=2,
    )  # fmt: skip
    near(gram(found.precision.factor), F)
    near(dense.flat(found.precision.diagonal()), np.diag(F))


@pytest.mark.float64
@pytest.mark.parametrize("name", ["categorical", "class weights", "poisson", "heteroscedastic"])
def test_the_sampled_fisher_is_unbiased(name):
    make, draw, hessians = LIKELIHOODS[name]
    x, params, rng = data(3 if name.startswith("c") else 2)
    y, weights = draw(rng), rng.choice([0.5, 1.0, 2.0], (5, 2))
    J = dense.jacobian(lambda p: layer(p, x), params)
    H = dense.ggn(J, hessians(layer(params, x), y), weights) * dense.count(weights)
    model, batch = as_model((layer, params)), Batch(x, y, jnp.asarray(weights))
    basis = jnp.eye(params.size).reshape(-1, *params.shape)

    @jax.jit
    @jax.vmap
    def draws(key):
        diagonal = squares(jnp.zeros_like(params), model, make(), batch, "exact", "sampled", key)
        matrix = products(model, make(), batch, basis, "sampled", key)
        return matrix.reshape(params.size, -1), diagonal.ravel()

    matrices, diagonals = draws(jax.random.split(KEY, 4000))
    # Both draw the same targets from the same key.
    np.testing.assert_allclose(jax.vmap(jnp.diagonal)(matrices), diagonals, rtol=1e-8, atol=1e-10)
    spread = np.std(matrices, axis=0) / np.sqrt(len(matrices))
    assert np.all(np.abs(np.mean(matrices, axis=0) - H) <= 5 * spread + 1e-12)
    assert np.linalg.norm(spread) < 0.1 * np.linalg.norm(H)


@pytest.mark.float64
def test_the_sampled_diagonal_is_unbiased():
    x, params, rng = data(3)
    y = rng.integers(0, 3, (5, 2))
    J = dense.jacobian(lambda p: layer(p, x), params)
    H = dense.hessians(dense.categorical, layer(params, x), y)
    truth = 5 * np.diag(dense.ggn(J, H, np.ones((5, 2))))
    model, batch = as_model((layer, params)), Batch(x, y)

    @jax.jit
    @jax.vmap
    def draws(key):
        return squares(jnp.zeros_like(params), model, Categorical(), batch, "sampled", "exact", key)

    found = np.asarray(draws(jax.random.split(KEY, 4000))).reshape(4000, -1)
    spread = found.std(axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - truth) <= 5 * spread)
    assert np.linalg.norm(spread) < 0.05 * np.linalg.norm(truth)


# Another library, and what it costs ---------------------------------------------------------------


@pytest.mark.float64
def test_laplax_has_the_same_products():
    model, x, y, _ = wide_task()
    v = vector_like(model.params)
    theirs = create_ggn_mv(
        lambda input, params: layer(params, input),
        model.params,
        {"input": jnp.asarray(x), "target": jnp.asarray(y)},
        loss_fn="cross_entropy",
    )(v)
    ours = ggn_product(model, Categorical(), [Batch(x, y)], v)
    near(dense.flat(ours) * len(x), dense.flat(theirs))


def deep(params, x):
    return jnp.tanh(x @ params["a"]) @ params["b"]


def test_no_jacobian_of_all_examples_is_ever_held():
    n, classes, rank = 64, 20, 4
    params = {"a": jnp.zeros((100, 100)), "b": jnp.zeros((100, classes))}
    model, batch = as_model((deep, params)), Batch(jnp.zeros((n, 100)), jnp.zeros(n, int))
    of_jacobians = 4 * n * classes * sum(p.size for p in jax.tree.leaves(params))
    of_one_example = of_jacobians / n

    def taken(function, *arguments):
        return jax.jit(function).lower(*arguments).compile().memory_analysis().temp_size_in_bytes

    def with_jacobians(vector):
        jacobians = jax.jacrev(lambda p: deep(p, batch.x))(params)
        return [
            jnp.tensordot(jacobians[name], vector[name], vector[name].ndim) for name in ("a", "b")
        ]

    assert taken(with_jacobians, params) > of_jacobians / 10, "this is what would be seen"
    block = tree.no_rows(params, rank)
    held = taken(lambda b: products(model, Categorical(), batch, b, "exact", KEY), block)
    assert held < of_jacobians / 50
    for diagonal in ("exact", "sampled"):
        summed = taken(
            lambda t, d=diagonal: squares(t, model, Categorical(), batch, d, "exact", KEY), params
        )
        assert summed < of_one_example


# Sought among 12 parameters, and among at most 128 outputs.
@pytest.mark.parametrize(("inputs", "counts"), [(4, (2, 5, 2)), (80, (3, 5, 4))])
def test_other_numbers_compile_nothing_again(compilations, inputs, counts):
    def curvature_of(seed, count):
        rng = np.random.default_rng(seed)
        model = as_model((layer, jnp.asarray(rng.normal(size=(inputs, 3)), jnp.float32)))
        x = rng.normal(size=(count, 8, inputs)).astype(np.float32)
        batches = [Batch(x[i], rng.integers(0, 3, 8)) for i in range(count)]
        return ggn(model, Categorical(), batches, rank=2, key=jax.random.key(seed))

    first = curvature_of(0, counts[0])
    before = compilations()
    others = curvature_of(1, counts[1]), curvature_of(2, counts[2])
    assert compilations() == before > 0
    seen = [int(curvature.examples) for curvature in (first, *others)]
    assert seen == [8 * count for count in counts]


@pytest.mark.parametrize("inputs", [4, 50])
@pytest.mark.parametrize("kind", [jnp.float32, jnp.bfloat16])
def test_the_factor_has_the_type_of_the_parameters(kind, inputs):
    rng = np.random.default_rng(0)
    model = as_model((layer, jnp.asarray(rng.normal(size=(inputs, 3)), kind)))
    x, y = jnp.asarray(rng.normal(size=(32, inputs)), kind), rng.integers(0, 3, 32)
    found = ggn(model, Categorical(), [Batch(x, y)], rank=2, key=KEY).precision
    assert found.factor.dtype == kind
    wide = model.params.astype(jnp.float32)
    J = dense.jacobian(lambda p: layer(p, x.astype(jnp.float32)), wide)
    outputs = layer(wide, x.astype(jnp.float32))
    H = dense.ggn(J, dense.hessians(dense.categorical, outputs, y), np.ones(32))
    tolerance = {jnp.float32: 1e-5, jnp.bfloat16: 3e-2}[kind]
    near(dense.flat(found.diagonal()), np.diag(H), tolerance)
    largest = np.linalg.eigvalsh(H)[-1]
    assert np.linalg.eigvalsh(H - gram(found.factor))[0] > -tolerance * largest
    assert np.linalg.eigvalsh(gram(found.factor))[-1] > 0.9 * largest


# Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"rank": -1}, ValueError, "rank must be a whole number"),
        ({"oversampling": -1}, ValueError, "oversampling"),
        ({"passes": 0}, ValueError, "at least one pass"),
        ({"diagonal": "full"}, ValueError, r"diagonal must be one of \('exact'"),
        ({"fisher": "true"}, ValueError, r"fisher must be one of \('exact'"),
        ({"batches": 7}, TypeError, r"batches are a int; give a list of Batch"),
        ({"batches": lambda b: iter(b)}, TypeError, r"only once.*Give list\(batches\)"),
        ({"batches": []}, ValueError, "there are no batches"),
        ({"batches": [(1, 2)]}, TypeError, r"batches\[0\] is a tuple"),
        ({"batches": lambda b: [b[0]._replace(y=b[0].y + 3)]}, ValueError, r"classes are 0 ... 2"),
        (
            {"batches": lambda b: [b[0]._replace(weights=np.zeros(40))]},
            ValueError,
            "all weights are zero",
        ),
        ({"likelihood": Custom(dense.categorical), "fisher": "sampled"}, ValueError, "Use the GGN"),
    ],
)
def test_what_has_no_curvature_is_refused(change, kind, message):
    model, x, y, _ = wide_task()
    batches = [Batch(x.astype(np.float32), y)]
    given = {"likelihood": Categorical(), "batches": batches, "rank": 2, "key": KEY, **change}
    if callable(given["batches"]):
        given["batches"] = given["batches"](batches)
    # Users have no checks of types, so that what is refused here has to do without them.
    unchecked = ggn.__wrapped__
    with pytest.raises(kind, match=message):
        unchecked(model, given.pop("likelihood"), given.pop("batches"), **given)


def test_curvature_that_is_not_finite_is_refused():
    model, x, y, _ = wide_task()
    broken = model.with_params(model.params.at[0, 0].set(jnp.nan), {})
    with pytest.raises(ValueError, match=r"curvature must be finite.*look at the inputs"):
        ggn(broken, Categorical(), [Batch(x.astype(np.float32), y)], rank=2, key=KEY)


def test_a_vector_of_another_network_is_refused():
    model, x, y, _ = wide_task()
    with pytest.raises(ValueError, match="The vector"):
        ggn_product(model, Categorical(), [Batch(x, y)], {"w": model.params})
