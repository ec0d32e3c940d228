"""The differences between versions of JAX, and the private parts of JAX that the reference uses.

The reference runs on JAX 0.4.35 and newer. In between, JAX gained a mesh in context that is no
global variable (`jax.set_mesh`), axis types (`Auto`, `Explicit`, `Manual`) and types of arrays that
carry a sharding. All code that depends on the version of JAX is in this module, and so is all code
that uses names that JAX does not document. Other modules import the names below, and
`reference/tests/test_jax_versions.py` fails when JAX moves one.

Words: the *mesh in context* is the mesh that JAX uses where none is passed, set by `jax.set_mesh`
or `with mesh:`. An *abstract* mesh has axes and no devices; a *concrete* one has both.

>>> import jax, numpy as np
>>> context_mesh() is None
True
>>> with jax.set_mesh(jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))):
...     context_mesh().axis_names
('data',)
"""

import operator
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import jax.extend.core
from jax.interpreters import pxla
from jax.sharding import AbstractMesh, Mesh

from .types import Leaf, Prefix

# The class of the values that a transformation passes instead of arrays. JAX keeps the name in
# `jax.core`, of which it has removed most other names.
Tracer: type[Any] = jax.core.Tracer

# JAX 0.4 has none of these four functions. A name that is None is never called: without Explicit
# axes nothing is resharded, and no array has a type with a sharding.
get_abstract_mesh: Any = getattr(jax.sharding, "get_abstract_mesh", None)
get_concrete_mesh: Any = getattr(jax.sharding, "get_mesh", None)
reshard: Any = getattr(jax.sharding, "reshard", None)
typeof: Any = getattr(jax, "typeof", None)
# Returns a context manager that sets the mesh in context. In JAX 0.4 the mesh is one itself.
set_mesh: Any = getattr(jax, "set_mesh", lambda mesh: mesh)
# The function of `jax.nn`, which came later than JAX 0.5.1.
identity: Any = getattr(jax.nn, "identity", lambda x: x)

# Gives two arrays of a program one sharding: the sharding of an argument, if one is an argument.
# JAX 0.11.2 dropped it: since then the compiler chooses.
shard_alike: Any
try:
    from jax.experimental import shard_alike as _module
except ImportError:
    shard_alike = lambda x, y: (x, y)  # noqa: E731
else:
    shard_alike = _module.shard_alike

with warnings.catch_warnings():
    # `with mesh:` sets the mesh of this object, and no public name of JAX tells it. JAX deprecates
    # the object, and may drop it together with `with mesh:`; then there is no such mesh to find.
    warnings.simplefilter("ignore", DeprecationWarning)
    thread_resources: Any = getattr(pxla, "thread_resources", None)


def context_mesh() -> Mesh | AbstractMesh | None:
    """Return the mesh set by `jax.set_mesh`, else the one set by `with mesh`, else `None` (BOX-18).

    Returns:
      An `AbstractMesh` after `jax.set_mesh` and inside `shard_map`, a `Mesh` in a `with mesh:`
      block. A mesh without axes counts as none.
    """
    mesh: Any = get_abstract_mesh() if get_abstract_mesh is not None else None
    if thread_resources is not None and (mesh is None or not mesh.axis_names):
        mesh = thread_resources.env.physical_mesh
    return mesh if mesh is not None and mesh.axis_names else None


def concrete_mesh(mesh: AbstractMesh) -> Mesh | AbstractMesh | None:
    """Return the mesh with devices that stands for the abstract mesh in context (BOX-18).

    Args:
      mesh: The mesh in context.

    Returns:
      The mesh with devices; `mesh` itself if none with devices is set. `None` inside a
      transformation, where JAX refuses to name devices: an array there is a constant of the
      program that is being traced.
    """
    if get_concrete_mesh is None:
        return mesh
    try:
        found: Mesh = get_concrete_mesh()
    except ValueError:  # JAX raises it inside `vmap` and `jit`.
        return None
    return mesh if found.empty else found


def axes_of_type(mesh: Mesh | AbstractMesh | None, axis_type: str) -> list[Any]:
    """Return the names of the axes of a mesh that have one type (BOX-18).

    Args:
      mesh: A mesh, or `None`, which has no axes.
      axis_type: `"Auto"`, `"Explicit"` or `"Manual"`.

    Returns:
      The names in the order of the mesh. Before JAX had axis types, all axes are `Auto`.
    """
    names = () if mesh is None else mesh.axis_names
    types = getattr(mesh, "axis_types", None)
    if not isinstance(types, tuple):  # JAX 0.4.35 to 0.5 have None, or a mapping, here.
        return list(names) if axis_type == "Auto" else []
    return [name for name, its in zip(names, types, strict=True) if its.name == axis_type]


# ---------------------------------------------------------------- used by `nnx`

# JAX 0.4 has no name for a trace but the trace itself; `jax.core` had it before `jax.extend.core`
# did. `multinomial` came later.
_opaque_trace_state: Any = getattr(jax.extend.core, "get_opaque_trace_state", None) or vars(
    jax.core
).get("get_opaque_trace_state")
multinomial: Any = getattr(jax.random, "multinomial", None)

# Gets the sharding of an array without a Python call: `array.sharding` is a property, which costs
# one for each array of a call. Other leaves (NumPy arrays, numbers) raise an `AttributeError`.
stored_sharding: Callable[[Any], Any] = operator.attrgetter("_sharding")


def trace_level() -> Any:
    """Return the running trace, as a value that is equal to itself and to no other trace (JIT-1).

    Outside transformations that is the trace of eager computation, always the same one.
    """
    if _opaque_trace_state is not None:
        return _opaque_trace_state(convention="nnx")
    from jax._src import core

    stack = core.thread_local_state.trace_state.trace_stack  # type: ignore[attr-defined]
    return (stack.dynamic, len(stack.stack), id(stack.stack[-1]))


def varying_axes(value: Leaf) -> Collection[Any]:
    """Return the axes of the mesh along which a value inside `shard_map` may differ (SHM-4).

    Args:
      value: A traced value.

    Returns:
      Names of axes; none where this JAX does not track them.
    """
    kind = typeof(value) if typeof is not None else None
    return getattr(kind, "vma", ()) or getattr(getattr(kind, "mat", None), "varying", ())


def shard_mapped(
    function: Callable[..., Any],
    mesh: Mesh | AbstractMesh,
    in_specs: Prefix,
    out_specs: Prefix,
    *,
    check: bool,
    auto: frozenset[Any],
) -> Callable[..., Any]:
    """Return `jax.shard_map` of a function, under the names that this JAX has for its options.

    Args:
      function: A function of arrays.
      mesh: The mesh, concrete or abstract.
      in_specs: A prefix of the arguments.
      out_specs: A prefix of the output.
      check: Whether JAX checks that values agree between devices where the specs say so.
      auto: Axes of the mesh that are left to the compiler.

    Returns:
      A function with the parameters of `function`. It takes and returns global arrays, and each
      device computes on the parts that the specs give it.
    """
    options: dict[str, Any] = {"mesh": mesh, "in_specs": in_specs, "out_specs": out_specs}
    shard_map: Any = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map

        options |= {"auto": auto, "check_rep": check}
    else:
        options |= {"axis_names": frozenset(mesh.axis_names) - auto} if auto else {}
        options["check_vma"] = check
    return shard_map(function, **options)  # type: ignore[no-any-return]


def format_attribute(stage: Any, name: str) -> str:
    """Return the name that a compiled function of JAX has for the layouts of its arrays (JIT-9).

    Args:
      stage: A `jax.stages.Compiled`.
      name: `input_formats`, `output_formats`, or with `layouts`, as JAX 0.4 calls them; another
        name is returned as it is.
    """
    side, _, kind = name.partition("_")
    candidates: Sequence[str] = [f"{side}_formats", f"{side}_layouts"]
    found = (each for each in candidates if hasattr(stage, each))
    return next(found, name) if kind in ("layouts", "formats") else name
