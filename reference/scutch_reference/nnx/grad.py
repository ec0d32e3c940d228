"""Lifted `grad`, `value_and_grad` and `remat`: derivatives with respect to variables in objects."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from ..errors import LiftingError
from .filters import Path, to_predicate
from .flatten import is_object
from .graph import pure, state
from .graphdef import built
from .lifting import Frame, Lifted, lift
from .variables import Param


@dataclass(frozen=True)
class DiffState:
    """Differentiate with respect to what a filter takes in an argument."""

    argnum: int
    filter: Any


class _Number(int):
    """The number of a leaf, in its place."""


class Differentiated(Lifted):
    """A function of objects that returns gradients; see `grad`."""

    lifts = staticmethod(jax.value_and_grad)

    def __init__(self, *args: Any, argnums: Any, with_value: bool = False, **options: Any):
        self._with_value, self._has_aux = with_value, options.pop("has_aux", False)
        super().__init__(*args, **options)
        self._is_single = isinstance(argnums, int | DiffState)
        given = [argnums] if self._is_single else argnums
        self._wanted = [g if isinstance(g, DiffState) else DiffState(g, Param) for g in given]

    def _numbers(self, frame: Frame, leaves: list[Any]) -> list[Any]:
        """For each gradient, a tree of the numbers of its leaves; plain arguments come last."""
        layout, bound, taken, found = frame.layout, len(self._bound), set[int](), list[Any]()
        numbered = built(frame.definition, list(map(_Number, range(len(leaves)))))[0]

        def takes(path: Path, leaf: Any) -> bool:
            number = pure(leaf)
            return number not in taken and predicate(path, leaves[number])

        def chosen(part: Any) -> Any:
            if is_object(part):
                return state(part, takes)
            return part if isinstance(part, _Number) and takes((), part) else None

        for wanted in self._wanted:
            i = wanted.argnum + (bound if wanted.argnum >= 0 else layout.positional)
            if not bound <= i < layout.positional:
                raise LiftingError(
                    f"Cannot differentiate with respect to argument {wanted.argnum}: the function "
                    f"got {layout.positional - bound} positional arguments."
                )
            if i in layout.plain:
                found.append(len(leaves) + layout.plain.index(i))
            else:
                part, predicate = numbered[layout.roots.index(i)], to_predicate(wanted.filter)
                found.append(jax.tree.map(chosen, part, is_leaf=is_object))
                taken.update(jax.tree.leaves(found[-1]))
        return found

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.value_and_grad`, with what happened to the objects as auxiliary output."""

        def transformed(values: list[Any], *plain: Any) -> Any:
            nodes, count = built(frame.definition, values), len(values)
            pairs = zip(frame.owners, values, strict=True)
            numbers = self._numbers(frame, [v if i is None else nodes[i] for i, v in pairs])

            def loss(parts: list[Any]) -> Any:
                now = [*values, *plain]
                jax.tree.map(now.__setitem__, numbers, parts)
                outcome, groups, out = frame.run(now[:count], *now[count:])
                return (out[0] if self._has_aux else out), (outcome, groups, out)

            differentiated = jax.value_and_grad(loss, has_aux=True, **self.options)
            start = jax.tree.map([*values, *plain].__getitem__, numbers)
            (_, (outcome, groups, out)), found = differentiated(start)
            gradients = found[0] if self._is_single else tuple(found)
            if self._with_value:
                return outcome, groups, (out, gradients)
            return outcome, groups, (gradients, out[1]) if self._has_aux else gradients

        return transformed


def grad(f: Any = None, *, argnums: Any = 0, **options: Any) -> Any:
    """The gradient of a function of objects: for an object a `State` of variables that hold it.

    Args:
      argnums: One argument or several to differentiate by: numbers (for objects, their `Param`s),
        or `DiffState`s with other filters. Other options are those of `jax.grad` and `jit`.
    """
    return lift(Differentiated, f, argnums=argnums, **options)


def value_and_grad(f: Any = None, *, argnums: Any = 0, **options: Any) -> Any:
    """The output of a function of objects and its gradient; see `grad`."""
    return lift(Differentiated, f, argnums=argnums, with_value=True, **options)


class Checkpointed(Lifted):
    """A function of objects that is computed again for its gradient; see `remat`."""

    lifts = staticmethod(jax.checkpoint)

    def __init__(self, *args: Any, static_argnums: Any = None, **options: Any):
        super().__init__(*args, static_argnums=static_argnums, **options)
        self._static = (static_argnums,) if isinstance(static_argnums, int) else static_argnums

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.checkpoint`."""
        count = frame.layout.positional - len(self._bound)
        if missing := [n for n in self._static or () if not -count <= n < count]:
            raise ValueError(f"static_argnums has {missing}, and the call {count} by position.")
        return jax.checkpoint(frame.run, **self.options)


def remat(f: Any = None, **options: Any) -> Any:
    """Compute a function of objects again for its gradient; see `jax.checkpoint`, and `jit`."""
    return lift(Checkpointed, f, **options)
