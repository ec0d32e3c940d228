"""The rarer lifted transformations, such as branches, mapped variables and nested scans.

Two kinds of functions are here. `cond`, `switch` and `while_loop` take functions and a module that
is bound already, and call them with it. The others take a *target*, which is a module class or a
function of a module, and return a new target: `map_variables` shows it other variables,
`add_metadata_axis` names an axis, `remat_scan` repeats it, `fold_rngs` gives it keys of its own.

Where variables are handed to user code, to be mapped, they are those *of the module*: collections
without the path that leads to it.

>>> import jax.numpy as jnp
>>> from scutch_reference.linen import Dense, Module, compact
>>> class Either(Module):
...     @compact
...     def __call__(self, x):
...         plus, minus = lambda layer, x: layer(x), lambda layer, x: -layer(x)
...         return cond(x.sum() > 0, plus, minus, Dense(2), x)
>>> x = jnp.ones((1, 2))
>>> variables = Either().init(jax.random.key(0), x)
>>> bool((Either().apply(variables, x) == Either().apply(variables, -x)).all())
True
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from .. import meta
from ..types import Tree
from .lift import Call, Collections, Names, at_path, call_of, lifted_target, remat
from .loops import NOTHING, Axes, In, Out, chosen, cross_axis, one_way, scan
from .module import F, Fn, Module
from .scope import DenyList, Filter, Scope, both, divided, matches

ALL_FIRST: Mapping[Any, Any] = {True: 0}
ALL_SPLIT: Mapping[Any, bool] = {True: True}


def switch(
    index: int | jax.Array,
    branches: Sequence[Fn],
    mdl: Module,
    *operands: Tree,
    variables: Filter = True,
    rngs: Filter = True,
) -> Tree:
    """Call one of several functions with a bound module, as `jax.lax.switch` does.

    Args:
      index: An integer without axes: which branch is called; it is clamped to those there are.
      branches: Functions of the module and the operands, which return alike outputs and make and
        change the same variables.
      mdl: The module.
      operands: The other arguments.
      variables, rngs: Filters of the collections and streams that are visible inside.

    Returns:
      The output of the branch; its changes of variables are written to the module.
    """
    calls = [call_of(branch, mdl, operands) for branch in branches]
    functions, held, keys = zip(*[call.pure(variables, rngs) for call in calls], strict=True)
    output, changed = jax.lax.switch(index, functions, held[0], keys[0], *operands)
    calls[0].write(changed)
    return output


def cond(
    pred: bool | jax.Array,
    true_fun: Fn,
    false_fun: Fn,
    mdl: Module,
    *operands: Tree,
    variables: Filter = True,
    rngs: Filter = True,
) -> Tree:
    """Call one of two functions with a bound module, as `jax.lax.cond` does.

    Args:
      pred: A boolean without axes.
      true_fun, false_fun: As the branches of `switch`.
      mdl, operands, variables, rngs: As for `switch`.

    Returns:
      The output of the branch; its changes of variables are written to the module.
    """
    index = jax.numpy.asarray(pred, bool).astype(int)
    return switch(index, (false_fun, true_fun), mdl, *operands, variables=variables, rngs=rngs)


def while_loop(
    cond_fn: Fn,
    body_fn: Fn,
    mdl: Module,
    init: Tree,
    carry_variables: Filter = False,
    broadcast_variables: Filter = True,
    split_rngs: Mapping[Any, bool] = NOTHING,
) -> Tree:
    """Call a function with a bound module as long as a condition holds, as `jax.lax.while_loop`.

    Args:
      cond_fn: `cond_fn(mdl, carry)` returns a boolean without axes, and changes no variable.
      body_fn: `body_fn(mdl, carry)` returns the next carry, of the same shapes and dtypes.
      mdl: The module; its variables have been made before.
      init: The first carry.
      carry_variables: A filter of the collections that a turn gets as the turn before left them.
      broadcast_variables: A filter of the collections that are the same in all turns.
      split_rngs: By filters of streams, whether each turn has a key of its own; streams that no
        filter takes are not visible.

    Returns:
      The last carry; changes of the carried collections are written to the module.
    """
    outer = call_of(body_fn, mdl, (init,))
    asked = {name: chosen(split_rngs, name) for name in outer.scope.rngs}
    seeds = {n: (mdl.make_rng(n), split) for n, split in asked.items() if split is not None}
    shared = outer.collections(broadcast_variables)

    def turn(function: Fn, state: Tree, changing: Filter) -> tuple[Any, Collections]:
        count, carried, carry = state
        keys = {
            name: jax.random.fold_in(key, count) if split else key
            for name, (key, split) in seeds.items()
        }
        output, changed = call_of(function, mdl, (carry,)).run(
            (carry,), {}, shared | carried, mutable=both(outer.scope.mutable, changing), rngs=keys
        )
        return output, carried | changed

    def body(state: Tree) -> Tree:
        carry, carried = turn(body_fn, state, carry_variables)
        return state[0] + 1, carried, carry

    start = (0, outer.collections(carry_variables), init)
    _, carried, carry = jax.lax.while_loop(
        lambda state: turn(cond_fn, state, False)[0], body, start
    )
    outer.write(carried)
    return carry


def map_variables(
    target: F,
    mapped_collections: Filter = True,
    trans_in_fn: Callable[[Any], Any] = lambda collections: collections,
    trans_out_fn: Callable[[Any], Any] = lambda collections: collections,
    init: bool = False,
    mutable: bool = False,
    rngs: Filter = True,
    variables: Filter = True,
    methods: Names | None = None,
) -> F:
    """Show a module other variables than those that lie in its collections.

    Args:
      target: A module class, or a function whose first argument is a module.
      mapped_collections: A filter of the collections that are mapped.
      trans_in_fn: A function from the stored collections to the collections that the module sees.
      trans_out_fn: The inverse, for variables that the module makes or changes.
      init: Whether the module makes its variables in `init`; if not, they must exist already.
      mutable: Whether mapped collections may change.
      rngs, variables: Filters of the streams and of the other collections that are visible.
      methods: The methods to lift; `__call__` by default.

    Returns:
      A subclass of the target, named `MapVariables...`, or a function.
    """

    def transform(call: Call) -> Any:
        path, initializing = call.module.path, call.scope.initializing
        unmapped = both(variables, DenyList(mapped_collections))
        held, others = call.collections(mapped_collections), call.collections(unmapped)
        keys = {name: key for name, key in call.scope.rngs.items() if matches(rngs, name)}
        changes = mutable or (init and initializing)
        may_change = (unmapped, mapped_collections) if changes else unmapped
        inside = at_path(trans_in_fn(Scope(held).at(path)), path)
        allowed = both(call.scope.mutable, may_change)
        output, all_changed = call.run(
            call.args, call.kwargs, others | inside, mutable=allowed, rngs=keys
        )
        changed, rest = divided(all_changed, mapped_collections)
        call.write(rest | at_path(trans_out_fn(Scope(changed).at(path)), path))
        return output

    return lifted_target(target, "MapVariables", methods, transform)


def renamed_inside(
    target: F,
    prefix: str,
    axes: Axes,
    params: meta.Params,
    methods: Names | None,
    *,
    remove: Fn = meta.remove_axis,
    add: Fn = meta.add_axis,
) -> F:
    """Return a target whose variables lose the name of an axis inside; their arrays keep the axis.

    Args:
      target: A module class, or a function whose first argument is a module.
      prefix: The beginning of the name of the new class.
      axes: By filters of collections, the axis, `In(axis)`, `Out(axis)`, or `None`.
      params: The parameters for `remove` and `add`: the axis name under `PARTITION_NAME`.
      methods: The methods to lift; `__call__` by default.
      remove, add: Functions that remove and add the axis name in a tree, called as
        `remove(tree, axis, params)`.

    Returns:
      The target, lifted: a module class, or a function whose first argument is a module.
    """

    def in_place(_: object, tree: Tree) -> Tree:
        return tree

    def transform(call: Call) -> Any:
        held = call.collections(True)
        inside = held | cross_axis(remove, in_place, held, one_way(axes, Out), params)
        output, changed = call.run(call.args, call.kwargs, inside)
        call.write(changed | cross_axis(add, in_place, changed, one_way(axes, In), params))
        return output

    return lifted_target(target, prefix, methods, transform)


def add_metadata_axis(
    target: F,
    variable_axes: Axes = NOTHING,
    metadata_params: Mapping[Any, Any] = NOTHING,
    methods: Names | None = None,
) -> F:
    """Name an axis in the boxes of a module as `vmap` and `scan` do, and leave the arrays (LIN-2).

    Args:
      target: A module class, or a function whose first argument is a module.
      variable_axes: By filters of collections, the axis, or `None`.
      metadata_params: The parameters for the boxes' `add_axis` and `remove_axis`: the axis name
        under `PARTITION_NAME`.
      methods: The methods to lift; `__call__` by default.

    Returns:
      A subclass of the target, named `AddMetadataAxis...`, or a function.

    Raises:
      PartitioningUnspecifiedError: In the call: a variable is boxed, and the axis has no name.
    """
    return renamed_inside(target, "AddMetadataAxis", variable_axes, metadata_params, methods)


def remat_scan(
    target: F,
    lengths: Sequence[int] = (),
    policy: Callable[..., bool] | None = None,
    variable_broadcast: Filter = False,
    variable_carry: Filter = False,
    variable_axes: Axes = ALL_FIRST,
    split_rngs: Mapping[Any, bool] = ALL_SPLIT,
) -> F:
    """Repeat a module in nested scans, each of which computes its steps again for gradients.

    Args:
      target: A module class, or a function, that takes a carry and returns the next.
      lengths: How often each scan repeats, the outermost first.
      policy: As in `jax.checkpoint`.
      variable_broadcast, variable_carry, variable_axes, split_rngs: As in `scan`.

    Returns:
      A subclass of the target, named `RematScan...`, or a function.
    """
    options: Any = {
        "variable_broadcast": variable_broadcast,
        "variable_carry": variable_carry,
        "variable_axes": variable_axes,
        "split_rngs": split_rngs,
    }

    def repeated(function: Fn, lengths: Sequence[int]) -> Fn:
        if not lengths:
            return function
        inner = remat(repeated(function, lengths[1:]), policy=policy, prevent_cse=False)

        def step(module: Module, carry: Tree) -> tuple[Any, None]:
            return inner(module, carry), None

        looped = scan(step, length=lengths[0], **options)
        return lambda module, carry: looped(module, carry)[0]

    def transform(call: Call) -> Any:
        def of_the_target(module: Module, carry: Tree) -> Tree:
            inner = Call(module, call.cls, call.function, (carry,), {})
            output, changed = inner.run(inner.args, inner.kwargs, inner.collections(True))
            inner.write(changed)
            return output

        function = call.function if call.cls is type(call.module) else of_the_target
        return repeated(function, lengths)(call.module, *call.args)

    return lifted_target(target, "RematScan", None, transform)


def fold_rngs(target: F, variables: Filter = True, rngs: Filter = True) -> F:
    """Call a module with new keys, one drawn from each stream of the caller.

    Args:
      target: A module class, or a function whose first argument is a module.
      variables, rngs: Filters of the collections and streams that are visible inside.

    Returns:
      A subclass of the target, named `FoldRngs...`, or a function.
    """

    def transform(call: Call) -> Any:
        function, held, keys = call.pure(variables, rngs)
        drawn = {name: call.module.make_rng(name) for name in keys}
        output, changed = function(held, drawn, *call.args, **call.kwargs)
        call.write(changed)
        return output

    return lifted_target(target, "FoldRngs", None, transform)


def named_call(class_fn: F, force: bool = True) -> F:
    """Give the operations of a method its name, in profiles and compiled programs.

    Args:
      class_fn: The method.
      force: For Flax, where names can be switched off; here they are always on.
    """
    return jax.named_scope(class_fn.__name__)(class_fn)
