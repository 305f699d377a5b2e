"""Dense truth about curvature: Jacobians and Hessians as matrices, summed in explicit loops.

Nothing of Backcast is in here. Losses are those of the textbook for one entry, and their Hessians
come from automatic differentiation; only what has no loss to derive is written by hand.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np


def flat(values) -> np.ndarray:
    """The leaves of a tree, each flattened, one behind the other."""
    return np.concatenate([np.ravel(np.asarray(x, float)) for x in jax.tree.leaves(values)])


def flat_rows(factor) -> np.ndarray:
    """The rows of a factor as a matrix."""
    leaves = [np.asarray(x, float) for x in jax.tree.leaves(factor)]
    return np.concatenate([x.reshape(len(x), -1) for x in leaves], axis=1)


def jacobian(function, params) -> np.ndarray:
    """The derivatives of all outputs of ``function(params)``, with the parameters last."""
    return outputs_and_jacobian(function, params)[1]


def outputs_and_jacobian(function, params) -> tuple[np.ndarray, np.ndarray]:
    def twice(params):
        outputs = function(params)
        return outputs, outputs

    derivatives, outputs = jax.jit(jax.jacrev(twice, has_aux=True))(params)
    leaves = [np.asarray(x, float) for x in jax.tree.leaves(derivatives)]
    J = np.concatenate([x.reshape(*outputs.shape, -1) for x in leaves], axis=-1)
    return np.asarray(outputs), J


def categorical(f, y):
    return -jnp.log(jnp.exp(f[y]) / jnp.sum(jnp.exp(f)))


def bernoulli(f, y):
    p = 1 / (1 + jnp.exp(-f))
    return -jnp.sum(jnp.log(jnp.where(y == 1, p, 1 - p)))


def poisson(f, y):
    return jnp.sum(jnp.exp(f) - y * f)


def gaussian(f, y, scale=1.0):
    return jnp.sum((y - f) ** 2 / (2 * scale**2))


def hessians(loss, outputs, targets) -> np.ndarray:
    """The Hessian of every entry's loss in its outputs."""
    return np.asarray(_over_entries(jax.hessian(loss), outputs)(outputs, targets), float)


def gradients(loss, outputs, targets) -> np.ndarray:
    """The gradient of every entry's loss in its outputs."""
    return np.asarray(_over_entries(jax.grad(loss), outputs)(outputs, targets), float)


def count(weights: np.ndarray) -> float:
    """How many examples there are: each by the largest weight of its entries."""
    return sum(example.max() for example in weights.reshape(len(weights), -1))


def ggn(J: np.ndarray, H: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``1/N sum_it w_it J_it^T H_it J_it``."""
    total = np.zeros((J.shape[-1], J.shape[-1]))
    for entry in itertools.product(*map(range, H.shape[:-2])):
        total += weights[entry] * J[entry].T @ H[entry] @ J[entry]
    return total / count(weights)


def fisher(J: np.ndarray, g: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``1/N sum_i g_i g_i^T``, where ``g_i = sum_t sqrt(w_it) J_it^T g_it`` is of one example."""
    total = np.zeros((J.shape[-1], J.shape[-1]))
    for i in range(len(J)):
        own = np.zeros(J.shape[-1])
        for entry in itertools.product(*map(range, g.shape[1:-1])):
            own += np.sqrt(weights[(i, *entry)]) * J[(i, *entry)].T @ g[(i, *entry)]
        total += np.outer(own, own)
    return total / count(weights)


def ewc(function, params, count: int) -> np.ndarray:
    """``1/N sum_ic p_ic (d log p_ic / d theta)^2``: the diagonal elastic weight consolidation has.

    Here ``function(params)`` returns logits of ``count`` examples.
    """
    p = np.asarray(jax.nn.softmax(function(params)), float)
    slopes = jacobian(lambda params: jnp.log(jax.nn.softmax(function(params))), params)
    total = np.zeros(slopes.shape[-1])
    for i in range(count):
        for c in range(p.shape[1]):
            total += p[i, c] * slopes[i, c] ** 2
    return total / count


def _over_entries(function, outputs):
    for _ in outputs.shape[:-1]:
        function = jax.vmap(function)
    return jax.jit(function)
