"""A network as Backcast sees it: arrays to learn, arrays to carry along, a pure forward pass."""

from abc import ABC, abstractmethod
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from backcast.linalg import tree


class Adapter(ABC):
    """How the networks of one library are called and put together again.

    It holds no arrays, and two networks of the same architecture have equal adapters, so that what
    is compiled for one serves the other and no weights are kept alive.
    """

    @abstractmethod
    def forward(
        self,
        weights: PyTree,
        buffers: PyTree,
        state: PyTree,
        x: PyTree[Array],
        key: PRNGKeyArray | None,
        train: bool,
    ) -> tuple[PyTree[Array], PyTree]:
        """The outputs for a batch, and the state after it; there is no key when not training."""

    @abstractmethod
    def rebuild(self, weights: PyTree, buffers: PyTree, state: PyTree) -> Any:
        """The user's own kind of object."""


@final
class Model(eqx.Module):
    """A network of any library, as a pure function of its arrays.

    Made by `backcast.model.as_model`. A model is a pytree: passed to a jitted function, it is
    compiled once, however its arrays change.

    Attributes:
        params: What is learned: real floating arrays, ``None`` where a parameter is frozen.
        state: What the forward pass carries along, such as batch statistics; ``{}`` if nothing.
        frozen: The other arrays, never learned: ``"weights"`` excluded by `trainable`, shaped like
            the parameters with ``None`` where one is learned, and the library's own ``"buffers"``.
        adapter: How the network is called and put together again.
    """

    params: PyTree
    state: PyTree
    frozen: dict[str, PyTree]
    adapter: Adapter = eqx.field(static=True)

    def apply(
        self,
        params: PyTree,
        state: PyTree,
        x: PyTree[Array],
        *,
        key: PRNGKeyArray | None = None,
        train: bool = False,
    ) -> tuple[PyTree[Array], PyTree]:
        """The outputs for a batch, and the state after it.

        Args:
            params: Parameters shaped like the model's own.
            state: State shaped like the model's own.
            x: Inputs; every array has a leading batch axis.
            key: Randomness for dropout and the like; used only when training.
            train: Whether to use dropout and the batch's own statistics, and to update the state.
                If not, the outputs are deterministic and the state is returned as it was given.

        Returns:
            The outputs, with a leading batch axis, and the state, which keeps its types.

        Raises:
            ValueError: If the forward pass returns a state of another structure or shape.
        """
        weights = eqx.combine(params, self.frozen["weights"])
        buffers = self.frozen["buffers"]
        if not train:
            outputs, _ = self.adapter.forward(weights, buffers, state, x, None, False)
            return outputs, state
        outputs, after = self.adapter.forward(weights, buffers, state, x, key, True)
        return outputs, _like(state, after)

    def with_params(self, params: PyTree, state: PyTree) -> "Model":
        """The same network with other parameters and state; nothing is compiled again."""
        return Model(params, state, self.frozen, self.adapter)

    def unwrap(self) -> Any:
        """The user's own kind of object, with this model's parameters and state."""
        weights = eqx.combine(self.params, self.frozen["weights"])
        return self.adapter.rebuild(weights, self.frozen["buffers"], self.state)


def _like(given: PyTree, returned: PyTree) -> PyTree:
    if jax.tree.structure(given) != jax.tree.structure(returned):
        raise ValueError(
            "The network's forward pass returned a state of another structure than it was given.\n"
            f"Given:    {jax.tree.structure(given)}\nReturned: {jax.tree.structure(returned)}\n"
            "Return every entry of the state, changed or not, and no new ones."
        )
    leaves = []
    for name, old, new in zip(
        tree.names(given), *map(jax.tree.leaves, (given, returned)), strict=True
    ):
        new = jnp.asarray(new)
        floats = all(jnp.issubdtype(x.dtype, jnp.floating) for x in (old, new))
        if old.shape != new.shape or (old.dtype != new.dtype and not floats):
            raise ValueError(
                f"The network's forward pass was given the state '{name}' as {old.dtype} of shape "
                f"{old.shape} and returned {new.dtype} of shape {new.shape}. Return what was given."
            )
        # Flax, for one, computes in float64 what it keeps in float32.
        leaves.append(new.astype(old.dtype))
    return jax.tree.unflatten(jax.tree.structure(given), leaves)
