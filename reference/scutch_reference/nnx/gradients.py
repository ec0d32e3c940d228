"""Lifted `grad`, `value_and_grad` and `remat`: derivatives with respect to variables in objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from ..errors import LiftingError
from .definitions import built
from .layouts import Layout
from .lifting import Frame, Lifted, lift
from .prefixes import FilterPrefix
from .states import from_flat_state
from .variables import Param
from .walking import entries, is_object


@dataclass(frozen=True)
class DiffState:
    """Differentiate with respect to what a filter takes in an argument."""

    argnum: int
    filter: Any


class Differentiated(Lifted):
    """A function of objects that returns gradients; see `grad`.

    What is asked of a leaf is the number of the gradient that it has a part in.
    """

    def __init__(self, *args: Any, argnums: Any, has_aux: bool, with_value: bool, **options: Any):
        super().__init__(*args, **options)
        self._is_single = isinstance(argnums, int | DiffState)
        self._wanted = [
            each if isinstance(each, DiffState) else DiffState(each, Param)
            for each in ([argnums] if self._is_single else argnums)
        ]
        self._has_aux, self._with_value = has_aux, with_value

    def _arguments(self, layout: Layout) -> list[int]:
        """The number of the argument that each gradient is for."""
        count, bound, found = layout.positional, len(self._bound), []
        for wanted in self._wanted:
            found.append(wanted.argnum + (bound if wanted.argnum >= 0 else count))
            if not bound <= found[-1] < count:
                raise LiftingError(
                    f"Cannot differentiate with respect to argument {wanted.argnum}: the function "
                    f"got {count - bound} positional arguments."
                )
        return found

    def prefixes(self, layout: Layout) -> tuple[Any, ...]:
        """For each argument, the filters of its gradients."""
        filters: list[list[Any]] = [[] for _ in layout.roles]
        for number, i in enumerate(self._arguments(layout)):
            filters[i].append((self._wanted[number].filter, number))
        return tuple(FilterPrefix([*each, (..., None)]) if each else None for each in filters)

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.value_and_grad`, with what happened to the objects as auxiliary output."""
        layout, arguments = frame.layout, self._arguments(frame.layout)

        def transformed(values: list[Any], *plain: Any) -> Any:
            everything, count, asked = [*values, *plain], len(values), frame.asks(values)
            # For each gradient, the numbers of its leaves among everything.
            chosen = [
                [count + layout.plain.index(i)]
                if i in layout.plain
                else [n for n, each in enumerate(asked) if each == number]
                for number, i in enumerate(arguments)
            ]

            def loss(parts: dict[int, Any]) -> Any:
                now = [parts.get(n, each) for n, each in enumerate(everything)]
                outcome, groups, out = frame.run(now[:count], *now[count:])
                return (out[0] if self._has_aux else out), (outcome, groups, out)

            differentiated = jax.value_and_grad(loss, has_aux=True, **self.options)
            parts = {n: everything[n] for numbers in chosen for n in numbers}
            (_, (outcome, groups, out)), parts = differentiated(parts)
            roots, nodes = built(frame.definition, values)
            found: list[Any] = []
            for i, numbers in zip(arguments, chosen, strict=True):
                flat = {}
                for n in numbers:
                    owner = frame.owners[n] if n < count else None
                    leaf = parts[n] if owner is None else nodes[owner].replace(parts[n])
                    flat[frame.paths[n][1:] if n < count else ()] = leaf
                is_plain = i in layout.plain
                found.append(flat[()] if is_plain else _like(roots[layout.roots.index(i)], flat))
            gradients = found[0] if self._is_single else tuple(found)
            if self._with_value:
                return outcome, groups, (out, gradients)
            return outcome, groups, (gradients, out[1]) if self._has_aux else gradients

        return transformed


def _like(root: Any, flat: dict[Any, Any]) -> Any:
    """States in place of the objects in an argument."""
    if is_object(root):
        return from_flat_state(flat)

    def part(keys: Any, value: Any) -> Any:
        path = entries(keys)
        below = {p[len(path) :]: each for p, each in flat.items() if p[: len(path)] == path}
        return _like(value, below) if is_object(value) else below.get(())

    return jax.tree_util.tree_map_with_path(part, root, is_leaf=is_object)


def grad(
    f: Any = None,
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
    options = {"argnums": argnums, "has_aux": has_aux, "with_value": False}
    options |= {"holomorphic": holomorphic, "allow_int": allow_int}
    return lift(Differentiated, f, graph_updates=graph_updates, **options)


def value_and_grad(
    f: Any = None,
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
    options = {"argnums": argnums, "has_aux": has_aux, "with_value": True}
    options |= {"holomorphic": holomorphic, "allow_int": allow_int}
    return lift(Differentiated, f, graph_updates=graph_updates, **options)


class Checkpointed(Lifted):
    """A function of objects that is computed again for its gradient; see `remat`."""

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.checkpoint`."""
        return jax.checkpoint(frame.run, **self.options)


def remat(
    f: Any = None,
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
    options = {"prevent_cse": prevent_cse, "policy": policy, "static_argnums": static_argnums}
    return lift(Checkpointed, f, graph_updates=graph_updates, **options)
