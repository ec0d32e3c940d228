"""`shard_map`: a function of the parts of arrays on the devices of a mesh.

    Transformation('shard_map', (Spec(('data',)),), (Spec(()), Spec(())), Spec(()),
                   Mesh((2,), ('data',)))

gives each of two devices its half of every variable, and both arrays whole.
"""

import inspect
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from scutch.engine.carriers.objects import BuiltObjectCall, Transformation
from scutch.engine.lifts.cells import OnArrays, OnObjects
from scutch.engine.lifts.prefixes import MESHES, SPECS, prefixes
from scutch.inputs.descriptions import Spec
from scutch.lawkit.mapped import shard_map


def _by_jax(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    specs = call.given(each)
    return shard_map(
        function,
        mesh=each.mesh,
        in_specs=(specs, each.x),
        out_specs=(specs, each.out),
        **each.plain,
    )


def _lifted(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    in_specs = (*call.prefixes(transforms, each, "StateSharding"), each.x)
    options = as_named_by(transforms.shard_map, each.mesh, each.plain)
    return transforms.shard_map(
        function, mesh=each.mesh, in_specs=in_specs, out_specs=each.out, **options, **each.modes
    )


def as_named_by(lifted: Any, mesh: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `jax.shard_map` of today under the names that a lifted one has for them.

    Args:
      lifted: Where it has no `check_vma`, it has `check_rep`; where it has no `axis_names`, it has
        `auto`, for all other axes of the mesh.
      mesh: The mesh.
      options: `check_vma` and `axis_names`, or one of them, or none.

    Returns:
      The same options, by the names of the lifted one.
    """
    found = dict(options)
    parameters = inspect.signature(lifted).parameters
    if "check_vma" in found and "check_vma" not in parameters:
        found["check_rep"] = found.pop("check_vma")
    if "axis_names" in found and "axis_names" not in parameters:
        found["auto"] = frozenset(mesh.axis_names) - found.pop("axis_names")
    return found


@st.composite
def _drawn(
    draw: st.DrawFn, arguments: tuple[Any, ...], *, whole: bool = False, automatic: bool = False
) -> Transformation:
    """With `automatic`, a mesh axis is left to the compiler."""
    grids = [mesh for mesh in MESHES if len(mesh.axes) == 2]
    mesh = draw(st.sampled_from(grids if automatic else MESHES))
    given = draw(prefixes(arguments, SPECS, whole=whole))
    out = draw(st.sampled_from(SPECS))
    pair = (draw(st.sampled_from(SPECS)), Spec(()))
    options: Any = dict(draw(st.sampled_from(({}, {}, {"check_vma": False}))))
    options |= {"axis_names": ("data",)} if automatic else {}
    return Transformation("shard_map", given, pair, out, mesh, options)


ARRAYS = OnArrays(shard_map, lambda transforms: transforms.shard_map)
OBJECTS = OnObjects(_by_jax, _lifted, _drawn)
