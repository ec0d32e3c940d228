"""Inputs as plain descriptions, which are built for the implementation under judgment.

Strategies draw *descriptions*, not values: a `Box` says which names and which value a box has, not
whose class it is. The judge *builds* them just before a law sees them. So one input can be tried
on several implementations, an input prints as the text that makes it, and that text can be read
back (`calls.parse_call`) to replay a failure without any search.

A description is a frozen dataclass, or a dict, list, tuple, string, number or `None` of them.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh as JaxMesh
from jax.sharding import PartitionSpec

from scutch.inputs import boxes, graphs, models, programs
from scutch.lawkit.domain import assume, not_available


@dataclass(frozen=True)
class Builder:
    """What descriptions are built from: the implementation, and the box class that is tried.

    Args:
      meta: The namespace of document `000_`.
      make_box: `(value, names, mesh) -> box`, a box of the class under judgment.
      nnx: The namespace of objects and variables.
      linen: The namespace of Linen modules.
      nodes: Those of the graph that is being built, by number.
    """

    meta: Any
    make_box: Callable[..., Any]
    nnx: Any = None
    linen: Any = None
    nodes: Sequence[Any] = ()


class Description:
    """Something that can be built in a `Builder`; prints as the call that makes it."""

    def build(self, world: Builder) -> Any:
        """The value that this describes."""
        raise NotImplementedError

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
    """A NumPy array; `seed` chooses its contents."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    seed: int = 0

    def build(self, world: Builder) -> np.ndarray:
        """Distinct small numbers, the same for the same seed."""
        size = int(np.prod(self.shape, dtype=int))
        return (np.arange(size) + 1 + self.seed).reshape(self.shape).astype(self.dtype)


@dataclass(frozen=True, repr=False)
class Abstract(Description):
    """A shape and dtype without contents."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    def build(self, world: Builder) -> jax.ShapeDtypeStruct:
        """The `ShapeDtypeStruct`."""
        return jax.ShapeDtypeStruct(self.shape, np.dtype(self.dtype))  # type: ignore[no-untyped-call]


@dataclass(frozen=True, repr=False)
class Key(Description):
    """A typed PRNG key."""

    seed: int = 0

    def build(self, world: Builder) -> jax.Array:
        """The key."""
        return _key(self.seed)


@dataclass(frozen=True, repr=False)
class Record(Description):
    """A dataclass that is a pytree node."""

    first: Any
    second: Any = None

    def build(self, world: Builder) -> Any:
        """An instance of `Pair`."""
        return Pair(build(self.first, world), build(self.second, world))


@dataclass(frozen=True, repr=False)
class Mesh(Description):
    """The first devices, in a grid with named axes."""

    shape: tuple[int, ...]
    axes: tuple[str, ...]
    explicit: bool = False

    def build(self, world: Builder) -> JaxMesh:
        """The mesh; an input that needs more devices than there are is not tried."""
        return _mesh(self.shape, self.axes, self.explicit)


@dataclass(frozen=True, repr=False)
class Box(Description):
    """A box of the class under judgment."""

    value: Any
    names: tuple[Any, ...]
    mesh: Mesh | None = None

    def build(self, world: Builder) -> Any:
        """The box."""
        value, mesh = build(self.value, world), build(self.mesh, world)
        return world.make_box(value, self.names, mesh)


@dataclass(frozen=True, repr=False)
class Foreign(Description):
    """A box of a class that is written outside the implementation: see `scutch.inputs.boxes`."""

    kind: str
    value: Any
    names: tuple[Any, ...]

    def build(self, world: Builder) -> Any:
        """The box."""
        return boxes.foreign(world.meta.AxisMetadata)[self.kind](
            build(self.value, world), self.names
        )


@dataclass(frozen=True, repr=False)
class Copies(Description):
    """One description built twice: the second shows what the first was."""

    of: Any

    def build(self, world: Builder) -> tuple[Any, Any]:
        """Two values without a mutable part in common."""
        return build(self.of, world), build(self.of, world)


@dataclass(frozen=True, repr=False)
class Placement(Description):
    """An array with logical names, and rules by which it can be laid on a mesh.

    Building it gives the same fields with the array and the mesh built.
    """

    array: Any
    names: tuple[Any, ...]
    rules: tuple[tuple[str, Any], ...]
    mesh: Any

    def build(self, world: Builder) -> "Placement":
        """The placement of real things."""
        return Placement(build(self.array, world), self.names, self.rules, build(self.mesh, world))


@dataclass(frozen=True, repr=False)
class Spec(Description):
    """A `PartitionSpec`; the string `"UNCONSTRAINED"` stands for JAX's constant."""

    names: tuple[Any, ...]

    def build(self, world: Builder) -> PartitionSpec:
        """The spec."""
        return PartitionSpec(*unconstrained(self.names))  # type: ignore[no-untyped-call]


@dataclass(frozen=True, repr=False)
class Ref(Description):
    """Inside a graph: its node of this number."""

    node: int

    def build(self, world: Builder) -> Any:
        """The node, which may have no attributes yet."""
        return world.nodes[self.node]


@dataclass(frozen=True, repr=False)
class Variable(Description):
    """A variable of a type in `objects.VARIABLES`; its metadata is a dictionary."""

    kind: str
    value: Any
    metadata: Any = None

    def build(self, world: Builder) -> Any:
        """The variable."""
        kind = graphs.classes(world.nnx)[self.kind]
        return kind(build(self.value, world), **build(self.metadata or {}, world))


@dataclass(frozen=True, repr=False)
class Object(Description):
    """An object of a type in `objects.MODULES` or `objects.TRACKED`, with attributes by name.

    A list takes them in order, whatever their names.
    """

    kind: str
    attributes: Mapping[str, Any]

    def build(self, world: Builder) -> Any:
        """The object."""
        return self.fill(graphs.classes(world.nnx)[self.kind](), world)

    def fill(self, node: Any, world: Builder) -> Any:
        """Give an object the attributes."""
        for name, value in self.attributes.items():
            graphs.put(world.nnx, node, name, build(value, world))
        return node


@dataclass(frozen=True, repr=False)
class Data(Description):
    """An attribute that is marked as data."""

    value: Any

    def build(self, world: Builder) -> Any:
        """The value with its mark, which it loses where it is set."""
        return world.nnx.data(build(self.value, world))


@dataclass(frozen=True, repr=False)
class Static(Description):
    """An attribute that is marked as static."""

    value: Any

    def build(self, world: Builder) -> Any:
        """The value with its mark, which it loses where it is set."""
        return world.nnx.static(build(self.value, world))


@dataclass(frozen=True, repr=False)
class Graph(Description):
    """Numbered objects and variables, which refer to each other; the first is the root."""

    nodes: tuple[Object | Variable, ...]

    def grow(self, world: Builder) -> tuple[Any, ...]:
        """Every numbered node, built."""
        made: list[Any] = []
        inside = replace(world, nodes=made)
        for node in self.nodes:
            bare = replace(node, attributes={}) if isinstance(node, Object) else node
            made.append(bare.build(inside))
        for node, described in zip(made, self.nodes, strict=True):
            if isinstance(described, Object):
                described.fill(node, inside)
        return tuple(made)

    def build(self, world: Builder) -> Any:
        """The root."""
        return self.grow(world)[0]


@dataclass(frozen=True, repr=False)
class Step(Description):
    """What is done to objects: a verb of `programs.STEPS` or `RESULTS`, and numbers that choose."""

    kind: str
    at: int = 0
    other: int = 0
    n: int = 0


@dataclass(frozen=True, repr=False)
class Program(Description):
    """A graph of objects, and what a function of several calls does to it; see `programs`.

    Args:
      graph: The objects.
      arguments: What the function takes: a `Ref` to a node, or a container of them.
      steps: What it does.
      results: What it returns.
      between: What is done to the objects after each call but the last.
    """

    graph: Graph
    arguments: tuple[Any, ...] = (Ref(0),)
    steps: tuple[Step, ...] = ()
    results: tuple[Step, ...] = ()
    between: tuple[tuple[Step, ...], ...] = ()

    def build(self, world: Builder) -> programs.BuiltProgram:
        """The program with its objects built."""
        inside = replace(world, nodes=self.graph.grow(world))
        arguments = build(self.arguments, inside)
        return programs.BuiltProgram(world.nnx, arguments, self.steps, self.results, self.between)


@dataclass(frozen=True, repr=False)
class Layer(Description):
    """One layer of a Linen model: a kind of `strategies.models`, and the box of its first variable.

    Args:
      kind: What it does.
      box: A kind of box: the implementation's own, one of `scutch.inputs.boxes`, or none if empty.
      names: Those of the box, one for each axis.
    """

    kind: str
    box: str = ""
    names: tuple[Any, ...] = ()


@dataclass(frozen=True, repr=False)
class Lift(Description):
    """Layers of a Linen model that are repeated by `scan`, or mapped by `vmap`.

    Args:
      kind: `scan` or `vmap`.
      layers: What is lifted: layers, and lifts again.
      length: How many there are.
      axis: Of the parameters; other collections are stacked at their first.
      name: The partition name.
      named: Whether there is one.
      split: Whether each has keys of its own.
    """

    kind: str
    layers: tuple[Any, ...]
    length: int = 2
    axis: int = 0
    name: Any = None
    named: bool = True
    split: bool = True


@dataclass(frozen=True, repr=False)
class Model(Description):
    """A Linen model: a stack of layers and lifts, and the batch that it is for; see `models`.

    Args:
      layers: Each is a `Layer` or a `Lift`.
      width: Of a row.
      batch: How many rows there are.
      form: How it is written, one of `models.FORMS`.
    """

    layers: tuple[Layer | Lift, ...]
    width: int = 2
    batch: int = 2
    form: str = "compact"

    def build(self, world: Builder) -> models.Instance:
        """The model over the implementation, with a batch."""
        x = np.linspace(-1, 2, self.batch * self.width, dtype="float32") ** 2
        batch = x.reshape(self.batch, self.width)
        return models.Instance(self, world.meta, world.linen, batch)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["first", "second"], meta_fields=[]
)
@dataclass(frozen=True)
class Pair:
    """What a `Record` builds: two children with attribute paths."""

    first: Any
    second: Any = None


def unconstrained(names: tuple[Any, ...]) -> tuple[Any, ...]:
    """`names` with the string `"UNCONSTRAINED"` replaced by JAX's constant."""
    return tuple(PartitionSpec.UNCONSTRAINED if n == "UNCONSTRAINED" else n for n in names)


@functools.lru_cache(maxsize=64)
def _key(seed: int) -> jax.Array:
    return jax.random.key(seed)


@functools.lru_cache(maxsize=256)
def _mesh(shape: tuple[int, ...], axes: tuple[str, ...], explicit: bool) -> JaxMesh:
    size = int(np.prod(shape, dtype=int))
    devices = jax.devices()
    assume(size <= len(devices))
    grid = np.array(devices[:size]).reshape(shape)
    if not explicit:
        return JaxMesh(grid, axes)
    if not has_explicit_axes():
        not_available(f"jax {jax.__version__} has no explicit axes")
    return JaxMesh(grid, axes, axis_types=(jax.sharding.AxisType.Explicit,) * len(axes))


def has_explicit_axes() -> bool:
    """Whether the JAX at hand has meshes with explicit axes."""
    return hasattr(jax.sharding, "AxisType") and hasattr(jax, "set_mesh")


def build(description: Any, world: Builder) -> Any:
    """The value that a description stands for; anything else stands for itself."""
    kind = type(description)
    if issubclass(kind, Description):
        return description.build(world)
    if kind is dict:
        return {key: build(value, world) for key, value in description.items()}
    if kind is list or kind is tuple:
        return kind(build(value, world) for value in description)
    return description
