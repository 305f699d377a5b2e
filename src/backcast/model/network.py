"""A network as Backcast sees it: arrays to learn, arrays to carry along, and a pure forward pass."""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray, PyTree


@final
class Model(eqx.Module):
    """A network of any library, as a pure function of its arrays.

    Made by `backcast.model.adapters.as_model`. A model is a pytree: passed to a jitted function, it
    is compiled once, however its arrays change.

    Attributes:
        params: What is learned: real floating arrays, ``None`` where a parameter is frozen.
        state: What the forward pass carries along, such as batch statistics; ``{}`` if nothing.
        frozen: The other arrays, never learned: ``"weights"`` excluded by `trainable`, shaped like
            the parameters with ``None`` where one is learned, and the library's own ``"buffers"``.
        forward: ``(params, frozen, state, x, key, train) -> (outputs, state)``.
        rebuild: ``(params, frozen, state) -> network``, the user's own kind of object.
    """

    params: PyTree
    state: PyTree
    frozen: PyTree
    forward: Callable[..., tuple[PyTree, PyTree]] = eqx.field(static=True)
    rebuild: Callable[..., Any] = eqx.field(static=True)

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
            The outputs, with a leading batch axis, and the state.

        Raises:
            ValueError: If the forward pass returns a state of another structure.
        """
        if not train:
            outputs, _ = self.forward(params, self.frozen, state, x, None, False)
            return outputs, state
        outputs, after = self.forward(params, self.frozen, state, x, key, True)
        if jax.tree.structure(after) != jax.tree.structure(state):
            raise ValueError(
                "The network's forward pass returned a state of another structure than it was "
                f"given.\nGiven:    {jax.tree.structure(state)}\n"
                f"Returned: {jax.tree.structure(after)}\n"
                "Return every entry of the state, changed or not, and no new ones."
            )
        return outputs, after

    def with_params(self, params: PyTree, state: PyTree) -> "Model":
        """The same network with other parameters and state; nothing is compiled again."""
        return Model(params, state, self.frozen, self.forward, self.rebuild)

    def unwrap(self) -> Any:
        """The user's own kind of object, with this model's parameters and state."""
        return self.rebuild(self.params, self.frozen, self.state)
