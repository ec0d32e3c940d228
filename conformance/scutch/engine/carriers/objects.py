"""Calls of transformed functions of objects, and the same calls made by JAX of a pure function.

An `ObjectCall` is a program over a graph of objects (see `programs`), and the transformations that
it runs under, the outermost first:

    ObjectCall(Graph((Object('Node', {'a': Variable('Param', Array((2,)))}),)),
               steps=(Step('bump'),),
               under=(Transformation('vmap', (0,), x=0),))

is `vmap(f, in_axes=(0, 0))(node, pair)`, where `f` doubles a parameter and adds to it. The graph
has the values of one lane; outside, they have an axis more for each map or loop that slices them.

The *oracle* does not use the implementation to take objects apart. The judge finds the variables
(`graphs.leaves`), hands their values to JAX's own transformation of a *pure* function of values,
and writes the results into objects. The pure function builds new objects, sets their variables to
its arguments, runs the program on them, and returns the values of the variables afterwards.
"""

import contextlib
import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from scutch.engine.carriers.arrays import CARRIED, LANES, Sharding
from scutch.inputs import graphs
from scutch.inputs.described_objects import Graph, Ref, Step
from scutch.inputs.descriptions import CONTAINERS, Builder, Description, Mesh, build, mapped
from scutch.inputs.programs import Interpreter
from scutch.lawkit.domain import assume
from scutch.lawkit.placement import in_context


@dataclass(frozen=True, repr=False)
class ByType(Description):
    """A prefix for objects that gives a variable the axis, spec or sharding of its type.

    Args:
      given: The axis, spec or sharding by the name of a type; subtypes do not inherit it.
      rest: The axis, spec or sharding of variables of all other types.
    """

    given: Mapping[str, Any]
    rest: Any = None

    def build(self, world: Builder) -> "ByType":
        """The description, with the objects that it gives built for an implementation."""
        return ByType(build(dict(self.given), world), build(self.rest, world))

    def of(self, variable: Any) -> Any:
        """The axis, spec or sharding of a variable."""
        return self.given.get(type(variable).__name__, self.rest)


@dataclass(frozen=True, repr=False)
class Transformation(Description):
    """One transformation of a function of objects and of a pair of arrays.

    Args:
      kind: `jit`, `vmap`, `scan`, `grad`, `remat` or `shard_map`.
      prefixes: For each argument with objects: an axis, `CARRIED`, `None`, a spec or a sharding,
        a `ByType` of them, or a container of these like the argument.
      x: The prefix of the pair of arrays.
      out: The prefix of the results.
      mesh: Of `shard_map`, or of the shardings of `jit`.
      options: Further ones. `grad` takes `wrt`, the name of a type of variables. The options of
        `jit` are modes of the lift; `mode`, which is `"partial"` for `jit_partial`; and `call`, a
        `Call`. Modes of the others are in `modes`.
    """

    kind: str
    prefixes: tuple[Any, ...] = ()
    x: Any = None
    out: Any = None
    mesh: Mesh | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def plain(self) -> dict[str, Any]:
        """The options that JAX's own transformation has, too; axes by name are a set there."""
        given = {name: each for name, each in self.options.items() if name != "modes"}
        named = given.get("axis_names")
        return given if named is None else {**given, "axis_names": frozenset(named)}

    @property
    def pair_axes(self) -> tuple[Any, Any]:
        """The axis of each array of the pair."""
        return self.x if isinstance(self.x, tuple) else (self.x, self.x)

    @property
    def modes(self) -> Mapping[str, Any]:
        """The options that only the lift has."""
        found: Mapping[str, Any] = self.options.get("modes", {})
        return found

    def build(self, world: Builder) -> "Transformation":
        """The transformation with its prefixes, mesh and options built."""
        parts = (self.prefixes, self.x, self.out, self.mesh, dict(self.options))
        return Transformation(self.kind, *(build(part, world) for part in parts))


HELD: Mapping[str, Callable[[Any], Any]] = {
    "NumPy's": lambda value: value,
    "JAX's": jnp.asarray,
    "on the first device": lambda value: jax.device_put(value, jax.devices()[0]),
    "on the last device": lambda value: jax.device_put(value, jax.devices()[-1]),
}
"""Arrays that variables hold before a call. The last two are committed: JAX refuses some."""

WORLDS: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    "": contextlib.nullcontext,
    "without jit": jax.disable_jit,
    "in a mesh": lambda: in_context(jax.sharding.Mesh(jax.devices()[:2], ("data",))),
}
"""Where a call is made: at once, while `jit` is disabled, or with a mesh in context."""


def _laid(sharding: NamedSharding, value: Any) -> Any:
    """The arrays in a value, committed: cut by a sharding, or whole where it cannot cut them."""
    size = sharding.mesh.shape["data"]

    def laid(array: Any) -> Any:
        is_cut = np.ndim(array) > 0 and np.shape(array)[0] % size == 0
        spec = sharding.spec if is_cut else PartitionSpec()  # type: ignore[no-untyped-call]
        return jax.device_put(array, NamedSharding(sharding.mesh, spec))

    return jax.tree.map(laid, value)


@dataclass(frozen=True, repr=False)
class ObjectCall(Description):
    """A call of a transformed function of objects.

    Args:
      graph: The objects, as the function sees them.
      arguments: The function's arguments before the pair of arrays: nodes, and containers of them.
      steps: The steps that the function takes, in order.
      results: One step for each result of the function.
      under: The transformations, the outermost first.
      dtype: Of the pair of arrays.
      held: The arrays that variables hold before the call: a key of `HELD`, or the sharding of
        those that it can cut along the mesh axis `data`.
      where: The place of the call: a key of `WORLDS`.
    """

    graph: Graph
    arguments: tuple[Any, ...] = (Ref(0),)
    steps: tuple[Step, ...] = ()
    results: tuple[Step, ...] = ()
    under: tuple[Transformation, ...] = ()
    dtype: str = "int32"
    held: str | Sharding = "NumPy's"
    where: str = ""

    def build(self, world: Builder) -> "BuiltObjectCall":
        """The call, ready to be made by JAX and by the implementation."""
        return BuiltObjectCall(self, world, build(self.under, world))


@dataclass(frozen=True)
class World:
    """Objects, and the results of a function of them.

    Args:
      nnx: The namespace of the objects.
      arguments: The arguments of the function.
      results: The results of the function; a list, so that its arrays can be replaced.
    """

    nnx: Any
    arguments: tuple[Any, ...]
    results: list[Any] = field(default_factory=list)

    def leaves(self) -> dict[tuple[Any, ...], Any]:
        """The variables and bare arrays, by their first paths."""
        return graphs.leaves(self.nnx, [self.arguments, self.results])

    def values(self) -> list[Any]:
        """The values of the leaves, in the order of their paths."""
        return [
            leaf.get_raw_value() if isinstance(leaf, self.nnx.Variable) else leaf
            for leaf in self.leaves().values()
        ]

    def fill(self, values: list[Any]) -> None:
        """Give the leaves these values, in the order of their paths."""
        whole = [self.arguments, self.results]
        for (path, leaf), value in zip(list(self.leaves().items()), values, strict=True):
            if isinstance(leaf, self.nnx.Variable):
                leaf.set_value(value)
            else:
                graphs.follow(self.nnx, whole, path[:-1])[path[-1]] = value


class Conflict(Exception):
    """Two arguments with one variable in common ask for different things of it.

    Wrong, as both arguments are one node:

        ObjectCall(graph, (Ref(0), Ref(0)), under=(Transformation('vmap', (0, 1), x=0),))

    Right:

        ObjectCall(graph, (Ref(0), Ref(0)), under=(Transformation('vmap', (0, 0), x=0),))
    """


@dataclass(frozen=True)
class BuiltObjectCall:
    """A described call in a world, with its transformations built.

    Args:
      described: The description.
      world: Builds the described values for an implementation.
      under: The transformations, the outermost first.
      left_open: Has an entry for each condition of `assume` that did not hold.
    """

    described: ObjectCall
    world: Builder
    under: tuple[Transformation, ...]
    left_open: list[bool] = field(default_factory=list, compare=False)

    def assume(self, condition: object) -> None:
        """Leave the law where a condition does not hold, and note it.

        Where JAX or the implementation stand between this call and the law, the exception alone
        could be the implementation's: `agreement` looks at the note.

        Raises:
          OutOfDomain: It does not hold.
        """
        if not condition:
            self.left_open.append(True)
        assume(condition)

    # ---------------------------------------------------------------- objects and arrays

    @property
    def nnx(self) -> Any:
        """The namespace of the objects."""
        return self.world.nnx

    def inside(self) -> World:
        """New objects, with the values that the function sees in its first lane."""
        world = replace(self.world, nodes=self.described.graph.grow(self.world))
        return World(self.nnx, build(self.described.arguments, world))

    def outside(self) -> World:
        """New objects, with the values that the outermost transformation is called with."""
        world = self.inside()
        values = world.values()
        for each in reversed(self.under):
            axes = self.given(each)
            values = [self._stacked(v, axis) for v, axis in zip(values, axes, strict=True)]
        held = build(self.described.held, self.world)
        hold = HELD[held] if isinstance(held, str) else functools.partial(_laid, held)
        world.fill(list(map(hold, values)))
        return world

    def pair(self) -> tuple[Any, ...]:
        """The arrays that the outermost transformation is called with."""
        values: tuple[Any, ...] = (
            np.asarray([3, 5, 2, 7, 1, 4, 6, 9], self.described.dtype)[: self.width()],
            np.asarray(2, self.described.dtype),
        )
        for each in reversed(self.under):
            values = tuple(self._stacked(v, a) for v, a in zip(values, each.pair_axes, strict=True))
        return values

    def _stacked(self, value: Any, axis: Any) -> Any:
        """A value with the axis of a map or a loop, and other contents in each lane."""
        if not isinstance(axis, int):
            return value
        self.assume(-np.ndim(value) - 1 <= axis <= np.ndim(value))
        return np.stack([np.asarray(value) + lane for lane in range(LANES)], axis)

    def width(self) -> int:
        """The size of the first array of the pair."""
        return 8 if any(each.kind == "shard_map" for each in self.under) else 2

    def given(self, transformation: Transformation) -> list[Any]:
        """The axis, spec or sharding that the prefixes give each variable, in the order of leaves.

        Raises:
          Conflict: Two arguments give one variable different axes, specs or shardings.
        """
        world = self.inside()
        found: dict[int, tuple[Any, Any]] = {}

        def visit(argument: Any, prefix: Any) -> None:
            if isinstance(argument, self.nnx.Variable | self.nnx.Pytree):
                for _, leaf in graphs.leaves(self.nnx, argument).items():
                    value = prefix.of(leaf) if isinstance(prefix, ByType) else prefix
                    before, by = found.setdefault(id(leaf), (value, prefix))
                    if before != value:
                        raise Conflict(f"{leaf!r} is given {before!r} and {value!r}")
                    # Whether unlike prefixes that give the same are in conflict is left open.
                    self.assume(by == prefix)
                return
            for key, child in graphs.children(self.nnx, argument) or ():
                same = isinstance(prefix, dict | list | tuple) and type(prefix) is type(argument)
                visit(child, prefix[key] if same else prefix)

        prefixes = transformation.prefixes or (None,) * len(world.arguments)
        for argument, prefix in zip(world.arguments, prefixes, strict=True):
            visit(argument, prefix)
        return [found[id(leaf)][0] for leaf in world.leaves().values()]

    # ---------------------------------------------------------------- the function

    def run(self, arguments: tuple[Any, ...], pair: Any) -> list[Any]:
        """Run the program on objects, which it changes.

        Args:
          arguments: The objects, in their containers.
          pair: The pair of arrays that the program makes new values of.

        Returns:
          The results of the program.
        """
        hands = Interpreter(self.nnx, arguments, pair)
        for step in self.described.steps:
            hands.apply(step)
        return self.ranked(list(map(hands.result, self.described.results)))

    def ranked(self, results: list[Any]) -> list[Any]:
        """Results that a spec of one axis can be for: under `shard_map` no array is a scalar."""
        if all(each.kind != "shard_map" for each in self.under):
            return results

        is_node = functools.partial(graphs.is_node, self.nnx)

        def at_least_one_axis(value: Any) -> Any:
            return value if is_node(value) else jnp.atleast_1d(value)

        return [jax.tree.map(at_least_one_axis, each, is_leaf=is_node) for each in results]

    def pure(self, values: list[Any], pair: Any) -> tuple[list[Any], list[Any]]:
        """The program as a pure function of the variables' values.

        Args:
          values: In the order of leaves.
          pair: The pair of arrays.

        Returns:
          The values of the arguments' leaves, and the values of further leaves in the results.
        """
        world = self.inside()
        world.fill(values)
        world.results.extend(self.run(world.arguments, pair))
        after, count = world.values(), len(World(self.nnx, world.arguments).leaves())
        return after[:count], after[count:]

    def prefixes(self, transforms: Any, transformation: Transformation, kind: str) -> Any:
        """The prefixes of the arguments as the implementation takes them.

        Args:
          transforms: The namespace.
          transformation: Whose they are.
          kind: The class that replaces a `ByType`: `StateAxes` or `StateSharding`.

        Returns:
          One for each argument before the pair.
        """
        classes = graphs.classes(self.nnx)

        def taken(prefix: Any) -> Any:
            if isinstance(prefix, ByType):
                pairs: dict[Any, Any] = {
                    classes[name]: taken(value) for name, value in prefix.given.items()
                }
                return getattr(transforms, kind)({**pairs, ...: taken(prefix.rest)})
            if type(prefix) in CONTAINERS:
                return mapped(taken, prefix)
            return transforms.Carry if prefix == CARRIED else prefix

        given = transformation.prefixes or (None,) * len(self.described.arguments)
        return tuple(map(taken, given))
