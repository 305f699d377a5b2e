"""What the filter asks of a precision matrix, whatever its structure."""

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from backcast.linalg.spectrum import Remainder, Spectrum


class Precision(eqx.Module):
    """A symmetric positive semi-definite matrix ``P`` over a pytree of parameters.

    A *vector* here is a pytree like the parameters. ``mv``, ``quad``, ``add``, ``scale``, ``drift``
    and ``gain`` hold for every positive semi-definite ``P``, zero included; ``solve``, ``logdet``,
    ``variance`` and ``sample`` need a positive definite one.

    Attributes:
        diag: the part of ``P`` that is diagonal, a vector of non-negative numbers.
    """

    diag: eqx.AbstractVar[PyTree]

    @abstractmethod
    def mv(self, x: PyTree) -> PyTree:
        """``P x``."""

    @abstractmethod
    def quad(self, x: PyTree) -> Float[Array, ""]:
        """``x^T P x``."""

    @abstractmethod
    def add(self, other: "Precision") -> "Precision":
        """``P + other``, for another precision of the same structure."""

    @abstractmethod
    def scale(self, strength: float | Float[Array, ""]) -> "Precision":
        """``strength * P`` for ``strength >= 0``."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """How many there are of what the structure counts."""

    @abstractmethod
    def compressed(
        self, rank: int | None, remainder: Remainder
    ) -> "tuple[Precision, Spectrum | None]":
        """``P`` with no more than ``rank`` of what the structure counts; all of it if None."""

    @abstractmethod
    def drift(self, q: PyTree) -> "Precision":
        """``(P^-1 + diag q)^-1``: the precision after independent noise of variance ``q >= 0``.

        Its limit where ``P`` is singular; no inverse of ``P`` or ``q`` is taken.
        """

    @abstractmethod
    def gain(self, q: PyTree, x: PyTree) -> PyTree:
        """``(I + diag(q) P)^-1 x``: the Rauch-Tung-Striebel smoothing gain applied to a vector."""

    @abstractmethod
    def solve(self, y: PyTree) -> PyTree:
        """``P^-1 y``."""

    @abstractmethod
    def logdet(self) -> Float[Array, ""]:
        """``log det P``."""

    @abstractmethod
    def diagonal(self) -> PyTree:
        """``diag(P)``."""

    @abstractmethod
    def variance(self) -> PyTree:
        """``diag(P^-1)``: the marginal variance of each parameter."""

    @abstractmethod
    def sample(self, key: PRNGKeyArray) -> PyTree:
        """One draw from ``N(0, P^-1)``."""

    @abstractmethod
    def as_dense(self) -> Float[Array, "D D"]:
        """The whole matrix, in the order of flattening; for tests and tiny problems only."""
