"""Lifted `jax.jit`: functions of objects, compiled, at the cost of functions of arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from ..errors import LiftingError
from .effects import commit
from .graph import clone
from .graphdef import visits
from .lifting import Frame, Lifted, lift


class JitWrapped(Lifted):
    """A compiled function of objects; see `jit`."""

    lifts = staticmethod(jax.jit)
    what = "shardings"
    free = None  # An object that is returned has the shardings of the output, too (JIT-5).

    def __init__(self, function: Any, in_prefix: Any = None, *others: Any, **options: Any):
        super().__init__(function, in_prefix, *others, **options)
        self.by_position = in_prefix is not None  # There are no shardings for the others.

    def transform(self, frame: Frame) -> Callable[..., Any]:
        """`jax.jit`."""
        layout, definition, options = frame.layout, frame.definition, dict(self.options)
        gone = self.donated(layout.positional, layout.names)
        roots = [root for root, i in enumerate(layout.roots) if gone[i]]
        # Also the nodes that are reached through another argument first.
        starts = [definition.nodes[0].items[root][1] for root in roots]
        nodes = {way[1] for item in starts for way in visits(definition.nodes, item)}
        donated = [path[0] in roots or owner in nodes for path, owner in definition.leaves]
        numbers = [1 + any(donated) + k for k, i in enumerate(layout.plain) if gone[i]]
        if any(donated):
            frame.donated = frame.always = donated
            numbers.append(0)
        options["donate_argnums"] = numbers
        if self.in_prefix is not None:
            frame.placements = frame.asked
            options["in_shardings"] = frame.arguments(frame.asked, frame.plain)
        if self.in_prefix is not None or self.out_prefix is not None:
            options["out_shardings"] = frame.outside

        def run(leaves: Any, *others: Any) -> Any:
            if frame.donated:
                parts, rest, others = iter(leaves), iter(others[0]), others[1:]
                leaves = [next(parts if each else rest) for each in donated]
            return frame.run(leaves, *others)

        return jax.jit(named(run, self), **options)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The output with `jax.ShapeDtypeStruct` for arrays; nothing changes (JIT-9)."""
        call = frame, *_, values, plain = self.prepared(*clone((args, kwargs)))
        return commit(call, *frame.transformed.eval_shape(*frame.arguments(values, plain)))

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The traced form for these arguments (JIT-9)."""
        frame, *_, values, plain = self.prepared(args, kwargs)
        return Traced(frame.transformed.trace(*frame.arguments(values, plain)), self, frame)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The lowered form for these arguments (JIT-9)."""
        return self.trace(*args, **kwargs).lower()


def named(run: Callable[..., Any], function: Any) -> Callable[..., Any]:
    """The function to transform, with the name that the user knows."""
    run.__name__ = run.__qualname__ = getattr(function, "__name__", "function")
    return run


@dataclass(frozen=True)
class Stage:
    """A stage of JAX, with the objects around it, which says all that is not said here (JIT-9).

    To it, arguments are the donated leaves of objects, if any, the others, then plain arguments.
    """

    stage: Any
    jit_wrapped: JitWrapped
    frame: Frame

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "stage":  # A half-made copy asks for its own.
            raise AttributeError(name)
        is_own = name == type(self).__name__.lower()  # `traced`, `lowered`, `compiled`.
        return self.stage if is_own else getattr(self.stage, name)


class Compiled(Stage):
    """A compiled function, for arguments of one structure and shape."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do what a call of the function does; arguments of another structure are refused.

        Static arguments are compiled in, and are not passed again: as in JAX.
        """
        layout, positional, named = self.frame.layout, list(args), dict(kwargs)
        bound = len(self.jit_wrapped._bound)
        for place, value in zip(layout.statics, self.frame.statics, strict=True):
            if place < layout.positional:
                positional.insert(place - bound, value)
            else:
                named[layout.names[place - layout.positional]] = value
        call = frame, *_ = self.jit_wrapped.prepared(tuple(positional), named)
        if frame is not self.frame:
            raise LiftingError(
                "The compiled function was called with objects of another structure, or other "
                f"static arguments: compiled for {self.frame.definition!r}, called with "
                f"{frame.definition!r}. Lower and compile for the new ones."
            )
        return self.jit_wrapped.execute(call, self.stage)

    def __getattr__(self, name: str) -> Any:
        side, _, kind = name.partition("_")
        if kind in ("layouts", "formats"):  # JAX 0.4 calls them layouts, later ones formats.
            formats = f"{side}_formats"
            name = formats if hasattr(self.stage, formats) else f"{side}_layouts"
        return super().__getattr__(name)


class Lowered(Stage):
    """A function as the compiler gets it."""

    def compile(self, *args: Any, **options: Any) -> Compiled:
        """Compile it; see `jax.stages.Lowered.compile`."""
        return Compiled(self.stage.compile(*args, **options), self.jit_wrapped, self.frame)


class Traced(Stage):
    """A function traced to a program of JAX."""

    def lower(self, **options: Any) -> Lowered:
        """Lower it; see `jax.stages.Traced.lower`."""
        return Lowered(self.stage.lower(**options), self.jit_wrapped, self.frame)


def jit(
    fun: Any = None,
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

    What is not said here is as in `jax.jit`.

    Args:
      fun: The function; a method, a partial or a callable object too. Without it, a decorator.
      in_shardings: A prefix of the positional arguments: shardings, or `StateSharding` for
        objects. Variables have these shardings afterwards; two for one are an `AliasingError`.
      donate_argnums, donate_argnames: Variables of donated objects get new buffers.
      graph: Accepted and not needed: sharing is always kept.
      graph_updates: If False, values of variables come out, but no change of structure.
    """
    options = {"static_argnums": static_argnums, "static_argnames": static_argnames}
    options |= {"donate_argnums": donate_argnums, "donate_argnames": donate_argnames}
    options |= {"keep_unused": keep_unused, "inline": inline, "abstracted_axes": abstracted_axes}
    options |= {"device": device, "backend": backend}
    if fun is not None:
        chosen = {name: given for name, given in options.items() if given is not None}
        jax.jit(fun, **chosen)  # It refuses numbers and names that the function has not.
    return lift(JitWrapped, fun, in_shardings, out_shardings, graph_updates, **options)


def jit_partial(fun: Callable[..., Any], *args: Any, **options: Any) -> JitWrapped:
    """`jit` of a function with its first arguments bound."""
    return jit(functools.partial(fun, *args), **options)  # type: ignore[no-any-return]


def eval_shape(fun: Callable[..., Any], *args: Any, graph: Any = None, **kwargs: Any) -> Any:
    """The output of a function with `jax.ShapeDtypeStruct` for arrays; no argument changes."""
    return jit(fun).eval_shape(*args, **kwargs)
