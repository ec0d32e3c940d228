"""Transformations of JAX, lifted over modules (LIN-2 to LIN-4, LIN-8).

Each takes a target and returns one of the same kind: a module class, of which it transforms the
`methods`, or a function whose first argument is a module. In a call, the variables at the place of
the module become arguments of the transformed function, and those that may have changed become
results. A box among them loses the axis on the way in and gains it on the way out, by its own
methods: `metadata_params` say which axis that is, under `PARTITION_NAME` its name (LIN-3).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from .. import meta
from ..errors import ModuleError
from .module import Fn, Module, mapped, nowrap
from .scope import CollectionFilter, Scope, both, copied, hashable, matches, put

Axes: TypeAlias = Mapping[CollectionFilter, Any]
Names: TypeAlias = str | Sequence[str]
Positions: TypeAlias = int | Sequence[int]
NOTHING: Mapping[Any, Any] = MappingProxyType({})


class _Broadcast:
    """The axis of what has none: the same for every step."""

    def __repr__(self) -> str:
        return "broadcast"


broadcast = _Broadcast()


@dataclass
class _Call:
    """One call of a lifted function: on which module, of which class inside, and with what."""

    module: Module
    cls: type[Module]
    function: Fn
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.scope, self.taken = self.module._scope, set(self.module._taken)
        # The places that are reached: that of the module, and those of the modules in its fields.
        found: set[tuple[str, ...]] = set()

        def reach(module: Module, _: str) -> None:
            found.update([module.path] if module.scope is not None else [])
            mapped(reach, module._fields())

        reach(self.module, "")
        inner = {path for path in found if any(path[:i] in found for i in range(len(path)))}
        self.paths = found - inner

    def collections(self, choice: CollectionFilter = True) -> dict[str, Any]:
        """What the places hold of the collections that a filter takes."""
        found: dict[str, Any] = {}
        self._move(self.scope, found, choice)
        return found

    def write(self, *collections: Mapping[str, Any]) -> None:
        """Give the places what the transformed function returned."""
        self._move(Scope(_joined(collections)), self.scope.variables)

    def _move(self, scope: Scope, target: dict[str, Any], choice: CollectionFilter = True) -> None:
        for path in self.paths:
            for name, tree in scope.at(path, choice).items():
                put(target, (name, *path), tree)

    def run(
        self, variables: Mapping[str, Any], mutable: CollectionFilter, rngs: Any, args: Any
    ) -> tuple[Any, Scope]:
        """Call the function on a copy of the module that has these variables."""
        scope = replace(
            self.scope, variables=copied(variables), mutable=mutable, rngs=rngs, created={}
        )
        inner = self.module._bound(scope, self.module.path, self.module.parent, self.cls)
        if self.cls is type(self.module):  # A function goes on where its module is, and back.
            inner._set_up()
            inner._set(_stage="compact", _taken=inner._taken | self.taken)
        output = inner._run(self.function, args, self.kwargs)
        if self.cls is type(self.module):
            self.module._set(_taken=inner._taken)
        return output, scope

    def whole(self, variables: CollectionFilter) -> Fn:
        """The function where all its variables go in and come out as they are."""

        def body(held: Any, keys: Any, *args: Any) -> Any:
            output, scope = self.run(held, both(self.scope.mutable, variables), keys, args)
            return output, scope.mutated()

        return body

    def through(self, body: Fn, variables: CollectionFilter, keys: Any, **kwargs: Any) -> Any:
        """What such a function, transformed, returns."""
        output, changed = body(self.collections(variables), keys, *self.args, **kwargs)
        self.write(changed)
        return output

    def keys(self, splits: Mapping[Any, bool], length: int) -> tuple[Any, Any]:
        """The streams that are split, a key for each step or lane, and those that are not."""
        split, shared = {}, {}
        for name, key in self.scope.rngs.items():
            its = next((its for choice, its in splits.items() if matches(choice, name)), None)
            if its:
                split[name] = jax.random.split(self.module.make_rng(name), length)
            elif its is not None:
                shared[name] = key
        return split, shared

    def streams(self, choice: CollectionFilter) -> dict[str, Any]:
        """The keys of the streams that a filter takes."""
        return {name: key for name, key in self.scope.rngs.items() if matches(choice, name)}


def _lifted(target: Any, prefix: str, methods: Names | None, transform: Callable[..., Any]) -> Any:
    """The target, with `transform` of the call in the place of its methods, or of itself."""
    is_class = isinstance(target, type) and issubclass(target, Module)

    def lifted(function: Any) -> Any:
        @functools.wraps(function)
        def call(self: Module, *args: Any, **kwargs: Any) -> Any:
            cls = target if is_class else type(self)
            return transform(_Call(self, cls, function, args, kwargs))

        return call

    if not is_class:
        return lifted(target)
    names = [methods] if isinstance(methods, str) else methods or ["__call__"]
    parts: dict[str, Any] = {name: nowrap(lifted(getattr(target, name))) for name in names}
    parts |= {"setup": Module.setup, "__module__": target.__module__, "__doc__": target.__doc__}
    return type(prefix + target.__name__, (target,), parts)


def _grouped(axes: Axes, collections: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """The collections by the first filter that takes each."""
    groups: list[dict[str, Any]] = []
    for choice in axes:
        earlier = _joined(groups)
        taken = {n: t for n, t in collections.items() if matches(choice, n) and n not in earlier}
        groups.append(taken)
    return tuple(groups)


def _joined(groups: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: tree for group in groups for name, tree in group.items()}


def _renamed(change: Fn, groups: Sequence[Any], axes: Axes, params: Mapping[Any, Any]) -> Any:
    """The groups with an axis named, or its name removed, where the group has one."""
    pairs = zip(groups, axes.values(), strict=True)
    return tuple(g if axis is None else change(g, axis, params) for g, axis in pairs)


def _by_axis(fn: Fn, axes: Any, *trees: Any) -> Any:
    """`fn(axis, *parts)` for each axis in a tree prefix of axes."""
    return jax.tree.map(fn, axes, *trees, is_leaf=lambda x: x is None or x is broadcast)


def _size(given: int | None, axes: Any, tree: Any, kind: str) -> int:
    """The length of the axis that a call goes along; it is a `ModuleError` if there is not one."""
    sizes = set() if given is None else {given}

    def measure(axis: int | None, part: Any) -> None:
        if axis is not None:
            sizes.update(jnp.shape(leaf)[axis] for leaf in jax.tree.leaves(part))

    _by_axis(measure, axes, tree)
    if len(sizes) != 1:
        raise ModuleError(
            f"{kind} goes along an axis of one size, given or that of what has the axis; "
            f"here the sizes are {sorted(sizes)!r}."
        )
    return sizes.pop()


def vmap(
    target: Any,
    variable_axes: Axes = NOTHING,
    split_rngs: Mapping[Any, bool] = NOTHING,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    axis_name: str | None = None,
    spmd_axis_name: str | None = None,
    metadata_params: Mapping[Any, Any] = NOTHING,
    methods: Names | None = None,
) -> Any:
    """Call a module in lanes, each with its slice of the variables (LIN-2, LIN-4).

    Args:
      variable_axes: For a filter of collections, the axis of their variables, or `None` for
        variables that all lanes share. Other collections are not visible inside.
      split_rngs: For a filter of streams, whether lanes draw different keys.
      in_axes, out_axes, axis_size, axis_name, spmd_axis_name: As for `jax.vmap`.
    """

    def transform(call: _Call) -> Any:
        over = in_axes if isinstance(in_axes, int) or in_axes is None else tuple(in_axes)
        axes, groups = tuple(variable_axes.values()), _grouped(variable_axes, call.collections())
        size = _size(axis_size, (over, axes), (call.args, groups), "vmap")
        split, shared = call.keys(split_rngs, size)

        def body(groups: Any, keys: Any, args: Any) -> Any:
            takes = both(call.scope.mutable, tuple(variable_axes))
            sliced = _renamed(meta.remove_axis, groups, variable_axes, metadata_params)
            output, scope = call.run(_joined(sliced), takes, shared | keys, args)
            changed = _grouped(variable_axes, scope.mutated())
            return output, _renamed(meta.add_axis, changed, variable_axes, metadata_params)

        lanes = jax.vmap(body, (axes, 0, over), (out_axes, axes), axis_name, size, spmd_axis_name)
        output, changed = lanes(groups, split, call.args)
        call.write(*changed)
        return output

    return _lifted(target, "Vmap", methods, transform)


def scan(
    target: Any,
    variable_axes: Axes = NOTHING,
    variable_broadcast: CollectionFilter = False,
    variable_carry: CollectionFilter = False,
    split_rngs: Mapping[Any, bool] = NOTHING,
    in_axes: Any = 0,
    out_axes: Any = 0,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    metadata_params: Mapping[Any, Any] = NOTHING,
    methods: Names | None = None,
) -> Any:
    """Call a module step by step, `(carry, *xs)` to `(carry, y)`, as layers in a loop (LIN-4).

    Args:
      variable_axes: For a filter of collections, the axis along which steps have their own.
      variable_broadcast: Collections that all steps share; made before the first step.
      variable_carry: Collections that each step gets as the step before left them.
      split_rngs: For a filter of streams, whether steps draw different keys.
      in_axes, out_axes: For each of `xs` and `y` an axis, or `broadcast`.
      length, reverse, unroll: As for `jax.lax.scan`.
    """

    def to_front(axis: Any, tree: Any) -> Any:
        return None if axis is broadcast else jax.tree.map(lambda x: jnp.moveaxis(x, axis, 0), tree)

    def from_front(axis: Any, tree: Any) -> Any:
        return jax.tree.map(lambda x: x[0] if axis is broadcast else jnp.moveaxis(x, 0, axis), tree)

    def transform(call: _Call) -> Any:
        carry, *rest = call.args
        xs, over = tuple(rest), tuple(in_axes) if isinstance(in_axes, list) else in_axes
        axes, groups = tuple(variable_axes.values()), _grouped(variable_axes, call.collections())
        slices = _by_axis(to_front, axes, groups), _by_axis(to_front, over, xs)
        size = _size(length, 0, slices, "scan")
        split, shared = call.keys(split_rngs, size)
        constant, carried = map(call.collections, (variable_broadcast, variable_carry))

        def step(held: Any, carry: Any, x: Any, mutable: CollectionFilter) -> tuple[Any, Scope]:
            groups, parts, keys = x
            named = _renamed(meta.remove_axis, groups, variable_axes, metadata_params)
            own = _by_axis(lambda axis, x, part: x if axis is broadcast else part, over, xs, parts)
            return call.run(
                _joined([constant, held, *named]), mutable, shared | keys, (carry, *own)
            )

        if call.scope.initializing and (variable_broadcast or variable_carry):
            # A first step, for the first values of what the loop does not make.
            first = jax.tree.map(lambda leaf: leaf[0], (*slices, split))
            made = step(carried, carry, first, call.scope.mutable)[1].created
            constant |= {n: t for n, t in made.items() if matches(variable_broadcast, n)}
            carried |= {n: t for n, t in made.items() if matches(variable_carry, n)}

        def body(state: Any, x: Any) -> Any:
            held, carry = state
            takes = both(call.scope.mutable, (*variable_axes, variable_carry))
            (carry, y), scope = step(held, carry, x, takes)
            changed = scope.mutated()
            kept = {name: changed.pop(name, tree) for name, tree in held.items()}
            grown = _grouped(variable_axes, changed)
            return (kept, carry), (
                y,
                _renamed(meta.add_axis, grown, variable_axes, metadata_params),
            )

        (carried, carry), (ys, grown) = jax.lax.scan(
            body, (carried, carry), (*slices, split), size, reverse, unroll
        )
        call.write(constant, carried, *_by_axis(from_front, axes, grown))
        return carry, _by_axis(from_front, out_axes, ys)

    return _lifted(target, "Scan", methods, transform)


def _after(others: int, positions: Positions) -> tuple[int, ...]:
    """Positions of arguments that come after so many others, instead of after the module."""
    given = [positions] if isinstance(positions, int) else positions
    return tuple(position - 1 + others for position in given if position > 0)


def remat(
    target: Any,
    variables: CollectionFilter = True,
    rngs: CollectionFilter = True,
    prevent_cse: bool = True,
    static_argnums: Positions = (),
    policy: Callable[..., bool] | None = None,
    methods: Names | None = None,
) -> Any:
    """Compute a module again for its gradient, instead of keeping what it computed (LIN-2, LIN-4).

    Args:
      variables, rngs: The collections and streams that are visible inside.
      static_argnums: Positions of static arguments; the module itself is at 0.
      prevent_cse, policy: As for `jax.checkpoint`.
    """

    def transform(call: _Call) -> Any:
        static = tuple(i for i in _after(2, static_argnums) if i < 2 + len(call.args))
        options: Any = {"prevent_cse": prevent_cse, "policy": policy, "static_argnums": static}
        again = jax.checkpoint(call.whole(variables), **options)
        return call.through(again, variables, call.streams(rngs))

    return _lifted(target, "Checkpoint", methods, transform)


checkpoint = remat


def _program(key: Any, variables: Any, keys: Any, /, *args: Any, **kwargs: Any) -> Any:
    """What is compiled once for equal modules: `key` has all that is static about the call."""
    module, cls, function, path, mutable, initializing, capture = key
    scope = Scope(copied(variables), mutable, keys, initializing, capture)
    return module._bound(scope, path, None, cls)._run(function, args, kwargs), scope.mutated()


@functools.cache
def _compiled(static: Any, names: Any, donated: Any) -> Any:
    return jax.jit(
        _program, static_argnums=(0, *static), static_argnames=names, donate_argnums=donated
    )


def jit(
    target: Any,
    variables: CollectionFilter = True,
    rngs: CollectionFilter = True,
    static_argnums: Positions = (),
    static_argnames: Names = (),
    donate_argnums: Positions = (),
    methods: Names | None = None,
) -> Any:
    """Compile a module: equal modules of a class, called alike, share a program (LIN-2, LIN-4).

    Their fields must be hashable. A function, and a module that reaches others by its fields, is
    compiled on each call: that is for calls that are compiled as a part of something else.

    Args:
      variables, rngs: The collections and streams that are visible inside.
      static_argnums, static_argnames, donate_argnums: As for `jax.jit`; the module itself is at 0.
    """
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)

    def transform(call: _Call) -> Any:
        module, scope, streams = call.module, call.scope, call.streams(rngs)
        if call.paths != {module.path} or type(module) is call.cls:
            static, donated = _after(2, static_argnums), _after(2, donate_argnums)
            once = jax.jit(call.whole(variables), static_argnums=static, donate_argnums=donated)
            return call.through(once, variables, streams)
        mutable = hashable(both(scope.mutable, variables))
        settings = module.path, mutable, scope.initializing, scope.capture
        key = module.clone(), call.cls, call.function, *settings
        program = _compiled(_after(3, static_argnums), names, _after(3, donate_argnums))
        keys = {stream: module.make_rng(stream) for stream in streams}
        return call.through(functools.partial(program, key), variables, keys, **call.kwargs)

    return _lifted(target, "Jit", methods, transform)
