"""Transformations of JAX, lifted over modules (LIN-2 to LIN-4, LIN-8).

Each takes a module class and returns one, or a function whose first argument is a module and
returns one. When it is called, the variables of its scope become arguments of the transformed
function, and those that may have changed become results. A box among them loses the axis on the
way in and gains it on the way out, by its own methods.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import tree_flatten

from .. import meta
from ..errors import ModuleError
from .module import Module
from .scope import Chosen, CollectionFilter, Root, Scope, copied, hashable, matches

Axes = Mapping[CollectionFilter, Any]
NO_AXES: Axes = MappingProxyType({})
NO_NAMES: Mapping[Any, Any] = MappingProxyType({})


_flat: Callable[[Any], tuple[list[Any], Any]] = tree_flatten


class _Broadcast:
    """The axis of what has none: the same for every step."""

    def __repr__(self) -> str:
        return "broadcast"


broadcast = _Broadcast()


@dataclass
class _Call:
    """One call of a lifted function: the module it is called on, and what it does with one."""

    module: Module
    cls: type[Module]
    function: Callable[..., Any]
    kwargs: Mapping[str, Any]
    last: Any = None
    """The copy of the module that ran last."""

    @property
    def scope(self) -> Scope:
        return self.module._scope

    @functools.cached_property
    def paths(self) -> list[tuple[str, ...]]:
        """The places that the module reaches: its own, and those of bound modules in its fields."""
        found = sorted({module.scope.path for module in _reached(self.module)})
        return [p for p in found if not any(p[:i] in found for i in range(len(p)))]

    @functools.cached_property
    def base(self) -> int:
        """How long a path all of them begin with; what lies there goes in and comes out."""
        same = [len(set(names)) == 1 for names in zip(*self.paths, strict=False)]
        return next((i for i, each in enumerate(same) if not each), len(same))

    def collections(self, choice: CollectionFilter) -> dict[str, Any]:
        """What the places hold of the collections that a filter takes."""
        found: dict[str, Any] = {}
        for name in filter(functools.partial(matches, choice), self.scope.root.variables):
            for path in self.paths:
                if held := Scope(self.scope.root, path).collection(name):
                    Scope(Root(found, base=self.base), path).replace(name, held)
        return found

    def run(
        self, variables: Mapping[str, Any], mutable: CollectionFilter, rngs: Any, args: Any
    ) -> tuple[Any, Root]:
        """Call the function on a copy of the module that has these variables."""
        outer = self.scope.root
        root = Root(
            copied(variables), mutable, rngs, outer.initializing, self.base, outer.counts,
            capture=outer.capture,
        )  # fmt: skip
        inner = self.module._bound(
            Scope(root, self.scope.path), self.module.name, self.module.parent, self.cls
        )
        if type(self.module) is self.cls:  # A function: it goes on where its module is.
            names = {name: dict(kinds) for name, kinds in self.module._taken.items()}
            inner._set(_taken=names, _counters=dict(self.module._counters), _defining=True)
        output = inner.run(self.function, args, self.kwargs)
        self.last = inner
        return output, root

    def keys(self, splits: Mapping[Any, bool], length: int | None) -> tuple[Any, Any]:
        """The streams that are split, a key for each step or lane, and those that are not."""
        streams = {
            name: next((split for choice, split in splits.items() if matches(choice, name)), None)
            for name in self.scope.root.rngs
        }
        split = {
            name: jax.random.split(self.scope.make_rng(name), length)
            for name, its in streams.items()
            if its and length is not None
        }
        return split, {n: self.scope.root.rngs[n] for n, its in streams.items() if its is False}

    def mutable(self, *choices: CollectionFilter) -> Chosen:
        """The collections that are mutable outside and taken by one of the filters."""
        outside = self.scope.root.mutable
        return Chosen(lambda n: matches(outside, n) and any(matches(c, n) for c in choices))

    def write(self, collections: Mapping[str, Any]) -> None:
        """Give the scope what the transformed function returned, and the names it took."""
        if type(self.module) is self.cls:
            self.module._set(_taken=self.last._taken, _counters=self.last._counters)
        held = Root(dict(collections), base=self.base)
        for name in collections:
            for path in self.paths:
                if tree := Scope(held, path).collection(name):
                    Scope(self.scope.root, path).replace(name, tree)


def _reached(value: Any) -> list[Module]:
    """The bound modules in a value, and in the fields of those."""
    if isinstance(value, Module):
        return [value] * (value.scope is not None) + _reached(value._fields())
    if isinstance(value, Mapping):
        value = list(value.values())
    return [m for v in value for m in _reached(v)] if type(value) in (list, tuple) else []


def _lifted(
    target: Any, prefix: str, methods: Sequence[str] | None, transform: Callable[..., Any]
) -> Any:
    """The target, with `transform(call, args)` in the place of its methods, or of itself."""
    if not (isinstance(target, type) and issubclass(target, Module)):

        @functools.wraps(target)
        def lifted(module: Module, *args: Any, **kwargs: Any) -> Any:
            return transform(_Call(module, type(module), target, kwargs), args)

        return lifted

    def method(name: str) -> Callable[..., Any]:
        function = getattr(target, name)

        @functools.wraps(function)
        def call(self: Module, *args: Any, **kwargs: Any) -> Any:
            return transform(_Call(self, target, function, kwargs), args)

        call.nowrap = True  # type: ignore[attr-defined]
        return call

    names = [methods] if isinstance(methods, str) else methods or ["__call__"]
    parts: dict[str, Any] = {name: method(name) for name in names}
    parts |= {"setup": Module.setup, "__module__": target.__module__, "__doc__": target.__doc__}
    return type(prefix + target.__name__, (target,), parts)


def _grouped(axes: Axes, collections: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """The collections by the first filter that takes each."""
    groups: tuple[dict[str, Any], ...] = tuple({} for _ in axes)
    for name, tree in collections.items():
        place = next((i for i, choice in enumerate(axes) if matches(choice, name)), None)
        if place is not None:
            groups[place][name] = tree
    return groups


def _renamed(change: Any, groups: Sequence[Any], axes: Axes, params: Mapping[Any, Any]) -> Any:
    """The groups with an axis named, or its name removed, where the group has one."""
    pairs = zip(groups, axes.values(), strict=True)
    return tuple(g if axis is None else change(g, axis, params) for g, axis in pairs)


def _joined(groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: tree for group in groups for name, tree in group.items()}


def _is_axis(value: Any) -> bool:
    return value is None or value is broadcast


def _leaf_axes(axes: Any, tree: Any) -> list[Any]:
    """The axis of each leaf, from a tree prefix of axes."""
    found: list[Any] = []
    jax.tree.map(
        lambda axis, part: found.extend([axis] * len(jax.tree.leaves(part))),
        axes, tree, is_leaf=_is_axis,
    )  # fmt: skip
    return found


def _size(given: int | None, axes: Any, tree: Any, kind: str) -> int | None:
    """The length of the axis that a call goes along; `None` where nothing has one.

    Raises:
      ModuleError: Two lengths.
    """
    leaves = zip(jax.tree.leaves(tree), _leaf_axes(axes, tree), strict=True)
    sizes = {jnp.shape(leaf)[axis] for leaf, axis in leaves if not _is_axis(axis)}
    sizes |= set() if given is None else {given}
    if len(sizes) > 1:
        raise ModuleError(f"{kind} goes along one axis, but the sizes are {sorted(sizes)!r}.")
    return next(iter(sizes), None)


def vmap(
    target: Any,
    variable_axes: Axes = NO_AXES,
    split_rngs: Mapping[Any, bool] = NO_AXES,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    axis_name: str | None = None,
    spmd_axis_name: str | None = None,
    metadata_params: Mapping[Any, Any] = NO_NAMES,
    methods: Sequence[str] | None = None,
) -> Any:
    """Call a module in lanes, each with its slice of the variables (LIN-2, LIN-4).

    Args:
      target: A module class, or a function of a module and its arguments.
      variable_axes: For a filter of collections, the axis of their variables, or `None` for
        variables that all lanes share. Other collections are not visible inside.
      split_rngs: For a filter of streams, whether lanes draw different keys.
      in_axes, out_axes, axis_size, axis_name, spmd_axis_name: As for `jax.vmap`.
      metadata_params: For boxes, which axis comes and goes: under `PARTITION_NAME` its name.
      methods: The methods to lift, `__call__` where left out.

    Raises:
      PartitioningUnspecifiedError: A box is sliced, and no name is given (LIN-3).
    """

    def transform(call: _Call, args: Any) -> Any:
        groups = _grouped(variable_axes, call.collections(True))
        axes = tuple(variable_axes.values())
        prefix = (in_axes if isinstance(in_axes, int) or in_axes is None else tuple(in_axes), axes)
        size = _size(axis_size, prefix, (args, groups), "vmap")
        split, shared = call.keys(split_rngs, size)
        takes = call.mutable(*variable_axes)

        def body(groups: Any, keys: Any, args: Any) -> Any:
            sliced = _renamed(meta.remove_axis, groups, variable_axes, metadata_params)
            output, root = call.run(_joined(sliced), takes, shared | keys, args)
            changed = _grouped(variable_axes, root.mutated())
            return output, _renamed(meta.add_axis, changed, variable_axes, metadata_params)

        output, changed = jax.vmap(
            body, (axes, 0, prefix[0]), (out_axes, axes), axis_size=size, axis_name=axis_name,
            spmd_axis_name=spmd_axis_name,
        )(groups, split, args)  # fmt: skip
        call.write(_joined(changed))
        return output

    return _lifted(target, "Vmap", methods, transform)


def scan(
    target: Any,
    variable_axes: Axes = NO_AXES,
    variable_broadcast: CollectionFilter = False,
    variable_carry: CollectionFilter = False,
    split_rngs: Mapping[Any, bool] = NO_AXES,
    in_axes: Any = 0,
    out_axes: Any = 0,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    metadata_params: Mapping[Any, Any] = NO_NAMES,
    methods: Sequence[str] | None = None,
) -> Any:
    """Call a module step by step, `(carry, *xs)` to `(carry, y)`, as layers in a loop (LIN-4).

    Args:
      target: A module class, or a function of a module and its arguments.
      variable_axes: For a filter of collections, the axis along which steps have their own.
      variable_broadcast: Collections that all steps share; made before the first step.
      variable_carry: Collections that each step gets as the step before left them.
      split_rngs: For a filter of streams, whether steps draw different keys.
      in_axes, out_axes: For each of `xs` and `y` an axis, or `broadcast`.
      length, reverse, unroll: As for `jax.lax.scan`.
      metadata_params: For boxes, which axis comes and goes: under `PARTITION_NAME` its name.
      methods: The methods to lift, `__call__` where left out.

    Raises:
      PartitioningUnspecifiedError: A box is sliced, and no name is given (LIN-3).
    """

    def to_front(axis: Any, tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, axis, 0), tree)

    def transform(call: _Call, args: Any) -> Any:
        carry, *rest = args
        xs = tuple(rest)
        prefix = in_axes if isinstance(in_axes, int | _Broadcast) else tuple(in_axes)
        groups = _grouped(variable_axes, call.collections(True))
        pairs = zip(variable_axes.values(), groups, strict=True)
        stacked = tuple(to_front(axis, group) for axis, group in pairs)
        size = _size(length, (prefix, 0), (xs, stacked), "scan")
        if size is None:
            raise ModuleError("scan goes along no axis: pass length=, or xs with an axis.")
        split, shared = call.keys(split_rngs, size)
        leaves, structure = _flat(xs)
        axes = _leaf_axes(prefix, xs)
        sliced = [
            None if axis is broadcast else jnp.moveaxis(leaf, axis, 0)
            for leaf, axis in zip(leaves, axes, strict=True)
        ]
        constant = call.collections(variable_broadcast)
        carried = call.collections(variable_carry)
        takes = call.mutable(*variable_axes, variable_carry)

        def step(mutable: Any, carried: Any, carry: Any, x: Any) -> tuple[Any, Root]:
            groups, keys, parts = x
            named = _renamed(meta.remove_axis, groups, variable_axes, metadata_params)
            pairs = zip(parts, leaves, strict=True)
            own = structure.unflatten([leaf if part is None else part for part, leaf in pairs])
            variables = _joined([constant, carried, *named])
            return call.run(variables, mutable, shared | keys, (carry, *own))

        everything = (stacked, split, sliced)
        if call.scope.root.initializing and (variable_broadcast or variable_carry):
            # A first step, for the first values of what the loop does not make.
            first = jax.tree.map(lambda leaf: leaf[0], everything)
            made = step(call.scope.root.mutable, carried, carry, first)[1].created
            constant |= {n: t for n, t in made.items() if matches(variable_broadcast, n)}
            carried |= {n: t for n, t in made.items() if matches(variable_carry, n)}

        def body(state: Any, x: Any) -> Any:
            (carry, y), root = step(takes, state[0], state[1], x)
            changed = root.mutated()
            kept = {name: changed.pop(name, tree) for name, tree in state[0].items()}
            grown = _renamed(
                meta.add_axis, _grouped(variable_axes, changed), variable_axes, metadata_params
            )
            return (kept, carry), (y, grown)

        (carried, carry), (ys, grown) = jax.lax.scan(
            body, (carried, carry), everything, size, reverse, unroll
        )
        y_leaves, y_structure = _flat(ys)
        y_leaves = [
            leaf[0] if axis is broadcast else jnp.moveaxis(leaf, 0, axis)
            for leaf, axis in zip(y_leaves, _leaf_axes(out_axes, ys), strict=True)
        ]
        back = [
            jax.tree.map(lambda leaf, axis=axis: jnp.moveaxis(leaf, 0, axis), group)
            for axis, group in zip(variable_axes.values(), grown, strict=True)
        ]
        made_here = {n: t for n, t in constant.items() if call.scope.is_mutable(n)}
        kept = {n: t for n, t in carried.items() if call.scope.is_mutable(n)}
        call.write(_joined([made_here, kept, *back]))
        return carry, y_structure.unflatten(y_leaves)

    return _lifted(target, "Scan", methods, transform)


def _positions(static: int | Sequence[int]) -> set[int]:
    """Positions among the arguments after the module, from positions that count the module."""
    return {index - 1 for index in ([static] if isinstance(static, int) else static)}


def remat(
    target: Any,
    variables: CollectionFilter = True,
    rngs: CollectionFilter = True,
    prevent_cse: bool = True,
    static_argnums: int | Sequence[int] = (),
    policy: Callable[..., bool] | None = None,
    methods: Sequence[str] | None = None,
) -> Any:
    """Compute a module again for its gradient, instead of keeping what it computed (LIN-2, LIN-4).

    Args:
      target: A module class, or a function of a module and its arguments.
      variables, rngs: The collections and streams that are visible inside.
      prevent_cse, policy: As for `jax.checkpoint`.
      static_argnums: Positions of static arguments; the module itself is at 0.
      methods: The methods to lift, `__call__` where left out.
    """
    static = _positions(static_argnums)

    def transform(call: _Call, args: Any) -> Any:
        dynamic = [arg for index, arg in enumerate(args) if index not in static]

        def body(held: Any, keys: Any, dynamic: Any) -> Any:
            rest = iter(dynamic)
            whole = [arg if index in static else next(rest) for index, arg in enumerate(args)]
            output, root = call.run(held, call.mutable(variables), keys, whole)
            return output, root.mutated()

        streams = {n: key for n, key in call.scope.root.rngs.items() if matches(rngs, n)}
        output, changed = jax.checkpoint(body, prevent_cse=prevent_cse, policy=policy)(
            call.collections(variables), streams, dynamic
        )
        call.write(changed)
        return output

    return _lifted(target, "Checkpoint", methods, transform)


checkpoint = remat


@dataclass(frozen=True)
class _Program:
    """What is compiled once: a description of the module, and all that is static in its call."""

    module: Module
    cls: type[Module]
    function: Callable[..., Any]
    path: tuple[str, ...]
    mutable: Any
    initializing: bool
    static: tuple[tuple[int | str, Any], ...]
    count: int
    capture: Any


@functools.partial(jax.jit, static_argnums=0)
def _run_program(
    program: _Program, variables: Any, keys: Any, args: Any, kwargs: Any
) -> tuple[Any, Any]:
    static, rest = dict(program.static), iter(args)
    whole = [static[i] if i in static else next(rest) for i in range(program.count)]
    named = {name: value for name, value in static.items() if isinstance(name, str)}
    root = Root(copied(variables), program.mutable, keys, program.initializing, len(program.path))
    root.capture = program.capture
    module = program.module._bound(
        Scope(root, program.path), program.module.name, None, program.cls
    )
    return module.run(program.function, whole, kwargs | named), root.mutated()


def jit(
    target: Any,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    methods: Sequence[str] | None = None,
) -> Any:
    """Compile a module: equal modules of a class, called alike, share a program (LIN-2, LIN-4).

    A function, and a module that reaches others by its fields, is compiled on each call: that is
    for calls that are compiled as a part of something else.

    Args:
      target: A module class whose fields are hashable, or a function of a module and arguments.
      static_argnums, static_argnames: Static arguments; the module itself is at position 0.
      methods: The methods to lift, `__call__` where left out.
    """
    static = _positions(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)

    def transform(call: _Call, args: Any) -> Any:
        root = call.scope.root
        dynamic = [arg for i, arg in enumerate(args) if i not in static]
        if call.paths != [call.scope.path] or type(call.module) is call.cls:

            def body(held: Any, keys: Any, dynamic: Any) -> Any:
                rest = iter(dynamic)
                whole = [arg if i in static else next(rest) for i, arg in enumerate(args)]
                output, inner = call.run(held, root.mutable, keys, whole)
                return output, inner.mutated()

            output, changed = jax.jit(body)(call.collections(True), dict(root.rngs), dynamic)
            call.write(changed)
            return output
        fixed: list[tuple[int | str, Any]]
        fixed = [(i, arg) for i, arg in enumerate(args) if i in static]
        fixed += [(name, value) for name, value in call.kwargs.items() if name in names]
        program = _Program(
            call.module.clone(), call.cls, call.function, call.scope.path,
            hashable(root.mutable), root.initializing, tuple(fixed), len(args), root.capture,
        )  # fmt: skip
        output, changed = _run_program(
            program,
            call.collections(True),
            {stream: call.scope.make_rng(stream) for stream in root.rngs},
            dynamic,
            {name: value for name, value in call.kwargs.items() if name not in names},
        )
        call.write(changed)
        return output

    return _lifted(target, "Jit", methods, transform)
