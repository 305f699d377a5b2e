"""A training step with the penalty against the same step without it, in one run.

    python benchmarks/step.py [--batch 128] [--ranks 0 10 20] [--rotations 800 100] [--steps 100]
                              [--rounds 7]

The network is an MLP 784-400-400-10 (478,410 parameters) with Adam. Both sides run compiled loops
over the same resident data, in turns; the ratio is that of the medians, its spread over the rounds.
The penalty's precision is a diagonal with so many rows, or one that is rotated in each layer, with
so many leading directions on each side (800 are all of them).
"""

import argparse
import functools
import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax

from backcast.inference import Belief
from backcast.learning import steps
from backcast.linalg import DiagLowRank, Rotated
from backcast.model import Batch, Categorical, as_model
from backcast.model.layer_gradients import blocks_of


def apply(params, x):
    """The network's outputs."""
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def mlp(key):
    """The network, as (apply, params)."""
    sizes = (784, 400, 400, 10)
    keys = jax.random.split(key, 3)
    params = [
        {"w": jax.random.normal(k, (a, b)) / jnp.sqrt(a), "b": jnp.zeros(b)}
        for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]
    return apply, params


def plain_loop(apply, optimizer):
    """The loop anyone would write: loss, gradient, Adam."""

    @eqx.filter_jit(donate="all-except-first")
    def loop(kept, params, state):
        data, order = kept

        def body(index, carried):
            params, state = carried
            x, y = (leaf[order[index]] for leaf in data)

            def loss(params):
                losses = optax.softmax_cross_entropy_with_integer_labels(apply(params, x), y)
                return losses.mean()

            updates, state = optimizer.update(jax.grad(loss)(params), state, params)
            return optax.apply_updates(params, updates), state

        return lax.fori_loop(0, len(order), body, (params, state))

    return loop


def with_rows(model, rank):
    """A diagonal plus so many rows."""
    precision = DiagLowRank.isotropic(model.params, 1e-4, rank)
    factor = jax.tree.map(lambda w: w + 1e-3, precision.factor)
    return DiagLowRank(precision.diag, factor)


def rotated(model, rank):
    """A diagonal between so many directions of each side of every layer."""
    blocks = blocks_of(model, jnp.zeros((1, 784)))
    return Rotated.isotropic(model.params, 1e-4, blocks, rank)


def ours(network, precision_of, data, order, optimizer):
    """One loop of the library's, as a function of nothing."""
    model = as_model(network)
    belief = Belief(model.params, precision_of(model))
    optimizer = optax.with_extra_args_support(optimizer)
    share = jnp.asarray(float(order.shape[1]))
    objective = steps.Objective(
        model.with_params(None, None), Categorical(), belief, jnp.ones(()), share
    )
    run = steps.Run(objective, optimizer, jax.random.key(1))
    span = jnp.asarray([0, len(order)])
    fresh = steps.Weights(model.params, model.state, optimizer.init(model.params))
    held = [jax.tree.map(jnp.copy, (fresh, steps.Tally.empty()))]

    def once():
        held[0] = steps._loop((run, Batch(*data), order, span), *held[0])
        jax.block_until_ready(held[0])

    return once


def theirs(network, data, order, optimizer):
    """One plain loop, as a function of nothing."""
    apply, params = network
    loop = plain_loop(apply, optimizer)
    held = [jax.tree.map(jnp.copy, (params, optimizer.init(params)))]

    def once():
        held[0] = loop((data, order), *held[0])
        jax.block_until_ready(held[0])

    return once


def seconds(once):
    """How long a call takes."""
    began = time.perf_counter()
    once()
    return time.perf_counter() - began


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, nargs="+", default=[128])
    parser.add_argument("--ranks", type=int, nargs="+", default=[0, 10, 20])
    parser.add_argument("--rotations", type=int, nargs="*", default=[800, 100])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    optimizer = optax.adam(1e-3)
    network = mlp(jax.random.key(0))
    x = jax.random.uniform(jax.random.key(1), (6000, 784))
    y = jax.random.randint(jax.random.key(2), (6000,), 0, 10)
    heads = f"{'batch':>6}{'':>9}{'rank':>6}{'plain ms':>10}{'ours ms':>10}{'ratio':>8}"
    print(f"{heads}   lowest - highest")
    for batch in options.batch:
        order = jax.random.randint(jax.random.key(3), (options.steps, batch), 0, 6000)
        plain = theirs(network, (x, y), order, optimizer)
        kinds = [("rows", k, functools.partial(with_rows, rank=k)) for k in options.ranks]
        kinds += [("rotated", k, functools.partial(rotated, rank=k)) for k in options.rotations]
        for kind, rank, precision_of in kinds:
            penalised = ours(network, precision_of, (x, y), order, optimizer)
            seconds(plain), seconds(penalised)
            rounds = [(seconds(plain), seconds(penalised)) for _ in range(options.rounds)]
            before, after = (statistics.median(side) for side in zip(*rounds, strict=True))
            ratios = sorted(b / a for a, b in rounds)
            print(
                f"{batch:>6}{kind:>9}{rank:>6}{1e3 * before / options.steps:>10.2f}"
                f"{1e3 * after / options.steps:>10.2f}{after / before:>8.2f}   "
                f"{ratios[0]:.2f} - {ratios[-1]:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
