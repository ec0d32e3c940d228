"""Where arrays lie: specs, meshes in context, and constraints in traced programs."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def entries(spec: Any) -> tuple[Any, ...]:
    """The entries of a spec without trailing `None`; a tuple of one axis is that axis."""
    found = [e[0] if isinstance(e, tuple) and len(e) == 1 else e for e in spec]
    while found and found[-1] in (None, ()):
        found.pop()
    return tuple(None if e == () else e for e in found)


def in_context(mesh: Mesh | None) -> AbstractContextManager[Any]:
    """`mesh` in context, in the way of the JAX at hand; no context for `None`."""
    if mesh is None:
        return contextlib.nullcontext()
    if hasattr(jax, "set_mesh"):
        return jax.set_mesh(mesh)
    return mesh


def constraints(function: Callable[..., Any], *arguments: Any) -> list[tuple[Any, ...]]:
    """The specs of the sharding constraints that tracing a function records, in order."""
    return [entries(s.spec) for s in _shardings(jax.make_jaxpr(function)(*arguments).jaxpr)]


def _shardings(jaxpr: Any) -> list[Any]:
    found = []
    for equation in jaxpr.eqns:
        if equation.primitive.name == "sharding_constraint":
            found.append(equation.params["sharding"])
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", None)
            if inner is not None:
                found += _shardings(inner)
    return found


def lies(array: Any, mesh: Mesh, spec: PartitionSpec) -> bool:
    """Whether an array lies on a mesh as a spec says."""
    return bool(array.sharding.is_equivalent_to(NamedSharding(mesh, spec), array.ndim))


def assert_lies(array: Any, mesh: Mesh, spec: PartitionSpec) -> None:
    """Fail unless an array lies on a mesh as a spec says.

    A spec that names no axis asks for nothing that a host array has not.
    """
    if not entries(spec) and not isinstance(array, jax.Array):
        return
    if not isinstance(array, jax.Array):
        raise AssertionError(f"a {type(array).__name__} was not laid out as {spec} on {mesh}")
    if not lies(array, mesh, spec):
        raise AssertionError(f"{array.sharding} is not {spec} on {mesh}")
