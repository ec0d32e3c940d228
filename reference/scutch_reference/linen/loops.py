"""The lifted loops `vmap` and `scan` over modules (document 002, LIN-2 to LIN-4, LIN-8).

A loop calls the module once for each index of an axis, in *lanes* (side by side) or in *steps* (one
after the other). A collection is *cut* along an axis, *shared* by all, or *carried* from step to
step. A box loses the name of that axis on the way in and gets it back on the way out, by its own
methods; `metadata_params` holds the name, under `PARTITION_NAME`.

>>> import jax, jax.numpy as jnp
>>> from scutch_reference.linen import Dense
>>> cut = {"variable_axes": {"params": 0}, "split_rngs": {"params": True}}
>>> Heads = vmap(Dense, in_axes=None, axis_size=3, **cut)
>>> variables = Heads(features=4).init(jax.random.key(0), jnp.ones(2))
>>> variables["params"]["kernel"].shape
(3, 2, 4)
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax

from .. import jax_versions, meta
from ..errors import ModuleError
from ..types import Prefix, Tree
from .lift import Call, Collections, Names, lifted_target
from .module import F, Fn
from .scope import DenyList, Filter, both, matches

Axes: TypeAlias = Mapping[Any, Any]
NOTHING: Mapping[Any, Any] = {}


class broadcast:
    """Stands for an axis in `scan` of a value that is not cut, so that all steps get the same."""


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


def _by_axis(fn: Fn, axes: Prefix, *trees: Tree) -> Tree:
    """`fn(axis, *parts)` for each axis in a tree of axes, which is a prefix of the trees.

    `broadcast` counts as the axis `None`.
    """
    axes = tuple(axes) if isinstance(axes, list) else axes
    axes = jax.tree.map(lambda axis: None if axis is broadcast else axis, axes)
    return jax.tree.map(fn, axes, *trees, is_leaf=lambda axis: axis is None)


def _to_front(axis: int | None, tree: Tree) -> Tree:
    """Arrays with the axis moved to the front; `None` for a tree that is not cut."""
    return None if axis is None else jax.tree.map(lambda x: jax.numpy.moveaxis(x, axis, 0), tree)


def _from_front(axis: int | None, tree: Tree) -> Tree:
    """Arrays with the first axis moved to `axis`; for `None` the first entry, as all are alike."""
    return jax.tree.map(lambda x: x[0] if axis is None else jax.numpy.moveaxis(x, 0, axis), tree)


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
    """Return the filter of the collections that a loop returns, which have no `In(axis)`.

    Args:
      axes: By filters of collections an axis, `In(axis)`, `Out(axis)` or `None`; the first filter
        that takes a collection decides.
    """
    choice: Filter = False
    for own, axis in reversed(list(axes.items())):
        choice = both(choice, DenyList(own)) if isinstance(axis, In) else (own, choice)
    return choice


def cross_axis(
    rename: Fn,
    move: Fn,
    collections: Mapping[str, Any],
    axes: Axes,
    params: meta.Params,
    outwards: bool = False,
) -> Collections:
    """Move the loop axis of arrays, and rename boxes, on the way into a loop or out (LIN-2).

    Args:
      rename: `meta.remove_axis` on the way in, `meta.add_axis` on the way out.
      move: Moves an axis of the arrays in a tree: `move(axis, tree)`.
      collections: Trees by collection.
      axes: The axis of each collection; those without one are left out of the result.
      params: The `metadata_params` of the loop.
      outwards: Whether arrays are moved before boxes are renamed. A box may store an axis that it
        has the name of elsewhere, so it is renamed where the axis lies as the caller sees it.

    Returns:
      The collections that have an axis.

    Raises:
      PartitioningUnspecifiedError: There is a box, and `params` has no name (LIN-3).
    """
    along = [(name, axis) for name in collections if (axis := chosen(axes, name)) is not None]

    def crossed(tree: Tree, axis: int) -> Tree:
        if outwards:
            return rename(move(axis, tree), axis, params)
        return move(axis, rename(tree, axis, params))

    return {name: crossed(collections[name], axis) for name, axis in along}


@dataclass(frozen=True)
class _Loop:
    """The options of a loop; `run` takes a call of the module through it.

    Args:
      drive: Runs the loop, as `drive(body, state, slices, length)`. Returns the last state, and a
        pair of the outputs and the changed collections; these are stacked along the first axis.
      axes: The axis along which a collection is cut, or `None`, by filters of collections.
      splits: Whether each lane or step draws keys of its own, by filters of streams.
      in_axes: The axis along which an argument is cut, as a tree prefix.
      length: The length of the loop, or `None`.
      params: The parameters of the axis for boxes.
      broadcast: A filter of the collections that all steps share.
      carry: A filter of the collections that each step passes to the next.
      carries: The number of leading arguments that each step passes to the next as outputs.
    """

    drive: Fn
    axes: Axes
    splits: Mapping[Any, bool]
    in_axes: Any
    length: int | None
    params: Mapping[Any, Any]
    broadcast: Filter = False
    carry: Filter = False
    carries: int = 0

    def run(self, call: Call) -> Any:
        """Run the loop, write the changed collections, and return the outputs.

        The *state* is a pair of collections and arguments: each step passes it to the next, and all
        lanes get the same. A *slice* holds the collections, arguments and keys of one lane or step.

        Args:
          call: A call of the module.

        Returns:
          The last output; behind the carried arguments, if there are any.
        """
        handed_on, args = call.args[: self.carries], call.args[self.carries :]
        held = call.collections((*self.axes, self.carry))
        carried = {name: tree for name, tree in held.items() if chosen(self.axes, name) is None}
        shared = call.collections(self.broadcast)
        cut = cross_axis(meta.remove_axis, _to_front, held, one_way(self.axes, Out), self.params)
        parts = _by_axis(_to_front, self.in_axes, args)
        size = self._size(cut, parts)
        split, same_keys = self._keys(call.scope.rngs, size)

        def step(state: Tree, cut_slice: Tree, **changes: Any) -> tuple[Any, Collections]:
            """Call the module on the state and one slice."""
            (carried, handed_on), (cut, parts, keys) = state, cut_slice
            own = _by_axis(
                lambda axis, whole, part: whole if axis is None else part,
                self.in_axes,
                args,
                parts,
            )
            return call.run(
                (*handed_on, *own),
                call.kwargs,
                shared | carried | cut,
                rngs=same_keys | keys,
                **changes,
            )

        def body(state: Tree, cut_slice: Tree) -> Tree:
            """Run one lane or step; return the next state, and a pair of output and changes."""
            mutable = both(call.scope.mutable, (returned(self.axes), self.carry))
            output, changed = step(state, cut_slice, mutable=mutable)
            *next_on, y = output if handed_on else (output,)
            kept = {n: changed.pop(n) for n in [*changed] if chosen(self.axes, n) is None}
            return (state[0] | kept, tuple(next_on)), (y, changed)

        if call.scope.initializing and (self.broadcast or self.carry):
            # Inside the loop it is too late: no step can make a collection that all steps share,
            # and a carried collection must exist before the first step. So a first step makes
            # them, and its output is dropped.
            first = jax.tree.map(lambda leaf: leaf[0], (cut, parts, split))
            _, made = step((carried, handed_on), first, making=True)
            shared |= {name: tree for name, tree in made.items() if matches(self.broadcast, name)}
            carried |= {name: tree for name, tree in made.items() if matches(self.carry, name)}
        (carried, last), (y, changed) = self.drive(
            body, (carried, handed_on), (cut, parts, split), size
        )
        changed = cross_axis(
            meta.add_axis, _from_front, changed, one_way(self.axes, In), self.params, True
        )
        call.write(shared | carried | changed)
        return (*last, y) if last else y

    def _size(self, *trees: Tree) -> int:
        sizes: set[Any] = {x.shape[0] for x in jax.tree.leaves(trees)} | ({self.length} - {None})
        if len(sizes) != 1:
            raise ModuleError(
                place="the sizes of the axis of a lift", given=sizes, expected="one size"
            )
        return int(sizes.pop())

    def _keys(self, rngs: Mapping[str, Any], size: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Two dictionaries by stream, with a key for each slice and with one key for all slices."""
        asked = {name: chosen(self.splits, name) for name in rngs}
        split = {name: jax.random.split(rngs[name], size) for name in asked if asked[name]}
        return split, {name: rngs[name] for name in asked if asked[name] is False}


def _sharded_alike(keys: Tree, others: Tree) -> Tree:
    """Shard split keys along the axis of the lanes as the other values, as `jax.vmap` requires.

    Only values on Explicit axes of a mesh have a type that says how they are sharded (LIN-9p).
    """
    if jax_versions.typeof is None:
        return keys
    kinds = map(jax_versions.typeof, jax.tree.leaves(others))
    axes = {kind.sharding.spec[0] for kind in kinds} - {None}
    spec = jax.sharding.PartitionSpec(*axes)  # type: ignore[no-untyped-call]
    return jax_versions.reshard(keys, spec) if axes and keys else keys


def vmap(
    target: F,
    variable_axes: Axes = NOTHING,
    split_rngs: Mapping[Any, bool] = NOTHING,
    in_axes: Prefix = 0,
    out_axes: Prefix = 0,
    axis_size: int | None = None,
    axis_name: str | None = None,
    spmd_axis_name: str | None = None,
    metadata_params: Mapping[Any, Any] = NOTHING,
    methods: Names | None = None,
) -> F:
    """Call a module in lanes, as `jax.vmap` calls a function (LIN-4b).

    Args:
      target: A module class, or a function whose first argument is a module.
      variable_axes: By filters of collections, the axis along which each lane has its slice, which
        may be negative, or `None` if all lanes share them. `In(axis)` is for collections that are
        only read, `Out(axis)` for those only returned. Other collections are not visible.
      split_rngs: By filters of streams, whether each lane draws keys of its own (LIN-4e). Other
        streams are not visible.
      in_axes, out_axes: As in `jax.vmap`, for the arguments after the module and for the output.
      axis_size: The number of lanes; required if no argument and no collection is cut.
      axis_name, spmd_axis_name: As in `jax.vmap`.
      metadata_params: The parameters for the boxes' `add_axis` and `remove_axis`: the axis name
        under `PARTITION_NAME` (LIN-2).
      methods: The methods to lift; `__call__` by default.

    Returns:
      A subclass of the target, named `Vmap...`, or a function, with the same parameters.

    Raises:
      PartitioningUnspecifiedError: In the call: a variable is boxed, and the axis has no name.
      ModuleError: In the call: the sizes along the axes differ, or none is known.
    """

    def lanes(body: Fn, state: Tree, slices: Tree, size: int) -> Tree:
        if spmd_axis_name is not None:
            slices = (*slices[:2], _sharded_alike(slices[2], slices))
        mapped_body = jax.vmap(
            functools.partial(body, state),
            out_axes=(None, (out_axes, 0)),
            axis_name=axis_name,
            axis_size=size,
            spmd_axis_name=spmd_axis_name,
        )
        return mapped_body(slices)

    loop = _Loop(
        drive=lanes,
        axes=variable_axes,
        splits=split_rngs,
        in_axes=in_axes,
        length=axis_size,
        params=metadata_params,
    )
    return lifted_target(target, "Vmap", methods, loop.run)


def scan(
    target: F,
    variable_axes: Axes = NOTHING,
    variable_broadcast: Filter = False,
    variable_carry: Filter = False,
    split_rngs: Mapping[Any, bool] = NOTHING,
    in_axes: Prefix = 0,
    out_axes: Prefix = 0,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    metadata_params: Mapping[Any, Any] = NOTHING,
    methods: Names | None = None,
    check_constancy_invariants: bool = True,
) -> F:
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
      length: The number of steps; required if no argument and no collection is cut.
      reverse, unroll: As in `jax.lax.scan`.
      metadata_params: The parameters for the boxes' `add_axis` and `remove_axis`: the axis name
        under `PARTITION_NAME` (LIN-2).
      methods: The methods to lift; `__call__` by default.
      check_constancy_invariants: Accepted and not needed: nothing is traced for a check alone.

    Returns:
      A subclass of the target, named `Scan...`, or a function, with the same parameters; its
      outputs are the last carry and the `y` of all steps, stacked.

    Raises:
      PartitioningUnspecifiedError: In the call: a variable is boxed, and the axis has no name.
      ModuleError: In the call: the sizes along the axes differ, or none is known.
    """

    def steps(body: Fn, state: Tree, slices: Tree, size: int) -> Tree:
        state, (ys, changed) = jax.lax.scan(
            body, state, slices, length=size, reverse=reverse, unroll=unroll
        )
        return state, (_by_axis(_from_front, out_axes, ys), changed)

    loop = _Loop(
        drive=steps,
        axes=variable_axes,
        splits=split_rngs,
        in_axes=in_axes,
        length=length,
        params=metadata_params,
        broadcast=variable_broadcast,
        carry=variable_carry,
        carries=1,
    )
    return lifted_target(target, "Scan", methods, loop.run)
