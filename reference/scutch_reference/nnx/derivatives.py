"""Lifted `jax.vjp` and `jax.jvp`: derivatives of functions of objects along given directions.

A cotangent or tangent of an object is an object of the same structure, whose variables hold the
cotangents or tangents of the values. Integers have none, as in JAX.

>>> import jax.numpy as jnp
>>> from scutch_reference import nnx
>>> model = nnx.Dict(w=nnx.Param(jnp.array(3.0)))
>>> output, back = vjp(lambda model, x: model.w.value * x, model, 2.0)
>>> of_model, of_x = back(1.0)
>>> float(output), float(of_model.w.value), float(of_x)
(6.0, 2.0, 3.0)
>>> tangent = nnx.Dict(w=nnx.Param(jnp.array(10.0)))
>>> output, pushed = jvp(lambda model, x: model.w.value * x, (model, 2.0), (tangent, 1.0))
>>> float(output), float(pushed)
(6.0, 23.0)
"""

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import jax

from ..errors import LiftingError
from ..types import Tree
from .effects import Effects
from .flatten import LEAVES, flatten, read
from .frames import Frame, Groups, Transformed
from .graphdef import unflatten
from .lifting import Lifted, P, R, lift


class Pulled(Lifted[P, R]):
    """A function of objects that also returns its vector-Jacobian product; see `vjp`.

    Args:
      *args: Arguments of `Lifted`.
      has_aux: Whether the function returns a pair, its output and auxiliary output.
      **options: Options of `Lifted`.
    """

    lifts: ClassVar[Any] = staticmethod(jax.vjp)
    by_position = True

    def __init__(self, *args: Any, has_aux: bool = False, **options: Any):
        super().__init__(*args, **options)
        self.has_aux = has_aux

    def transform(self, frame: Frame, run: Callable[..., Any]) -> Transformed:
        """Return `jax.vjp` of a function of leaves.

        Args:
          frame: The frame of a call.
          run: The function.
        """
        bound = len(self._bound)

        def transformed(*arguments: Tree) -> Tree:
            function = functools.partial(self._with_effects, run)
            out, back, (effects, groups, further) = jax.vjp(function, *arguments, has_aux=True)
            cotangents = functools.partial(_cotangents, frame, bound)
            pull: Any = jax.tree_util.Partial(cotangents, back)  # type: ignore[no-untyped-call]
            return effects, groups, (out, pull, *further)

        return Transformed(frame, transformed)

    def _with_effects(
        self, run: Callable[..., Any], *arguments: Tree
    ) -> tuple[Any, tuple[Effects, Groups, tuple[Any, ...]]]:
        """Return the output to differentiate; beside it the effects and the auxiliary output."""
        effects, groups, out = run(*arguments)
        out, *further = out if self.has_aux else (out,)
        return out, (effects, groups, tuple(further))


def _cotangents(
    frame: Frame, bound: int, back: Callable[..., Any], cotangent: Tree
) -> tuple[Any, ...]:
    """Return the cotangent of each argument but the bound ones, for a cotangent of the output."""
    leaves, *plain = back(cotangent)
    roots = unflatten(frame.definition, leaves)[0]
    found, _ = frame.signature.assembled(*roots, *plain)
    return tuple(found[bound:])


class Pushed(Pulled[P, R]):
    """A function of objects that also returns its Jacobian-vector product; see `jvp`.

    Args:
      *args: Arguments of `Pulled`.
      tangents: The tangents of the arguments.
      **options: Options of `Pulled`.
    """

    lifts: ClassVar[Any] = staticmethod(jax.jvp)

    def __init__(self, *args: Any, tangents: tuple[Any, ...], **options: Any):
        super().__init__(*args, **options)
        self.tangents = tangents

    def transform(self, frame: Frame, run: Callable[..., Any]) -> Transformed:
        """Return `jax.jvp` of a function of leaves, along the tangents.

        Args:
          frame: The frame of a call.
          run: The function.

        Raises:
          LiftingError: A tangent has another structure than its argument.
        """
        tangents = (*self._bound, *self.tangents)
        definition, _, locations, _ = flatten(frame.signature.roots_of(tangents), LEAVES)
        if definition != frame.definition:
            raise LiftingError(
                place="the tangents of jvp",
                given=self.tangents,
                expected="objects of the structure of the arguments",
            )
        along = (read(locations), *frame.signature.plain_of(tangents))

        def transformed(*arguments: Tree) -> Tree:
            function = functools.partial(self._with_effects, run)
            out, pushed, (effects, groups, further) = jax.jvp(
                function, arguments, along, has_aux=True
            )
            return effects, groups, (out, pushed, *further)

        return Transformed(frame, transformed)


def vjp(
    f: Callable[..., Any] | None = None,
    *primals: Tree,
    has_aux: bool = False,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """Call a function of objects, and return a function for its cotangents, as `jax.vjp` does.

    Args:
      f: A function of objects and arrays, as for `jit`, that returns arrays. Without it, this
        returns a decorator; without `primals`, a function of them.
      *primals: The arguments.
      has_aux: Whether `f` returns a pair, of which only the first entry is differentiated.
      graph: Accepted and not needed: sharing is always kept.
      graph_updates: If False, objects get new values and metadata, but no changes of structure.

    Returns:
      The output; a function that takes a cotangent of the output, and returns a tuple with the
      cotangent of each argument; and with `has_aux` the second entry.
    """
    pulled = lift(Pulled, f, has_aux=has_aux, graph_updates=graph_updates)
    return pulled(*primals) if primals else pulled


def jvp(
    f: Callable[..., Any] | None = None,
    primals: tuple[Any, ...] | None = None,
    tangents: tuple[Any, ...] | None = None,
    *,
    has_aux: bool = False,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """Call a function of objects, and push tangents forward, as `jax.jvp` does.

    Args:
      f: As for `vjp`.
      primals: The arguments. Without them, this returns a function of both tuples.
      tangents: Their tangents: for an object one of the same structure.
      has_aux, graph, graph_updates: As for `vjp`.

    Returns:
      The output; its tangent; and with `has_aux` the second entry.

    Raises:
      LiftingError: A tangent has another structure than its argument.
    """
    options: Any = {"has_aux": has_aux, "graph_updates": graph_updates}
    if f is None:
        return lambda f: jvp(f, **options)
    if primals is None or tangents is None:
        return lambda primals, tangents: jvp(f, primals, tangents, **options)
    pushed: Any = Pushed(f, tangents=tangents, **options)
    return pushed(*primals)
