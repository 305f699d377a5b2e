"""A network's computation as one flat list of equations, to look at and to evaluate."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jaxtyping import Array

Tap = Callable[[Sequence[Array], Array], Array]
"""Is given the operands and the result of an equation, and gives what to go on with instead."""


@final
class Flat:
    """What a function computes, without calls of functions within it.

    Functions with derivatives of their own stay whole, and so do loops.
    """

    def __init__(self, function: Callable[..., Any], *arguments: Any):
        """Trace the function; arguments may be arrays or shapes."""
        nested, returned = jax.make_jaxpr(function, return_shape=True)(*arguments)
        leaves = jax.tree.leaves(arguments)
        flat = jax.make_jaxpr(lambda *values: _inlined(nested.jaxpr, nested.consts, values))(
            *leaves
        )
        self._jaxpr: Jaxpr = flat.jaxpr
        self._constants = flat.consts
        self._returned = jax.tree.structure(returned)

    @property
    def equations(self) -> Sequence[JaxprEqn]:
        """What is computed, in order."""
        return self._jaxpr.eqns

    @property
    def inputs(self) -> Sequence[Var]:
        """The variables of the arguments' leaves."""
        return self._jaxpr.invars

    @property
    def outputs(self) -> Sequence[Var | Literal]:
        """What is returned."""
        return self._jaxpr.outvars

    def __call__(self, *arguments: Any, taps: dict[int, Tap]) -> Any:
        """Evaluate it, with the results of some equations changed on the way."""
        leaves = jax.tree.leaves(arguments)
        outputs = _evaluated(self._jaxpr, self._constants, leaves, _bound, taps)
        return jax.tree.unflatten(self._returned, outputs)


def _inlined(jaxpr: Jaxpr, constants: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Evaluate equations, and those of calls among them."""

    def outcome(equation: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
        inner = _called(equation)
        if inner is None:
            return _bound(equation, operands)
        return _inlined(inner.jaxpr, inner.consts, operands)

    return _evaluated(jaxpr, constants, values, outcome, {})


def _called(equation: JaxprEqn) -> ClosedJaxpr | None:
    """The body of a mere call."""
    if equation.primitive.name not in ("jit", "pjit", "closed_call", "checkpoint", "remat2"):
        return None
    body: Any = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    return body if isinstance(body, ClosedJaxpr) else ClosedJaxpr(body, ())


def _bound(equation: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    primitive = equation.primitive
    given = primitive.get_bind_params(equation.params)
    # Before JAX 0.10, functions among the parameters came first, on their own.
    functions, params = given if isinstance(given, tuple) else ((), given)
    results = primitive.bind(*functions, *operands, **params)
    return list(results) if primitive.multiple_results else [results]


def _evaluated(
    jaxpr: Jaxpr,
    constants: Sequence[Any],
    values: Sequence[Any],
    outcome: Callable[[JaxprEqn, Sequence[Any]], list[Any]],
    taps: dict[int, Tap],
) -> list[Any]:
    known = dict(zip(jaxpr.constvars, constants, strict=True))
    known.update(zip(jaxpr.invars, values, strict=True))

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for index, equation in enumerate(jaxpr.eqns):
        operands = [value(atom) for atom in equation.invars]
        results = outcome(equation, operands)
        if index in taps:
            results = [taps[index](operands, results[0])]
        known.update(zip(equation.outvars, results, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def variables(atoms: Sequence[Any]) -> Iterator[Var]:
    """Those that are no literals."""
    return (atom for atom in atoms if not isinstance(atom, Literal))
