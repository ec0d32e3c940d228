"""Lifted `jax.custom_vjp`: functions of objects whose gradients the user writes.

With changes of structure (the default), the backward function gets the cotangents of the objects
beside those of the output, and returns a `State` of cotangents for each object. Without them it is
close to `jax.custom_vjp`: it gets the cotangent of the output alone, and returns objects.

>>> import jax.numpy as jnp
>>> from scutch_reference import nnx
>>> @custom_vjp(graph_updates=False)
... def scaled(model, x):
...     return model.w.value * x
>>> def backward(residuals, of_output):
...     model, x = residuals
...     of_model = nnx.clone(model)
...     of_model.w.value = jnp.clip(of_output * x, -1, 1)
...     return of_model, of_output * model.w.value
>>> scaled.defvjp(lambda model, x: (scaled(model, x), (model, x)), backward)
>>> model = nnx.Dict(w=nnx.Param(jnp.array(3.0)))
>>> gradient = nnx.grad(scaled, graph_updates=False)(model, 5.0)
>>> float(gradient.w.value)
1.0
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax

from ..errors import LiftingError
from ..types import Tree
from .defaults import set_graph_mode, updating_graph
from .effects import Effects, runner
from .filters import Path
from .frames import Frame, Groups, Transformed
from .grad import DiffState
from .graph import merge, pure, split, state
from .graphdef import unflatten
from .lifting import Lifted, P, R, lift
from .states import State, to_flat_state
from .variables import is_variable

UPDATES = "updates_g"
"""The parameter by which a backward function gets the cotangents of objects in every mode."""


class Custom(Lifted[P, R]):
    """A function of objects with a gradient of its own; see `custom_vjp`.

    Args:
      *args: Arguments of `Lifted`.
      **options: Options of `Lifted`.
    """

    lifts: ClassVar[Any] = staticmethod(jax.custom_vjp)
    by_position = True
    forward: Callable[..., Any] | None = None
    backward: Callable[..., Any] | None = None

    def defvjp(
        self, fwd: Callable[..., Any], bwd: Callable[..., Any], symbolic_zeros: bool = False
    ) -> None:
        """Set the functions that compute the gradient.

        Args:
          fwd: Has the parameters of the function; returns its output and the residuals, a tree of
            objects and arrays.
          bwd: Gets the static arguments, the residuals and the cotangent, and returns a cotangent
            for each other argument: for an object a `State`, or an object like it.
          symbolic_zeros: Only False.

        Raises:
          LiftingError: `symbolic_zeros` is True.
        """
        if symbolic_zeros:
            raise LiftingError(place="symbolic_zeros", given=True, expected="False")
        self.forward, self.backward = fwd, bwd
        self._transformed.clear()

    def transform(self, frame: Frame, run: Callable[..., Any]) -> Transformed:
        """Return `jax.custom_vjp` of a function of leaves.

        Args:
          frame: The frame of a call.
          run: The function.

        Raises:
          LiftingError: The function has no gradient yet.
        """
        forward, backward, structural = self.forward, self.backward, self.structural
        if forward is None or backward is None:
            raise LiftingError(
                place="a function under custom_vjp", given=self.function, expected="`defvjp` first"
            )
        every_leaf = [True] * len(frame.leaf_prefixes) if structural else []
        traced: dict[str, Any] = {}

        def kept(run: Callable[..., Any], *arguments: Tree) -> Any:
            traced["effects"], groups, out = run(*arguments, always_out=every_leaf)
            return groups, out

        def with_residuals(*given: Tree) -> Tree:
            out, residuals = forward(*given)
            traced["residuals"] = split(residuals)
            return out

        def forward_of_leaves(*arguments: Tree) -> Any:
            run = runner(frame, with_residuals, self.inside, structural=structural)
            found = kept(run, *arguments)
            traced["definition"], arrays = traced.pop("residuals")
            return found, arrays

        def backward_of_leaves(arrays: Tree, cotangents: Any) -> tuple[Any, ...]:
            groups, of_output = cotangents
            residuals = merge(traced["definition"], arrays)
            objects = _cotangents_of_objects(frame, traced["effects"], groups)
            named = {UPDATES: tuple(objects)} if _takes_updates(backward) else {}
            if structural:
                states = [None if each is None else state(each) for each in objects]
                of_output = tuple(states), of_output
            return _of_leaves(frame, backward(*frame.statics, residuals, of_output, **named))

        function = jax.custom_vjp(lambda *arguments: kept(run, *arguments))
        function.defvjp(forward_of_leaves, backward_of_leaves)

        def transformed(*arguments: Tree) -> Tree:
            groups, out = function(*arguments)
            return traced["effects"], groups, out

        return Transformed(frame, transformed)


def _takes_updates(backward: Callable[..., Any]) -> bool:
    return UPDATES in inspect.signature(backward).parameters


def _cotangents_of_objects(frame: Frame, effects: Effects, groups: Groups) -> list[Any]:
    """Return for each argument with objects a copy that holds the cotangents; None for others.

    A leaf that the function did not output has None.
    """
    leaves: list[Any] = [None] * len(frame.leaf_prefixes)
    for number, (group, index) in effects.changed.items():
        leaves[number] = groups[group][index]
    roots = dict(zip(frame.signature.roots, unflatten(frame.definition, leaves)[0], strict=True))
    return [roots.get(i) for i in frame.signature.dynamic]


def _of_leaves(frame: Frame, found: Sequence[Tree]) -> tuple[Any, ...]:
    """Return the cotangents of leaves and of plain arguments; None stands for zeros.

    Raises:
      LiftingError: The backward function returned no tuple with a cotangent for each argument.
    """
    signature = frame.signature
    taken = signature.dynamic
    if not isinstance(found, tuple) or len(found) != len(taken):
        raise LiftingError(
            place="the result of the backward function of custom_vjp",
            given=found,
            expected=f"a tuple with a cotangent for each of {len(taken)} arguments",
        )
    by_argument = dict(zip(taken, found, strict=True))
    values = [_by_path(by_argument[i]) for i in signature.roots]
    leaves = [values[path[0]].get(path[1:]) for path, _ in frame.definition.leaves]
    return leaves, *[by_argument[i] for i in signature.plain]


def _by_path(cotangent: Tree) -> dict[Path, Any]:
    """Return the cotangents that an object, a `State` or a container holds, by their paths."""
    if is_variable(cotangent):
        return {(): pure(cotangent)}
    whole = cotangent if isinstance(cotangent, State) else state(cotangent)
    return {path: pure(leaf) for path, leaf in to_flat_state(whole)}


def custom_vjp(
    fun: Callable[..., Any] | None = None,
    *,
    nondiff_argnums: Sequence[int | DiffState] = (),
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """Give a function of objects a gradient of its own, as `jax.custom_vjp` does (OBJ-8).

    Args:
      fun: A function of objects and arrays by position, as for `jit`. Without it, this returns a
        decorator.
      nondiff_argnums: The numbers of static arguments, which the backward function gets first; for
        objects a `DiffState` may say which variables have cotangents, and the others have zeros.
      graph, graph_updates: If one is False, objects get new values and metadata, but no changes of
        structure, and the backward function gets no cotangents of objects. Sharing is always kept.

    Returns:
      The function; its method `defvjp` sets the forward and the backward function.

    Raises:
      LiftingError: When called: `defvjp` was not called, or the backward function returned no tuple
        with a cotangent for each argument.
    """
    keeps_graph = set_graph_mode.current_value() if graph is None else graph
    structural = keeps_graph and updating_graph(graph_updates)
    numbers = tuple(each for each in nondiff_argnums if isinstance(each, int))
    return lift(Custom, fun, graph_updates=structural, static_argnums=numbers or None)
