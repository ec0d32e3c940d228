"""Inputs of laws as plain data, which the judge builds for the implementation under judgment.

Strategies draw *descriptions*, not values: `Box` says which value and names a box has, but not
whose class it is. Just before a law is called, the judge *builds* each drawn description with a
`Builder`, which holds the namespaces of one implementation. So one input can be tried on several
implementations; it prints as the Python expression that makes it; and `calls.parse_call` reads that
text back, so that a failure is replayed without any search.

A description is an instance of a subclass of `Description`, or a dict, list or tuple of
descriptions; any other value stands for itself:

    build({'kernel': Box(Array((2,)), ('data',))}, builder)

gives a dict with a box of the implementation around `array([1., 2.], dtype=float32)`.

The names of the classes and of their fields are the vocabulary of witnesses in `known/*.toml` and
of replay commands. Renaming one breaks every witness that was written down.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh as JaxMesh
from jax.sharding import PartitionSpec

from scutch.inputs import boxes, exported
from scutch.lawkit.domain import need_devices, not_available


@dataclass(frozen=True)
class Builder:
    """The namespaces of one implementation and one box class, for which descriptions are built.

    Args:
      meta: The namespace of document `000_`.
      make: Called as `make(value, names, mesh)`; makes a box of the class under judgment.
      nnx: The namespace of objects and variables, `None` if the implementation claims none.
      linen: The namespace of Linen modules, `None` if the implementation claims none.
      nodes: While a `Graph` is built: its objects and variables by number, to which `Ref` refers.
      owned: Whether one box class is judged for its owner: then foreign boxes are of it, too.
    """

    meta: Any
    make: Callable[..., Any]
    nnx: Any = None
    linen: Any = None
    nodes: Sequence[Any] = ()
    owned: bool = False


class Description:
    """A value described as data; its `repr` is the expression that makes it."""

    def build(self, builder: Builder) -> Any:
        """Build the described value.

        Args:
          builder: The implementation that the value is built for.

        Returns:
          A new value on each call; two calls share nothing that can be changed. A description that
          has no meaning alone, such as a `Step` of a program, is returned as it is.
        """
        return self

    def __repr__(self) -> str:
        parts = []
        named = False
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.default is not MISSING and value == field.default:
                named = True
                continue
            parts.append(f"{field.name}={value!r}" if named else repr(value))
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass(frozen=True, repr=False)
class Array(Description):
    """A NumPy array; arrays of different `seed` hold different numbers.

    Args:
      shape: Its shape; rank 0 and sizes 0 and 1 are legal.
      dtype: The name of its dtype, one that NumPy knows.
      seed: Added to every number, at least 0.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    seed: int = 0

    def build(self, builder: Builder) -> np.ndarray:
        """The numbers `1 + seed, 2 + seed, ...` in row-major order, cast to the dtype."""
        size = int(np.prod(self.shape, dtype=int))
        return (np.arange(size) + 1 + self.seed).reshape(self.shape).astype(self.dtype)


@dataclass(frozen=True, repr=False)
class Abstract(Description):
    """A shape and a dtype without contents, as `jax.eval_shape` gives them.

    Args:
      shape: The shape.
      dtype: The name of the dtype.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"

    def build(self, builder: Builder) -> jax.ShapeDtypeStruct:
        """The `jax.ShapeDtypeStruct`."""
        return jax.ShapeDtypeStruct(self.shape, np.dtype(self.dtype))  # type: ignore[no-untyped-call]


@dataclass(frozen=True, repr=False)
class Key(Description):
    """A typed PRNG key."""

    seed: int = 0

    def build(self, builder: Builder) -> jax.Array:
        """`jax.random.key(seed)`."""
        return _key(self.seed)


@dataclass(frozen=True, repr=False)
class Record(Description):
    """An instance of the dataclass `Pair`, which is registered as a pytree node.

    Args:
      first: A description.
      second: Another, `None` for a pair of which one part is empty.
    """

    first: Any
    second: Any = None

    def build(self, builder: Builder) -> Any:
        """The `Pair` with both parts built."""
        return Pair(build(self.first, builder), build(self.second, builder))


@dataclass(frozen=True, repr=False)
class Node(Description):
    """A pytree node with one child, of a class in `exported.NODES`.

    Args:
      kind: Which class: a key of `exported.NODES`, such as `'boxed'`.
      value: A description of the child, or the child itself.
    """

    kind: str
    value: Any

    def build(self, builder: Builder) -> Any:
        """The node, with its child built."""
        return exported.NODES[self.kind](build(self.value, builder))


@dataclass(frozen=True, repr=False)
class Mesh(Description):
    """A mesh of the first `prod(shape)` devices.

    Args:
      shape: The size of each axis, at least 1.
      axes: The name of each axis.
      explicit: Whether the axes are of type `Explicit`; else they are `Auto`.
    """

    shape: tuple[int, ...]
    axes: tuple[str, ...]
    explicit: bool = False

    def build(self, builder: Builder) -> JaxMesh:
        """The mesh; Hypothesis discards an input that needs more devices than there are.

        A law that draws explicit axes is skipped where the JAX at hand has none.
        """
        return _mesh(self.shape, self.axes, self.explicit)


@dataclass(frozen=True, repr=False)
class Box(Description):
    """A box of the class under judgment.

    Args:
      value: The value in the box: an array, a tree or another box.
      names: One name for each axis: of a mesh axis, a tuple of mesh axes, or `None`.
      mesh: The mesh that the box holds, if any.
    """

    value: Any
    names: tuple[Any, ...]
    mesh: Mesh | None = None

    def build(self, builder: Builder) -> Any:
        """The box, made by the builder's `make`."""
        value, mesh = build(self.value, builder), build(self.mesh, builder)
        return builder.make(value, self.names, mesh)


@dataclass(frozen=True, repr=False)
class Foreign(Description):
    """A box of a class of `scutch.inputs.boxes`, which is written outside of any implementation.

    Args:
      kind: The name of the class there.
      value: The value in the box.
      names: One name for each axis.
    """

    kind: str
    value: Any
    names: tuple[Any, ...]

    def build(self, builder: Builder) -> Any:
        """The box; its class derives from the implementation's `AxisMetadata`."""
        if builder.owned:
            return Box(self.value, self.names).build(builder)
        return boxes.foreign(builder.meta.AxisMetadata)[self.kind](
            build(self.value, builder), self.names
        )


@dataclass(frozen=True, repr=False)
class Copies(Description):
    """One description that is built twice, so that a law can change one copy and keep the other."""

    of: Any

    def build(self, builder: Builder) -> tuple[Any, Any]:
        """Two equal values that share nothing that can be changed."""
        return build(self.of, builder), build(self.of, builder)


@dataclass(frozen=True, repr=False)
class Placement(Description):
    """An array with logical names, rules that map these to mesh axes, and the mesh.

    Args:
      array: The array.
      names: One logical name, or `None`, for each axis of the array.
      rules: Pairs of a logical name and a mesh axis, a tuple of mesh axes, or `None`.
      mesh: A mesh that has every axis that a rule maps to.
    """

    array: Any
    names: tuple[Any, ...]
    rules: tuple[tuple[str, Any], ...]
    mesh: Any

    def build(self, builder: Builder) -> "Placement":
        """A `Placement` with the same names and rules, and the array and the mesh built."""
        return Placement(
            build(self.array, builder), self.names, self.rules, build(self.mesh, builder)
        )


@dataclass(frozen=True, repr=False)
class Spec(Description):
    """A `PartitionSpec`; the string `"UNCONSTRAINED"` stands for JAX's constant of that name."""

    names: tuple[Any, ...]

    def build(self, builder: Builder) -> PartitionSpec:
        """The spec."""
        return PartitionSpec(*unconstrained(self.names))  # type: ignore[no-untyped-call]


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["first", "second"], meta_fields=[]
)
@dataclass(frozen=True)
class Pair:
    """The class of a built `Record`, a pytree node with two children at attribute key paths.

    Args:
      first: A child.
      second: The other child.
    """

    first: Any
    second: Any = None


def unconstrained(names: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replace the string `"UNCONSTRAINED"` by JAX's constant `PartitionSpec.UNCONSTRAINED`.

    Args:
      names: Entries of a spec.

    Returns:
      The entries, with each such string replaced.
    """
    return tuple(PartitionSpec.UNCONSTRAINED if n == "UNCONSTRAINED" else n for n in names)


@functools.lru_cache(maxsize=64)
def _key(seed: int) -> jax.Array:
    """The key, made once for each seed: making one runs a JAX program."""
    return jax.random.key(seed)


@functools.lru_cache(maxsize=256)
def _mesh(shape: tuple[int, ...], axes: tuple[str, ...], explicit: bool) -> JaxMesh:
    """The mesh, made once for each description."""
    size = int(np.prod(shape, dtype=int))
    need_devices(size)
    grid = np.array(jax.devices()[:size]).reshape(shape)
    if not explicit:
        return JaxMesh(grid, axes)
    if not has_explicit_axes():
        not_available(f"jax {jax.__version__} has no explicit axes")
    return JaxMesh(grid, axes, axis_types=(jax.sharding.AxisType.Explicit,) * len(axes))


def has_explicit_axes() -> bool:
    """Whether the JAX at hand has meshes with axes of type `Explicit`, and `jax.set_mesh`."""
    return hasattr(jax.sharding, "AxisType") and hasattr(jax, "set_mesh")


def build(description: Any, builder: Builder) -> Any:
    """Build a description, and the descriptions in a dict, list or tuple.

    Args:
      description: A description, a plain container of descriptions, or any other value.
      builder: The implementation that it is built for.

    Returns:
      The built value; a value that is no description is returned as it is.
    """
    if issubclass(type(description), Description):
        return description.build(builder)
    return mapped(lambda each: build(each, builder), description)


CONTAINERS = (dict, list, tuple)
"""The plain containers that descriptions may stand in."""


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to each element of a plain container; return any other value as it is.

    Args:
      function: Called with each element of a list or tuple, and with each value of a dictionary.
      value: One of `CONTAINERS`, and of no subclass, or anything else.
    """
    if type(value) is dict:
        return {key: function(each) for key, each in value.items()}
    return type(value)(map(function, value)) if type(value) in CONTAINERS else value


def parts(value: Any) -> Iterator[Description]:
    """The descriptions in a value, at any depth, outer ones first."""
    if isinstance(value, Description):
        yield value
        value = [getattr(value, field.name) for field in fields(value)]  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        value = list(value.values())
    for each in value if isinstance(value, list | tuple) else ():
        yield from parts(each)
