"""Lifted `jax.jit`: functions of objects, compiled, at the cost of functions of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import PartitionSpec

from ..errors import AliasingError
from .lifting import Call, Frame, Lifted
from .outcomes import Groups
from .placing import concrete_shardings
from .prefixes import FilterPrefix, at, without_filters
from .stages import Lowered, Traced
from .walking import has_objects, walked

_UNSET: Any = object()


class JitFrame(Frame):
    """A frame in which an object that is returned has the shardings of the output (JIT-5)."""

    def _extra_values(self) -> list[Any]:
        """The shardings that the output can ask for."""
        leaves = jax.tree.leaves(self.out_prefix, is_leaf=_is_end)
        return [v for x in leaves for v in (x.values_ if isinstance(x, FilterPrefix) else (x,))]

    def report(self, nodes: list[Any], leaves: list[Any], out: Any) -> Any:
        """What happened, where leaves that are returned go out as the output is asked for."""
        groups = self.groups
        if self.out_prefix is not None and has_objects(out):
            self.groups = self._with_output(nodes, out)
        try:
            return super().report(nodes, leaves, out)
        finally:
            self.groups = groups

    def _with_output(self, nodes: list[Any], out: Any) -> Groups:
        values, of_leaf, place, always = self.groups
        groups, sent = list(of_leaf), list(always)
        numbers = {
            id(nodes[owner]): i
            for i, (_, _, owner) in enumerate(self.definition.leaves)
            if owner is not None
        }
        definition, found, _, _ = walked([out])
        for _, path, owner in definition.leaves:
            number = None if owner is None else numbers.get(id(found[owner]))
            if owner is None or number is None:
                continue
            asked, present = at(self.out_prefix, path, found[owner]), values[groups[number]]
            if asked is not None and present is None:
                groups[number], sent[number] = values.index(asked), True
            elif asked is not None and present != asked:
                places = (self.label(number), present), (f"output, path {path!r}", asked)
                raise AliasingError("shardings", found[owner], *places)
        return Groups(values, tuple(groups), place, tuple(sent))


def _is_end(value: Any) -> bool:
    return isinstance(value, FilterPrefix | PartitionSpec)


class JitWrapped(Lifted):
    """A compiled function of objects; see `jit`."""

    _what = "shardings"
    _frame_type = JitFrame

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], **lifted: Any):
        super().__init__(function, **lifted)
        self._options = options

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.jit`."""
        options = dict(self._options)
        if self.in_prefix is not None:
            donated, others = frame.parted(list(frame.asked))
            frame.placements = concrete_shardings(frame.asked)
            frame.plain_placements = frame.plain_prefixes
            options["in_shardings"] = (
                donated,
                others,
                *(without_filters(each) for each in frame.plain_prefixes),
            )
        if self.in_prefix is not None or self.out_prefix is not None:
            options["out_shardings"] = (
                None,
                frame.groups.values,
                without_filters(self.out_prefix),
            )
        numbers = (*((0,) if frame.split else ()), *(2 + k for k in frame.donated_plain))
        if numbers:
            options["donate_argnums"] = numbers
        return jax.jit(named(frame.run, self), **options)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The output with `jax.ShapeDtypeStruct` for arrays; nothing changes (JIT-9)."""
        from .graphs import clone

        call = self.prepared(*clone((args, kwargs)))
        outcome, groups, out = call.frame.transformed.eval_shape(  # type: ignore[attr-defined]
            *call.frame.parted(call.values), *call.plain
        )
        return self.commit(call, outcome, groups, out)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The traced form for these arguments (JIT-9)."""
        call = self.prepared(args, kwargs)
        traced = call.frame.transformed.trace(*_arrays(call))  # type: ignore[attr-defined]
        return Traced(traced, self, call.frame)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The lowered form for these arguments (JIT-9)."""
        call = self.prepared(args, kwargs)
        lowered = call.frame.transformed.lower(*_arrays(call))  # type: ignore[attr-defined]
        return Lowered(lowered, self, call.frame)


def _arrays(call: Call) -> tuple[Any, ...]:
    return (*call.frame.parted(call.values), *call.plain)


def named(run: Callable[..., Any], function: Any) -> Callable[..., Any]:
    """A function of its own for each frame, with the name that the user knows."""

    def inside(*args: Any) -> Any:
        return run(*args)

    inside.__name__ = inside.__qualname__ = getattr(function, "__name__", "function")
    return inside


def jit(
    fun: Any = _UNSET,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: Any = None,
    static_argnames: Any = None,
    donate_argnums: Any = None,
    donate_argnames: Any = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    abstracted_axes: Any = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """Compile a function of objects; they change as if it were not compiled (JIT-1).

    Args:
      fun: The function; a method, a partial or a callable object too. Without it, a decorator.
      in_shardings: A prefix of the positional arguments: shardings, or `StateSharding` for
        objects. Variables have these shardings afterwards.
      out_shardings: A prefix of the output.
      static_argnums: Arguments that are compiled in, by number; they must be hashable.
      static_argnames: The same, by name.
      donate_argnums: Arguments whose buffers may be used for results, by number.
      donate_argnames: The same, by name. Variables of donated objects get new buffers.
      keep_unused: See `jax.jit`, like `device`, `backend`, `inline` and `abstracted_axes`.
      graph: Accepted and not needed: sharing is always kept.
      graph_updates: If False, values of variables come out, but no change of structure.

    Raises:
      UnhashableStaticError: A static argument, or static data, is not hashable.
      AliasingError: One variable is reached at two places with different shardings (JIT-2).
    """
    options: dict[str, Any] = {"keep_unused": keep_unused, "inline": inline}
    given = {"device": device, "backend": backend, "abstracted_axes": abstracted_axes}
    options |= {name: value for name, value in given.items() if value is not None}

    def lift(function: Callable[..., Any]) -> JitWrapped:
        return JitWrapped(
            function,
            options,
            in_prefix=in_shardings,
            out_prefix=out_shardings,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            structural=graph_updates is not False,
        )

    return lift if fun is _UNSET else lift(fun)


def jit_partial(fun: Callable[..., Any], *args: Any, **options: Any) -> JitWrapped:
    """`jit` of a function with its first arguments bound."""
    return jit(functools.partial(fun, *args), **options)  # type: ignore[no-any-return]


def eval_shape(fun: Callable[..., Any], *args: Any, graph: Any = None, **kwargs: Any) -> Any:
    """The output of a function with `jax.ShapeDtypeStruct` for arrays; no argument changes."""
    return jit(fun).eval_shape(*args, **kwargs)
