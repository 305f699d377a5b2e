"""A diagonal in each layer's own eigenbases: Kronecker structure that can drift and be smoothed."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from backcast.linalg import checks, tree
from backcast.linalg.blocks import Block
from backcast.linalg.eigenbases import Eigenbases
from backcast.linalg.precision import Precision
from backcast.linalg.spectrum import Remainder


@final
class Rotated(Precision):
    """``P = R diag(d) R^T``, where ``R`` turns each layer on both sides.

    A layer's weights are a matrix ``X`` of ``m`` rows and ``n`` columns (see `Block`), and
    ``R^T X = U X V^T`` with the orthonormal rows of ``U`` and ``V``; what is in no layer stays as
    it is. So the layer's part of ``P`` is ``(U x V)^T diag(d) (U x V)``, like a Kronecker product
    of which every eigenvalue is free. Noise that is constant in each layer commutes with ``R``, so
    that everything the filter and the smoother do with it is exact and element-wise.

    Only ``r`` leading directions of a side may be stored. Then ``d`` is constant over the others,
    for which any completion of the basis would do.

    Attributes:
        diag: the eigenvalues ``d >= 0``, a pytree like the parameters, in rotated coordinates.
        left: for each layer, ``U``: the leading directions among its rows.
        right: for each layer, ``V``: the leading directions among its columns.
        blocks: where the layers are.
    """

    diag: PyTree
    left: tuple[Float[Array, "_r _m"], ...]
    right: tuple[Float[Array, "_s _n"], ...]
    blocks: tuple[Block, ...] = eqx.field(static=True)

    def __check_init__(self):
        """Refuse bases that do not fit the layers."""
        checks.parameters(self.diag, "The eigenvalues")
        leaves = jax.tree.leaves(self.diag)
        for block, name, u, v in zip(
            self.blocks, self._names(), self.left, self.right, strict=True
        ):
            m, n = block.shape(leaves)
            if u.shape[1:] != (m,) or v.shape[1:] != (n,) or len(u) > m or len(v) > n:
                raise ValueError(
                    f"The bases of layer '{name}' have shapes {u.shape} and {v.shape}, but its "
                    f"matrix of {m} rows and {n} columns needs (r, {m}) and (s, {n}), with r <= {m}"
                    f" and s <= {n}."
                )

    @classmethod
    def isotropic(
        cls,
        params: PyTree,
        precision: float | Array,
        blocks: tuple[Block, ...],
        rank: int | None = None,
    ) -> "Rotated":
        """``precision * I`` over the space of ``params``, in the bases that the parameters have."""
        checks.parameters(params)
        precision = checks.nonnegative(jnp.asarray(precision), "The precision", "Give one >= 0.")
        diag = jax.tree.map(lambda x: jnp.full_like(x, precision, tree.accumulator(x)), params)
        shapes = [block.shape(jax.tree.leaves(diag)) for block in blocks]
        kind = tree.accumulator(diag)
        return cls(
            diag,
            tuple(jnp.eye(m if rank is None else min(rank, m), m, dtype=kind) for m, _ in shapes),
            tuple(jnp.eye(n if rank is None else min(rank, n), n, dtype=kind) for _, n in shapes),
            blocks,
        )

    @classmethod
    def diagonal_in(
        cls, diag: PyTree, blocks: tuple[Block, ...], rank: int | None = None
    ) -> "Rotated":
        """``diag(d)``, in the bases that the parameters have; beyond the rank, its mean."""
        turned = eqx.tree_at(lambda p: p.diag, cls.isotropic(diag, 0.0, blocks, rank), diag)
        if rank is None:
            return turned
        return turned._with([layer.cut(rank) for layer in turned._layers(diag)], diag)

    @property
    def rank(self) -> int:
        """How many directions are stored of the side that has most; 0 without layers."""
        return max((len(basis) for basis in self.left + self.right), default=0)

    def compressed(self, rank: int | None, remainder: Remainder) -> "tuple[Rotated, None]":
        """At most ``rank`` directions on each side, those with the largest partial trace.

        The eigenvalues of the others are replaced by their mean, whatever ``remainder`` is: the
        trace stays what it was.
        """
        if rank is None or rank >= self.rank:
            return self, None
        return self._with([layer.cut(rank) for layer in self._layers(self.diag)], self.diag), None

    def mv(self, x: PyTree) -> PyTree:
        """``R (d R^T x)``: in each layer ``U^T (d (U X V^T)) V``, in ``O((m + n) D)``."""
        return self._spectral(self.diag, x)

    def quad(self, x: PyTree) -> Float[Array, ""]:
        """``x^T P x``."""
        return tree.dot(self.mv(x), x)

    def add(self, other: Precision) -> "Rotated":
        """The diagonal of ``P + other`` in bases of its own: the lossy step.

        A sum has a structure like this only if its parts have the same bases, or if it happens to
        have bases of its own, as ``A_1 x I + A_2 x I``. The new bases are the eigenvectors of the
        sum's partial traces, which find these and, where there are none, keep the partial traces
        and the diagonal exact. What lies off the diagonal is lost. See `Eigenbases.plus`.
        """
        if not isinstance(other, Rotated) or other.blocks != self.blocks:
            raise TypeError(
                f"Only a Rotated precision of the same layers can be added to one, not a "
                f"{type(other).__name__}: use one structure for the belief and the curvature."
            )
        checks.same_tree(self.diag, other.diag, "The added precision")
        pairs = zip(self._layers(self.diag), other._layers(other.diag), strict=True)
        outside = jax.tree.map(jnp.add, self.diag, other.diag)
        return self._with([ours.plus(theirs) for ours, theirs in pairs], outside)

    def scale(self, strength: float | Float[Array, ""]) -> "Rotated":
        """``strength * P``."""
        diag = jax.tree.map(lambda d: (d * strength).astype(d.dtype), self.diag)
        return Rotated(diag, self.left, self.right, self.blocks)

    def drift(self, q: PyTree) -> "Rotated":
        """``(P^-1 + diag q)^-1``: ``d / (1 + q d)``, exactly, for ``q`` constant in each layer."""
        q = self._noise(q)
        diag = jax.tree.map(lambda d, v: d / (1 + v * d), self.diag, q)
        return Rotated(diag, self.left, self.right, self.blocks)

    def gain(self, q: PyTree, x: PyTree) -> PyTree:
        """``(I + diag(q) P)^-1 x``: ``R (R^T x / (1 + q d))``, exactly, for ``q`` as in `drift`."""
        q = self._noise(q)
        turned = self._spectral(jax.tree.map(lambda d, v: 1 / (1 + v * d), self.diag, q), x)
        # There and back is the identity but for rounding, which what stands still is to be free of.
        return jax.tree.map(lambda v, there, image: jnp.where(v > 0, image, there), q, x, turned)

    def solve(self, y: PyTree) -> PyTree:
        """``P^-1 y = R (R^T y / d)``."""
        return self._spectral(jax.tree.map(lambda d: 1 / d, self._definite()), y)

    def logdet(self) -> Float[Array, ""]:
        """``log det P = sum log d``."""
        parts = [jnp.sum(jnp.log(d)) for d in jax.tree.leaves(self._definite())]
        return sum(parts[1:], start=parts[0])

    def diagonal(self) -> PyTree:
        """``diag(P)``: in each layer ``(U * U)^T d (V * V)``."""
        return self._diagonal(self.diag)

    def variance(self) -> PyTree:
        """``diag(P^-1)``: in each layer ``(U * U)^T (1/d) (V * V)``."""
        return self._diagonal(jax.tree.map(lambda d: 1 / d, self._definite()))

    def sample(self, key: PRNGKeyArray) -> PyTree:
        """One draw from ``N(0, P^-1)``: a root of ``P^-1`` times noise."""
        leaves, structure = jax.tree.flatten(self.diag)
        keys = jax.random.split(key, len(leaves))
        noise = [jax.random.normal(k, d.shape, d.dtype) for k, d in zip(keys, leaves, strict=True)]
        return self.color(jax.tree.unflatten(structure, noise))

    def color(self, noise: PyTree) -> PyTree:
        """``P^(-1/2) z = R (R^T z / d^(1/2))``, the symmetric root."""
        return self._spectral(jax.tree.map(jax.lax.rsqrt, self._definite()), noise)

    def as_dense(self) -> Float[Array, "D D"]:
        """The whole matrix, in the order of flattening; for tests and tiny problems only."""
        flat, unravel = ravel_pytree(self.diag)
        unit = jnp.eye(flat.size, dtype=flat.dtype)
        return jax.vmap(lambda e: ravel_pytree(self.mv(unravel(e)))[0], out_axes=1)(unit)

    def _names(self) -> list[str]:
        names = tree.names(self.diag)
        return [names[block.weight] for block in self.blocks]

    def _layers(self, values: PyTree) -> list[Eigenbases]:
        """Each layer, with these eigenvalues."""
        leaves = jax.tree.leaves(values)
        return [
            Eigenbases(u, v, block.gather(leaves))
            for block, u, v in zip(self.blocks, self.left, self.right, strict=True)
        ]

    def _with(self, layers: list[Eigenbases], outside: PyTree) -> "Rotated":
        """These layers, and this diagonal for what is in none."""
        return Rotated(
            self._assembled([layer.values for layer in layers], outside),
            tuple(layer.left for layer in layers),
            tuple(layer.right for layer in layers),
            self.blocks,
        )

    def _assembled(self, matrices: list[Array], outside: PyTree) -> PyTree:
        """The vector with these matrices in the layers."""
        leaves, structure = jax.tree.flatten(outside)
        for block, matrix in zip(self.blocks, matrices, strict=True):
            for index, part in block.scatter(matrix, leaves).items():
                leaves[index] = part
        return jax.tree.unflatten(structure, leaves)

    def _spectral(self, values: PyTree, x: PyTree) -> PyTree:
        """``R (values R^T x)``."""
        checks.same_tree(self.diag, x, "The vector given to the precision")
        given = jax.tree.leaves(x)
        images = [
            layer.product(block.gather(given))
            for block, layer in zip(self.blocks, self._layers(values), strict=True)
        ]
        return self._assembled(images, jax.tree.map(jnp.multiply, values, x))

    def _diagonal(self, values: PyTree) -> PyTree:
        return self._assembled([layer.diagonal() for layer in self._layers(values)], values)

    def _noise(self, q: PyTree) -> PyTree:
        """The noise, refused unless it is one number in each layer."""
        q = checks.broadcasts(self.diag, q, "The noise q")
        leaves, structure = jax.tree.flatten(q)
        spread = {}
        for name, block in zip(self._names(), self.blocks, strict=True):
            levels = [leaves[index] for index in block.leaves]
            low = jnp.min(jnp.stack([jnp.min(level) for level in levels]))
            high = jnp.max(jnp.stack([jnp.max(level) for level in levels]))
            spread[name] = high - low
        spread = checks.zero(
            spread,
            "Differences of the process noise within a layer (its weight and its bias)",
            "A rotated precision follows noise that is one number in each layer. Give such, or "
            "choose a diagonal plus low rank, which follows any.",
        )
        for name, block in zip(self._names(), self.blocks, strict=True):
            for index in block.leaves:
                # It is zero; but a compiled program leaves out a check that nothing depends on.
                leaves[index] = leaves[index] + spread[name]
        return jax.tree.unflatten(structure, leaves)

    def _definite(self) -> PyTree:
        return checks.positive(
            self.diag,
            "The eigenvalues of the precision",
            "This operation needs a positive definite precision: add a prior, however weak.",
        )
