"""Each transformation of a call over objects: by JAX, of a pure function, and as it is lifted.

    ORACLES["vmap"](call, transformation, pure)
    LIFTED["vmap"](call, transforms, transformation, function)

return the transformed functions; see `object_calls`.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scutch.inputs import graphs, object_control
from scutch.inputs.jit_calls import Call, plus
from scutch.inputs.object_calls import LANES, BuiltObjectCall, Transformation, World
from scutch.inputs.object_control import scalar_of
from scutch.inputs.transformations import CARRIED, is_axis, moved
from scutch.lawkit.mapped import shard_map

# ---------------------------------------------------------------- vmap


def _vmap_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    axes = call.given(each)
    return jax.vmap(function, (axes, each.x), (axes, each.out))


def _vmap_lift(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    in_axes = (*call.prefixes(transforms, each, "StateAxes"), each.x)
    return transforms.vmap(function, in_axes=in_axes, out_axes=each.out, **each.modes)


# ---------------------------------------------------------------- scan


def _scan_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    """A loop by `jax.lax.scan`; no law applies if a step changes a value that all steps share."""
    axes = call.given(each)

    def loop(values: list[Any], pair: tuple[Any, ...]) -> Any:
        places = [(values, n, a) for n, a in enumerate(axes)]
        places += [(list(pair), n, a) for n, a in enumerate(each.pair_axes)]
        slices = [moved(held[n], a, 0) for held, n, a in places if is_axis(a)]

        def step(carry: list[Any], sliced: list[Any]) -> Any:
            carried, parts = iter(carry), iter(sliced)
            seen = [
                next(carried) if a == CARRIED else next(parts) if is_axis(a) else held[n]
                for held, n, a in places
            ]
            after, results = function(seen[: len(values)], tuple(seen[len(values) :]))
            for old, new, axis in zip(seen, after, axes, strict=False):
                call.assume(axis is not None or new is old)
            new = [value for value, a in zip(after, axes, strict=True) if a == CARRIED]
            kept = [value for value, a in zip(after, axes, strict=True) if is_axis(a)]
            return new, (kept, results)

        start = [held[n] for held, n, a in places if a == CARRIED]
        last, (kept, results) = jax.lax.scan(step, start, slices, LANES, **each.plain)
        carried, stacked = iter(last), iter(kept)
        after = [
            next(carried) if a == CARRIED else moved(next(stacked), 0, a) if is_axis(a) else v
            for v, a in zip(values, axes, strict=True)
        ]
        return after, moved(results, 0, each.out)

    return loop


def _scan_lift(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    """The lifted loop; it carries a count beside the objects, unless it carries a single object."""
    prefixes = call.prefixes(transforms, each, "StateAxes")
    options = {"length": LANES, **each.plain, **each.modes}
    if each.prefixes == (CARRIED,):
        carry = transforms.Carry
        carrying = transforms.scan(
            lambda node, pair: (node, function(node, pair)),
            in_axes=(carry, each.x), out_axes=(carry, each.out), **options,
        )  # fmt: skip
        return lambda *arguments: carrying(*arguments)[1]

    def step(*arguments: Any) -> Any:
        *objects, count, pair = arguments
        return count + 1, function(*objects, pair)

    loop = transforms.scan(
        step, in_axes=(*prefixes, transforms.Carry, each.x), out_axes=(transforms.Carry, each.out),
        **options,
    )  # fmt: skip
    return lambda *arguments: loop(*arguments[:-1], jnp.zeros((), "int32"), arguments[-1])[1]


# ---------------------------------------------------------------- grad


def _wanted(call: BuiltObjectCall, each: Transformation, world: World) -> list[int]:
    """The numbers of the variables that a gradient is for, in the order of their paths' texts."""
    numbers = {id(leaf): n for n, leaf in enumerate(world.leaves().values())}
    kind = graphs.classes(call.nnx)[each.options["wrt"]]
    found = {
        str(path): numbers[id(leaf)]
        for path, leaf in graphs.leaves(call.nnx, world.arguments[0]).items()
        if isinstance(leaf, kind)
    }
    return [found[path] for path in sorted(found)]


def _grad_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    world = call.inside()
    first, others = [
        {id(leaf) for leaf in graphs.leaves(call.nnx, part).values()}
        for part in (world.arguments[0], world.arguments[1:])
    ]
    # No law applies where a variable of the first argument also stands in another argument.
    call.assume(not first & others)
    numbers = _wanted(call, each, world)

    def differentiated(values: list[Any], pair: Any) -> Any:
        def loss(parts: list[Any]) -> Any:
            now = list(values)
            for number, part in zip(numbers, parts, strict=True):
                now[number] = part
            after, results = function(now, pair)
            further = scalar_of(results) if each.options.get("of_results") else 0
            return scalar_of(after) + further, (after, results)

        (value, (after, results)), slopes = jax.value_and_grad(loss, has_aux=True)(
            [values[number] for number in numbers]
        )
        return after, call.ranked([value, *results, *slopes])

    return differentiated


def _grad_results(
    call: BuiltObjectCall, each: Transformation, world: World, results: list[Any]
) -> list[Any]:
    slopes = [np.zeros(())] * len(_wanted(call, each, world))
    return [np.zeros(()), *results, *slopes]


def _grad_lift(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    kind = graphs.classes(call.nnx)[each.options["wrt"]]

    def loss(*arguments: Any) -> Any:
        results = function(*arguments)
        further = scalar_of(jax.tree.leaves(results)) if each.options.get("of_results") else 0
        return scalar_of(World(call.nnx, arguments[:-1]).values()) + further, results

    wanted = 0 if each.options["wrt"] == "Param" else transforms.DiffState(0, kind)
    lifted = transforms.value_and_grad(loss, argnums=wanted, has_aux=True, **each.modes)

    def differentiated(*arguments: Any) -> Any:
        (value, results), slopes = lifted(*arguments)
        if each.modes:  # they may come as an object
            return call.ranked([value, *results, *jax.tree.leaves(slopes)])
        flat = {str(path): leaf for path, leaf in call.nnx.to_flat_state(slopes)}
        leaves = [flat[path] for path in sorted(flat)]
        raw = [v.get_raw_value() if isinstance(v, call.nnx.Variable) else v for v in leaves]
        return call.ranked([value, *results, *raw])

    return differentiated


# ---------------------------------------------------------------- jit, remat, shard_map


def _jit_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    added = each.options.get("call", Call()).added

    def plain(values: list[Any], pair: Any) -> Any:
        return function(values, plus(pair, added))

    if not each.prefixes:
        return jax.jit(plain)
    given = call.given(each)
    return jax.jit(plain, in_shardings=(given, each.x), out_shardings=(given, each.out))


def _jit_lift(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    options = dict(each.options)
    if each.prefixes:
        shardings = (*call.prefixes(transforms, each, "StateSharding"), each.x)
        options |= {"in_shardings": shardings, "out_shardings": each.out}
    if options.pop("mode", "") == "partial":
        return _jit_partial_lift(call, transforms, function, options)
    if "call" not in options:
        return transforms.jit(function, **options)
    how, count = options.pop("call"), len(call.described.arguments)
    written, options = how.written(function, count), options | how.options(count)
    decorated = how.form == "decorator"
    jitted = transforms.jit(**options)(written) if decorated else transforms.jit(written, **options)

    def called(*arguments: Any) -> Any:
        if how.donate is not None:
            _put_on_device(call.nnx, arguments[:1])
        return how.make(jitted, arguments[:-1], arguments[-1])

    return called


def _jit_partial_lift(
    call: BuiltObjectCall, transforms: Any, function: Any, options: dict[str, Any]
) -> Any:
    """Make the call by `jit_partial`, which binds all objects of the function."""
    how, count = options.pop("call"), len(call.described.arguments)
    written, options = how.written(function, count), options | how.options(count)

    def called(*arguments: Any) -> Any:
        objects = arguments[:-1]
        return how.make(transforms.jit_partial(written, *objects, **options), (), arguments[-1])

    return called


def _put_on_device(nnx: Any, arguments: tuple[Any, ...]) -> None:
    """Give variables arrays of JAX, which can be donated."""
    world = World(nnx, arguments)
    world.fill([jnp.array(value) for value in world.values()])


def _shard_map_options(each: Transformation) -> dict[str, Any]:
    """The options of a mapped function, with axes by name as the set that JAX takes."""
    options = each.plain
    if "axis_names" in options:
        options["axis_names"] = frozenset(options["axis_names"])
    return options


def _shard_map_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    specs = call.given(each)
    mesh: Any = each.mesh
    return shard_map(
        function, mesh=mesh, in_specs=(specs, each.x), out_specs=(specs, each.out),
        **_shard_map_options(each),
    )  # fmt: skip


def _shard_map_lift(
    call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any
) -> Any:
    in_specs = (*call.prefixes(transforms, each, "StateSharding"), each.x)
    options = as_named_by(transforms.shard_map, each.mesh, _shard_map_options(each))
    return transforms.shard_map(
        function, mesh=each.mesh, in_specs=in_specs, out_specs=each.out, **options, **each.modes
    )


def as_named_by(shard_map: Any, mesh: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `jax.shard_map` of today under the names that a lifted one has for them.

    Args:
      shard_map: The lifted one. Where it has no `check_vma`, it has `check_rep`; where it has no
        `axis_names`, it has `auto`, for all other axes of the mesh.
      mesh: The mesh.
      options: `check_vma` and `axis_names`, or one of them, or none.

    Returns:
      The same options, by the names of the lifted one.
    """
    found = dict(options)
    parameters = inspect.signature(shard_map).parameters
    if "check_vma" in found and "check_vma" not in parameters:
        found["check_rep"] = found.pop("check_vma")
    if "axis_names" in found and "axis_names" not in parameters:
        found["auto"] = frozenset(mesh.axis_names) - found.pop("axis_names")
    return found


ORACLES: Mapping[str, Callable[..., Any]] = {
    "vmap": _vmap_oracle,
    "scan": _scan_oracle,
    "grad": _grad_oracle,
    "jit": _jit_oracle,
    "remat": lambda call, each, function: jax.checkpoint(function, **each.plain),
    "shard_map": _shard_map_oracle,
    **object_control.ORACLES,
}
"""JAX's own transformation of a pure function `(values, pair) -> (values, further values)`."""

LIFTED: Mapping[str, Callable[..., Any]] = {
    "vmap": _vmap_lift,
    "scan": _scan_lift,
    "grad": _grad_lift,
    "jit": _jit_lift,
    "remat": lambda call, transforms, each, function: transforms.remat(
        function, **each.plain, **each.modes
    ),
    "shard_map": _shard_map_lift,
    **object_control.LIFTED,
}
"""The lifted transformation of a function `(*objects, pair) -> results`."""

RESULTS: Mapping[str, Callable[..., list[Any]]] = {
    "grad": _grad_results,
    **object_control.RESULTS,
}
"""The results `(call, transformation, world, results)` of a lift that returns other ones than its
function: new ones, in which the values of JAX's route find their places."""
