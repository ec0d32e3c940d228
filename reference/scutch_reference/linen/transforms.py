"""The other lifted transformations of Linen: gradients, branches, loops, and maps over variables.

`lift` has the loops over an axis, `jit` and `remat`. Here are those that take a function and a
module that is bound already, and call the one with the other (`cond`, `switch`, `while_loop`,
`grad`, `value_and_grad`, `vjp`, `jvp`), and some that make a target of a target (`map_variables`,
`add_metadata_axis`, `remat_scan`, `fold_rngs`, `custom_vjp`, `named_call`).

Where variables are handed to user code, as tangents or to be mapped, they are those *of the
module*: collections without the path that leads to it.

>>> import jax.numpy as jnp
>>> from scutch_reference.linen import Dense, Module, compact
>>> class Slope(Module):
...     @compact
...     def __call__(self, x):
...         return grad(lambda dense, x: dense(x).sum(), Dense(1, use_bias=False), x)[0]
>>> variables = Slope().init(jax.random.key(0), jnp.ones((1, 2)))
>>> slope = Slope().apply(variables, jnp.ones((1, 2)))
>>> bool((slope == variables["params"]["Dense_0"]["kernel"].T).all())
True
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax

from .. import meta
from .lift import (
    NOTHING,
    Axes,
    Call,
    Collections,
    In,
    Names,
    Out,
    T,
    chosen,
    cross_axis,
    lifted_target,
    one_way,
    remat,
    scan,
)
from .module import Fn, Module
from .scope import DenyList, Filter, Path, both, matches, put

F = TypeVar("F", bound=Callable[..., Any])
_partial: Callable[..., Fn] = jax.tree_util.Partial  # JAX leaves it untyped.
ALL_FIRST: Mapping[Any, Any] = {True: 0}
ALL_SPLIT: Mapping[Any, bool] = {True: True}


def _call(function: Fn, module: Module, args: tuple[Any, ...]) -> Call:
    return Call(module, type(module), function, args, {})


def _of_module(collections: Collections, path: Path) -> Collections:
    """Collections without the path that leads to the module, and without those that lack it."""
    found: Collections = {}
    for name, tree in collections.items():
        for key in path:
            tree = tree.get(key, {})
        found |= {name: tree} if tree else {}
    return found


def _at_path(collections: Mapping[str, Any], path: Path) -> Collections:
    """The inverse of `_of_module`: collections with the path before what they hold."""
    nested: Collections = {}
    for name, tree in collections.items():
        put(nested, (name, *path), tree)
    return nested


def _divided(held: Collections, choice: Filter) -> tuple[Collections, Collections]:
    """The collections that a filter takes, and all others."""
    chosen = {name: tree for name, tree in held.items() if matches(choice, name)}
    return chosen, {name: tree for name, tree in held.items() if name not in chosen}


def switch(
    index: Any,
    branches: Sequence[Fn],
    mdl: Module,
    *operands: Any,
    variables: Filter = True,
    rngs: Filter = True,
) -> Any:
    """Call one of several functions with a bound module, as `jax.lax.switch` does.

    Args:
      index: An integer without axes: which branch is called; it is clamped to those there are.
      branches: Functions of the module and the operands, which return alike outputs and make and
        change the same variables.
      mdl: The module.
      operands: The other arguments.
      variables, rngs: Filters of the collections and streams that are visible inside.

    Returns:
      The output of the branch; its changes are made.
    """
    calls = [_call(branch, mdl, operands) for branch in branches]
    pure = [call.pure(variables, rngs) for call in calls]
    _, held, keys = pure[0]
    functions = [function for function, _, _ in pure]
    output, changed = jax.lax.switch(index, functions, held, keys, *operands)
    calls[0].write(changed)
    return output


def cond(
    pred: Any,
    true_fun: Fn,
    false_fun: Fn,
    mdl: Module,
    *operands: Any,
    variables: Filter = True,
    rngs: Filter = True,
) -> Any:
    """Call one of two functions with a bound module, as `jax.lax.cond` does.

    Args:
      pred: A boolean without axes.
      true_fun, false_fun: As the branches of `switch`.
      mdl, operands, variables, rngs: As for `switch`.

    Returns:
      The output of the branch; its changes are made.
    """
    index = jax.numpy.asarray(pred, bool).astype(int)
    return switch(index, (false_fun, true_fun), mdl, *operands, variables=variables, rngs=rngs)


def while_loop(
    cond_fn: Fn,
    body_fn: Fn,
    mdl: Module,
    init: Any,
    carry_variables: Filter = False,
    broadcast_variables: Filter = True,
    split_rngs: Mapping[Any, bool] = NOTHING,
) -> Any:
    """Call a function with a bound module as long as a condition holds, as `jax.lax.while_loop`.

    Args:
      cond_fn: `cond_fn(mdl, carry)` returns a boolean without axes.
      body_fn: `body_fn(mdl, carry)` returns the next carry, of the same shapes and dtypes.
      mdl: The module; its variables have been made before.
      init: The first carry.
      carry_variables: A filter of the collections that a turn gets as the turn before left them.
      broadcast_variables: A filter of the collections that are the same in all turns.
      split_rngs: By filters of streams, whether each turn has a key of its own; streams that no
        filter takes are not visible.

    Returns:
      The last carry; changes of the carried collections are made.
    """
    outer = _call(body_fn, mdl, (init,))
    asked = {name: chosen(split_rngs, name) for name in outer.scope.rngs}
    seeds = {n: (mdl.make_rng(n), split) for n, split in asked.items() if split is not None}
    shared = outer.collections(broadcast_variables)

    def turn(function: Fn, state: Any) -> tuple[Any, Collections]:
        count, carried, carry = state
        keys = {
            name: jax.random.fold_in(key, count) if split else key
            for name, (key, split) in seeds.items()
        }
        mutable = both(outer.scope.mutable, carry_variables)
        output, scope = _call(function, mdl, (carry,)).run(
            (carry,), shared | carried, mutable=mutable, rngs=keys
        )
        return output, carried | scope.mutated()

    def body(state: Any) -> Any:
        carry, carried = turn(body_fn, state)
        return state[0] + 1, carried, carry

    start = (0, outer.collections(carry_variables), init)
    _, carried, carry = jax.lax.while_loop(lambda state: turn(cond_fn, state)[0], body, start)
    outer.write(carried)
    return carry


def _pulled(path: Path, pullback: Fn, cotangent: Any) -> tuple[Any, ...]:
    """Cotangents of the module's variables, then of the inputs."""
    variables, *inputs = pullback(cotangent)
    return (_of_module(variables, path), *inputs)


def vjp(
    fn: Fn,
    mdl: Module,
    *primals: Any,
    has_aux: bool = False,
    vjp_variables: Filter = "params",
    variables: Filter = True,
    rngs: Filter = True,
) -> Any:
    """Call a function with a bound module, and return how to pull gradients back, as `jax.vjp`.

    Args:
      fn: A function of the module and the inputs.
      mdl: The module.
      primals: The inputs.
      has_aux: Whether `fn` returns a pair, of which the second is not differentiated.
      vjp_variables: A filter of the collections that are differentiated too.
      variables, rngs: Filters of the collections and streams that are visible inside.

    Returns:
      The output, then a function of its cotangent, which returns the cotangents of the module's
      variables and of each input; with `has_aux`, then the second of the pair. The function is a
      pytree, so that `custom_vjp` can keep it.
    """
    call = _call(fn, mdl, primals)
    function, held, keys = call.pure(variables, rngs)
    differentiated, rest = _divided(held, vjp_variables)

    def split(differentiated: Any, *primals: Any) -> Any:
        output, changed = function(rest | differentiated, keys, *primals)
        output, aux = output if has_aux else (output, None)
        return output, (aux, changed)

    output, pullback, (aux, changed) = jax.vjp(split, differentiated, *primals, has_aux=True)
    call.write(changed)
    back = _partial(functools.partial(_pulled, mdl.path), pullback)
    return (output, back, aux) if has_aux else (output, back)


def value_and_grad(
    fn: Fn,
    mdl: Module,
    *primals: Any,
    has_aux: bool = False,
    variables: Filter = True,
    rngs: Filter = True,
) -> tuple[Any, tuple[Any, ...]]:
    """Call a function with a bound module; return its value and the gradients of all inputs.

    Args:
      fn: A function of the module and the inputs, which returns a scalar.
      mdl, primals, has_aux, variables, rngs: As for `vjp`; the variables are constants.

    Returns:
      The output of `fn`, and a tuple with a gradient for each input.
    """
    output, back, *aux = vjp(
        fn, mdl, *primals,
        has_aux=has_aux, vjp_variables=False, variables=variables, rngs=rngs,
    )  # fmt: skip
    _, *gradients = back(jax.numpy.ones_like(output))
    return ((output, *aux) if has_aux else output), tuple(gradients)


def grad(
    fn: Fn,
    mdl: Module,
    *primals: Any,
    has_aux: bool = False,
    variables: Filter = True,
    rngs: Filter = True,
) -> Any:
    """Return the gradients of a function of a bound module with respect to all inputs.

    Args:
      fn, mdl, primals, has_aux, variables, rngs: As for `value_and_grad`.

    Returns:
      A tuple with a gradient for each input; with `has_aux`, a pair of it and what `fn` returns
      second.
    """
    value, gradients = value_and_grad(
        fn, mdl, *primals, has_aux=has_aux, variables=variables, rngs=rngs
    )
    return (gradients, value[1]) if has_aux else gradients


def jvp(
    fn: Fn,
    mdl: Module,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    variable_tangents: Mapping[str, Any],
    variables: Filter = True,
    rngs: Filter = True,
) -> tuple[Any, Any]:
    """Call a function with a bound module, and push tangents forward, as `jax.jvp` does.

    Args:
      fn: A function of the module and the inputs.
      mdl: The module.
      primals, tangents: The inputs, and a tangent of the same structure for each.
      variable_tangents: By collection, tangents of the module's variables. Those of collections
        that are left out are zero.
      variables, rngs: Filters of the collections and streams that are visible inside.

    Returns:
      The output and its tangent.
    """
    call = _call(fn, mdl, tuple(primals))
    function, held, keys = call.pure(variables, rngs)
    differentiated, rest = _divided(held, tuple(variable_tangents))

    def split(differentiated: Any, *primals: Any) -> Any:
        return function(rest | differentiated, keys, *primals)

    forward = (_at_path(variable_tangents, mdl.path), *tangents)
    output, tangent, changed = jax.jvp(split, (differentiated, *primals), forward, has_aux=True)
    call.write(changed)
    return output, tangent


def custom_vjp(
    fn: Fn,
    forward_fn: Fn,
    backward_fn: Fn,
    grad_vars: Filter = "params",
    nondiff_argnums: Sequence[int] = (),
) -> Fn:
    """Give a function of a bound module a gradient of its own, as `jax.custom_vjp` does.

    Args:
      fn: A function of the module and arguments.
      forward_fn: The same, but returns a pair of the output and what `backward_fn` needs.
      backward_fn: Called as `backward_fn(*nondiff, kept, cotangent)`; returns the cotangents of
        the module's variables and of each input.
      grad_vars: A filter of the collections that are differentiated.
      nondiff_argnums: Positions of arguments that are not; the module is at 0.

    Returns:
      A function of the module and arguments, which computes what `fn` computes.
    """
    positions = tuple(position + 2 for position in nondiff_argnums)

    @functools.wraps(fn)
    def call(mdl: Module, *args: Any) -> Any:
        plain, forward = _call(fn, mdl, args), _call(forward_fn, mdl, args)
        function, held, keys = plain.pure(True, True)
        kept_function, _, _ = forward.pure(True, True)

        @functools.partial(jax.custom_vjp, nondiff_argnums=positions)
        def program(differentiated: Any, rest: Any, keys: Any, *args: Any) -> Any:
            return function(rest | differentiated, keys, *args)

        def run_forward(differentiated: Any, rest: Any, keys: Any, *args: Any) -> Any:
            (output, kept), changed = kept_function(rest | differentiated, keys, *args)
            return (output, changed), kept

        def run_backward(*given: Any) -> Any:
            *nondiff, kept, (cotangent, _) = given
            variables, *inputs = backward_fn(*nondiff, kept, cotangent)
            return (_at_path(variables, mdl.path), None, None, *inputs)

        program.defvjp(run_forward, run_backward)
        output, changed = program(*_divided(held, grad_vars), keys, *args)
        plain.write(changed)
        return output

    return call


def _unchanged(collections: Any) -> Any:
    return collections


def map_variables(
    target: T,
    mapped_collections: Filter = True,
    trans_in_fn: Callable[[Any], Any] = _unchanged,
    trans_out_fn: Callable[[Any], Any] = _unchanged,
    init: bool = False,
    mutable: bool = False,
    rngs: Filter = True,
    variables: Filter = True,
    methods: Names | None = None,
) -> T:
    """Show a module other variables than those that lie in its collections.

    Args:
      target: A module class, or a function whose first argument is a module.
      mapped_collections: A filter of the collections that are mapped.
      trans_in_fn: What the module sees of its variables: a function of collections.
      trans_out_fn: The inverse, for variables that are made or changed.
      init: Whether the module makes its variables in `init`; else they must be there.
      mutable: Whether mapped collections may change.
      rngs, variables: Filters of the streams and of the other collections that are visible.
      methods: The methods to lift; `__call__` by default.

    Returns:
      A subclass of the target, named `MapVariables...`, or a function.
    """

    def transform(call: Call) -> Any:
        path, initializing = call.module.path, call.scope.initializing
        held = call.collections(mapped_collections)
        others, _ = _divided(call.collections(variables), DenyList(mapped_collections))
        keys = {name: key for name, key in call.scope.rngs.items() if matches(rngs, name)}
        changes = mutable or (init and initializing)
        may_change = True if changes else DenyList(mapped_collections)
        inside = _at_path(trans_in_fn(_of_module(held, path)), path)
        allowed = both(call.scope.mutable, may_change)
        output, scope = call.run(call.args, others | inside, mutable=allowed, rngs=keys)
        changed, rest = _divided(scope.mutated(), mapped_collections)
        call.write(rest | _at_path(trans_out_fn(_of_module(changed, path)), path))
        return output

    return lifted_target(target, "MapVariables", methods, transform)


def renamed_inside(
    target: T,
    prefix: str,
    axes: Axes,
    params: meta.Params,
    methods: Names | None,
    *,
    remove: Fn = meta.remove_axis,
    add: Fn = meta.add_axis,
) -> T:
    """Return a target whose variables lose the name of an axis inside; their arrays keep the axis.

    Args:
      target: A module class, or a function whose first argument is a module.
      prefix: What the name of the new class begins with.
      axes: By filters of collections, the axis, `In(axis)`, `Out(axis)`, or `None`.
      params: What is told of the axis: its name, under `PARTITION_NAME`.
      methods: The methods to lift; `__call__` by default.
      remove, add: What renames a tree: `remove(tree, axis, params)`.

    Returns:
      The target, lifted: a module class, or a function whose first argument is a module.
    """

    def in_place(_: Any, tree: Any) -> Any:
        return tree

    def transform(call: Call) -> Any:
        held = call.collections(True)
        inside = held | cross_axis(remove, in_place, held, one_way(axes, Out), params)
        output, scope = call.run(call.args, inside)
        changed = scope.mutated()
        call.write(changed | cross_axis(add, in_place, changed, one_way(axes, In), params))
        return output

    return lifted_target(target, prefix, methods, transform)


def add_metadata_axis(
    target: T,
    variable_axes: Axes = NOTHING,
    metadata_params: Mapping[Any, Any] = NOTHING,
    methods: Names | None = None,
) -> T:
    """Name an axis in the boxes of a module as `vmap` and `scan` do, and leave the arrays (LIN-2).

    Args:
      target: A module class, or a function whose first argument is a module.
      variable_axes: By filters of collections, the axis, or `None`.
      metadata_params: What boxes are told of the axis: its name, under `PARTITION_NAME`.
      methods: The methods to lift; `__call__` by default.

    Returns:
      A subclass of the target, named `AddMetadataAxis...`, or a function.

    Raises:
      PartitioningUnspecifiedError: In the call: a variable is boxed, and the axis has no name.
    """
    return renamed_inside(target, "AddMetadataAxis", variable_axes, metadata_params, methods)


def remat_scan(
    target: T,
    lengths: Sequence[int] = (),
    policy: Callable[..., bool] | None = None,
    variable_broadcast: Filter = False,
    variable_carry: Filter = False,
    variable_axes: Axes = ALL_FIRST,
    split_rngs: Mapping[Any, bool] = ALL_SPLIT,
) -> T:
    """Repeat a module in nested scans, each of which computes its steps again for gradients.

    Args:
      target: A module class, or a function, that takes a carry and returns the next.
      lengths: How often each scan repeats, the outermost first.
      policy: As in `jax.checkpoint`.
      variable_broadcast, variable_carry, variable_axes, split_rngs: As in `scan`.

    Returns:
      A subclass of the target, named `RematScan...`, or a function.
    """
    shared = {"variable_broadcast": variable_broadcast, "variable_carry": variable_carry}
    options: Any = {"variable_axes": variable_axes, "split_rngs": split_rngs, **shared}

    def repeated(function: Fn, lengths: Sequence[int]) -> Fn:
        if not lengths:
            return function
        inner = remat(repeated(function, lengths[1:]), policy=policy, prevent_cse=False)

        def step(module: Module, carry: Any) -> tuple[Any, None]:
            return inner(module, carry), None

        looped = scan(step, length=lengths[0], **options)
        return lambda module, carry: looped(module, carry)[0]

    def transform(call: Call) -> Any:
        return repeated(call.function, lengths)(call.module, *call.args)

    return lifted_target(target, "RematScan", None, transform)


def fold_rngs(target: T, variables: Filter = True, rngs: Filter = True) -> T:
    """Give a module keys that are drawn for it from the streams, one for each.

    Args:
      target: A module class, or a function whose first argument is a module.
      variables, rngs: Filters of the collections and streams that are visible inside.

    Returns:
      A subclass of the target, named `FoldRngs...`, or a function.
    """

    def transform(call: Call) -> Any:
        function, held, keys = call.pure(variables, rngs)
        drawn = {name: call.module.make_rng(name) for name in keys}
        output, changed = function(held, drawn, *call.args)
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
