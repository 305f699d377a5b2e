"""The curvature's factor against a dense matrix of Jacobians and a sparse SVD of it, in one run.

    python benchmarks/curvature.py [--epochs 1] [--rank 10] [--examples 128] [--rounds 5]
                                   [--ways lean plain]

The network is an MLP 784-400-400-10 (478,410 parameters), after some epochs of Adam on MNIST
(enlarged UCI digits where there is no MNIST); ``--epochs 0`` takes it as initialised. The other way
is ``n^(-1/2) J^T S``, D x 1280 numbers in float64, and ``scipy.sparse.linalg.svds`` on it, twice:
*plain*, as one would write it down and as the paper's own code does (Jacobians of the batch, times
``S``, put side by side), which holds the numbers three times; and *lean*, filled example by example
with nothing kept beside it. (Plain takes 20 GB; ``--ways lean`` leaves it out.) Ours is
`backcast.ggn` in float32 with its defaults. Each runs in a process of its own, and its peak memory
is that of the process less that of one which only imports and loads the same. Ours is timed after
it was compiled (the median of the rounds, and how far they went); the first call, which compiles,
is told beside it.
"""

import argparse
import multiprocessing
import resource
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.sparse.linalg import svds
from step import mlp, plain_loop

import backcast as bc
from backcast import data


def alone(function, *arguments):
    """What a function returns in a fresh process, and that process's peak memory in MB."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        return pool.submit(_with_peak, function, arguments).result()


def _with_peak(function, arguments):
    result = function(*arguments)
    return result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def train(folder, epochs, examples):
    """Put weights and one batch into a file."""
    try:
        digits = data.mnist()
    except data.DataError:
        digits = data.digits()
    rows = np.arange(min(60_000, len(digits)))
    x = digits.inputs(rows)
    if x.shape[1:] != (28, 28):
        x = jax.image.resize(x, (len(x), 28, 28), "linear")
    x, y = jnp.asarray(x).reshape(len(x), 784), digits.targets(rows)
    apply, params = mlp(jax.random.key(0))
    optimizer = optax.adam(1e-3)
    held = params, optimizer.init(params)
    loop = plain_loop(apply, optimizer)
    for key in jax.random.split(jax.random.key(1), epochs):
        order = jax.random.permutation(key, len(x))
        order = order[: len(x) // 128 * 128].reshape(-1, 128)
        held = loop(((x, jnp.asarray(y)), order), *held)
    arrays = dict(enumerate(jax.tree.leaves(held[0])))
    batch = {"x": np.asarray(x[:examples]), "y": y[:examples]}
    np.savez(Path(folder) / "network.npz", **batch, **{str(i): a for i, a in arrays.items()})
    return digits.name


def load(folder):
    """The network as ``(apply, params)``, and the batch."""
    apply, params = mlp(jax.random.key(0))
    with np.load(Path(folder) / "network.npz", allow_pickle=False) as arrays:
        leaves = [jnp.asarray(arrays[str(i)]) for i in range(len(jax.tree.leaves(params)))]
        batch = bc.Batch(arrays["x"], arrays["y"])
    return (apply, jax.tree.unflatten(jax.tree.structure(params), leaves)), batch


def ours(folder, rank, rounds):
    """Singular values, residuals, and the seconds of the first call and of the others."""
    network, batch = load(folder)
    model = bc.as_model(network)
    taken = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        curvature = bc.ggn(
            model, bc.Categorical(), [batch], rank=rank, key=jax.random.key(2), diagonal="none"
        )
        jax.block_until_ready(curvature)
        taken.append(time.perf_counter() - began)
    values = np.sqrt(np.asarray(curvature.eigenvalues))
    return values, np.asarray(curvature.residuals), taken[0], taken[1:]


def dense(folder, rank):
    """Singular values from the matrix, and the seconds of forming it and of the SVD."""
    jax.config.update("jax_enable_x64", True)
    (apply, params), batch = load(folder)
    params = jax.tree.map(lambda p: p.astype(jnp.float64), params)
    leaves = jax.tree.leaves(params)
    count, classes = len(batch.y), leaves[-1].shape[-1]

    @jax.jit
    def rows(x):
        """``S^T J`` of one example, leaf by leaf."""
        p = jax.nn.softmax(apply(params, x))
        root = jnp.diag(jnp.sqrt(p)) - jnp.outer(p, jnp.sqrt(p))
        jacobian = jax.tree.leaves(jax.jacrev(apply)(params, x))
        return [jnp.tensordot(root, j, ([0], [0])).reshape(classes, -1) for j in jacobian]

    began = time.perf_counter()
    matrix = np.empty((count * classes, sum(leaf.size for leaf in leaves)))
    for index, x in enumerate(jnp.asarray(batch.x, jnp.float64)):
        np.concatenate(rows(x), axis=1, out=matrix[index * classes : (index + 1) * classes])
    matrix /= np.sqrt(count)
    formed = time.perf_counter()
    values = svds(matrix.T, rank, return_singular_vectors="vh")[1]
    return np.sort(values)[::-1], formed - began, time.perf_counter() - formed, matrix.nbytes / 1e6


def dense_plain(folder, rank):
    """The same from the Jacobians of the whole batch."""
    jax.config.update("jax_enable_x64", True)
    (apply, params), batch = load(folder)
    params = jax.tree.map(lambda p: p.astype(jnp.float64), params)
    x = jnp.asarray(batch.x, jnp.float64)
    began = time.perf_counter()
    jacobian = jax.vmap(jax.jacrev(apply), (None, 0))(params, x)
    p = jax.nn.softmax(apply(params, x))
    root = jax.vmap(lambda p: jnp.diag(jnp.sqrt(p)) - jnp.outer(p, jnp.sqrt(p)))(p)
    rows = [
        jnp.einsum("nij,ni...->nj...", root, leaf).reshape(p.size, -1)
        for leaf in jax.tree.leaves(jacobian)
    ]
    matrix = np.asarray(jnp.concatenate(rows, axis=1).T) / np.sqrt(len(x))
    formed = time.perf_counter()
    values = svds(matrix, rank, return_singular_vectors="vh")[1]
    return np.sort(values)[::-1], formed - began, time.perf_counter() - formed, matrix.nbytes / 1e6


WAYS = {"lean": dense, "plain": dense_plain}


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--examples", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        name, _ = alone(train, folder, options.epochs, options.examples)
        _, imports = alone(load, folder)
        (values, residuals, first, taken), our_peak = alone(
            ours, folder, options.rank, options.rounds
        )
        others = {way: alone(WAYS[way], folder, options.rank) for way in options.ways}
    truth = others[options.ways[0]][0][0]
    errors = values / truth - 1
    print(f"{options.examples} examples of {name}, after {options.epochs} epochs")
    print(f"{'':>3}{'sing. value':>13}{'error %':>10}{'residual':>11}")
    for index, (value, error, residual) in enumerate(zip(truth, errors, residuals, strict=True)):
        print(f"{index + 1:>3}{value:>13.5g}{100 * error:>10.4f}{residual:>11.1e}")
    seconds = statistics.median(taken)
    ours_mb = our_peak - imports
    print(
        f"ours: {seconds:.2f} s ({min(taken):.2f} - {max(taken):.2f}), {first:.2f} s with "
        f"compilation; {ours_mb:,.0f} MB (imports alone: {imports:,.0f}); "
        f"largest error {100 * np.abs(errors).max():.4f} %"
    )
    for way, ((_, forming, svd, matrix), peak) in others.items():
        whole, dense_mb = forming + svd, peak - imports
        print(
            f"dense, {way}: {forming:.1f} s forming, {svd:.1f} s svds; {dense_mb:,.0f} MB, of "
            f"which the matrix {matrix:,.0f}. Ours: time 1/{whole / seconds:.0f} (with compilation "
            f"1/{whole / first:.0f}), memory 1/{dense_mb / ours_mb:.1f}"
        )


if __name__ == "__main__":
    main()
