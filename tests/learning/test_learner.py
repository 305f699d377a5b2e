"""The learner: exact where the model is linear, repeatable, and never harmed by an error."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import oracles
from backcast.inference import Belief, Noise, Relative
from backcast.learning import CurvatureSettings, DivergedError, Learner, LoadError
from backcast.linalg import DiagLowRank
from backcast.model import Categorical, Custom, Gaussian
from learning.small import hidden, hidden_params, linear

SMALL = {"rank": 4, "noise": 1e-3, "epochs": 3, "batch_size": 16, "progress": False}


def learner_of(network, **more):
    return Learner(network, Categorical(), **{**SMALL, **more})


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def regression(rng, n):
    """A task ``y = H theta + e`` for a linear model of 2 inputs and 2 outputs."""
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    design = np.concatenate([np.kron(np.ones((n, 1)), np.eye(2)), np.kron(x, np.eye(2))], axis=1)
    return x, y, (design, 0.7**2 * np.eye(2 * n), y.ravel())


LBFGS = optax.lbfgs()


@pytest.mark.float64
@pytest.mark.parametrize("scale", ["examples", "mean"])
def test_a_linear_model_gets_the_exact_filter_and_smoother(scale):
    rng = np.random.default_rng(3)
    params = {"w": jnp.zeros((2, 2)), "b": jnp.zeros(2)}
    factor = {
        "w": jnp.asarray(rng.normal(size=(6, 2, 2))),
        "b": jnp.asarray(rng.normal(size=(6, 2))),
    }
    prior = Belief(
        {"w": jnp.asarray(rng.normal(size=(2, 2))), "b": jnp.ones(2)},
        DiagLowRank({"w": jnp.full((2, 2), 2.0), "b": jnp.full(2, 0.5)}, factor),
    )
    learner = Learner(
        (linear, params),
        Gaussian(0.7),
        rank=6,
        noise=Noise({"b": 0.3, "w": 0.1}),
        prior=prior,
        scale=scale,
        optimizer=LBFGS,
        epochs=60,
        batch_size=100,
        curvature=CurvatureSettings(examples=None, rank=6),
        progress=False,
    )
    times, tasks = [0.0, 1.0, 3.5, 4.0], []
    for time, n in zip(times, (5, 9, 9, 9), strict=True):
        x, y, (design, noise, targets) = regression(rng, n)
        learner.observe(x, y, time=time)
        # A mean over n examples is a likelihood of n times the variance.
        tasks.append((design, noise * (n if scale == "mean" else 1), targets))
    q = np.asarray([0.3] * 2 + [0.1] * 4)
    qs = [dt * q for dt in np.diff(times, prepend=0.0)]
    covariance = np.linalg.inv(prior.precision.as_dense())
    predicted, filtered = oracles.kalman_filter(
        oracles.Gaussian(flat(prior.mean), covariance), tasks, qs
    )
    smoothed = oracles.rts_smoother(predicted, filtered)
    for record, truth in zip(learner.trajectory, filtered, strict=True):
        exactly(record.filtered, truth)
    # The message from the future has full rank here, so that nothing is lost in precisions either.
    models = learner.smooth()
    for index, belief in models.beliefs():
        exactly(belief, smoothed[index])
        same(belief.mean, models[index].model.params)
    half = learner.between(1, 0.4)
    before, after = times[1:3]
    between = before + 0.4 * (after - before)
    with_unseen = [tasks[0], tasks[1], (np.zeros((1, 6)), np.eye(1), np.zeros(1)), *tasks[2:]]
    gaps = [0.0, 1.0, between - before, after - between, 0.5]
    path = oracles.rts_smoother(
        *oracles.kalman_filter(
            oracles.Gaussian(flat(prior.mean), covariance), with_unseen, [dt * q for dt in gaps]
        )
    )
    np.testing.assert_allclose(flat(half.model.params), path[2].mean, rtol=1e-6, atol=1e-8)


def exactly(belief, truth):
    np.testing.assert_allclose(flat(belief.mean), truth.mean, rtol=1e-6, atol=1e-8)
    precision = np.linalg.inv(truth.covariance)
    np.testing.assert_allclose(belief.precision.as_dense(), precision, rtol=1e-7, atol=1e-7)


def test_each_task_has_its_model_filtered_smoothed_and_between(network, drifting):
    learner = learner_of(network)
    reports = [learner.observe(x, y, name=f"turn {t}") for t, (x, y) in enumerate(drifting)]
    assert [len(report["losses"]) for report in reports] == [3] * 4
    json.dumps(reports, allow_nan=False)
    filtered, smoothed = learner.filtered(), learner.smooth()
    assert (
        [m.name for m in smoothed] == [m.name for m in filtered] == [f"turn {t}" for t in range(4)]
    )
    same(filtered[-1].model.params, smoothed[-1].model.params)
    same(learner.between(1, 0.0).model.params, smoothed[1].model.params)
    np.testing.assert_allclose(
        flat(learner.between(1, 1.0).model.params), flat(smoothed[2].model.params), atol=1e-5
    )
    x, y = drifting[0]
    assert smoothed[0].predict(x).shape == y.shape
    np.testing.assert_allclose(smoothed[0].predict_proba(x).sum(-1), 1, rtol=1e-5)
    assert smoothed[0].score(x, y) == pytest.approx(np.mean(smoothed[0].predict(x) == y))
    apply, params = smoothed[0].unwrap()
    np.testing.assert_allclose(apply(params, x), smoothed[0].outputs(x, batch_size=7), atol=1e-5)
    same(smoothed[1:3][0].model.params, smoothed[1].model.params)
    same(smoothed.belief(1).mean, smoothed[1].model.params)


def test_with_noise_that_does_not_bind_every_model_is_its_own(network, drifting):
    learner = learner_of(network, noise=1e12)
    for task in drifting[:2]:
        learner.observe(*task)
    np.testing.assert_allclose(
        flat(learner.smooth()[0].model.params), flat(learner.filtered()[0].model.params), atol=1e-4
    )


def test_saving_and_loading_goes_on_to_the_bit(network, drifting, tmp_path):
    optimizer = optax.adam(optax.cosine_decay_schedule(1e-2, 100))
    undisturbed = learner_of(network, optimizer=optimizer, restart=False)
    broken_off = learner_of(network, optimizer=optimizer, restart=False)
    for task in drifting[:2]:
        undisturbed.observe(*task)
        broken_off.observe(*task)
    broken_off.save(tmp_path)
    before = [model.model.params for model in broken_off.smooth()]
    loaded = Learner.load(tmp_path, network, optimizer=optimizer, progress=False)
    same(before, [model.model.params for model in loaded.smooth()])
    for task in drifting[2:]:
        assert undisturbed.observe(*task)["losses"] == loaded.observe(*task)["losses"]
    same(undisturbed.belief, loaded.belief)
    same(
        [belief for _, belief in undisturbed.smooth().beliefs()],
        [belief for _, belief in loaded.smooth().beliefs()],
    )


def test_a_directory_is_kept_up_to_date_and_frees_the_memory(network, drifting, tmp_path):
    learner = learner_of(network, directory=tmp_path)
    in_memory = learner_of(network)
    for task in drifting[:3]:
        learner.observe(*task)
        in_memory.observe(*task)
    assert len(list(tmp_path.glob("task-*"))) == 3
    assert len(list(tmp_path.glob("base-*"))) == 1
    same([m.model.params for m in learner.smooth()], [m.model.params for m in in_memory.smooth()])
    assert not any(hasattr(entry, "filtered") for entry in learner.trajectory.entries)
    loaded = Learner.load(tmp_path, network, save=True, progress=False)
    loaded.observe(*drifting[3])
    assert len(Learner.load(tmp_path, network).trajectory) == 4


def test_a_directory_with_a_learner_is_not_written_over(network, drifting, tmp_path):
    learner_of(network, directory=tmp_path).observe(*drifting[0])
    with pytest.raises(FileExistsError, match=r"Learner\.load"):
        learner_of(network, directory=tmp_path)


@pytest.mark.parametrize(
    "noise",
    [
        Noise({"*": 1e-3, "last/*": Relative(0.1)}),
        Noise.from_tree(jax.tree.map(lambda x: jnp.full_like(x, 1e-4), hidden_params())),
    ],
)
def test_every_kind_of_noise_is_saved(network, drifting, tmp_path, noise):
    learner = learner_of(network, noise=noise)
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path, network, progress=False)
    assert learner.observe(*drifting[0])["losses"] == loaded.observe(*drifting[0])["losses"]
    same(loaded.noise.variance(learner.belief.mean), noise.variance(learner.belief.mean))


def test_class_weights_and_trainable_patterns_are_saved(network, drifting, tmp_path):
    likelihood = Categorical([1.0, 2.0, 3.0])
    learner = Learner(network, likelihood, trainable="last/*", **SMALL)
    learner.observe(*drifting[0])
    assert learner.belief.mean["first"] == {"w": None, "b": None}
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path, network, progress=False)
    np.testing.assert_array_equal(loaded.likelihood.class_weights, [1.0, 2.0, 3.0])
    assert loaded.observe(*drifting[1]).keys() == learner.observe(*drifting[1]).keys()
    same(loaded.belief, learner.belief)


def test_the_third_task_compiles_nothing(network, drifting, compilations):
    # Of a shape that no other test has compiled for.
    learner = learner_of(network, rank=5, batch_size=13)
    for task in drifting[:2]:
        learner.observe(*task)
    before = compilations()
    learner.observe(*drifting[2])
    assert compilations() == before > 0


def test_a_learner_of_other_weights_compiles_nothing(drifting, compilations):
    for seed in (0, 1):
        before = compilations()
        learner = learner_of((hidden, hidden_params(seed)), seed=seed, noise=0.1 + seed)
        for task in drifting[:2]:
            learner.observe(*task)
        learner.smooth()[0].predict(drifting[0][0])
    assert compilations() == before


def test_an_error_leaves_the_learner_as_it_was(network, drifting, tmp_path):
    learner = learner_of(network, directory=tmp_path, optimizer=optax.adam(1e-2))
    learner.observe(*drifting[0])
    belief, files = learner.belief, sorted(tmp_path.iterdir())
    x, y = drifting[1]
    bad = x.copy()
    bad[3, 2] = np.nan
    learner._optimizer = optax.sgd(1e30)
    with pytest.raises(ValueError, match=r"x\[3, 2\] is nan"):
        learner.observe(bad, y)
    with pytest.raises(DivergedError):
        learner.observe(x * 1e4, y)
    assert learner.belief is belief
    assert sorted(tmp_path.iterdir()) == files
    assert len(learner.trajectory) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (x[:0], y[:0]), "no examples"),
        (lambda x, y: (x, y[:-1]), "examples"),
        (lambda x, y: (x, y + 2), "classes are 0"),
        (lambda x, y: (x, y.astype(float)), "integers"),
        (lambda x, y: (x[:, :3], y), "does not take"),
        (lambda x, y: (np.where(x > 2, np.inf, x), y), "finite"),
    ],
)
def test_bad_data_is_refused(network, drifting, change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        learner_of(network).observe(*change(*drifting[0]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": -1}, "rank"),
        ({"prior": 0.0}, "prior"),
        ({"strength": float("nan")}, "strength"),
        ({"noise": -1.0}, "noise"),
        ({"noise": Noise({"nothing*": 1.0})}, "matches no parameter"),
        ({"epochs": 0}, "epochs"),
        ({"scale": "tasks"}, "scale"),
        ({"remainder": "keep"}, "remainder"),
        ({"trainable": "nothing"}, "nothing"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_settings_that_cannot_be_are_refused_at_once(network, settings, message):
    with pytest.raises(Exception, match=message):
        learner_of(network, **settings)


def test_time_does_not_run_backwards(network, drifting):
    learner = learner_of(network)
    learner.observe(*drifting[0], time=3.0)
    with pytest.raises(ValueError, match="in order of time"):
        learner.observe(*drifting[1], time=2.0)
    learner.observe(*drifting[1])
    assert learner.trajectory[1].time == 4.0


def test_nothing_learned_nothing_to_smooth(network):
    with pytest.raises(ValueError, match="No task has been observed"):
        learner_of(network).smooth()


def test_an_own_optimiser_must_be_given_again(network, drifting, tmp_path):
    learner = learner_of(network, optimizer=optax.sgd(0.1))
    learner.observe(*drifting[0])
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path, network, progress=False)
    loaded.smooth()[0].predict(drifting[0][0])
    with pytest.raises(ValueError, match="optimiser of your own"):
        loaded.observe(*drifting[1])


def test_a_folder_of_another_network_names_the_leaf(network, drifting, tmp_path):
    learner = learner_of(network)
    learner.observe(*drifting[0])
    learner.save(tmp_path)
    wider = hidden_params()
    wider["last"]["w"] = jnp.zeros((6, 5))
    with pytest.raises(LoadError, match="'last/w'"):
        Learner.load(tmp_path, (hidden, wider))
    with pytest.raises(LoadError, match="another network"):
        Learner.load(tmp_path, (linear, {"w": jnp.zeros((4, 3)), "b": jnp.zeros(3)}))


def test_a_newer_format_is_refused(network, tmp_path):
    from backcast.learning.files import load_record, save_record

    learner_of(network).save(tmp_path)
    record = load_record(tmp_path / "learner.json")
    save_record(tmp_path / "learner.json", {**record, "format": 2})
    with pytest.raises(LoadError, match="Update backcast"):
        Learner.load(tmp_path, network)


def test_files_outside_the_folder_are_not_read(network, tmp_path):
    from backcast.learning.files import load_record, save_record

    learner_of(network).save(tmp_path / "run")
    record = load_record(tmp_path / "run" / "learner.json")
    record["base"]["file"] = "../secret.safetensors"
    save_record(tmp_path / "run" / "learner.json", record)
    with pytest.raises(LoadError, match="outside its folder"):
        Learner.load(tmp_path / "run", network)


def test_an_altered_task_is_found_when_it_is_needed(network, drifting, tmp_path):
    learner = learner_of(network)
    for task in drifting[:2]:
        learner.observe(*task)
    learner.save(tmp_path)
    (path,) = tmp_path.glob("task-0000-*")
    path.write_bytes(path.read_bytes()[:-1])
    loaded = Learner.load(tmp_path, network)
    with pytest.raises(LoadError, match="altered or cut short"):
        loaded.smooth()[0]


def test_a_custom_likelihood_must_be_given_again(network, drifting, tmp_path):
    def loss(output, target):
        return jnp.sum((output - target) ** 2)

    learner = Learner(network, Custom(loss), **SMALL)
    x, y = drifting[0]
    learner.observe(x, np.eye(3, dtype=np.float32)[y])
    learner.save(tmp_path)
    with pytest.raises(LoadError, match="Give it again"):
        Learner.load(tmp_path, network)
    loaded = Learner.load(tmp_path, network, likelihood=Custom(loss))
    same(loaded.belief, learner.belief)


def test_the_papers_scale_and_remainder(network, drifting):
    learner = learner_of(
        network,
        scale="mean",
        strength=1e4,
        remainder="drop",
        curvature=CurvatureSettings(examples=16, batch_size=16, diagonal="none"),
    )
    learner.observe(*drifting[0])
    precision = learner.belief.precision
    assert isinstance(precision, DiagLowRank)
    np.testing.assert_array_equal(flat(precision.diag), 1.0)
    assert learner.trajectory[0].curvature.rank == 4
