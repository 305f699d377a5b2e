"""Every operation of the precision algebra: how time and memory grow, and what the machine allows.

    python benchmarks/algebra.py [--sizes 1e4 1e5 1e6 1e7] [--ranks 1 10 50] [--rounds 7]

For each number of parameters D and rank k: seconds (median of the rounds), peak memory (arguments,
results and temporaries of the compiled operation, by XLA's own account) in units of the factor,
and the speed at which the factor was moved in units of the machine's copying speed, measured in the
same round on an array as large as the factor: all cores copy a part of it each, into memory that is
mapped already. A copy counts what it reads and what it writes; an operation counts one reading of
the factor for each pass that its formula needs. Last come the exponents of the least-squares fits
``seconds ~ D^a`` at each rank and ``seconds ~ k^b`` at the largest D.
"""

import argparse
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np

from backcast.linalg import DiagLowRank, compress


def _halved(precision):
    return compress(precision, precision.rank // 2)[0]


# Each operation, and how often its formula reads the factor.
OPERATIONS = {
    "mv": (lambda P, x, q, key: P.mv(x), 2),
    "quad": (lambda P, x, q, key: P.quad(x), 1),
    "scale": (lambda P, x, q, key: P.scale(2.0), 1),
    "add": (lambda P, x, q, key: P.add(P), 2),
    "drift": (lambda P, x, q, key: P.drift(q), 2),
    "gain": (lambda P, x, q, key: P.gain(q, x), 3),
    "solve": (lambda P, x, q, key: P.solve(x), 3),
    "logdet": (lambda P, x, q, key: P.logdet(), 1),
    "variance": (lambda P, x, q, key: P.variance(), 2),
    "sample": (lambda P, x, q, key: P.sample(key), 3),
    "compress": (lambda P, x, q, key: _halved(P), 2),
}


def precision(size: int, rank: int) -> DiagLowRank:
    """Random, over leaves of several shapes with ``size`` entries in all."""
    width = max(size // 400, 1)
    shapes = {"conv": (3, 3, width // 9 + 1, 4), "dense": (200, width), "bias": (7,)}
    shapes["head"] = (size - sum(int(np.prod(s)) for s in shapes.values()),)
    keys = dict(zip(shapes, jax.random.split(jax.random.key(0), len(shapes)), strict=True))
    diag = {name: jax.random.uniform(keys[name], s, minval=0.5) for name, s in shapes.items()}
    factor = {
        name: jax.random.normal(keys[name], (rank, *s)) / size**0.5 for name, s in shapes.items()
    }
    return DiagLowRank(diag, factor)


def seconds(function, *arguments) -> float:
    """How long a compiled call takes."""
    began = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - began


def copying(size: int):
    """A function that copies so many bytes by all cores, as fast as the machine can."""
    source, target = np.ones(size, np.uint8), np.ones(size, np.uint8)
    cores = len(os.sched_getaffinity(0))
    parts = list(zip(np.array_split(source, cores), np.array_split(target, cores), strict=True))
    pool = ThreadPoolExecutor(cores)

    def copy():
        list(pool.map(lambda part: np.copyto(part[1], part[0]), parts))

    return copy


def measure(size: int, rank: int, rounds: int) -> dict[str, tuple[float, float, float]]:
    """For each operation: seconds, memory over that of the factor, speed over that of a copy."""
    P = precision(size, rank)
    arguments = P, P.diag, jax.tree.map(lambda d: 0.1 * d, P.diag), jax.random.key(1)
    factor_bytes = 4 * size * rank
    copy = copying(factor_bytes)
    seconds(copy)
    results = {}
    for name, (operation, readings) in OPERATIONS.items():
        compiled = jax.jit(operation).lower(*arguments).compile()
        memory = compiled.memory_analysis()
        peak = sum(
            getattr(memory, f"{part}_size_in_bytes") for part in ("argument", "output", "temp")
        )
        seconds(compiled, *arguments)
        both = [(seconds(compiled, *arguments), seconds(copy)) for _ in range(rounds)]
        own, copied = (statistics.median(side) for side in zip(*both, strict=True))
        speed = (readings * factor_bytes / own) / (2 * factor_bytes / copied)
        results[name] = own, peak / factor_bytes, speed
    return results


def exponent(sizes, times) -> float:
    """The slope of ``log time`` over ``log size``."""
    if len(sizes) < 2:
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e4, 1e5, 1e6, 1e7])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 10, 50])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes]
    found = {}
    for rank in options.ranks:
        for size in sizes:
            print(f"\nD = {size:,}, k = {rank}, factor {4e-6 * size * rank:,.1f} MB")
            print(f"{'':10}{'ms':>12}{'memory / factor':>18}{'speed / copy':>14}")
            found[rank, size] = measure(size, rank, options.rounds)
            for name, (own, memory, speed) in found[rank, size].items():
                print(f"{name:10}{1e3 * own:>12.3f}{memory:>18.1f}{speed:>14.2f}", flush=True)
    titles = [f"D^a, k={rank}" for rank in options.ranks] + [f"k^b, D={max(sizes):.0e}"]
    print("\nexponents " + "".join(f"{title:>14}" for title in titles))
    for name in OPERATIONS:
        row = [
            exponent(sizes, [found[rank, size][name][0] for size in sizes])
            for rank in options.ranks
        ]
        row.append(
            exponent(options.ranks, [found[rank, max(sizes)][name][0] for rank in options.ranks])
        )
        print(f"{name:10}" + "".join(f"{value:>14.2f}" for value in row))


if __name__ == "__main__":
    main()
