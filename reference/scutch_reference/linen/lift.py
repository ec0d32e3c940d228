"""Transformations of JAX, lifted over modules (LIN-2 to LIN-4, LIN-8).

Each takes a target and returns one of the same kind: a module class, of which it transforms the
`methods`, or a function whose first argument is a module. In a call, the variables at the place of
the module become arguments of the transformed function, and those that may have changed become
results. A box among them loses the axis on the way in and gains it on the way out, by its own
methods: `metadata_params` say which axis that is, under `PARTITION_NAME` its name (LIN-3).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from .. import meta
from ..errors import ModuleError
from .module import Fn, Module, mapped, nowrap
from .scope import Filter, Scope, both, copied, hashable, matches, put

Axes: TypeAlias = Mapping[Filter, Any]
Names: TypeAlias = str | Sequence[str]
Positions: TypeAlias = int | Sequence[int]
NOTHING: Mapping[Any, Any] = MappingProxyType({})


class broadcast:
    """Stands for an axis: there is none, and the value is the same for every step."""


def _chosen(choices: Mapping[Filter, Any], name: str) -> Any:
    """What the first filter stands for that takes a name; `None` where none does."""
    return next((chosen for choice, chosen in choices.items() if matches(choice, name)), None)


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
            found.update([module.path] if module.scope is self.scope else [])
            mapped(reach, module._fields())

        reach(self.module, "")
        self.paths = {p for p in found if not any(p[:i] in found for i in range(len(p)))}

    def collections(self, choice: Filter = True) -> dict[str, Any]:
        """What the places hold of the collections that a filter takes."""
        found: dict[str, Any] = self._moved(self.scope, {}, choice)
        return found

    def write(self, collections: dict[str, Any]) -> None:
        """Give the places what the transformed function returned."""
        self._moved(Scope(collections), self.scope.variables)

    def _moved(self, scope: Scope, target: Any, choice: Filter = True) -> Any:
        for path in self.paths:
            for name, tree in scope.at(path, choice).items():
                put(target, (name, *path), tree)
        return target

    def run(self, variables: Any, mutable: Filter, rngs: Any, args: Any) -> tuple[Any, Scope]:
        """Call the function on a copy of the module that has these variables."""
        changes = {"variables": copied(variables), "mutable": mutable, "rngs": rngs, "created": {}}
        scope, stage = replace(self.scope, **changes), self.module._stage
        inner = self.module._bound(scope, self.module.path, self.module.parent, self.cls)
        if self.cls is not type(self.module) or stage not in ("setup", "compact"):
            return inner._run(self.function, args, self.kwargs), scope
        # A function begins where its module is, and that goes on where it ends.
        if stage == "compact":
            inner._set_up()
        inner._set(_stage=stage, _taken=set(self.taken))
        output = inner._run(self.function, args, self.kwargs)
        self.module._set(_taken=inner._taken)
        return output, scope

    def whole(self, wrap: Fn, variables: Filter, rngs: Filter) -> Any:
        """What the function returns whose wrapping leaves variables and keys as they are."""

        def body(held: Any, keys: Any, *args: Any) -> Any:
            output, scope = self.run(held, both(self.scope.mutable, variables), keys, args)
            return output, scope.mutated()

        keys = {name: key for name, key in self.scope.rngs.items() if matches(rngs, name)}
        output, changed = wrap(body)(self.collections(variables), keys, *self.args)
        self.write(changed)
        return output

    def keys(self, splits: Mapping[Any, bool], length: int) -> tuple[Any, Any]:
        """The streams that are split, a key for each step or lane, and those that are not."""
        rngs, asked = self.scope.rngs, {name: _chosen(splits, name) for name in self.scope.rngs}
        split = {n: jax.random.split(self.module.make_rng(n), length) for n in rngs if asked[n]}
        return split, {name: key for name, key in rngs.items() if asked[name] is False}


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


def _by_axis(fn: Fn, axes: Any, *trees: Any) -> Any:
    """`fn(axis, *parts)` for each axis in a tree prefix of axes."""
    return jax.tree.map(fn, axes, *trees, is_leaf=lambda x: x is None or x is broadcast)


def _to_front(axis: Any, tree: Any) -> Any:
    return None if axis is broadcast else jax.tree.map(lambda x: jnp.moveaxis(x, axis, 0), tree)


def _from_front(axis: Any, tree: Any) -> Any:
    return jax.tree.map(lambda x: x[0] if axis is broadcast else jnp.moveaxis(x, 0, axis), tree)


def _crossed(change: Fn, move: Fn, collections: Any, axes: Axes, params: Any) -> dict[str, Any]:
    """The collections with an axis, which is moved, and whose name boxes forget or get."""
    pairs = [(name, axis) for name in collections if (axis := _chosen(axes, name)) is not None]
    return {name: move(axis, change(collections[name], axis, params)) for name, axis in pairs}


def _size(given: int | None, axes: Any, tree: Any, kind: str) -> int:
    """The length of the axis that a call goes along; it is a `ModuleError` if there is not one."""

    def measured(axis: int | None, part: Any) -> list[int]:
        return [jnp.shape(x)[axis] for x in jax.tree.leaves(part) if axis is not None]

    sizes: list[int] = sorted({*jax.tree.leaves((given, _by_axis(measured, axes, tree)))})
    if len(sizes) != 1:
        raise ModuleError(f"{kind} goes along one axis, but its sizes are {sizes!r}.")
    return sizes[0]


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
    """

    def transform(call: _Call) -> Any:
        over = in_axes if isinstance(in_axes, int) or in_axes is None else tuple(in_axes)
        held = call.collections(tuple(variable_axes))
        slices = _crossed(meta.remove_axis, _to_front, held, variable_axes, metadata_params)
        size = _size(axis_size, (over, 0), (call.args, slices), "vmap")
        split, shared = call.keys(split_rngs, size)

        def body(slices: Any, keys: Any, args: Any) -> Any:
            takes = both(call.scope.mutable, tuple(variable_axes))
            output, scope = call.run(held | slices, takes, shared | keys, args)
            changed = scope.mutated()
            alike = {n: changed.pop(n) for n in [*changed] if _chosen(variable_axes, n) is None}
            return output, alike, changed

        lanes = jax.vmap(body, (0, 0, over), (out_axes, None, 0), axis_name, size, spmd_axis_name)
        output, alike, changed = lanes(slices, split, call.args)
        changed = _crossed(meta.add_axis, _from_front, changed, variable_axes, metadata_params)
        call.write(alike | changed)
        return output

    return _lifted(target, "Vmap", methods, transform)


def scan(
    target: Any,
    variable_axes: Axes = NOTHING,
    variable_broadcast: Filter = False,
    variable_carry: Filter = False,
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
    """

    def transform(call: _Call) -> Any:
        carry, *rest = call.args
        xs, over = tuple(rest), tuple(in_axes) if isinstance(in_axes, list) else in_axes
        held = call.collections(tuple(variable_axes))
        held = _crossed(meta.remove_axis, _to_front, held, variable_axes, metadata_params)
        parts = _by_axis(_to_front, over, xs)
        split, shared = call.keys(split_rngs, size := _size(length, 0, (held, parts), "scan"))
        constant, carried = map(call.collections, (variable_broadcast, variable_carry))

        def step(carried: Any, carry: Any, x: Any, mutable: Filter) -> tuple[Any, Scope]:
            held, parts, keys = x
            own = _by_axis(lambda axis, x, part: x if axis is broadcast else part, over, xs, parts)
            return call.run(constant | carried | held, mutable, shared | keys, (carry, *own))

        if call.scope.initializing and (variable_broadcast or variable_carry):
            # A first step, for the first values of what the loop does not make.
            first = jax.tree.map(lambda leaf: leaf[0], (held, parts, split))
            made = step(carried, carry, first, call.scope.mutable)[1].created
            constant |= {n: t for n, t in made.items() if matches(variable_broadcast, n)}
            carried |= {n: t for n, t in made.items() if matches(variable_carry, n)}

        def body(state: Any, x: Any) -> Any:
            takes = both(call.scope.mutable, (*variable_axes, variable_carry))
            (carry, y), scope = step(state[0], state[1], x, takes)
            changed = scope.mutated()
            return ({n: changed.pop(n, t) for n, t in state[0].items()}, carry), (y, changed)

        (carried, carry), (ys, changed) = jax.lax.scan(
            body, (carried, carry), (held, parts, split), size, reverse, unroll
        )
        changed = _crossed(meta.add_axis, _from_front, changed, variable_axes, metadata_params)
        call.write(constant | carried | changed)
        return carry, _by_axis(_from_front, out_axes, ys)

    return _lifted(target, "Scan", methods, transform)


def _after(others: int, positions: Positions) -> tuple[int, ...]:
    """Positions of arguments that come after so many others, instead of after the module."""
    given = [positions] if isinstance(positions, int) else positions
    return tuple(position - 1 + others for position in given if position > 0)


def remat(
    target: Any,
    variables: Filter = True,
    rngs: Filter = True,
    prevent_cse: bool = True,
    static_argnums: Positions = (),
    policy: Callable[..., bool] | None = None,
    methods: Names | None = None,
) -> Any:
    """Compute a module again for its gradient, instead of keeping what it computed (LIN-2, LIN-4).

    Only the collections `variables` and the streams `rngs` are visible inside. Positions of
    arguments count the module, which is at 0.
    """

    def transform(call: _Call) -> Any:
        static = tuple(i for i in _after(2, static_argnums) if i < 2 + len(call.args))
        options: Any = {"prevent_cse": prevent_cse, "policy": policy, "static_argnums": static}
        return call.whole(functools.partial(jax.checkpoint, **options), variables, rngs)

    return _lifted(target, "Checkpoint", methods, transform)


checkpoint = remat


def _program(key: Any, variables: Any, keys: Any, /, *args: Any, **kwargs: Any) -> Any:
    """What is compiled once for equal modules: `key` has all that is static about the call."""
    module, function, path, mutable, initializing, capture = key
    scope = Scope(copied(variables), mutable, keys, initializing, capture)
    return module._bound(scope, path)._run(function, args, kwargs), scope.mutated()


def jit(
    target: Any,
    variables: Filter = True,
    rngs: Filter = True,
    static_argnums: Positions = (),
    static_argnames: Names = (),
    donate_argnums: Positions = (),
    methods: Names | None = None,
) -> Any:
    """Compile a module: equal modules of a class, called alike, share a program (LIN-2, LIN-4).

    Their fields must be hashable. A function, and a module that reaches others by its fields, is
    compiled on each call: that is for calls that are compiled as a part of something else. For
    what is visible inside, and for positions, see `remat`.
    """
    program = jax.jit(
        _program,
        static_argnums=(0, *_after(3, static_argnums)),
        static_argnames=static_argnames,
        donate_argnums=_after(3, donate_argnums),
    )

    def transform(call: _Call) -> Any:
        module, scope = call.module, call.scope
        if call.paths != {module.path} or type(module) is call.cls:
            static, donated = _after(2, static_argnums), _after(2, donate_argnums)
            once = functools.partial(jax.jit, static_argnums=static, donate_argnums=donated)
            return call.whole(once, variables, rngs)
        mutable = hashable(both(scope.mutable, variables))
        settings = module.path, mutable, scope.initializing, scope.capture
        described = call.cls(**module.clone()._fields(), name=module.name, parent=None)
        key = described, call.function, *settings
        keys = {name: module.make_rng(name) for name in scope.rngs if matches(rngs, name)}
        held = call.collections(variables)
        output, changed = program(key, held, keys, *call.args, **call.kwargs)
        call.write(changed)
        return output

    return _lifted(target, "Jit", methods, transform)
