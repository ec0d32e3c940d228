"""Where arrays lie: specs, meshes in context, and constraints in traced programs.

A sharding has many spellings: `P("data")`, `P(("data",))` and `P("data", None)` lay a matrix out
alike. A law does not ask how an implementation spells it, so it compares the `entries` of specs,
and asks `has_sharding` of arrays:

    with in_context(mesh):
        placed = jax.jit(place)(x)
    assert has_sharding(placed, NamedSharding(mesh, P("data")))

A *constraint* is the operation that `jax.lax.with_sharding_constraint` adds to a traced program;
`constraints` reads their specs without compiling the program.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from scutch.lawkit.boxes import plain_names
from scutch.lawkit.equality import alike
from scutch.lawkit.equations import equations


def entries(spec: Any) -> tuple[Any, ...]:
    """The entries of a spec without trailing `None`; a tuple of one axis is that axis.

    Args:
      spec: A `PartitionSpec`, or the names of a box.

    Raises:
      AssertionError: An entry is neither a plain string, nor a plain tuple of strings, nor None;
        another class could have an `==` of its own.
    """
    given = [*spec]
    plain_names(tuple(None if e is PartitionSpec.UNCONSTRAINED else e for e in given))
    found = [e[0] if isinstance(e, tuple) and len(e) == 1 else e for e in given]
    while found and found[-1] in (None, ()):
        found.pop()
    return tuple(None if e == () else e for e in found)


def splits(spec: Any, mesh: Mesh) -> tuple[Any, ...]:
    """The entries of a spec without the mesh axes of size one, which split nothing.

    Args:
      spec: As of `entries`.
      mesh: The mesh on which an array lies by the spec.
    """

    def kept(entry: Any) -> Any:
        if isinstance(entry, tuple):
            return tuple(axis for axis in entry if kept(axis) is not None)
        return None if mesh.shape.get(entry) == 1 else entry

    return entries([kept(entry) for entry in entries(spec)])


@contextlib.contextmanager
def in_context(mesh: Mesh | None) -> Iterator[None]:
    """A context with a mesh, set as the JAX at hand does it; for `None` the context is unchanged.

    `jax.set_mesh(mesh)` sets the mesh already when it is called; this one, when it is entered.
    """
    setting: Any = contextlib.nullcontext()
    if mesh is not None:
        setting = jax.set_mesh(mesh) if hasattr(jax, "set_mesh") else mesh
    with setting:
        yield


def constraints(function: Callable[..., Any], *arguments: Any) -> list[tuple[Any, ...]]:
    """The specs of the sharding constraints that tracing a function records, in order.

    Args:
      function: A function of arrays; it is traced once, and not computed.
      *arguments: Its arguments: arrays, trees of them, or `jax.ShapeDtypeStruct`s.

    Returns:
      The `entries` of each spec, also of constraints in the functions that it calls, such as jitted
      ones.
    """
    program = jax.make_jaxpr(function)(*arguments).jaxpr
    return [
        entries(equation.params["sharding"].spec)
        for equation in equations(program)
        if equation.primitive.name == "sharding_constraint"
    ]


def has_sharding(array: Any, sharding: Sharding) -> bool:
    """Whether every device holds the part of an array that a sharding gives it.

    Args:
      array: A JAX array, or a variable whose value is one.
      sharding: The sharding that was asked for; equivalent ones count as equal.
    """
    array = array.get_value() if hasattr(array, "get_value") else array
    return bool(array.sharding.is_equivalent_to(sharding, array.ndim))


def assert_placed(result: Any, value: Any, sharding: NamedSharding) -> None:
    """Fail unless an array has the contents of another, and a sharding.

    Args:
      result: The array that the implementation gave; where the spec names no axis, a NumPy array
        is good as well.
      value: The array that it was given.
      sharding: The mesh and spec that were asked for.

    Raises:
      AssertionError: The contents differ, or the array is sharded otherwise.
    """
    if not alike(np.asarray(result), np.asarray(value)):
        raise AssertionError(f"placing changed the contents: {result!r}, expected {value!r}")
    on_devices = isinstance(result, jax.Array)
    if not (has_sharding(result, sharding) if on_devices else not entries(sharding.spec)):
        given = result.sharding if on_devices else f"that of a {type(result).__name__}"
        raise AssertionError(f"its sharding is {given}, expected {sharding}")
