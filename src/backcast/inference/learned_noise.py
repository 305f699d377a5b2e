"""Process noise that is learned from what a filter has left behind, without data."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from backcast.inference.belief import Belief
from backcast.inference.noise import Noise, chosen, layer_of
from backcast.inference.refiltering import Refiltered, Site, refilter, site
from backcast.inference.smoothing import Smoothed, Step, smooth_backwards
from backcast.linalg import Precision, Remainder, checks, tree

# Of the weights of a group, the share that always votes for the variance as it is. It changes no
# fixed point, and where tasks say next to nothing of a group, rounding does not decide about it.
_INERTIA = 1e-3


@final
class Groups(eqx.Module):
    """Which leaves share a variance.

    Attributes:
        names: the groups.
        of: for each leaf its group's index, or None where it does not drift.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    of: tuple[int | None, ...] = eqx.field(static=True)

    def spread(self, like: PyTree, levels: Float[Array, " groups"]) -> PyTree:
        """The level of each leaf's group: a tree like this one, of single numbers."""
        kinds = [tree.accumulator(leaf) for leaf in jax.tree.leaves(like)]
        values = [
            jnp.zeros((), kind) if group is None else levels[group].astype(kind)
            for group, kind in zip(self.of, kinds, strict=True)
        ]
        return jax.tree.unflatten(jax.tree.structure(like), values)

    def sums(self, values: PyTree) -> Float[Array, " groups"]:
        """The sum over each group."""
        totals = [jnp.sum(leaf) for leaf in jax.tree.leaves(values)]
        return jnp.stack(
            [
                sum((x for x, g in zip(totals, self.of, strict=True) if g == group), jnp.zeros(()))
                for group in range(len(self.names))
            ]
        )


@final
@dataclass(frozen=True)
class LearnedNoise:
    """How far weights drift is to be learned, one variance for each group of them.

    ``LearnedNoise(0.1)`` takes each layer for a group: the leaves that share all of their name but
    its last part. ``LearnedNoise({"conv*": 0.1, "head/*": 0.01})`` makes groups by glob patterns,
    of which the last that matches counts; what none matches does not drift.

    Attributes:
        start: the variances to start from, > 0, per unit of time.
        iterations: how often to improve them at most, each time.
        tolerance: stop when the logarithm of the evidence grows by less than this.
    """

    start: float | Mapping[str, float]
    iterations: int = 50
    tolerance: float = 0.01

    def __post_init__(self):
        """Refuse what nothing can be learned from."""
        for level in self.levels.values():
            if not (checks.is_real(level) and math.isfinite(level) and level > 0):
                raise ValueError(
                    "Learned noise must start from variances > 0, since one of 0 stays 0, but "
                    f"{level!r} was given. Start rather too high than too low, such as 0.1."
                )
        checks.count(self.iterations, "The number of iterations")

    @property
    def levels(self) -> dict[str, float]:
        """The start by pattern."""
        return dict(self.start) if isinstance(self.start, Mapping) else {"*": self.start}

    def variance(self, params: PyTree, dt: float | Float[Array, ""] = 1.0) -> PyTree:
        """``dt * diag(Q)`` before anything was learned; see `Noise.variance`."""
        return Noise(self.levels).variance(params, dt)

    def start_by_group(self, params: PyTree) -> dict[str, float]:
        """The variances to start from, by the names of the groups."""
        groups, levels = self.groups(params)
        return dict(zip(groups.names, levels.tolist(), strict=True))

    def groups(self, params: PyTree) -> tuple[Groups, Float[Array, " groups"]]:
        """The groups of these parameters, and the variances they start from."""
        names = tree.names(params)
        if isinstance(self.start, Mapping):
            patterns = tuple(self.start)
            found = chosen({pattern: i for i, pattern in enumerate(patterns)}, names)
            used = [i for i in range(len(patterns)) if i in found]
            of = tuple(None if i is None else used.index(i) for i in found)
            kept = tuple(patterns[i] for i in used)
            return Groups(kept, of), jnp.asarray([self.start[p] for p in kept], float)
        layers = tuple(dict.fromkeys(map(layer_of, names)))
        of = tuple(layers.index(layer_of(name)) for name in names)
        return Groups(layers, of), jnp.full(len(layers), self.start, float)


@final
@dataclass(frozen=True)
class Learned:
    """Noise that was learned.

    Attributes:
        noise: the variance of each leaf.
        levels: of each group, by name.
        evidence: the logarithm of the probability of all tasks' data, up to a constant, at the
            start and after each iteration.
    """

    noise: Noise
    levels: dict[str, float]
    evidence: tuple[float, ...]


def learn_noise(
    prior: Belief,
    steps: Sequence[Step],
    times: Sequence[float],
    learned: LearnedNoise,
    rank: int | None = None,
    remainder: Remainder = "diagonal",
    levels: Mapping[str, float] | None = None,
) -> Learned:
    """The variances ``q`` per unit of time under which the tasks' data are most probable.

    Of each transition the smoother knows the drift ``w`` with the mean ``m_{t+1}^s - m_t^s`` and,
    with ``B = (P_t^-1 + Lambda_{t+1}^-1 + Q)^-1``, the covariance ``Q - Q B Q``: the expectation
    step. The maximisation step would be ``q <- mean of E[w^2] / dt``. This takes longer steps in
    the same direction, which never lower the evidence either (the MM algorithm of Zhou et al. 2019
    for variance components)::

        q <- q sqrt(sum (m_{t+1}^s - m_t^s)^2 / (q dt)  /  sum q dt B_ii)

    with sums over a group and all transitions. The denominator is the effective number of drifts
    that the data tell of. Weights that they tell nothing of slow down the usual step, but not this.
    Both rest at the same place.

    Exact where model and noise are linear and Gaussian and nothing is compressed; see `Site` for
    networks. It stops where the evidence does not grow.

    Args:
        prior: the belief before the first task.
        steps: what the filter left behind, first task first.
        times: when each task was.
        learned: the groups, the start and when to stop.
        rank: as in `smooth`.
        remainder: as in `smooth`.
        levels: the variance of each group to start from, where that is not ``learned.start``.
    """
    groups, start = learned.groups(prior.mean)
    if levels is not None:
        start = jnp.asarray([levels[name] for name in groups.names], float)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    sites = [site(step) for step in steps]
    evidence: list[float] = []
    best = trial = start
    for _ in range(learned.iterations + 1):
        found = _filtered(prior, sites, gaps, groups, trial, rank, remainder)
        reached = math.fsum(float(task.evidence) for task in found)
        gain = reached - evidence[-1] if evidence else math.inf
        if not (math.isfinite(reached) and gain > 0):
            break
        best = trial
        evidence.append(reached)
        if gain < learned.tolerance or not any(gaps):
            break
        trial = _improved([task.step for task in found], gaps, groups, trial, rank, remainder)
    values = [float(level) for level in best]
    tree_of = [0.0 if group is None else values[group] for group in groups.of]
    return Learned(
        Noise.from_tree(jax.tree.unflatten(jax.tree.structure(prior.mean), tree_of)),
        dict(zip(groups.names, values, strict=True)),
        tuple(evidence),
    )


def _filtered(
    prior: Belief,
    sites: Sequence[Site],
    gaps: Sequence[float],
    groups: Groups,
    levels: Float[Array, " groups"],
    rank: int | None,
    remainder: Remainder,
) -> list[Refiltered]:
    # The prior is the belief at the time of the first task, whenever that is.
    qs = [groups.spread(prior.mean, levels * gap) for gap in (0.0, *gaps)][: len(sites)]
    return refilter(prior, sites, qs, rank, remainder)


def _improved(
    steps: Sequence[Step],
    gaps: Sequence[float],
    groups: Groups,
    levels: Float[Array, " groups"],
    rank: int | None,
    remainder: Remainder,
) -> Float[Array, " groups"]:
    """The levels after one iteration."""
    backwards = smooth_backwards(reversed(steps), rank, remainder)
    later = next(backwards)
    there = _mean(later)
    drifts = []
    for step, gap, smoothed in zip(steps[-2::-1], gaps[::-1], backwards, strict=True):
        here = _mean(smoothed)
        # No time, no drift.
        if gap > 0:
            elapsed = jnp.asarray(gap, float)
            moved = jax.tree.map(jnp.subtract, there, here)
            precision = step.filtered.precision
            drifts.append(_drift(precision, moved, later.message, groups, levels, elapsed))
        later, there = smoothed, here
    moved, seen = jax.tree.map(lambda *parts: jnp.sum(jnp.stack(parts), axis=0), *drifts)
    sizes = groups.sums(jax.tree.map(lambda x: jnp.asarray(float(x.size)), there))
    inert = _INERTIA * len(drifts) * sizes
    return levels * jnp.sqrt((moved + inert) / (jnp.maximum(seen, 0) + inert))


@eqx.filter_jit
def _mean(smoothed: Smoothed) -> PyTree:
    return smoothed.mean


@eqx.filter_jit
def _drift(
    precision: Precision,
    moved: PyTree,
    message: Precision,
    groups: Groups,
    levels: Float[Array, " groups"],
    elapsed: Float[Array, ""],
) -> tuple[Float[Array, " groups"], Float[Array, " groups"]]:
    """``sum (m_{t+1}^s - m_t^s)^2 / (q dt)`` and ``sum q dt B_ii`` over each group.

    ``B_ii`` is the derivative in ``q_i`` of ``log det (P_t^-1 + Lambda^-1 + Q)``, which is that of
    ``log det (P^- + Lambda) - log det P^-`` with ``P^- = (P_t^-1 + Q)^-1``. So it takes nothing of
    the precision but what every structure has, and ``O(k^2 D)``.
    """

    def information(levels: Float[Array, " groups"]) -> Float[Array, ""]:
        predicted = precision.drift(groups.spread(moved, levels * elapsed))
        return predicted.add(message).logdet() - predicted.logdet()

    squares = groups.sums(jax.tree.map(jnp.square, moved))
    return squares / (levels * elapsed), levels * jax.grad(information)(levels)
