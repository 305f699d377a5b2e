"""Every likelihood against scipy's densities, automatic differentiation, and its own draws."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from backcast.model import (
    Bernoulli,
    Categorical,
    Custom,
    Gaussian,
    GaussianLearnedNoise,
    HeteroscedasticGaussian,
    Likelihood,
    Poisson,
)

ENTRIES = (3, 2)


@dataclass(frozen=True)
class Case:
    """A likelihood, its number of outputs, and its truth: ``log p(y | f)`` as scipy has it.

    `fisher` is a set of targets and probabilities whose mean Hessian is the Fisher information,
    where that takes the place of the Hessian.
    """

    name: str
    make: Callable[[], Likelihood]
    outputs: int
    draw: Any
    log_p: Any
    fisher: Any = None
    draws: bool = True

    def __str__(self):
        return self.name

    @property
    def likelihood(self):
        """Made anew, so that its own parameters have the test's precision."""
        return self.make()

    def example(self, seed=0):
        rng = np.random.default_rng(seed)
        outputs = rng.normal(size=(*ENTRIES, self.outputs))
        return jnp.asarray(outputs), jax.tree.map(jnp.asarray, self.draw(rng, outputs))


def _gaussian(scale):
    return (
        lambda rng, f: rng.normal(f, scale),
        lambda f, y: stats.norm.logpdf(y, f, scale).sum(-1),
    )


def _heteroscedastic_log_p(f, y):
    mean, log_variance = np.split(f, 2, -1)
    return stats.norm.logpdf(y, mean, np.exp(log_variance / 2)).sum(-1)


def _logistic(f, y):
    """Convex, twice differentiable, with targets of another shape than the outputs'."""
    z = y["level"] - f.sum()
    return z + 2 * jax.nn.softplus(-z) + 0.5 * jnp.sum((f - y["at"]) ** 2)


def _draw_custom(rng, f):
    return {"level": rng.normal(size=ENTRIES), "at": rng.normal(size=f.shape)}


def _custom_log_p(f, y):
    return stats.logistic.logpdf(y["level"] - f.sum(-1)) - 0.5 * ((f - y["at"]) ** 2).sum(-1)


CLASS_WEIGHTS = np.array([0.5, 2.0, 0.0, 1.5])


def _draw_classes(rng, f):
    return rng.integers(0, f.shape[-1], f.shape[:-1])


def _categorical_log_p(f, y):
    return stats.multinomial.logpmf(np.eye(f.shape[-1])[y], 1, special.softmax(f, -1))


CASES = [
    Case("categorical", Categorical, 4, _draw_classes, _categorical_log_p),
    Case(
        "weighted",
        lambda: Categorical(CLASS_WEIGHTS),
        4,
        _draw_classes,
        lambda f, y: CLASS_WEIGHTS[y] * _categorical_log_p(f, y),
    ),
    Case(
        "bernoulli",
        Bernoulli,
        2,
        lambda rng, f: rng.integers(0, 2, f.shape),
        lambda f, y: stats.bernoulli.logpmf(y, special.expit(f)).sum(-1),
    ),
    Case(
        "poisson",
        Poisson,
        2,
        lambda rng, f: rng.poisson(np.exp(f)),
        lambda f, y: stats.poisson.logpmf(y, np.exp(f)).sum(-1),
    ),
    Case("gaussian", lambda: Gaussian(0.7), 2, *_gaussian(0.7)),
    Case("gaussians", lambda: Gaussian([0.7, 1.3]), 2, *_gaussian(np.array([0.7, 1.3]))),
    Case("learned", lambda: GaussianLearnedNoise(0.4), 1, *_gaussian(0.4)),
    Case(
        "heteroscedastic",
        HeteroscedasticGaussian,
        2,
        lambda rng, f: rng.normal(size=(*ENTRIES, 1)),
        _heteroscedastic_log_p,
        # The Hessian is quadratic in the target, so its mean is that over mean +- deviation.
        fisher=lambda f: f[0] + jnp.exp(f[1] / 2) * jnp.array([[-1.0], [1.0]]),
    ),
    Case("custom", lambda: Custom(_logistic), 3, _draw_custom, _custom_log_p, draws=False),
]
SAMPLED = [case for case in CASES if case.draws]
everywhere = pytest.mark.parametrize("case", CASES, ids=str)


@jax.jit
def roots(likelihood, outputs, targets):
    """The matrices ``S``, one for each entry, column by column."""

    def column(unit):
        return likelihood.root(outputs, targets, jnp.broadcast_to(unit, outputs.shape))

    return jax.vmap(column, out_axes=-1)(jnp.eye(outputs.shape[-1], dtype=outputs.dtype))


@jax.jit
def hessians(likelihood, outputs, targets):
    def one(f, y):
        return jax.hessian(
            lambda f: likelihood.loss(f[None], jax.tree.map(lambda x: x[None], y))[0]
        )(f)

    return jax.vmap(jax.vmap(one))(outputs, targets)


@everywhere
@pytest.mark.float64
def test_the_loss_is_minus_the_log_density(case):
    outputs, targets = case.example()
    truth = case.log_p(np.asarray(outputs), jax.tree.map(np.asarray, targets))
    loss = eqx.filter_jit(case.likelihood.loss)(outputs, targets)
    assert loss.shape == ENTRIES
    np.testing.assert_allclose(loss, -truth, rtol=1e-12, atol=1e-14)


@everywhere
@pytest.mark.float64
def test_the_root_squared_is_the_hessian(case):
    outputs, targets = case.example()
    S = roots(case.likelihood, outputs, targets)
    if case.fisher is None:
        truth = hessians(case.likelihood, outputs, targets)
    else:
        nodes = jax.vmap(jax.vmap(case.fisher))(outputs)
        truth = np.mean([hessians(case.likelihood, outputs, nodes[:, :, i]) for i in (0, 1)], 0)
    np.testing.assert_allclose(S @ np.swapaxes(S, -1, -2), truth, rtol=1e-10, atol=1e-12)


@everywhere
@pytest.mark.float64
def test_the_root_has_a_transpose(case):
    outputs, targets = case.example()
    rng = np.random.default_rng(1)
    u, v = (jnp.asarray(rng.normal(size=outputs.shape)) for _ in range(2))

    @jax.jit
    def root(v):
        return case.likelihood.root(outputs, targets, v)

    (transposed,) = jax.linear_transpose(root, v)(u)
    np.testing.assert_allclose(jnp.vdot(u, root(v)), jnp.vdot(transposed, v), rtol=1e-12)


@everywhere
@pytest.mark.float64
def test_the_empirical_fisher_root_is_the_gradient_of_the_loss(case):
    outputs, targets = case.example()
    gradient = jax.jit(jax.grad(lambda f: jnp.sum(case.likelihood.loss(f, targets))))(outputs)
    g = eqx.filter_jit(case.likelihood.fisher_root)(outputs, targets, targets)
    if case.name == "weighted":  # the gradient carries the weight, its root only the square root
        gradient /= np.sqrt(np.where(CLASS_WEIGHTS > 0, CLASS_WEIGHTS, 1.0))[targets][..., None]
    np.testing.assert_allclose(g, gradient, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("case", SAMPLED, ids=str)
@pytest.mark.float64
def test_draws_give_the_fisher_information(case):
    """``E[g g^T] = S S^T`` within five standard errors."""
    outputs, targets = case.example()
    count = 20_000

    def outer(key):
        drawn = case.likelihood.sample(key, outputs)
        g = case.likelihood.fisher_root(outputs, targets, drawn)
        return g[..., :, None] * g[..., None, :]

    products = jax.jit(jax.vmap(outer))(jax.random.split(jax.random.key(2), count))
    S = roots(case.likelihood, outputs, targets)
    error = np.abs(products.mean(0) - S @ np.swapaxes(S, -1, -2))
    assert np.all(error <= 5 * products.std(0) / np.sqrt(count) + 1e-12)


@pytest.mark.parametrize("case", SAMPLED, ids=str)
@pytest.mark.float64
def test_the_mean_is_the_mean_of_the_draws(case):
    outputs, _ = case.example()
    count = 20_000
    keys = jax.random.split(jax.random.key(3), count)
    drawn = jax.jit(jax.vmap(lambda key: case.likelihood.sample(key, outputs)))(keys)
    mean = case.likelihood.mean(outputs)
    if isinstance(case.likelihood, Categorical):
        drawn = jax.nn.one_hot(drawn, case.outputs)
    assert mean.shape == drawn.shape[1:]
    error = np.abs(drawn.mean(0) - mean)
    assert np.all(error <= 5 * drawn.std(0) / np.sqrt(count))


@everywhere
@pytest.mark.float64
def test_better_predictions_score_higher(case):
    """What is predicted is what scores best, and one more step away scores no better."""
    outputs, targets = case.example()
    score = case.likelihood.score(outputs, targets)
    assert score.shape == ENTRIES
    if not case.draws:
        np.testing.assert_array_equal(score, -case.likelihood.loss(outputs, targets))
        return
    best = case.likelihood.predict(outputs)
    highest = case.likelihood.score(outputs, best)
    assert np.all(highest >= score - 1e-12)
    ceiling = 1.0 if isinstance(case.likelihood, Categorical | Bernoulli) else 0.0
    np.testing.assert_allclose(highest, ceiling, atol=1e-12)


@everywhere
@pytest.mark.float64
def test_good_targets_pass_and_there_is_nothing_more_to_fit(case):
    outputs, targets = case.example()
    case.likelihood.check(jax.eval_shape(lambda: outputs), targets)
    if case.name != "learned":
        likelihood = case.likelihood
        assert likelihood.fitted(outputs, targets) is likelihood


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32], ids=str)
@everywhere
def test_types_are_those_of_the_outputs(case, dtype):
    """Whatever the type of real targets is."""
    outputs, targets = jax.eval_shape(case.example)
    outputs = outputs.update(dtype=dtype)
    likelihood = case.likelihood
    for method, inputs in [
        (likelihood.loss, (outputs, targets)),
        (likelihood.root, (outputs, targets, outputs)),
        (likelihood.fisher_root, (outputs, targets, targets)),
        (likelihood.mean, (outputs,)),
    ]:
        if case.draws or method == likelihood.root:  # a user's loss promotes as it likes
            assert jax.eval_shape(method, *inputs).dtype == dtype


@given(sizes=st.lists(st.floats(-1e4, 1e4, width=32), min_size=4, max_size=4))
def test_wild_outputs_have_finite_losses_and_roots(sizes):
    """Also where probabilities round to 0 or 1 and rates overflow; eagerly, so nothing compiles."""
    for case in CASES:
        if not case.draws:
            continue
        outputs = jnp.asarray(sizes[: case.outputs], jnp.float32)[None]
        _, targets = case.example()
        targets = targets[0, :1]
        gradient = case.likelihood.fisher_root(outputs, targets, targets)
        root = case.likelihood.root(outputs, targets, jnp.ones_like(outputs))
        for value in (case.likelihood.loss(outputs, targets), gradient, root):
            assert np.all(np.isfinite(value)), case.name


@pytest.mark.float64
def test_small_probabilities_are_exact():
    """Against 50 digits: losses and roots far below the rounding of a probability near one."""
    f = jnp.array([[40.0]])
    np.testing.assert_allclose(
        Bernoulli().loss(f, jnp.array([[1]])), [np.log1p(np.exp(-40.0))], rtol=1e-12
    )
    np.testing.assert_allclose(
        Bernoulli().root(f, jnp.array([[1]]), jnp.ones((1, 1))), [[np.exp(-20.0)]], rtol=1e-12
    )
    logits = jnp.array([[0.0, -800.0]])
    S = roots(Categorical(), logits, jnp.array([0]))
    assert np.all(np.isfinite(S))
    np.testing.assert_allclose(Categorical().loss(logits, jnp.array([1])), [800.0])


@pytest.mark.float64
def test_a_loss_that_is_not_convex_gives_the_nearest_positive_root():
    likelihood = Custom(lambda f, y: f[0] ** 2 - f[1] ** 2 + 0 * y)
    S = roots(likelihood, jnp.ones((1, 1, 2)), jnp.zeros((1, 1)))[0, 0]
    np.testing.assert_allclose(S @ S.T, np.diag([2.0, 0.0]), atol=1e-12)


def test_custom_cannot_draw():
    with pytest.raises(ValueError, match="no Monte-Carlo Fisher"):
        Custom(lambda f, y: f[0]).sample(jax.random.key(0), jnp.ones((1, 1)))


# Learned noise -----------------------------------------------------------------------------------


@pytest.mark.float64
@given(scale=st.floats(1e-3, 1e3), seed=st.integers(0, 99))
def test_learned_noise_is_the_most_likely_one(scale, seed):
    rng = np.random.default_rng(seed)
    outputs = jnp.asarray(rng.normal(size=(5, 3, 2)))
    targets = outputs + scale * rng.normal(size=outputs.shape)
    weights = jnp.asarray(rng.uniform(size=(5, 3)))
    single = GaussianLearnedNoise().fitted(outputs, targets, weights)
    each = GaussianLearnedNoise(jnp.ones(2)).fitted(outputs, targets, weights)
    squares = np.asarray(weights)[..., None] * np.asarray(targets - outputs) ** 2
    np.testing.assert_allclose(single.noise**2, squares.sum() / (2 * weights.sum()), rtol=1e-12)
    np.testing.assert_allclose(each.noise**2, squares.sum((0, 1)) / weights.sum(), rtol=1e-12)

    def loss(noise):
        return jnp.sum(weights * GaussianLearnedNoise(noise).loss(outputs, targets))

    np.testing.assert_allclose(scale * jax.grad(loss)(single.noise), 0, atol=1e-9)


@pytest.mark.parametrize("per_output", [False, True])
def test_noise_is_learned_from_what_is_present_only(per_output):
    start = GaussianLearnedNoise(jnp.ones(2) if per_output else 1.0)
    outputs, targets = jnp.zeros((4, 2)), jnp.array([[1.0, -1], [-1, 1], [jnp.nan, 5], [7, 7]])
    fitted = start.fitted(outputs, targets, jnp.array([True, True, False, False]))
    np.testing.assert_allclose(fitted.noise, np.ones_like(start.noise))
    assert fitted.noise.shape == start.noise.shape


def test_a_perfect_fit_leaves_noise_of_the_rounding():
    y = jnp.full((3, 1), 1000.0)
    noise = GaussianLearnedNoise().fitted(y, y).noise
    assert 0 < noise < 1e-3
    assert np.isfinite(GaussianLearnedNoise(noise).loss(y, y)).all()
    assert GaussianLearnedNoise().fitted(0 * y, 0 * y).noise > 0


def test_noise_is_learned_under_jit():
    y = jnp.arange(6.0).reshape(3, 2)
    fit = jax.jit(lambda likelihood, f, y: likelihood.fitted(f, y))
    np.testing.assert_allclose(fit(GaussianLearnedNoise(), 0 * y, y).noise ** 2, 55 / 6, rtol=1e-6)


# Shapes of targets -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "likelihood", [Bernoulli(), Poisson(), Gaussian()], ids=lambda x: type(x).__name__
)
def test_a_single_target_may_lack_its_axis(likelihood):
    f, y = jnp.linspace(-1, 1, 4)[:, None], jnp.array([0, 1, 1, 0])
    likelihood.check(jax.eval_shape(lambda: f), y)
    np.testing.assert_array_equal(likelihood.loss(f, y), likelihood.loss(f, y[:, None]))
    np.testing.assert_array_equal(likelihood.score(f, y), likelihood.score(f, y[:, None]))


# Bad input ---------------------------------------------------------------------------------------


def of(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


CLASSES = np.array([0, 1, 2])

REFUSED = [
    (Categorical(), of(3, 4), [0, 1, 4], ValueError, r"targets\[2\] is 4: classes are 0 \.\.\. 3"),
    (Categorical(), of(3, 4), [0, -1, 1], ValueError, r"targets\[1\] is -1.*weight 0"),
    (Categorical(), of(2, 2, 4), [[0, 9], [1, 1]], ValueError, r"targets\[0, 1\] is 9"),
    (Categorical(), of(3, 4), [0.0, 1.0, 2.0], TypeError, r"float64.*astype\(int\)"),
    (Categorical(), of(3, 4), [0.0, np.nan, 2.0], TypeError, r"float64.*astype\(int\)"),
    (Categorical(), of(3, 4), ["a", "b", "c"], TypeError, "real numbers"),
    (Categorical(), of(3, 4), np.eye(4)[:3], ValueError, r"one-hot, give targets.argmax\(-1\)"),
    (Categorical(), of(3, 4), CLASSES[:, None], ValueError, r"Drop their last axis"),
    (Categorical(), of(3, 4), [0, 1], ValueError, r"shape \(2,\).*must have \(3,\)"),
    (Categorical(), of(3, 1), CLASSES, ValueError, "use Bernoulli"),
    (Categorical([1, 2]), of(3, 4), CLASSES, ValueError, "2 class weights.*4 outputs"),
    (Bernoulli(), of(3, 1), [0, 1, 2], ValueError, r"targets\[2\] is 2: Bernoulli.*0 or 1"),
    (
        Bernoulli(),
        of(2, 1),
        [0, np.nan],
        ValueError,
        r"targets\[1\] is nan: targets must be finite",
    ),
    (Bernoulli(), of(2, 3), [0, 1], ValueError, r"shape \(2,\).*must have \(2, 3\)"),
    (Poisson(), of(3, 1), [0, 1, -1], ValueError, r"targets\[2\] is -1.*counts"),
    (Poisson(), of(3, 1), [0, 1.5, 1], ValueError, r"targets\[1\] is 1.5.*counts"),
    (Gaussian(), of(2, 2), [[0, 1], [np.inf, 1]], ValueError, r"targets\[1, 0\] is inf"),
    (Gaussian(), of(2, 1), [0, np.nan], ValueError, r"targets\[1\] is nan.*weight 0"),
    (Gaussian(), of(2, 1), [0, 1j], TypeError, "complex128.*real numbers"),
    (Gaussian(), of(2, 2), [[0, 1, 2], [0, 1, 2]], ValueError, r"shape \(2, 3\)"),
    (Gaussian([1, 1, 1]), of(2, 2), np.ones((2, 2)), ValueError, "3 noise levels"),
    (HeteroscedasticGaussian(), of(2, 3), np.ones((2, 1)), ValueError, "two for each target"),
    (HeteroscedasticGaussian(), of(2, 4), np.ones((2, 4)), ValueError, r"must have \(2, 2\)"),
    (Custom(lambda f, y: f), of(2, 3), [1, 2], ValueError, "one float"),
    (Custom(lambda f, y: y), of(2, 3), [1, 2], ValueError, "one float"),
    (Custom(lambda f, y: f[0] * y), of(2, 3), [1, 2, 3], ValueError, r"leading axes.*\(2,\)"),
    (Custom(lambda f, y: f[0] * y), of(2, 3), [1, np.nan], ValueError, r"targets\[1\] is nan"),
    (Categorical(), of(3), CLASSES, ValueError, r"return \(examples, 1\)"),
    (Categorical(), of(0, 4), [], ValueError, "at least one example"),
    (Categorical(), of(3, 4, dtype=jnp.int32), CLASSES, TypeError, "int32.*needs floats"),
    (Categorical(), (of(3, 4), of(3)), CLASSES, TypeError, "tuple.*one array"),
]


@pytest.mark.parametrize(
    ("likelihood", "outputs", "targets", "kind", "message"),
    REFUSED,
    ids=[f"{type(row[0]).__name__}-{i}" for i, row in enumerate(REFUSED)],
)
def test_bad_targets_and_outputs_are_refused(likelihood, outputs, targets, kind, message):
    with pytest.raises(kind, match=message):
        likelihood.check(outputs, np.asarray(targets))


@pytest.mark.parametrize(
    ("weights", "kind", "message"),
    [
        ([1, 1], ValueError, r"shape \(2,\).*must have \(3,\)"),
        (1.0, ValueError, r"shape \(\)"),
        ([1, -1, 1], ValueError, r"weights\[1\] is -1"),
        ([1, 1, np.nan], ValueError, r"weights\[2\] is nan"),
        ([0, 0, 0], ValueError, "all weights are zero"),
        (["a", "b", "c"], TypeError, "real numbers"),
    ],
)
def test_bad_weights_are_refused(weights, kind, message):
    with pytest.raises(kind, match=message):
        Categorical().check(of(3, 4), CLASSES, np.asarray(weights))


def test_targets_that_are_left_out_may_be_anything():
    mask = np.array([[True, False], [True, True]])
    Categorical().check(of(2, 2, 4), np.array([[0, -100], [1, 3]]), mask)
    Gaussian().check(of(2, 2, 1), np.array([[0, np.nan], [1, 3]]), mask)
    with pytest.raises(ValueError, match=r"targets\[1, 0\] is -100"):
        Categorical().check(of(2, 2, 4), np.array([[0, -100], [-100, 3]]), mask)


@pytest.mark.parametrize("noise", [0.0, -1.0, np.nan, np.inf, np.ones((1, 1)), [1.0, 0.0]])
@pytest.mark.parametrize("kind", [Gaussian, GaussianLearnedNoise])
def test_noise_that_is_no_standard_deviation_is_refused(kind, noise):
    with pytest.raises(ValueError, match="standard deviation"):
        kind(noise)


@pytest.mark.parametrize("weights", [[1.0, -1.0], [0.0, 0.0], [np.nan, 1.0], 2.0, np.ones((1, 1))])
def test_bad_class_weights_are_refused(weights):
    with pytest.raises(ValueError, match="class weights"):
        Categorical(weights)
