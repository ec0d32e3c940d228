"""Whether two traced functions are the same program: equal normal forms, so equal results.

A *trace* is the jaxpr of a function with the structure of its results. Its *form* is a hashable
value; two traces with equal forms compute the same, so neither is compiled or run:

    ours, theirs = traced(lambda x: jax.jit(jnp.sin)(x) * 2, x), traced(lambda x: jnp.sin(x) * 2, x)
    assert form(ours) == form(theirs)

Unequal forms say nothing: the two programs must be run.

Why equal forms suffice. A form is itself a complete program: the types of its inputs, its equations
in an order in which they can run, its outputs, and the structure of the results. The program of a
trace becomes its form by five steps. Each keeps the results and the effects of running it:

1.  *Calls are inlined* (`_body`): `jit` where no option of it says anything, and the bodies of
    functions with derivatives of their own. A form is about running a program, where these run
    their body. It is not about differentiating the program; a law that compares gradients traces
    the gradients.
2.  *Equal expressions are merged*: an equation that is *free* (`_is_free`: it has no effect and is
    no call to the host) gives the same outputs each time for the same operands.
3.  *Unused free equations are dropped*, and no others. JAX's own `dce_jaxpr`, which `jit` applies
    to each program before it compiles it, comes first: it also drops unused carries of loops.
4.  *Free equations are reordered* by first use. Equations that are not free keep their order
    and number.
5.  *Variables are renamed* to the number of their equation or input.

Nothing else is equated: operands keep their order, also those of a sum; a scan is not a loop
written out. An equation is kept with its primitive, all its parameters, its effects, the context
that it was traced in, and the types of its outputs. A type holds shape, dtype, weak type, sharding
and memory. Constants, literals among them, count by type, bits, and by the devices that they are
committed to. A parameter is equal to one of the same type alone (`1`, `1.0` and `True` differ, and
so do `0.0` and `-0.0`); one of a class that is not of JAX, NumPy or Python, such as a function that
the host calls, is equal to itself alone.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun
from jax.interpreters import partial_eval

from scutch.engine.forms import Form, form_of


@dataclasses.dataclass(frozen=True)
class Trace:
    """A traced function.

    Args:
      closed: Its jaxpr, with constants.
      structure: The structure of its results.
    """

    closed: Any
    structure: Any

    def run(self, *arguments: Any) -> Any:
        """Run the jaxpr on arguments of the shapes and dtypes that it was traced with.

        Args:
          arguments: Trees of arrays.

        Returns:
          The results of the function. The Python function itself does not run.
        """
        flat = jaxpr_as_fun(self.closed)(*jax.tree.leaves(arguments))
        return jax.tree.unflatten(self.structure, flat)


def traced(function: Callable[..., Any], *arguments: Any) -> Trace:
    """Trace a function.

    Args:
      function: Takes and returns trees of arrays.
      arguments: Those trees; the function sees tracers of their shapes and dtypes.

    Raises:
      Exception: The function raised this error while JAX traced it.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    return Trace(closed, jax.tree.structure(shapes))


def form(trace: Trace) -> Form:
    """The normal form of a trace: where two are equal, the traces compute the same."""
    jaxpr = trace.closed.jaxpr
    if (drop_unused := getattr(partial_eval, "dce_jaxpr", None)) is not None:
        jaxpr, _ = drop_unused(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
    return *form_of(jaxpr, trace.closed.consts), trace.structure
