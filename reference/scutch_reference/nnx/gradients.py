"""Lifted `grad`, `value_and_grad` and `remat`: derivatives with respect to variables in objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from ..errors import LiftingError
from . import filters as filterlib
from .lifting import Call, Frame, Lifted
from .placing import explain
from .states import from_flat_state
from .variables import Param
from .walking import is_object

_UNSET: Any = object()


@dataclass(frozen=True)
class DiffState:
    """Differentiate with respect to what a filter takes in an argument."""

    argnum: int
    filter: Any


class Differentiated(Lifted):
    """A function of objects that returns gradients; see `grad`."""

    _is_direct = False  # There is more to a call than its output.

    def __init__(
        self,
        function: Callable[..., Any],
        argnums: Any,
        has_aux: bool,
        with_value: bool,
        options: dict[str, Any],
        **lifted: Any,
    ):
        super().__init__(function, **lifted)
        self._is_single = isinstance(argnums, int | DiffState)
        given = [argnums] if self._is_single else argnums
        self._wanted: tuple[DiffState, ...] = tuple(
            each if isinstance(each, DiffState) else DiffState(each, Param) for each in given
        )
        self._has_aux, self._with_value, self._options = has_aux, with_value, options

    def _argument(self, frame: Frame, wanted: DiffState) -> int:
        count, shift = frame.layout.positional, len(self._bound)
        index = wanted.argnum + (shift if wanted.argnum >= 0 else count)
        if not shift <= index < count:
            raise LiftingError(
                f"Cannot differentiate with respect to argument {wanted.argnum}: the function "
                f"got {count - shift} positional arguments."
            )
        return index

    def _chosen(self, frame: Frame, nodes: Sequence[Any], values: list[Any]) -> list[list[int]]:
        """The numbers of the leaves for each wanted argument that is an object."""
        chosen, taken = [], set()
        for wanted in self._wanted:
            index = self._argument(frame, wanted)
            numbers = []
            if index in frame.layout.roots:
                root = frame.layout.roots.index(index)
                predicate = filterlib.to_predicate(wanted.filter)
                for i, (leaf_root, path, owner) in enumerate(frame.definition.leaves):
                    leaf = values[i] if owner is None else nodes[owner]
                    if leaf_root == root and i not in taken and predicate(path, leaf):
                        numbers.append(i)
                        taken.add(i)
            chosen.append(numbers)
        return chosen

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.value_and_grad`, with what happened to the objects as auxiliary output."""

        def transformed(_: Any, values: list[Any], *plain: Any) -> Any:
            chosen = self._chosen(frame, frame.enter(values)[1], values)
            places = [
                frame.layout.plain.index(index)
                for index in (self._argument(frame, wanted) for wanted in self._wanted)
                if index in frame.layout.plain
            ]

            def loss(leaves: list[list[Any]], arguments: list[Any]) -> Any:
                inner, outer = list(values), list(plain)
                for numbers, parts in zip(chosen, leaves, strict=True):
                    for number, part in zip(numbers, parts, strict=True):
                        inner[number] = part
                for place, argument in zip(places, arguments, strict=True):
                    outer[place] = argument
                outcome, groups, out = frame.run((), inner, *outer)
                return (out[0] if self._has_aux else out), (outcome, groups, out)

            found = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True, **self._options)
            (_, (outcome, groups, out)), gradients = found(
                [[values[i] for i in numbers] for numbers in chosen], [plain[k] for k in places]
            )
            return outcome, groups, (out, chosen, gradients)

        return transformed

    def execute(self, call: Call, function: Callable[..., Any]) -> Any:
        """Differentiate, change the objects, and return what was asked for."""
        frame = call.frame
        try:
            outcome, groups, (out, chosen, (leaves, plain)) = function((), call.values, *call.plain)
        except Exception as error:
            explain(call, error)
            raise
        nodes = frame.enter(call.values)[1]
        out = out if outcome.is_nothing else self.commit(call, outcome, groups, out)
        others = iter(plain)
        gradients: list[Any] = []
        for wanted, numbers, parts in zip(self._wanted, chosen, leaves, strict=True):
            index = self._argument(frame, wanted)
            if index in frame.layout.plain:
                gradients.append(next(others))
                continue
            root = call.roots[frame.layout.roots.index(index)]
            flat = {}
            for number, part in zip(numbers, parts, strict=True):
                _, path, owner = frame.definition.leaves[number]
                flat[path] = part if owner is None else nodes[owner].replace(part)
            gradients.append(_like(root, flat))
        found = gradients[0] if self._is_single else tuple(gradients)
        if self._with_value:
            return out, found
        return (found, out[1]) if self._has_aux else found


def _like(root: Any, flat: dict[Any, Any]) -> Any:
    """States in place of the objects in an argument."""
    if is_object(root):
        return flat[()] if () in flat else from_flat_state(flat)
    pairs, treedef = jax.tree_util.tree_flatten_with_path(root, is_leaf=is_object)
    parts = []
    for keys, value in pairs:
        names = ("idx", "key", "name")
        prefix = tuple(next(getattr(k, n) for n in names if hasattr(k, n)) for k in keys)
        below = {p[len(prefix) :]: v for p, v in flat.items() if p[: len(prefix)] == prefix}
        parts.append(_like(value, below) if is_object(value) else below.get(()))
    return jax.tree.unflatten(treedef, parts)


def _differentiate(
    f: Any, argnums: Any, has_aux: bool, with_value: bool, graph_updates: Any, **options: Any
) -> Any:
    options = {name: value for name, value in options.items() if value}

    def lift(function: Callable[..., Any]) -> Differentiated:
        return Differentiated(
            function,
            argnums,
            has_aux,
            with_value,
            options,
            structural=graph_updates is not False,
        )

    return lift if f is _UNSET else lift(f)


def grad(
    f: Any = _UNSET,
    *,
    argnums: Any = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """The gradient of a function of objects, as states of their parameters.

    Args:
      f: Returns a scalar; it may change its objects. Without it, a decorator.
      argnums: Arguments to differentiate by: numbers (for objects, their `Param`s), or
        `DiffState`s with other filters.
      has_aux: Whether `f` returns a pair, of which the second is passed on.
      holomorphic, allow_int: See `jax.grad`.

    Returns:
      A `State` of variables that hold gradients for an object, arrays for other arguments; a tuple
      of them if `argnums` is a sequence.
    """
    return _differentiate(
        f, argnums, has_aux, False, graph_updates, holomorphic=holomorphic, allow_int=allow_int
    )


def value_and_grad(
    f: Any = _UNSET,
    *,
    argnums: Any = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """The output of a function of objects and its gradient; see `grad`."""
    return _differentiate(
        f, argnums, has_aux, True, graph_updates, holomorphic=holomorphic, allow_int=allow_int
    )


class Checkpointed(Lifted):
    """A function of objects that is computed again for its gradient; see `remat`."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], **lifted: Any):
        super().__init__(function, **lifted)
        self._options = options

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.checkpoint`."""
        return jax.checkpoint(frame.run, **self._options)


def remat(
    f: Any = _UNSET,
    *,
    prevent_cse: bool = True,
    static_argnums: Any = None,
    policy: Any = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """Compute a function of objects again for its gradient, instead of keeping its intermediates.

    Args:
      f: The function. Without it, a decorator.
      prevent_cse, policy: See `jax.checkpoint`.
      static_argnums: Arguments that are static.
    """

    def lift(function: Callable[..., Any]) -> Checkpointed:
        options = {"prevent_cse": prevent_cse, "policy": policy}
        return Checkpointed(
            function,
            options,
            static_argnums=static_argnums,
            structural=graph_updates is not False,
        )

    return lift if f is _UNSET else lift(f)
