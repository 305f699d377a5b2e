"""The curvature of a task: the generalised Gauss-Newton matrix (GGN) of its mean loss.

    H = 1/N sum_i J_i^T S_i S_i^T J_i  ~  F^T F + diag(h),

with ``J_i`` the Jacobian of the network's outputs for example ``i`` and ``S_i S_i^T`` the Hessian
of its loss in them. It is found from products alone: nothing of the size examples x outputs x
parameters is ever held. A task's curvature is a precision of its own and knows no belief.
"""

from collections.abc import Iterable
from typing import Literal, final, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from backcast.linalg import DiagLowRank, checks, tree
from backcast.model.batch import Batch
from backcast.model.ggn_means import check_batches, mean_products, mean_squares
from backcast.model.ggn_root import GgnRoot, column_space
from backcast.model.likelihood import Likelihood
from backcast.model.low_rank import leading, leading_by_root
from backcast.model.network import Model
from backcast.model.output_root import Fisher

Diagonal = Literal["exact", "sampled", "none"]


@final
class Curvature(eqx.Module):
    """What a task tells about the parameters, and how well it is known.

    Attributes:
        precision: ``F^T F + diag(h)``.
        eigenvalues: The eigenvalues of ``F^T F``, largest first: the leading ones of the GGN.
        residuals: For each of them ``|H u - s u| / s_1``, before the last refinement of ``u``.
            Where it is not small, ``u`` is no single eigenvector but a mixture of some with similar
            eigenvalues, which more passes would tell apart. The row is still not false:
            ``F^T F`` never exceeds the GGN.
        examples: How many examples ``N`` the mean is over.
    """

    precision: DiagLowRank
    eigenvalues: Float[Array, " k"]
    residuals: Float[Array, " k"]
    examples: Float[Array, ""]


def ggn(
    model: Model,
    likelihood: Likelihood,
    batches: Iterable[Batch],
    *,
    rank: int,
    key: Key[Array, ""],
    diagonal: Diagonal = "exact",
    fisher: Fisher = "exact",
    passes: int = 5,
    oversampling: int = 2,
) -> Curvature:
    """The GGN of the mean loss at the model's parameters, as diagonal plus low rank.

    The network is evaluated as in prediction (no dropout, stored batch statistics). The leading
    ``rank`` eigenvectors become the rows of ``F``; with ``h = diag(H) - diag(F^T F)`` the sum has
    the diagonal of the GGN. Rank 0 is that diagonal alone, the Fisher information of EWC; one batch
    and no diagonal is the paper's variant.

    ``F`` is sought among parameters or among outputs, ``J^T S S^T J`` or ``S^T J J^T S``, whichever
    are fewer: a batch of 128 examples with 10 outputs has 1280, however large the network.

    Args:
        model: The network, at the parameters and the state wanted.
        likelihood: The likelihood of the targets.
        batches: Batches of examples, gone through once per pass, and twice if outputs are fewer:
            a list, or any object that starts anew, in the same order, whenever it is iterated over.
            Every shape is compiled once, so pad a short last batch, with weights of zero.
        rank: How many eigenvectors to keep. If the GGN has fewer, the last rows are zero.
        key: Randomness for the first block, sampled targets and a sampled diagonal.
        diagonal: ``"exact"`` takes a gradient for every example and output; ``"sampled"`` one for
            every example, and estimates ``diag(H)`` without bias; ``"none"`` leaves ``h = 0``.
        fisher: ``"exact"`` is the GGN. ``"sampled"`` and ``"empirical"`` are the mean of ``g g^T``
            over examples, with ``g`` the gradient of an example's loss, at targets drawn from the
            model or at its own. The first estimates the GGN without bias; the second does not.
        passes: How many products with the GGN to take for ``F``.
        oversampling: How many rows to carry beyond ``rank`` while finding ``F``.

    Returns:
        The curvature. Finding it takes the memory of ``(passes + 2) (rank + oversampling)``
        vectors like the parameters or like all outputs, of ``2 (rank + oversampling)`` like the
        parameters, and what the network needs for one tangent of one batch.

    Raises:
        TypeError: The batches can be gone through only once, or are no batches.
        ValueError: An option is unknown, there is no example, or the curvature is not finite.
    """
    _check(model, rank, diagonal, fisher, passes, oversampling)
    extent = check_batches(model, likelihood, batches)
    key_start, key_data = jax.random.split(key)
    size = {"rank": rank, "key": key_start, "passes": passes, "oversampling": oversampling}
    columns = column_space(model, extent, fisher)
    if columns.size < sum(leaf.size for leaf in jax.tree.leaves(model.params)):
        root = GgnRoot(model, likelihood, batches, extent, fisher, key_data)
        image = jnp.zeros(columns.shape, columns.dtype)
        found = leading_by_root(root.push, root.pull, image, model.params, **size)
    else:
        given = model, likelihood, batches, extent.examples
        found = leading(
            lambda block: mean_products(*given, block, fisher, key_data), model.params, **size
        )
    factor, eigenvalues, residuals = found
    if diagonal == "none":
        precision = DiagLowRank(jax.tree.map(jnp.zeros_like, model.params), factor)
    else:
        whole = mean_squares(
            model, likelihood, batches, extent.examples, diagonal, fisher, key_data
        )
        precision = _with_diagonal(whole, factor)
    checks.finite(
        (precision.diag, eigenvalues),
        "The curvature",
        "The network's outputs or their derivatives are not finite at these parameters: look at "
        "the inputs and at the fit.",
    )
    return Curvature(precision, eigenvalues, residuals, extent.examples)


def ggn_product(
    model: Model, likelihood: Likelihood, batches: Iterable[Batch], vector: PyTree
) -> PyTree:
    """``H v``: the GGN of the mean loss at the model's parameters, times a vector like them."""
    checks.same_tree(model.params, vector, "The vector")
    examples = check_batches(model, likelihood, batches).examples
    block = jax.tree.map(lambda v: v[None], vector)
    image = mean_products(model, likelihood, batches, examples, block, "exact", jax.random.key(0))
    return jax.tree.map(lambda u, v: u[0].astype(v.dtype), image, vector)


@jax.jit
def _with_diagonal(whole: PyTree, factor: PyTree) -> DiagLowRank:
    """``F^T F + diag(h)`` with the given diagonal, where rounding or sampling leaves ``h >= 0``."""
    diag = jax.tree.map(
        lambda h, f, w: jnp.maximum(h - f, 0).astype(w.dtype),
        whole,
        tree.column_norms(factor),
        factor,
    )
    return DiagLowRank(diag, factor)


def _check(
    model: Model, rank: int, diagonal: str, fisher: str, passes: int, oversampling: int
) -> None:
    for name, given, allowed in (
        ("diagonal", diagonal, get_args(Diagonal)),
        ("fisher", fisher, get_args(Fisher)),
    ):
        if given not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, but {given!r} was given.")
    checks.parameters(model.params)
    checks.count(rank, "The rank")
    checks.count(oversampling, "The oversampling")
    checks.count(passes, "The number of passes")
    if rank > 0 and passes == 0:
        raise ValueError("A factor of rank > 0 takes at least one pass, but passes=0 was given.")
