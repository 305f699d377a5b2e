"""Layers are found in any library's computation, and what is not sure to be one is left out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from jax import lax

from backcast.linalg import tree
from backcast.linalg.blocks import Block
from backcast.model import as_model
from backcast.model.layer_gradients import blocks_of
from model.networks import ZOO

LAYERS = {
    # architecture: how many layers, of them with a bias, and how many leaves are in none
    "equinox-mlp": (2, 2, 0),
    "equinox-conv": (2, 2, 2),
    "equinox-attention": (5, 1, 0),
    "equinox-lstm": (1, 1, 3),
    "nnx-mlp": (2, 2, 0),
    "nnx-conv": (2, 2, 2),
    "nnx-attention": (5, 5, 0),
    "nnx-lstm": (1, 1, 12),
    "linen-mlp": (2, 2, 0),
    "linen-conv": (2, 2, 2),
    "linen-attention": (5, 5, 0),
    "linen-lstm": (1, 1, 12),
    "haiku-mlp": (2, 2, 0),
    "haiku-conv": (2, 2, 2),
    "haiku-attention": (5, 5, 0),
    "haiku-lstm": (1, 1, 2),
    "plain-mlp": (2, 1, 0),
    "plain-conv": (2, 0, 1),
    "plain-attention": (2, 0, 0),
    "plain-lstm": (1, 0, 2),
}


def found(apply, params, x) -> dict[str, Block]:
    model = as_model((apply, params))
    names = tree.names(model.params)
    return {names[block.weight]: block for block in blocks_of(model, x)}


@pytest.mark.parametrize("animal", ZOO, ids=str)
def test_every_library_has_its_layers_found(animal):
    network, x = animal(jax.random.key(0))
    model = as_model(network)
    blocks = blocks_of(model, x)
    inside = [index for block in blocks for index in block.leaves]
    assert len(inside) == len(set(inside))
    count = len(jax.tree.leaves(model.params))
    with_bias = sum(block.bias is not None for block in blocks)
    assert (len(blocks), with_bias, count - len(inside)) == LAYERS[str(animal)]


def test_a_block_takes_apart_and_puts_together():
    leaves = [jnp.arange(24.0).reshape(2, 3, 4), jnp.arange(6.0).reshape(2, 3, 1) - 7]
    block = Block(0, rows=(2,), columns=(0, 1), bias=1, bias_axes=(0, 1, 2))
    matrix = block.gather(leaves)
    assert matrix.shape == block.shape(leaves) == (5, 6)
    assert matrix[3, 1 * 3 + 2] == leaves[0][1, 2, 3]
    assert matrix[4, 1 * 3 + 2] == leaves[1][1, 2, 0]
    parts = block.scatter(matrix, leaves)
    assert all((parts[index] == leaf).all() for index, leaf in enumerate(leaves))


X = jnp.ones((4, 3))


def test_an_unusual_use_of_a_weight_leaves_it_out():
    weights = {"w": jnp.ones((3, 3)), "v": jnp.ones((3, 2))}

    def decayed(params, x):
        return x @ params["w"] @ params["v"] + jnp.sum(params["w"] ** 2)

    assert list(found(decayed, weights, X)) == ["v"]


def test_a_product_of_two_weights_is_no_layer():
    lora = {"a": jnp.ones((3, 1)), "b": jnp.ones((1, 2)), "head": jnp.ones((2, 2))}

    def adapted(params, x):
        return (x @ (params["a"] @ params["b"])) @ params["head"]

    assert list(found(adapted, lora, X)) == ["head"]


def test_a_weight_that_is_used_twice_is_one_layer_without_a_bias():
    weights = {"w": jnp.ones((3, 3)), "b": jnp.ones(3)}

    def twice(params, x):
        return jnp.tanh(x @ params["w"] + params["b"]) @ params["w"]

    (block,) = found(twice, weights, X).values()
    assert block.bias is None


def test_a_weight_that_is_also_used_turned_around_is_left_out():
    tied = {"w": jnp.ones((3, 2)), "v": jnp.ones((3, 2))}

    def autoencoder(params, x):
        return jnp.tanh(x @ params["w"]) @ params["w"].T @ params["v"]

    assert list(found(autoencoder, tied, X)) == ["v"]


@pytest.mark.parametrize("kind", ["shared", "after", "residual", "partial"])
def test_what_is_no_plain_bias_stays_outside(kind):
    weights = {"w": jnp.ones((3, 3)), "v": jnp.ones((3, 3)), "b": jnp.ones(3)}

    def shared(params, x):
        return (x @ params["w"] + params["b"]) @ params["v"] + params["b"]

    def after(params, x):
        return jnp.tanh(x @ params["w"]) + params["b"] + x @ params["v"]

    def residual(params, x):
        product = x @ params["w"]
        return (product + params["b"]) * product + x @ params["v"]

    def partial(params, x):
        return x @ params["w"] + params["b"][:1] + x @ params["v"]

    function = {"shared": shared, "after": after, "residual": residual, "partial": partial}[kind]
    blocks = found(function, weights, X)
    assert set(blocks) == {"v", "w"}
    assert all(block.bias is None for block in blocks.values())


def test_layers_within_calls_are_found_and_those_within_loops_are_not():
    weights = {"w": jnp.ones((3, 3)), "v": jnp.ones((3, 3)), "u": jnp.ones((3, 2))}

    def nested(params, x):
        x = jax.checkpoint(eqx.filter_jit(lambda x: jnp.tanh(x @ params["w"])))(x)
        x = lax.fori_loop(0, 2, lambda _, x: x @ params["v"], x)
        return x @ params["u"]

    assert set(found(nested, weights, X)) == {"w", "u"}


def test_an_embedding_that_is_looked_up_is_left_out():
    weights = {"table": jnp.ones((5, 3)), "w": jnp.ones((3, 2))}

    def embed(params, x):
        return params["table"][x] @ params["w"]

    assert list(found(embed, weights, jnp.zeros((4, 6), int))) == ["w"]
