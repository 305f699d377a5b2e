"""Smoothing five tasks from files, without data: a small convolutional network, and a large one.

    python benchmarks/smoothing.py [--tasks 5] [--rank 10] [--widths 2600 2600] [--rounds 3]

Each network learns some batches of noise for each task and saves after each. A fresh process, which
has nothing but that folder, loads it and smooths: seconds for all models (the first time, compiling
and all; then the median of the rounds, each of which reads the files again), and the process's peak
memory, whole and in units of one belief (a diagonal, a factor and a mean). *Small* is the paper's
network for histology at 48 x 48 pixels; *large* is an MLP with 1,000 inputs and the given widths,
10 million parameters by default.
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
import numpy as np

import backcast as bc
from backcast.experiments.network_spec import CnnSpec, MlpSpec
from backcast.experiments.networks import network


def alone(function, *arguments):
    """What a function returns in a fresh process."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        return pool.submit(function, *arguments).result()


def made(kind, widths):
    """The network, and the shape of its inputs."""
    key = jax.random.key(0)
    if kind == "small":
        return network(CnnSpec(pools=(3, 4, 2)), (48, 48, 3), 2, key), (48, 48, 3)
    return network(MlpSpec(hidden=tuple(widths)), (1000,), 10, key), (1000,)


def learn(folder, kind, widths, tasks, rank):
    """Learn from noise, and save; how many parameters there are, and how large a belief is."""
    net, shape = made(kind, widths)
    learner = bc.Learner(
        net,
        bc.Categorical(),
        rank=rank,
        noise=0.01,
        epochs=1,
        batch_size=16,
        curvature=bc.CurvatureSettings(examples=16, batch_size=16),
        directory=folder,
        progress=False,
    )
    rng = np.random.default_rng(0)
    for _ in range(tasks):
        x = rng.normal(size=(32, *shape)).astype(np.float32)
        learner.observe(x, rng.integers(0, 2, 32))
    count = sum(leaf.size for leaf in jax.tree.leaves(learner.model.model.params))
    return count, 4 * count * (rank + 2)


def smooth(folder, kind, widths, rounds):
    """Seconds of the first time and of the others, and the peak memory in bytes."""
    learner = bc.Learner.load(folder, made(kind, widths)[0], progress=False)
    seconds = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        for model in learner.smooth():
            jax.block_until_ready(model.model.params)
        seconds.append(time.perf_counter() - began)
    return seconds[0], seconds[1:], 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    """Measure both networks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--widths", type=int, nargs="+", default=[2600, 2600])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for kind in ("small", "large"):
        with tempfile.TemporaryDirectory() as folder:
            where = str(Path(folder) / "learner")
            count, belief = alone(learn, where, kind, given.widths, given.tasks, given.rank)
            first, others, peak = alone(smooth, where, kind, given.widths, given.rounds)
        print(
            f"{kind}: {count:,} parameters, {given.tasks} tasks, rank {given.rank}: "
            f"{statistics.median(others):.3g} s ({min(others):.3g} to {max(others):.3g}), the "
            f"first time {first:.3g} s; peak memory {peak / 1e6:,.0f} MB, "
            f"{peak / belief:.3g} beliefs"
        )


if __name__ == "__main__":
    main()
