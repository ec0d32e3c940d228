"""Lifted `grad`, `value_and_grad` and `remat`: derivatives with respect to variables in objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from ..errors import LiftingError
from .definitions import built
from .filters import to_predicate
from .lifting import Frame, Lifted, lift
from .states import from_flat_state
from .variables import Param, Variable
from .walking import entries, is_object


@dataclass(frozen=True)
class DiffState:
    """Differentiate with respect to what a filter takes in an argument."""

    argnum: int
    filter: Any


class Differentiated(Lifted):
    """A function of objects that returns gradients; see `grad`."""

    def __init__(self, *args: Any, argnums: Any, has_aux: bool, with_value: bool, **options: Any):
        super().__init__(*args, **options)
        self._is_single = isinstance(argnums, int | DiffState)
        given = [argnums] if self._is_single else argnums
        self._wanted = [g if isinstance(g, DiffState) else DiffState(g, Param) for g in given]
        self._has_aux, self._with_value = has_aux, with_value

    def _numbers(self, frame: Frame, roots: list[Any], leaves: list[Any]) -> list[Any]:
        """For each gradient, a tree of the numbers of its leaves; plain arguments come last."""
        layout, bound, taken, found = frame.layout, len(self._bound), set[int](), list[Any]()
        for wanted in self._wanted:
            i = wanted.argnum + (bound if wanted.argnum >= 0 else layout.positional)
            if not bound <= i < layout.positional:
                raise LiftingError(
                    f"Cannot differentiate with respect to argument {wanted.argnum}: the function "
                    f"got {layout.positional - bound} positional arguments."
                )
            if i in layout.plain:
                found.append(len(leaves) + layout.plain.index(i))
                continue
            flat, takes = {}, to_predicate(wanted.filter)
            for n, (root, *path) in enumerate(frame.paths):
                if layout.roots[root] == i and n not in taken and takes(tuple(path), leaves[n]):
                    flat[tuple(path)] = n
            taken.update(flat.values())
            found.append(_like(roots[layout.roots.index(i)], flat))
        return found

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.value_and_grad`, with what happened to the objects as auxiliary output."""

        def transformed(values: list[Any], *plain: Any) -> Any:
            nodes = built(frame.definition, values)
            pairs = zip(frame.owners, values, strict=True)
            leaves = [value if owner is None else nodes[owner] for owner, value in pairs]
            numbers = self._numbers(frame, nodes[0], leaves)

            def loss(parts: list[Any]) -> Any:
                now = [*leaves, *plain]
                jax.tree.map(now.__setitem__, numbers, parts)
                raw = [x.get_raw_value() if isinstance(x, Variable) else x for x in now]
                outcome, groups, out = frame.run(raw[: len(leaves)], *raw[len(leaves) :])
                return (out[0] if self._has_aux else out), (outcome, groups, out)

            differentiated = jax.value_and_grad(loss, has_aux=True, **self.options)
            start = jax.tree.map([*leaves, *plain].__getitem__, numbers)
            (_, (outcome, groups, out)), found = differentiated(start)
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
    _with_value: bool = False,
) -> Any:
    """The gradient of a function of objects: for an object a `State` of variables that hold it.

    Args:
      argnums: One argument or several to differentiate by: numbers (for objects, their `Param`s),
        or `DiffState`s with other filters. Other options are those of `jax.grad` and `jit`.
    """
    options = {"argnums": argnums, "has_aux": has_aux, "with_value": _with_value}
    options |= {"holomorphic": holomorphic, "allow_int": allow_int}
    return lift(Differentiated, f, graph_updates=graph_updates, **options)


def value_and_grad(f: Any = None, **options: Any) -> Any:
    """The output of a function of objects and its gradient; the options are those of `grad`."""
    return grad(f, **options, _with_value=True)


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
    """Compute a function of objects again for its gradient; see `jax.checkpoint`, and `jit`."""
    options = {"prevent_cse": prevent_cse, "policy": policy, "static_argnums": static_argnums}
    return lift(Checkpointed, f, graph_updates=graph_updates, **options)
