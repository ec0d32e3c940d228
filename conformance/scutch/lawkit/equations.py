"""The equations of a traced program, for laws about its primitives and their options.

[e.primitive.name for e in equations(jax.make_jaxpr(function)(x).jaxpr)]
"""

from collections.abc import Iterator
from typing import Any

import jax


def equations(jaxpr: Any) -> Iterator[Any]:
    """Every equation of a program, and of the programs inside it, outer ones first."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program):
            if _is_program(inner):
                yield from equations(getattr(inner, "jaxpr", inner))


def _is_program(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(value, "jaxpr")
