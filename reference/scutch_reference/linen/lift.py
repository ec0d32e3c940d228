"""Transformations of JAX, lifted over modules (LIN-2 to LIN-4, LIN-8).

A target is a module class, of which `methods` are transformed, or a function whose first argument
is a module. In a call, the variables at the place of the module become arguments, and those that
may have changed become results. A box loses the axis on the way in and gains it on the way out, by
its own methods: `metadata_params` have its name, under `PARTITION_NAME` (LIN-3).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
NOTHING: Mapping[Any, Any] = {}


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

    def collections(self, choice: Filter) -> dict[str, Any]:
        """What the places hold of the collections that a filter takes."""
        return self._moved(self.scope, choice, {})

    def write(self, collections: dict[str, Any]) -> None:
        """Give the places what the transformed function returned, where it may change."""
        self._moved(Scope(collections), self.scope.mutable, self.scope.variables)

    def _moved(self, scope: Scope, choice: Filter, target: dict[str, Any]) -> dict[str, Any]:
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

    def whole(self, wrap: Fn, variables: Filter, rngs: Filter, **options: Any) -> Any:
        """What the wrapped function returns; it takes what `_program` takes, and nothing first."""

        def body(_: None, held: Any, keys: Any, *args: Any) -> Any:
            output, scope = self.run(held, both(self.scope.mutable, variables), keys, args)
            return output, scope.mutated()

        keys = {name: key for name, key in self.scope.rngs.items() if matches(rngs, name)}
        output, changed = wrap(body, **options)(None, self.collections(variables), keys, *self.args)
        self.write(changed)
        return output


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
    """`fn(axis, *parts)` for each axis in a tree prefix of axes; `None` is there none."""
    axes = tuple(axes) if isinstance(axes, list) else axes
    axes = jax.tree.map(lambda axis: None if axis is broadcast else axis, axes)
    return jax.tree.map(fn, axes, *trees, is_leaf=lambda axis: axis is None)


def _to_front(axis: int | None, tree: Any) -> Any:
    return None if axis is None else jax.tree.map(lambda x: jnp.moveaxis(x, axis, 0), tree)


def _from_front(axis: int | None, tree: Any) -> Any:
    return jax.tree.map(lambda x: x[0] if axis is None else jnp.moveaxis(x, 0, axis), tree)


def _crossed(change: Fn, move: Fn, collections: Any, axes: Axes, params: Any) -> dict[str, Any]:
    """The collections with an axis, which is moved, and whose name boxes forget or get."""
    pairs = [(name, axis) for name in collections if (axis := _chosen(axes, name)) is not None]
    return {name: move(axis, change(collections[name], axis, params)) for name, axis in pairs}


@dataclass
class _Loop:
    """Transforms a call so that it goes along an axis, in lanes or steps."""

    drive: Fn  # takes the body, what it carries, what it goes along, and its length
    axes: Axes
    splits: Mapping[Any, bool]
    in_axes: Any
    size: int | None
    params: Mapping[Any, Any]
    shared: Filter = False
    carried: Filter = False
    carries: int = 0  # how many arguments, and outputs

    def __call__(self, call: _Call) -> Any:
        start, args = call.args[: self.carries], call.args[self.carries :]
        held = call.collections((*self.axes, self.carried))
        carried = {name: t for name, t in held.items() if _chosen(self.axes, name) is None}
        held = _crossed(meta.remove_axis, _to_front, held, self.axes, self.params)
        parts = _by_axis(_to_front, self.in_axes, args)
        leaves: Any = jax.tree.leaves((held, parts))
        sizes = {self.size, *(leaf.shape[0] for leaf in leaves)} - {None}
        if len(sizes) != 1:
            raise ModuleError(f"A lift goes along one axis, but its sizes are {sizes!r}.")
        size, asked = sizes.pop(), {name: _chosen(self.splits, name) for name in call.scope.rngs}
        split = {n: jax.random.split(call.module.make_rng(n), size) for n in asked if asked[n]}
        same = {n: call.scope.rngs[n] for n in asked if asked[n] is False}
        steps, constant = (held, parts, split), call.collections(self.shared)

        def step(state: Any, x: Any, mutable: Filter) -> tuple[Any, Scope]:
            (carried, carry), (held, parts, keys) = state, x
            own = _by_axis(lambda a, x, part: x if a is None else part, self.in_axes, args, parts)
            return call.run(constant | carried | held, mutable, same | keys, (*carry, *own))

        if call.scope.initializing and (self.shared or self.carried):
            # A first step, for the first values of what the loop does not make.
            first = jax.tree.map(lambda leaf: leaf[0], steps)
            made = step((carried, start), first, call.scope.mutable)[1].created
            constant |= {n: t for n, t in made.items() if matches(self.shared, n)}
            carried |= {n: t for n, t in made.items() if matches(self.carried, n)}

        def body(state: Any, x: Any) -> Any:
            output, scope = step(state, x, both(call.scope.mutable, (*self.axes, self.carried)))
            changed, (*carry, y) = scope.mutated(), output if start else (output,)
            kept = {n: changed.pop(n) for n in [*changed] if _chosen(self.axes, n) is None}
            return (state[0] | kept, tuple(carry)), (y, changed)

        (carried, carry), (y, changed) = self.drive(body, (carried, start), steps, size)
        changed = _crossed(meta.add_axis, _from_front, changed, self.axes, self.params)
        call.write(constant | carried | changed)
        return (*carry, y) if start else y


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

    `variable_axes` has for a filter of collections their axis, `None` if lanes share them; others
    are not visible inside. `split_rngs` has for a filter of streams whether lanes draw other keys.
    """

    def lanes(body: Fn, state: Any, steps: Any, size: int) -> Any:
        lane, out = functools.partial(body, state), (None, (out_axes, 0))
        return jax.vmap(lane, 0, out, axis_name, size, spmd_axis_name)(steps)

    loop = _Loop(lanes, variable_axes, split_rngs, in_axes, axis_size, metadata_params)
    return _lifted(target, "Vmap", methods, loop)


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

    Steps have their own variables along `variable_axes`, share those of `variable_broadcast`, and
    get those of `variable_carry` as the step before left them. `in_axes` and `out_axes` have an
    axis or `broadcast` for each of `xs` and `y`. For the rest see `vmap`.
    """

    def one_by_one(body: Fn, state: Any, steps: Any, size: int) -> Any:
        state, (ys, changed) = jax.lax.scan(body, state, steps, size, reverse, unroll)
        return state, (_by_axis(_from_front, out_axes, ys), changed)

    rest = variable_broadcast, variable_carry, 1
    loop = _Loop(one_by_one, variable_axes, split_rngs, in_axes, length, metadata_params, *rest)
    return _lifted(target, "Scan", methods, loop)


def _after(positions: Positions) -> tuple[int, ...]:
    """Positions of arguments that come after those of `_program`, instead of after the module."""
    given = [positions] if isinstance(positions, int) else positions
    return tuple(position + 2 for position in given if position > 0)


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
        static = tuple(i for i in _after(static_argnums) if i < 3 + len(call.args))
        options: Any = {"prevent_cse": prevent_cse, "policy": policy, "static_argnums": static}
        return call.whole(jax.checkpoint, variables, rngs, **options)

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
    compiled on each call. For what is visible inside, and for positions, see `remat`.
    """
    static, donated = (0, *_after(static_argnums)), _after(donate_argnums)
    options: Any = {"static_argnums": static, "donate_argnums": donated}
    program = jax.jit(_program, static_argnames=static_argnames, **options)

    def transform(call: _Call) -> Any:
        module, scope = call.module, call.scope
        if call.paths != {module.path} or type(module) is call.cls:
            return call.whole(jax.jit, variables, rngs, **options)
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
