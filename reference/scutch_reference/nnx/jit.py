"""Lifted `jax.jit`: functions of objects, compiled, at the cost of functions of arrays.

>>> import jax.numpy as jnp
>>> from scutch_reference import nnx
>>> counter = nnx.Dict(n=nnx.Variable(jnp.array(0)))
>>> @jit
... def count(counter, by):
...     counter.n.value += by
...     return counter
>>> count(counter, 3) is counter, int(counter.n.value)
(True, 3)
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

import jax
from jax.sharding import Mesh, NamedSharding, Sharding

from ..jax_versions import set_mesh
from ..placement import context_mesh
from ..types import Leaf, Prefix, Tree
from .axes import get_named_sharding
from .effects import commit
from .filters import Path
from .flatten import Plan
from .frames import Frame, PrefixRules, Transformed, separated
from .graph import PureState, clone, split
from .graphdef import occurrences
from .lifting import Lifted, P, R, lift
from .metadata import mesh_of, spec_of
from .stages import Lowered, Traced
from .traversals import map
from .variables import A, Variable


class JitWrapped(Lifted[P, R]):
    """A compiled function of objects; see `jit`.

    Args:
      function: The function.
      in_prefix: The `in_shardings` of `jit`; None leaves every array where it is.
      *args: The further arguments of `Lifted`: the `out_shardings`, and `graph_updates`.
      **options: Options of `Lifted` and of `jax.jit`.
    """

    lifts = staticmethod(jax.jit)
    # An object that is returned has the shardings of the output, too (JIT-5).
    rules = PrefixRules(what="shardings", none_is_free=True)

    def __init__(
        self, function: Callable[P, R], in_prefix: Prefix = None, *args: Any, **options: Any
    ):
        given = {name: option for name, option in options.items() if option is not None}
        if given:
            jax.jit(function, **given)  # Refuses arguments that the function has not (JIT-10).
        super().__init__(function, in_prefix, *args, **options)
        self.by_position = in_prefix is not None  # JAX has no shardings of keyword arguments.

    def transform(self, frame: Frame, run: Callable[..., Any]) -> Transformed:
        """Return `jax.jit` of a function of leaves, with shardings and donation per leaf.

        Args:
          frame: The frame of a call.
          run: The function.
        """
        signature = frame.signature
        is_donated = self.donated(signature.positional, signature.names)
        donated = _donated_leaves(frame, is_donated)
        count = len(separated(donated, donated))  # Of lists of leaves; the donated come first.
        numbers = [count + k for k, i in enumerate(signature.plain) if is_donated[i]]
        options = {**self.options, "donate_argnums": [0, *numbers] if donated else numbers}
        placements = () if self.in_prefix is None else frame.leaf_prefixes
        if self.in_prefix is not None:
            options["in_shardings"] = (*separated(placements, donated), *frame.plain_prefixes)
        if self.in_prefix is not None or self.out_prefix is not None:
            options["out_shardings"] = frame.outside
        run = _donating(run, donated) if donated else run
        return Transformed(frame, jax.jit(run, **options), donated, placements)

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the output with `jax.ShapeDtypeStruct` for arrays; nothing changes (JIT-9)."""
        transformed, _, roots, values, plain = self.prepared(args, kwargs)
        shapes = transformed.function.eval_shape(*transformed.arguments(values, plain))
        copies = clone(roots)  # Bound objects are among them.
        call = (transformed, Plan(copies), copies, values, plain)
        return commit(call, *shapes)  # type: ignore[no-any-return]

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Traced[P, R]:
        """Return the traced form for these arguments; nothing changes (JIT-9)."""
        transformed, _, _, values, plain = self.prepared(args, kwargs)
        traced = transformed.function.trace(*transformed.arguments(values, plain))
        return Traced(traced, self, transformed)

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered[P, R]:
        """Return the lowered form for these arguments; nothing changes (JIT-9)."""
        return self.trace(*args, **kwargs).lower()


def _donated_leaves(frame: Frame, is_donated: Sequence[bool]) -> list[bool]:
    """Return whether each leaf belongs to a donated argument; an empty list: none does (JIT-4)."""
    signature, definition = frame.signature, frame.definition
    roots = [root for root, i in enumerate(signature.roots) if is_donated[i]]
    # Also the nodes that occur in another argument first.
    items = [definition.nodes[0].items[root][1] for root in roots]
    nodes = {each[1] for item in items for each in occurrences(definition.nodes, item)}
    donated = [path[0] in roots or owner in nodes for path, owner in definition.leaves]
    return donated if any(donated) else []


def _donating(run: Callable[..., Any], donated: Sequence[bool]) -> Callable[..., Any]:
    """The function with its leaves as `separated` arranges them; it outputs the donated ones."""

    @functools.wraps(run)
    def donating(gone: Sequence[Tree], kept: Sequence[Tree], *plain: Tree) -> Tree:
        parts = iter(gone), iter(kept)
        leaves = [next(parts[not is_gone]) for is_gone in donated]
        return run(leaves, *plain, always_out=donated)

    return donating


@overload
def jit(
    fun: Callable[P, R],
    *,
    in_shardings: Prefix = None,
    out_shardings: Prefix = None,
    static_argnums: int | tuple[int, ...] | list[int] | None = None,
    static_argnames: str | tuple[str, ...] | list[str] | None = None,
    donate_argnums: int | tuple[int, ...] | list[int] | None = None,
    donate_argnames: str | tuple[str, ...] | list[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    abstracted_axes: Any = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> JitWrapped[P, R]:
    """With the function: the transformed one."""


@overload
def jit(
    *,
    in_shardings: Prefix = None,
    out_shardings: Prefix = None,
    static_argnums: int | tuple[int, ...] | list[int] | None = None,
    static_argnames: str | tuple[str, ...] | list[str] | None = None,
    donate_argnums: int | tuple[int, ...] | list[int] | None = None,
    donate_argnames: str | tuple[str, ...] | list[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    abstracted_axes: Any = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Callable[[Callable[P, R]], JitWrapped[P, R]]:
    """Without the function: a decorator."""


def jit(
    fun: Any = None,
    *,
    in_shardings: Prefix = None,
    out_shardings: Prefix = None,
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

    Arguments may be objects, trees of objects and arrays, and arrays. An object that occurs several
    times among them is one object inside (JIT-2). A change of structure costs one trace (JIT-3).

    Args:
      fun: The function; a method, a partial function or a callable object, too. Without it, this
        returns a decorator.
      in_shardings: A prefix of the positional arguments that are not static: shardings, or
        `StateSharding` for objects. Variables have these shardings afterwards (JIT-5). None leaves
        an array where it is, and so are keyword arguments.
      out_shardings: A prefix of the output; objects that are returned have these shardings, too.
      static_argnums: Numbers of arguments that are compiled in; they are hashable (JIT-4).
      static_argnames: Names of such arguments.
      donate_argnums: Numbers of arguments whose buffers may be reused. Variables of donated objects
        have new ones afterwards (JIT-4).
      donate_argnames: Names of such arguments.
      keep_unused: As in `jax.jit`.
      device: As in `jax.jit`.
      backend: As in `jax.jit`.
      inline: As in `jax.jit`.
      abstracted_axes: As in `jax.jit`.
      graph: Accepted and not needed: sharing is always kept.
      graph_updates: If False, objects get new values and metadata of variables, but no changes of
        structure.

    Returns:
      A function with the parameters of `fun`, and the methods `trace`, `lower` and `eval_shape`.

    Raises:
      TypeError: This JAX has no such option.
      AliasingError: When called: one variable has two different shardings (JIT-2).
      UnhashableStaticError: When called: a static argument, or static data of an object, has no
        hash (JIT-4).
      TraceLevelError: When called inside another transformation: it changes an object that was
        made outside of that.
      LeakedTracerError: When called: a variable holds a tracer of a transformation that is over.
    """
    return lift(
        JitWrapped,
        fun,
        in_shardings,
        out_shardings,
        graph_updates,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,
        keep_unused=keep_unused,
        device=device,
        backend=backend,
        inline=inline,
        abstracted_axes=abstracted_axes,
    )


def jit_partial(fun: Callable[..., R], *args: Tree, **options: Any) -> JitWrapped[..., R]:
    """Compile a function with its first arguments bound; see `jit` (JIT-7).

    Args:
      fun: The function.
      *args: Its first arguments. Objects among them change as if they were passed.
      **options: Options of `jit`; `in_shardings` are for the bound arguments and the others.

    Returns:
      A compiled function of the other arguments, with the methods of `JitWrapped`.
    """
    jitted: JitWrapped[..., R] = jit(functools.partial(fun, *args), **options)
    jitted.without_prefix -= len(args)
    return jitted


def eval_shape(
    fun: Callable[..., R],
    *args: Tree,
    graph: bool | None = None,
    graph_updates: bool | None = None,
    **kwargs: Tree,
) -> R:
    """Return the output of a function with `jax.ShapeDtypeStruct` for arrays (JIT-9, OBJ-9j).

    No argument changes.

    Args:
      fun: A function of objects.
      *args: Its arguments; arrays may be abstract, too.
      graph: Accepted and not needed: sharing is always kept.
      graph_updates: As in `jit`; no argument changes in any case.
      **kwargs: Its keyword arguments.

    Returns:
      The output, with a `jax.ShapeDtypeStruct` of the same shape and dtype in the place of each
      array, and of the sharding that `as_abstract` gives variables; objects in it are new.
    """
    return as_abstract(JitWrapped(fun, None, None, graph_updates).eval_shape(*args, **kwargs))


def cached_partial(
    f: Callable[..., R], *args: Tree, graph: bool | None = None, graph_updates: bool | None = None
) -> Callable[..., R]:
    """Bind the first arguments of a lifted function (JIT-12).

    Binding makes no call faster, because the first object of a call keeps the plan of the call
    anyway. A change of structure costs one trace (JIT-3).

    Args:
      f: The function, such as a `JitWrapped`.
      *args: Its first arguments. Objects among them change as if they were passed.
      graph: Accepted and not needed: sharing is always kept.
      graph_updates: Accepted and not needed: the function has its own.

    Returns:
      A function of the other arguments.
    """
    return functools.partial(f, *args)


def _sharded(value: Leaf, sharding: Sharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=sharding)  # type: ignore[no-untyped-call]


def as_abstract(tree: A, graph: bool | None = None) -> A:
    """Return a copy in which abstract variables have the shardings that they ask for (OBJ-9).

    Args:
      tree: An object, or a tree of objects and arrays, such as `eval_shape` returns.
      graph: Accepted, here and below, and not needed: sharing is always kept.

    Returns:
      The copy. A variable whose metadata name axes, and whose value has a shape and a dtype and no
      sharding, holds a `jax.ShapeDtypeStruct` with the sharding on its own mesh, or on the mesh in
      context; others are as they were, also where there is no mesh.
    """

    def with_sharding(path: Path, leaf: Leaf) -> Leaf:
        value = leaf.get_raw_value() if isinstance(leaf, Variable) else None
        is_open = hasattr(value, "dtype") and getattr(value, "sharding", None) is None
        metadata = leaf.raw_metadata if is_open else {}
        spec, mesh = spec_of(metadata), mesh_of(metadata) or context_mesh()
        if spec is None or mesh is None:
            return leaf
        return leaf.replace(_sharded(value, NamedSharding(mesh, spec)))

    return map(with_sharding, tree)


abstract_with_sharding = as_abstract  # Its older name.


def get_abstract_model(
    init_fn: Callable[[], A], mesh: Mesh, *, graph: bool | None = None
) -> PureState[A]:
    """Return the definition and the abstract state of a model, with shardings (OBJ-9, LOG-7).

    Args:
      init_fn: Makes the model; it is traced, with the mesh in context.
      mesh: The mesh of the shardings.
      graph: Accepted and not needed: sharing is always kept.

    Returns:
      The definition, and a state of variables that hold a `jax.ShapeDtypeStruct` with a sharding;
      a variable whose metadata name no axes is replicated.
    """
    with set_mesh(mesh):
        definition, state = split(eval_shape(init_fn))
        return definition, jax.tree.map(_sharded, state, get_named_sharding(state, mesh))
