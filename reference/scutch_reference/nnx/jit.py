"""Lifted `jax.jit`: functions of objects, compiled, at the cost of functions of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from .graphs import clone
from .lifting import UNSET, Frame, Lifted, lift
from .outcomes import below
from .stages import Lowered, Traced


class JitWrapped(Lifted):
    """A compiled function of objects; see `jit`."""

    what = "shardings"
    free = None  # An object that is returned has the shardings of the output, too (JIT-5).

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        donate_argnums: Any = None,
        donate_argnames: Any = None,
        **options: Any,
    ):
        super().__init__(function, **options)
        self._donated = self._choice(donate_argnums, donate_argnames)

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.jit`."""
        layout, definition, options = frame.layout, frame.definition, dict(self.options)
        gone = self._donated.among(layout.positional, layout.names)
        roots = {root for root, i in enumerate(layout.roots) if gone[i]}
        items, seen = [definition.roots[root] for root in roots], set[int]()
        # Also the nodes that are reached through another argument first.
        nodes = {n for item in items for _, n in below(definition.nodes, item, (), seen)}
        donated = [root in roots or owner in nodes for root, _, owner in definition.leaves]
        if any(donated):
            frame.donated = frame.always = donated
        numbers = [1 + any(donated) + k for k, i in enumerate(layout.plain) if gone[i]]
        if any(donated) or numbers:
            options["donate_argnums"] = (*[0] * any(donated), *numbers)
        if self.in_prefix is not None:
            frame.placements = frame.asked
            options["in_shardings"] = frame.arguments(frame.asked, frame.plain)
        if self.in_prefix is not None or self.out_prefix is not None:
            options["out_shardings"] = (None, tuple(frame.groups), frame.out)

        def run(leaves: Any, *others: Any) -> Any:
            if not frame.donated:
                return frame.run(leaves, *others)
            parts, (rest, *plain) = (iter(leaves), others)
            rest = iter(rest)
            return frame.run([next(parts if d else rest) for d in donated], *plain)

        return jax.jit(named(run, self), **options)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The output with `jax.ShapeDtypeStruct` for arrays; nothing changes (JIT-9)."""
        frame, plan, roots, values, plain = self.prepared(*clone((args, kwargs)))
        transformed: Any = frame.transformed
        found = transformed.eval_shape(*frame.arguments(values, plain))
        return self.commit(frame, plan, roots, values, *found)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The traced form for these arguments (JIT-9)."""
        frame, _, _, values, plain = self.prepared(args, kwargs)
        transformed: Any = frame.transformed
        return Traced(transformed.trace(*frame.arguments(values, plain)), self, frame)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The lowered form for these arguments (JIT-9)."""
        return self.trace(*args, **kwargs).lower()


def named(run: Callable[..., Any], function: Any) -> Callable[..., Any]:
    """The function to transform, with the name that the user knows."""
    run.__name__ = run.__qualname__ = getattr(function, "__name__", "function")
    return run


def jit(
    fun: Any = UNSET,
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
      static_argnums, static_argnames: Arguments that are compiled in; they must be hashable.
      donate_argnums, donate_argnames: Arguments whose buffers may be used for results. Variables
        of donated objects get new buffers.
      keep_unused: See `jax.jit`, like `device`, `backend`, `inline` and `abstracted_axes`.
      graph: Accepted and not needed: sharing is always kept.
      graph_updates: If False, values of variables come out, but no change of structure.

    Raises:
      UnhashableStaticError: A static argument, or static data, is not hashable.
      AliasingError: One variable is reached at two places with different shardings (JIT-2).
    """
    return lift(
        JitWrapped,
        fun,
        in_prefix=in_shardings,
        out_prefix=out_shardings,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,
        keep_unused=keep_unused,
        device=device,
        backend=backend,
        inline=inline,
        abstracted_axes=abstracted_axes,
        graph_updates=graph_updates,
    )


def jit_partial(fun: Callable[..., Any], *args: Any, **options: Any) -> JitWrapped:
    """`jit` of a function with its first arguments bound."""
    return jit(functools.partial(fun, *args), **options)  # type: ignore[no-any-return]


def eval_shape(fun: Callable[..., Any], *args: Any, graph: Any = None, **kwargs: Any) -> Any:
    """The output of a function with `jax.ShapeDtypeStruct` for arrays; no argument changes."""
    return jit(fun).eval_shape(*args, **kwargs)
