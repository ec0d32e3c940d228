"""Transformations of JAX, lifted over modules (document 002, contract LIN-2 to LIN-4, LIN-8).

`jax.vmap` and its like transform functions of arrays. To *lift* one is to make a transformation of
modules of it: in a call of a lifted module, the variables of the module become arguments of a
function that JAX transforms, and the variables that may have changed become results of it.

What is lifted, the *target*, is a module class, of which some `methods` are transformed, or a
function whose first argument is a module. `vmap` and `scan` *loop*: they call the module once for
each index of an axis, in *lanes* (side by side) or in *steps* (one after the other). A collection
is cut along an axis, shared by all, or carried from step to step. A box loses the name of that axis
on the way in and gets it back on the way out, by its own methods; `metadata_params` holds the name,
under `PARTITION_NAME`.

>>> import jax, jax.numpy as jnp
>>> from scutch_reference.linen import Dense
>>> cut = {"variable_axes": {"params": 0}, "split_rngs": {"params": True}}
>>> Heads = vmap(Dense, in_axes=None, axis_size=3, **cut)
>>> variables = Heads(features=4).init(jax.random.key(0), jnp.ones(2))
>>> variables["params"]["kernel"].shape
(3, 2, 4)
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp

from .. import meta
from ..errors import ModuleError
from .module import Fn, Module, mapped, nowrap
from .scope import DenyList, Filter, Path, Scope, both, copied, hashable, matches, put

T = TypeVar("T", bound=Callable[..., Any])
Axes: TypeAlias = Mapping[Any, Any]
Names: TypeAlias = str | Sequence[str]
Positions: TypeAlias = int | Sequence[int]
Collections: TypeAlias = dict[str, Any]
NOTHING: Mapping[Any, Any] = {}


class broadcast:
    """Stands for an axis in `scan`: the value is not cut, every step gets the same."""


@dataclass(frozen=True)
class In:
    """Stands for an axis of a collection that a loop reads, and that is not mutable in it."""

    axis: Any


@dataclass(frozen=True)
class Out:
    """Stands for an axis of a collection that a loop returns, and of which it reads nothing."""

    axis: Any


def chosen(choices: Mapping[Filter, Any], name: str) -> Any:
    """Return the value of the first filter that takes a name; `None` where none does.

    Args:
      choices: Values by filters of names.
      name: The name of a collection or a stream.
    """
    return next((chosen for choice, chosen in choices.items() if matches(choice, name)), None)


@dataclass
class Call:
    """One call of a lifted function: on which module, of which class inside, with which arguments.

    A lifted module reaches its own variables, and those of the modules that its fields hold, which
    may have been made elsewhere. `paths` has where all of them lie.

    Args:
      module: The bound module that the caller has.
      cls: The class that the module has inside the transformation.
      function: The method, or a function whose first argument is the module.
      args: The further arguments by position.
      kwargs: The arguments by name.
    """

    module: Module
    cls: type[Module]
    function: Fn
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.scope = self.module._scope
        self.names = self.module.names_in_use(self.module._names)
        found: set[Path] = set()

        def reach(module: Module, _: str) -> None:
            found.update([module.path] if module.scope is self.scope else [])
            mapped(reach, module._fields())

        reach(self.module, "")
        self.paths = {p for p in found if not any(p[:i] in found for i in range(len(p)))}

    def collections(self, choice: Filter) -> Collections:
        """What lies at the paths in the collections that a filter takes."""
        return self._copy_at_paths(self.scope, choice, {})

    def write(self, collections: Collections) -> None:
        """Write what a transformed function returned at the paths, where it may change."""
        self._copy_at_paths(Scope(collections), self.scope.mutable, self.scope.variables)

    def _copy_at_paths(self, source: Scope, choice: Filter, target: Collections) -> Collections:
        for path in self.paths:
            for name, tree in source.at(path, choice).items():
                put(target, (name, *path), tree)
        return target

    def run(self, args: Any, variables: Any, **changes: Any) -> tuple[Any, Scope]:
        """Call the function on a copy of the module, in a scope of its own.

        Args:
          args: The positional arguments.
          variables: The collections of the scope.
          changes: Other fields of the scope, such as `rngs`.

        Returns:
          The output, and the scope as the call leaves it.
        """
        scope = replace(self.scope, variables=copied(variables), **changes)
        stage = self.module._stage
        inner = self.module._bound(scope, self.module.path, self.module.parent, self.cls)
        if self.cls is not type(self.module) or stage not in ("setup", "compact"):
            return inner._run(self.function, args, self.kwargs), scope
        # A function is lifted, in the middle of a method of the module: it goes on with the names
        # that the method has given so far, and the method goes on with those of the function.
        if stage == "compact":
            inner._set_up()
        inner._set(_stage=stage, _names=inner.names_in_use(self.names))
        output = inner._run(self.function, args, self.kwargs)
        self.module._set(_names=inner._names)
        return output, scope

    def pure(self, variables: Filter, rngs: Filter) -> tuple[Fn, Collections, dict[str, Any]]:
        """Return the call as a function of arrays, and the first two arguments for it.

        Args:
          variables, rngs: Filters of the collections and streams that are visible inside.

        Returns:
          A function of collections, keys by stream and the arguments of the call, which returns the
          output and the collections that may have changed; then the collections and the keys.
        """

        def function(held: Any, keys: Any, *args: Any) -> tuple[Any, Collections]:
            mutable = both(self.scope.mutable, variables)
            output, scope = self.run(args, held, mutable=mutable, rngs=keys)
            return output, scope.mutated()

        keys = {name: key for name, key in self.scope.rngs.items() if matches(rngs, name)}
        return function, self.collections(variables), keys

    def whole(self, transformation: Fn, variables: Filter, rngs: Filter, **options: Any) -> Any:
        """Transform the call with all its variables at once, without a loop.

        Args:
          transformation: Called as `transformation(function, **options)`. The function takes `None`
            before the arguments of the pure call, so that they are at the positions of `_program`.
          variables, rngs: Filters of the collections and streams that are visible inside.

        Returns:
          The output of the transformed function; changed variables are written to the module.
        """
        function, held, keys = self.pure(variables, rngs)
        transformed = transformation(lambda _, *rest: function(*rest), **options)
        output, changed = transformed(None, held, keys, *self.args)
        self.write(changed)
        return output


def lifted_target(
    target: T, prefix: str, methods: Names | None, transform: Callable[["Call"], Any]
) -> T:
    """Return the target, with another function in the place of its methods, or of itself.

    Args:
      target: A module class, or a function whose first argument is a module.
      prefix: What the name of the new class begins with.
      methods: The methods of a class; `__call__` by default.
      transform: Given the `Call`, it returns the output.

    Returns:
      A subclass of a module class, whose methods are lifted; or, of a function, a function.
    """
    cls: Any = target if isinstance(target, type) and issubclass(target, Module) else None

    def lifted(function: Any) -> Any:
        @functools.wraps(function)
        def call(self: Module, *args: Any, **kwargs: Any) -> Any:
            return transform(Call(self, cls or type(self), function, args, kwargs))

        return call

    if cls is None:
        return lifted(target)  # type: ignore[no-any-return]
    names = [methods] if isinstance(methods, str) else methods or ["__call__"]
    parts: dict[str, Any] = {name: nowrap(lifted(getattr(cls, name))) for name in names}
    parts |= {"setup": Module.setup, "__module__": cls.__module__, "__doc__": cls.__doc__}
    return type(prefix + cls.__name__, (cls,), parts)  # type: ignore[return-value]


def _by_axis(fn: Fn, axes: Any, *trees: Any) -> Any:
    """`fn(axis, *parts)` for each axis in a tree of axes, which is a prefix of the trees.

    `broadcast` counts as the axis `None`.
    """
    axes = tuple(axes) if isinstance(axes, list) else axes
    axes = jax.tree.map(lambda axis: None if axis is broadcast else axis, axes)
    return jax.tree.map(fn, axes, *trees, is_leaf=lambda axis: axis is None)


def _to_front(axis: int | None, tree: Any) -> Any:
    """Arrays with the axis moved to the front; `None` for a tree that is not cut."""
    return None if axis is None else jax.tree.map(lambda x: jnp.moveaxis(x, axis, 0), tree)


def _from_front(axis: int | None, tree: Any) -> Any:
    """Arrays with the first axis moved to `axis`; for `None` the first entry, as all are alike."""
    return jax.tree.map(lambda x: x[0] if axis is None else jnp.moveaxis(x, 0, axis), tree)


def one_way(axes: Axes, excluded: type[In] | type[Out]) -> Axes:
    """Return axes for one way, into a loop or out of it, without those for the other way.

    Args:
      axes: By filters of collections an axis, `In(axis)`, `Out(axis)` or `None`.
      excluded: The class of those for the other way, which become `None`.
    """
    return {
        choice: None if isinstance(axis, excluded) else getattr(axis, "axis", axis)
        for choice, axis in axes.items()
    }


def returned(axes: Axes) -> Filter:
    """Return the filter of the collections that a loop returns: those that have no `In(axis)`.

    Args:
      axes: By filters of collections an axis, `In(axis)`, `Out(axis)` or `None`; the first filter
        that takes a collection decides.
    """
    choice: Filter = False
    for own, axis in reversed(list(axes.items())):
        choice = both(choice, DenyList(own)) if isinstance(axis, In) else (own, choice)
    return choice


def cross_axis(
    rename: Fn, move: Fn, collections: Mapping[str, Any], axes: Axes, params: meta.Params
) -> Collections:
    """Take collections into a loop, or out of it: move the axis of arrays, rename boxes (LIN-2).

    Args:
      rename: `meta.remove_axis` on the way in, `meta.add_axis` on the way out.
      move: Moves an axis of the arrays in a tree: `move(axis, tree)`.
      collections: Trees by collection.
      axes: The axis of each collection; those without one are left out of the result.
      params: The `metadata_params` of the loop.

    Returns:
      The collections that have an axis.

    Raises:
      PartitioningUnspecifiedError: There is a box, and `params` has no name (LIN-3).
    """
    along = [(name, axis) for name in collections if (axis := chosen(axes, name)) is not None]
    return {name: move(axis, rename(collections[name], axis, params)) for name, axis in along}


@dataclass
class _Loop:
    """What a loop was asked for: it transforms a `Call` when it is called with one.

    Args:
      drive: Runs the body: takes it, the state at the start, what is cut, and the length; returns
        the last state and, stacked along the first axis, outputs and changed collections.
      axes: The axis along which a collection is cut, or `None`, by filters of collections.
      splits: Whether each lane or step draws keys of its own, by filters of streams.
      in_axes: The axis along which an argument is cut, as a tree prefix.
      size: The length of the loop, if it is given.
      params: The parameters of the axis for boxes.
      shared, carried: Filters of the collections that all share, and that steps hand on.
      carries: How many of the first arguments, and of the outputs, steps hand on.
    """

    drive: Fn
    axes: Axes
    splits: Mapping[Any, bool]
    in_axes: Any
    size: int | None
    params: Mapping[Any, Any]
    shared: Filter = False
    carried: Filter = False
    carries: int = 0

    def __call__(self, call: Call) -> Any:
        return _Passage(self, call).run()


class _Passage:
    """One call of a loop, from the variables of the module to its outputs.

    The *state* is what steps hand on: a pair of collections and arguments. A *slice* is what one
    lane or step has for itself: collections, arguments and keys.
    """

    def __init__(self, loop: _Loop, call: Call):
        self.loop, self.call = loop, call
        self.carry = call.args[: loop.carries]
        self.args = call.args[loop.carries :]
        held = call.collections((*loop.axes, loop.carried))
        self.carried = {name: tree for name, tree in held.items() if not self._is_cut(name)}
        self.constant = call.collections(loop.shared)
        axes = one_way(loop.axes, Out)
        cut = cross_axis(meta.remove_axis, _to_front, held, axes, loop.params)
        parts = _by_axis(_to_front, loop.in_axes, self.args)
        self.size = self._length(cut, parts)
        split, self.same_keys = self._keys()
        self.slices = (cut, parts, split)

    def _is_cut(self, collection: str) -> bool:
        return chosen(self.loop.axes, collection) is not None

    def _length(self, cut: Collections, parts: Any) -> int:
        leaves: Any = jax.tree.leaves((cut, parts))
        sizes: set[Any] = {self.loop.size, *(leaf.shape[0] for leaf in leaves)} - {None}
        if len(sizes) != 1:
            raise ModuleError(f"A lift goes along one axis, but its sizes are {sizes!r}.")
        return int(sizes.pop())

    def _keys(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Keys by stream: one for each slice, and those that are the same for all slices."""
        rngs, draw = self.call.scope.rngs, self.call.module.make_rng
        asked = {name: chosen(self.loop.splits, name) for name in rngs}
        split = {n: jax.random.split(draw(n), self.size) for n in asked if asked[n]}
        return split, {n: rngs[n] for n in asked if asked[n] is False}

    def _step(self, state: Any, cut_slice: Any, **changes: Any) -> tuple[Any, Scope]:
        """Call the module on the state and one slice."""
        (carried, carry), (cut, parts, keys) = state, cut_slice
        own = _by_axis(
            lambda axis, whole, part: whole if axis is None else part,
            self.loop.in_axes, self.args, parts,
        )  # fmt: skip
        variables = self.constant | carried | cut
        return self.call.run((*carry, *own), variables, rngs=self.same_keys | keys, **changes)

    def _make_what_steps_share(self) -> None:
        """In `init`, make the shared and carried collections by a first step, whose output is lost.

        A loop can neither make what all its steps share, nor begin to carry what is not there.
        """
        loop = self.loop
        if self.call.scope.initializing and (loop.shared or loop.carried):
            first = jax.tree.map(lambda leaf: leaf[0], self.slices)
            made = self._step((self.carried, self.carry), first, making=True)[1].mutated()
            self.constant |= {n: tree for n, tree in made.items() if matches(loop.shared, n)}
            self.carried |= {n: tree for n, tree in made.items() if matches(loop.carried, n)}

    def _body(self, state: Any, cut_slice: Any) -> Any:
        """One lane or step, as JAX traces it: the next state, and a pair of output and changes."""
        may_change = (returned(self.loop.axes), self.loop.carried)
        mutable = both(self.call.scope.mutable, may_change)
        output, scope = self._step(state, cut_slice, mutable=mutable)
        changed = scope.mutated()
        *carry, y = output if self.carry else (output,)
        kept = {name: changed.pop(name) for name in [*changed] if not self._is_cut(name)}
        return (state[0] | kept, tuple(carry)), (y, changed)

    def run(self) -> Any:
        """Run the loop, write what has changed, and return the outputs."""
        loop = self.loop
        self._make_what_steps_share()
        start = (self.carried, self.carry)
        (carried, carry), (y, changed) = loop.drive(self._body, start, self.slices, self.size)
        axes = one_way(loop.axes, In)
        changed = cross_axis(meta.add_axis, _from_front, changed, axes, loop.params)
        self.call.write(self.constant | carried | changed)
        return (*carry, y) if self.carry else y


def vmap(
    target: T,
    variable_axes: Axes = NOTHING,
    split_rngs: Mapping[Any, bool] = NOTHING,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    axis_name: str | None = None,
    spmd_axis_name: str | None = None,
    metadata_params: Mapping[Any, Any] = NOTHING,
    methods: Names | None = None,
) -> T:
    """Call a module in lanes, as `jax.vmap` calls a function (LIN-4b).

    Args:
      target: A module class, or a function whose first argument is a module.
      variable_axes: By filters of collections, the axis along which each lane has its slice, which
        may be negative, or `None` if all lanes share them. `In(axis)` is for collections that are
        only read, `Out(axis)` for those only returned. Other collections are not visible.
      split_rngs: By filters of streams, whether each lane draws keys of its own (LIN-4e). Other
        streams are not visible.
      in_axes, out_axes: As in `jax.vmap`, for the arguments after the module and for the output.
      axis_size: How many lanes there are, where no argument and no collection says it.
      axis_name, spmd_axis_name: As in `jax.vmap`.
      metadata_params: What boxes are told of the axis: its name, under `PARTITION_NAME` (LIN-2).
      methods: The methods to lift; `__call__` by default.

    Returns:
      A subclass of the target, named `Vmap...`, or a function, with the same parameters.

    Raises:
      PartitioningUnspecifiedError: In the call: a variable is boxed, and the axis has no name.
      ModuleError: In the call: the sizes along the axes differ, or none is known.
    """

    def lanes(body: Fn, state: Any, slices: Any, size: int) -> Any:
        mapped_body = jax.vmap(
            functools.partial(body, state),
            out_axes=(None, (out_axes, 0)),
            axis_name=axis_name,
            axis_size=size,
            spmd_axis_name=spmd_axis_name,
        )
        return mapped_body(slices)

    loop = _Loop(lanes, variable_axes, split_rngs, in_axes, axis_size, metadata_params)
    return lifted_target(target, "Vmap", methods, loop)


def scan(
    target: T,
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
) -> T:
    """Call a module step by step, as `jax.lax.scan` calls a function: layers in a loop (LIN-4a).

    The module takes a carry and arguments, `(carry, *xs)`, and returns a pair `(carry, y)`.

    Args:
      target: A module class, or a function whose first argument is a module.
      variable_axes: By filters of collections, the axis along which each step has its slice;
        `In(axis)` for collections that are only read and cannot be written inside, `Out(axis)` for
        those only returned.
      variable_broadcast: A filter of the collections that all steps share.
      variable_carry: A filter of the collections that a step gets as the step before left them
        (LIN-8g).
      split_rngs: As in `vmap`, by step (LIN-4e, LIN-8h).
      in_axes, out_axes: For each of `xs`, and for `y`, an axis or `broadcast` (LIN-4d).
      length: How many steps there are, where no argument and no collection says it.
      reverse, unroll: As in `jax.lax.scan`.
      metadata_params: What boxes are told of the axis: its name, under `PARTITION_NAME` (LIN-2).
      methods: The methods to lift; `__call__` by default.

    Returns:
      A subclass of the target, named `Scan...`, or a function, with the same parameters; its
      outputs are the last carry and the `y` of all steps, stacked.

    Raises:
      PartitioningUnspecifiedError: In the call: a variable is boxed, and the axis has no name.
      ModuleError: In the call: the sizes along the axes differ, or none is known.
    """

    def steps(body: Fn, state: Any, slices: Any, size: int) -> Any:
        state, (ys, changed) = jax.lax.scan(
            body, state, slices, length=size, reverse=reverse, unroll=unroll
        )
        return state, (_by_axis(_from_front, out_axes, ys), changed)

    loop = _Loop(
        steps, variable_axes, split_rngs, in_axes, length, metadata_params,
        shared=variable_broadcast, carried=variable_carry, carries=1,
    )  # fmt: skip
    return lifted_target(target, "Scan", methods, loop)


def _in_program(positions: Positions) -> tuple[int, ...]:
    """Positions of arguments of the module's method, which is at 0, as positions in `_program`."""
    given = [positions] if isinstance(positions, int) else positions
    return tuple(position + 2 for position in given if position > 0)


def remat(
    target: T,
    variables: Filter = True,
    rngs: Filter = True,
    prevent_cse: bool = True,
    static_argnums: Positions = (),
    policy: Callable[..., bool] | None = None,
    methods: Names | None = None,
) -> T:
    """Compute a module again for its gradient, instead of keeping intermediate values (LIN-4f).

    Args:
      target: A module class, or a function whose first argument is a module.
      variables, rngs: Filters of the collections and streams that are visible inside.
      prevent_cse, policy: As in `jax.checkpoint`.
      static_argnums: Positions of arguments that are not traced; the module is at 0.
      methods: The methods to lift; `__call__` by default.

    Returns:
      A subclass of the target, named `Checkpoint...`, or a function, with the same parameters.
    """

    def transform(call: Call) -> Any:
        static = tuple(i for i in _in_program(static_argnums) if i < 3 + len(call.args))
        options: Any = {"prevent_cse": prevent_cse, "policy": policy, "static_argnums": static}
        return call.whole(jax.checkpoint, variables, rngs, **options)

    return lifted_target(target, "Checkpoint", methods, transform)


checkpoint = remat


def _program(key: Any, variables: Any, keys: Any, /, *args: Any, **kwargs: Any) -> Any:
    """What lifted `jit` compiles, once for all modules and calls with an equal `key`.

    Args:
      key: All that is static about a call, from `_static_key`.
      variables, keys: Collections, and keys by stream.
      args, kwargs: The arguments of the call.
    """
    module, function, path, mutable, *settings = key
    scope = Scope(copied(variables), mutable, keys, *settings)
    return module._bound(scope, path)._run(function, args, kwargs), scope.mutated()


def _static_key(call: Call, variables: Filter) -> tuple[Any, ...]:
    """All that is static about a call, such that equal calls have equal keys."""
    module, scope = call.module, call.scope
    described = call.cls(**module.clone()._fields(), name=module.name, parent=None)
    mutable = hashable(both(scope.mutable, variables))
    settings = (scope.initializing, scope.making, scope.capture)
    return (described, call.function, module.path, mutable, *settings)


def jit(
    target: T,
    variables: Filter = True,
    rngs: Filter = True,
    static_argnums: Positions = (),
    static_argnames: Names = (),
    donate_argnums: Positions = (),
    methods: Names | None = None,
) -> T:
    """Compile a module; equal modules of a class that are called alike share a program (LIN-4f).

    The fields of a module that is compiled must be hashable. A function, and a module that reaches
    variables of others by its fields, is compiled on each call.

    Args:
      target: A module class, or a function whose first argument is a module.
      variables, rngs: Filters of the collections and streams that are visible inside.
      static_argnums, static_argnames, donate_argnums: As in `jax.jit`; the module is at 0.
      methods: The methods to lift; `__call__` by default.

    Returns:
      A subclass of the target, named `Jit...`, or a function, with the same parameters.
    """
    options: Any = {
        "static_argnums": (0, *_in_program(static_argnums)),
        "donate_argnums": _in_program(donate_argnums),
    }
    program = jax.jit(_program, static_argnames=static_argnames, **options)

    def transform(call: Call) -> Any:
        module = call.module
        if call.paths != {module.path} or type(module) is call.cls:
            return call.whole(jax.jit, variables, rngs, **options)
        key, held = _static_key(call, variables), call.collections(variables)
        keys = {name: module.make_rng(name) for name in call.scope.rngs if matches(rngs, name)}
        output, changed = program(key, held, keys, *call.args, **call.kwargs)
        call.write(changed)
        return output

    return lifted_target(target, "Jit", methods, transform)
