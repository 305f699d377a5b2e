"""Sums of Kronecker products in each layer, and a diagonal: the precision of OSLA."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from backcast.linalg import checks, tree
from backcast.linalg.blocks import Block
from backcast.linalg.precision import Precision
from backcast.linalg.spectrum import Remainder


@final
class Kronecker(Precision):
    """``P = diag(d) + sum_j A_j x G_j`` for each layer, with nothing between layers.

    A layer's weights are a matrix ``X`` of ``m`` rows and ``n`` columns (see `Block`), and its part
    of ``P x`` is ``d X + sum_j A_j X G_j``. What is in no layer has the diagonal alone.

    Attributes:
        diag: ``d >= 0``, a pytree like the parameters.
        left: for each layer the factors ``A_j`` of its inputs, with a leading axis over ``j``.
        right: for each layer the factors ``G_j`` of its outputs' gradients.
        blocks: where the layers are.
    """

    diag: PyTree
    left: tuple[Float[Array, "k _m _m"], ...]
    right: tuple[Float[Array, "k _n _n"], ...]
    blocks: tuple[Block, ...] = eqx.field(static=True)

    def __check_init__(self):
        """Refuse factors that do not fit the layers."""
        checks.parameters(self.diag, "The diagonal")
        leaves = jax.tree.leaves(self.diag)
        for block, a, g in zip(self.blocks, self.left, self.right, strict=True):
            m, n = block.shape(leaves)
            if a.shape[1:] != (m, m) or g.shape[1:] != (n, n) or len(a) != len(g):
                name = tree.names(self.diag)[block.weight]
                raise ValueError(
                    f"The factors of layer '{name}' have shapes {a.shape} and {g.shape}, but its "
                    f"matrix of {m} rows and {n} columns needs (k, {m}, {m}) and (k, {n}, {n})."
                )

    @classmethod
    def isotropic(
        cls, params: PyTree, precision: float | Array, blocks: tuple[Block, ...], rank: int = 1
    ) -> "Kronecker":
        """``precision * I`` over the space of ``params``, with ``rank`` products of zeros."""
        checks.parameters(params)
        precision = checks.nonnegative(jnp.asarray(precision), "The precision", "Give one >= 0.")
        diag = jax.tree.map(lambda x: jnp.full_like(x, precision, tree.accumulator(x)), params)
        shapes = [block.shape(jax.tree.leaves(diag)) for block in blocks]
        kind = tree.accumulator(diag)
        return cls(
            diag,
            tuple(jnp.zeros((rank, m, m), kind) for m, _ in shapes),
            tuple(jnp.zeros((rank, n, n), kind) for _, n in shapes),
            blocks,
        )

    @property
    def rank(self) -> int:
        """How many products each layer has."""
        return len(self.left[0]) if self.left else 0

    def mv(self, x: PyTree) -> PyTree:
        """``d X + sum_j A_j X G_j`` in each layer, in ``O(k (m + n) D)``."""
        checks.same_tree(self.diag, x, "The vector given to the precision")
        structure = jax.tree.structure(x)
        leaves = jax.tree.leaves(jax.tree.map(jnp.multiply, self.diag, x))
        given = jax.tree.leaves(x)
        for block, left, right in zip(self.blocks, self.left, self.right, strict=True):
            image = _product(left, block.gather(given), right)
            for index, part in block.scatter(image, given).items():
                leaves[index] = leaves[index] + part
        return jax.tree.unflatten(structure, leaves)

    def quad(self, x: PyTree) -> Float[Array, ""]:
        """``x^T P x``."""
        return tree.dot(self.mv(x), x)

    def add(self, other: Precision) -> "Kronecker":
        """``P + other``: the diagonals are added, the products of each layer stand side by side."""
        if not isinstance(other, Kronecker) or other.blocks != self.blocks:
            raise TypeError(
                f"Only a Kronecker precision of the same layers can be added to one, not a "
                f"{type(other).__name__}: use one structure for the belief and the curvature."
            )
        checks.same_tree(self.diag, other.diag, "The added precision")
        return Kronecker(
            jax.tree.map(jnp.add, self.diag, other.diag),
            _side_by_side(self.left, other.left),
            _side_by_side(self.right, other.right),
            self.blocks,
        )

    def scale(self, strength: float | Float[Array, ""]) -> "Kronecker":
        """``strength * P``: the factors of the inputs take it, as in OSLA."""
        return Kronecker(
            jax.tree.map(lambda d: d * strength, self.diag),
            tuple(a * strength for a in self.left),
            self.right,
            self.blocks,
        )

    def compressed(self, rank: int | None, remainder: Remainder) -> "tuple[Kronecker, None]":
        """At most ``rank`` products, the oldest merged; nothing is left over. See `merged`."""
        return (self if rank is None else self.merged(rank)), None

    def merged(self, rank: int) -> "Kronecker":
        """At most ``rank`` products: the oldest are merged, ``(A_1 + A_2) x (G_1 + G_2)``.

        This is the lossy step, and none where one of the two is zero. With one product it is OSLA
        as its authors compute it; with as many as tasks nothing is lost.
        """
        left, right = self.left, self.right
        for _ in range(self.rank - rank):
            left, right = _oldest_joined(left), _oldest_joined(right)
        return Kronecker(self.diag, left, right, self.blocks)

    def drift(self, q: PyTree) -> "Kronecker":
        """Itself, for ``q = 0``: with noise, the inverse is no sum of Kronecker products."""
        # Added, zero as it is: a compiled program leaves out a check that nothing depends on.
        q = self._without_noise(q)
        diag = jax.tree.map(lambda d, v: d + v.astype(d.dtype), self.diag, q)
        return Kronecker(diag, self.left, self.right, self.blocks)

    def gain(self, q: PyTree, x: PyTree) -> PyTree:
        """The vector itself, for ``q = 0``."""
        return jax.tree.map(lambda v, u: u + v.astype(u.dtype), self._without_noise(q), x)

    def solve(self, y: PyTree) -> PyTree:
        """``P^-1 y``, in each layer's eigenbasis."""
        checks.same_tree(self.diag, y, "The vector given to the precision")
        return self._in_eigenbasis(y, lambda values: 1 / values)

    def sample(self, key: PRNGKeyArray) -> PyTree:
        """One draw from ``N(0, P^-1)``."""
        leaves, structure = jax.tree.flatten(self.diag)
        keys = jax.random.split(key, len(leaves))
        noise = [jax.random.normal(k, d.shape, d.dtype) for k, d in zip(keys, leaves, strict=True)]
        return self._in_eigenbasis(jax.tree.unflatten(structure, noise), jax.lax.rsqrt)

    def variance(self) -> PyTree:
        """``diag(P^-1)``: in each layer ``(U_A * U_A) (1 / values) (U_G * U_G)^T``."""
        found = [1 / d for d in jax.tree.leaves(self._definite())]
        for block, basis in zip(self.blocks, self._eigenbases(), strict=True):
            u, v, values = basis
            spread = _contract(u**2, _contract(1 / values, (v**2).T))
            for index, part in block.scatter(spread, found).items():
                found[index] = part
        return jax.tree.unflatten(jax.tree.structure(self.diag), found)

    def diagonal(self) -> PyTree:
        """``d + sum_j diag(A_j) diag(G_j)^T`` in each layer."""
        found = jax.tree.leaves(self.diag)
        for block, left, right in zip(self.blocks, self.left, self.right, strict=True):
            a = jnp.diagonal(left, axis1=1, axis2=2)
            g = jnp.diagonal(right, axis1=1, axis2=2)
            for index, part in block.scatter(_contract(a.T, g), found).items():
                found[index] = found[index] + part
        return jax.tree.unflatten(jax.tree.structure(self.diag), found)

    def logdet(self) -> Float[Array, ""]:
        """``log det P``: the sum of the logarithms of all eigenvalues."""
        leaves = jax.tree.leaves(self._definite())
        inside = {index for block in self.blocks for index in block.leaves}
        alone = [jnp.sum(jnp.log(d)) for i, d in enumerate(leaves) if i not in inside]
        return sum(
            (jnp.sum(jnp.log(values)) for _, _, values in self._eigenbases()),
            start=sum(alone, start=jnp.zeros((), tree.accumulator(self.diag))),
        )

    def as_dense(self) -> Float[Array, "D D"]:
        """The whole matrix, in the order of flattening; for tests and tiny problems only."""
        leaves, structure = jax.tree.flatten(self.diag)
        size = sum(d.size for d in leaves)
        ends = jnp.cumsum(jnp.asarray([d.size for d in leaves]))[:-1].tolist()

        def column(unit):
            parts = jnp.split(unit, ends)
            x = [part.reshape(d.shape) for part, d in zip(parts, leaves, strict=True)]
            image = self.mv(jax.tree.unflatten(structure, x))
            return jnp.concatenate([jnp.ravel(part) for part in jax.tree.leaves(image)])

        return jax.vmap(column, out_axes=1)(jnp.eye(size, dtype=tree.accumulator(self.diag)))

    def _without_noise(self, q: PyTree) -> PyTree:
        q = checks.broadcasts(self.diag, q, "The noise q")
        return checks.zero(
            q,
            "The process noise of a Kronecker precision",
            "A sum of Kronecker products has no such inverse. Use no noise, or a precision of "
            "another structure.",
        )

    def _definite(self) -> PyTree:
        return checks.positive(
            self.diag,
            "The diagonal of the precision",
            "This operation needs a positive definite precision: add a prior, however weak.",
        )

    def _eigenbases(self) -> list[tuple[Array, Array, Array]]:
        """``U_A``, ``U_G`` and the eigenvalues ``d + a_i g_j`` of each layer."""
        if self.rank != 1:
            raise ValueError(
                f"The inverse of a sum of {self.rank} Kronecker products has no structure. Use "
                "merged(1) first, or a precision of another structure."
            )
        leaves = jax.tree.leaves(self._definite())
        found = []
        for block, left, right in zip(self.blocks, self.left, self.right, strict=True):
            level = block.gather(leaves)
            differences = checks.zero(
                level - level[0, 0],
                "Differences within a layer of the diagonal",
                "The inverse needs a diagonal that is constant in each layer.",
            )
            a, u = jnp.linalg.eigh(left[0])
            g, v = jnp.linalg.eigh(right[0])
            values = (
                level[0, 0] + differences[0, 0] + jnp.outer(jnp.maximum(a, 0), jnp.maximum(g, 0))
            )
            found.append((u, v, values))
        return found

    def _in_eigenbasis(self, x: PyTree, change) -> PyTree:
        """``f(P) x`` for a function of the eigenvalues."""
        given, structure = jax.tree.flatten(x)
        leaves = [
            change(d) * v for d, v in zip(jax.tree.leaves(self._definite()), given, strict=True)
        ]
        for block, (u, v, values) in zip(self.blocks, self._eigenbases(), strict=True):
            inner = _contract(u.T, _contract(block.gather(given), v))
            outer = _contract(u, _contract(change(values) * inner, v.T))
            for index, part in block.scatter(outer, given).items():
                leaves[index] = part
        return jax.tree.unflatten(structure, leaves)


def _contract(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision="highest")


def _product(
    left: Float[Array, "k _m _m"], x: Float[Array, "_m _n"], right: Float[Array, "k _n _n"]
) -> Float[Array, "_m _n"]:
    """``sum_j A_j X G_j``."""
    return jnp.einsum("kab,kbn->an", left, _contract(x, right), precision="highest")


def _side_by_side(ours: tuple[Array, ...], theirs: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(jnp.concatenate(pair) for pair in zip(ours, theirs, strict=True))


def _oldest_joined(factors: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(jnp.concatenate([f[:1] + f[1:2], f[2:]]) for f in factors)
