"""`jit`: a compiled function.

    Transformation('jit', options={'call': Call(form='method', static='name'), 'graph': False})

is `jit` of a method with a static argument, in a mode; `inputs.jit_calls` has the forms of calls.
"""

from typing import Any

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from scutch.engine.carriers.arrays import Sharding
from scutch.engine.carriers.objects import BuiltObjectCall, Transformation, World
from scutch.engine.lifts.cells import OnArrays, OnObjects, filtered, with_options
from scutch.engine.lifts.prefixes import MESHES, SPECS, prefixes
from scutch.inputs.descriptions import Mesh
from scutch.inputs.jit_calls import Call, plus


def _by_jax(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    added = each.options.get("call", Call()).added

    def plain(values: list[Any], pair: Any) -> Any:
        return function(values, plus(pair, added))

    if not each.prefixes:
        return jax.jit(plain)
    given = call.given(each)
    return jax.jit(plain, in_shardings=(given, each.x), out_shardings=(given, each.out))


def _lifted(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    """The jitted function; `jit_partial` binds all objects of the function."""
    options = dict(each.options)
    if each.prefixes:
        shardings = (*call.prefixes(transforms, each, "StateSharding"), each.x)
        options |= {"in_shardings": shardings, "out_shardings": each.out}
    is_partial = options.pop("mode", "") == "partial"
    if "call" not in options:
        return transforms.jit(function, **options)
    how, count = options.pop("call"), len(call.described.arguments)
    written, options = how.written(function, count), options | how.options(count)
    if is_partial:
        bind = transforms.jit_partial
        return lambda *given: how.make(bind(written, *given[:-1], **options), (), given[-1])
    decorated = how.form == "decorator"
    jitted = transforms.jit(**options)(written) if decorated else transforms.jit(written, **options)

    def called(*arguments: Any) -> Any:
        if how.donate is not None:
            _put_on_device(call.nnx, arguments[:1])
        return how.make(jitted, arguments[:-1], arguments[-1])

    return called


def _put_on_device(nnx: Any, arguments: tuple[Any, ...]) -> None:
    """Give variables arrays of JAX, which can be donated."""
    world = World(nnx, arguments)
    world.fill([jnp.array(value) for value in world.values()])


@st.composite
def sharded_jits(
    draw: st.DrawFn, arguments: tuple[Any, ...], *, whole: bool = False, one: bool = False
) -> Transformation:
    """`jit` with shardings for arguments and results, of Auto and Explicit meshes.

    Args:
      draw: Hypothesis's.
      arguments: Those of the function, beside the pair of arrays.
      whole: As in `prefixes`.
      one: Whether all arguments and results have one sharding, so that an object which is both an
        argument and a result has one sharding, too.

    Returns:
      A strategy of descriptions.
    """
    mesh = draw(st.sampled_from(MESHES))
    mesh = Mesh(mesh.shape, mesh.axes, draw(st.sampled_from((False, False, True))))
    values = tuple(Sharding(mesh, spec.names) for spec in SPECS)
    if one:
        same = draw(st.sampled_from(values))
        return Transformation("jit", (same,) * len(arguments), None, same, mesh)
    given = draw(prefixes(arguments, values, whole=whole))
    return Transformation("jit", given, None, draw(st.sampled_from((None, *values))), mesh)


ARRAYS = OnArrays(jax.jit, lambda transforms: transforms.jit)
OBJECTS = OnObjects(_by_jax, _lifted, with_options("jit", st.just({})))
LINEN = filtered("jit", jax.jit)
