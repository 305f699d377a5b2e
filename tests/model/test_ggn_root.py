"""The root of the curvature of all batches, against the products that it is a root of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backcast.model import Batch, Categorical, as_model
from backcast.model.ggn_means import check_batches, mean_products
from backcast.model.ggn_root import GgnRoot, column_space

pytestmark = pytest.mark.usefixtures("quick_compiles")

KEY = jax.random.key(3)


@pytest.mark.float64
@pytest.mark.parametrize("fisher", ["exact", "sampled"])
def test_the_root_times_its_transpose_is_the_product(fisher):
    rng = np.random.default_rng(0)
    model = as_model((lambda params, x: jnp.tanh(x) @ params, jnp.asarray(rng.normal(size=(4, 3)))))
    batches = [
        Batch(rng.normal(size=(n, 4)), rng.integers(0, 3, n), rng.choice([0.5, 1.0, 2.0], n))
        for n in (5, 2)
    ]
    extent = check_batches(model, Categorical(), batches)
    root = GgnRoot(model, Categorical(), batches, extent, fisher, KEY)
    rows = jnp.asarray(rng.normal(size=(2, 4, 3)))
    images = root.push(rows)
    products = mean_products(model, Categorical(), batches, extent.examples, rows, fisher, KEY)
    np.testing.assert_allclose(root.pull(images), products, rtol=0, atol=1e-12)

    columns = column_space(model, extent, fisher).size
    used = 21 if fisher == "exact" else 7
    assert images.shape == (2, columns)
    assert images[:, :used].all()
    assert not images[:, used:].any()
    others = jnp.asarray(rng.normal(size=(2, columns)))
    forth, back = jnp.sum(images * others), jnp.sum(rows * root.pull(others))
    np.testing.assert_allclose(forth, back, rtol=1e-12)
