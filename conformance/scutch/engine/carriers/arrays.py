"""Calls of transformed functions of plain arrays, which JAX and a lift can both make.

A `PlainCall` says how a Python function is written (`FORMS`), which result it returns (`RESULTS`),
which options its transformation gets, and the calls that follow:

    PlainCall('jit', 'function', 'tree', {'static_argnums': -1},
              ((('position', 'position', 'name'), (Array((8,)), Array((8,)), 3)),))

is `jit(f, static_argnums=-1)(x, y, scale=3)`. Each run of it builds new arguments, so that one run
may donate them and another still have its own. Nothing here uses an implementation.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from scutch.engine.agreement import Outcome, attempted
from scutch.inputs.descriptions import Builder, Description, Mesh, Spec, build

PARAMETERS = ("x", "y", "scale")
"""The parameters of every function that is written here."""

FORMS = ("function", "keyword only", "partial", "partial by name", "method", "callable", "variadic")
"""How a function of `PARAMETERS` is written: plainly; with `scale` by keyword alone; as a partial
with one more argument bound, by position or by name; as a bound method; as a callable object; with
`*arrays` and `**named`."""

RESULTS = ("tree", "first", "sum", "constants", "swapped", "nothing")
"""Results of a function of `PARAMETERS`: `x`, scaled, and `y`; `x` alone, scaled, so that `y` is
not used; the scaled sum of all; `x`, scaled, and parts that depend on no argument; `y` and `x` as
they are; `None`."""

COLLECTIVE = ("psum", "index", "gathered")
"""Results of a function under an axis named `data`: the scaled sum of `x` over the axis, and `y`;
the index along the axis plus the sum of an array of `x`; the parts of `x` from the whole axis."""

CARRIED = "carry"
"""In the axes of a described loop, the entry of the argument that a step hands to the next."""

STEPPED = ("x, slice", "y, slice", "slice, x", "x", "slice")
"""Results of one step of a loop, in order: `x` or `y` is the next value of that argument, which is
carried; `slice` is the part that the loop stacks over the steps."""

SCALARS = ("loss", "loss and aux", "complex loss")
"""Results of a function to differentiate: a scalar; a scalar beside `y`; a complex scalar."""


@dataclass(frozen=True, repr=False)
class Sharding(Description):
    """A `NamedSharding`: a spec on a mesh.

    Args:
      mesh: The mesh.
      spec: The entries of the spec: a mesh axis, a tuple of mesh axes, or `None`; axes of the array
        beyond the last entry are not sharded.
    """

    mesh: Mesh
    spec: tuple[Any, ...] = ()

    def build(self, world: Builder) -> NamedSharding:
        """The sharding."""
        return NamedSharding(self.mesh.build(world), Spec(self.spec).build(world))


@dataclass(frozen=True, repr=False)
class OnDevice(Description):
    """An array of JAX, which each run makes anew.

    Args:
      array: A description of its contents, such as `Array((8,))`.
      sharding: Where it is put; JAX decides where this is left out, and then the array is not
        committed.
    """

    array: Any
    sharding: Sharding | None = None

    def build(self, world: Builder) -> Any:
        """The array, placed."""
        array = build(self.array, world)
        if self.sharding is None:
            return jnp.array(array)
        return jax.device_put(array, self.sharding.build(world))


@dataclass(frozen=True, repr=False)
class PlainCall(Description):
    """A transformed function of plain arrays, and the calls that are made of it.

    Args:
      kind: The transformation's name, as `jit`.
      form: How the function is written, one of `FORMS`.
      result: Its result, one of `RESULTS`, `COLLECTIVE`, `STEPPED` or `SCALARS`.
      options: Of the transformation; descriptions are built, and `axis_names` become a set.
      calls: For each call how each argument is passed (`"position"`, `"name"` or `"default"`,
        which leaves it out), and the arguments.
      reverse: Whether arguments by name come in the reverse order.
    """

    kind: str
    form: str
    result: str
    options: dict[str, Any] = field(default_factory=dict)
    calls: tuple[tuple[tuple[str, ...], tuple[Any, ...]], ...] = ()
    reverse: bool = False

    def is_static(self, parameter: str) -> bool:
        """Whether the options make a parameter of the function static, by number or by name."""
        numbers, names = (
            [given] if isinstance(given, int | str) else list(given)
            for given in (
                self.options.get("static_argnums", ()),
                self.options.get("static_argnames", ()),
            )
        )
        place = PARAMETERS.index(parameter)
        return parameter in names or place in numbers or place - len(PARAMETERS) in numbers

    def build(self, world: Builder) -> "BuiltCall":
        """The call, ready to be made by JAX and by an implementation."""
        return BuiltCall(self, world)


@dataclass(frozen=True)
class BuiltCall:
    """A described call that can be made; `arguments` and `options` build new values each time.

    Args:
      described: The description.
      world: Builds the described values, on the devices of this machine.
    """

    described: PlainCall
    world: Builder

    def options(self) -> dict[str, Any]:
        """The options, built."""
        built: dict[str, Any] = build(self.described.options, self.world)
        if isinstance(names := built.get("axis_names"), tuple):
            built["axis_names"] = frozenset(names)
        return built

    def arguments(self) -> list[tuple[list[Any], dict[str, Any]]]:
        """For each call the arguments by position and those by name, newly built."""
        found = []
        for ways, described in self.described.calls:
            values = [build(each, self.world) for each in described]
            triples = list(zip(PARAMETERS, ways, values, strict=True))
            named = [(name, value) for name, way, value in triples if way == "name"]
            ordered = named[::-1] if self.described.reverse else named
            found.append(([v for _, way, v in triples if way == "position"], dict(ordered)))
        return found

    def made(self, transformation: Callable[..., Any], *, first: bool = False) -> Outcome:
        """Transform the function, make the calls, and return their outcome.

        Args:
          transformation: Takes a function and options; JAX's own or a lifted one.
          first: Whether options are given first, as to a decorator with arguments.
        """
        traces: list[Any] = []
        arguments = self.arguments()

        def calls() -> list[Any]:
            function = self.function(traces)
            if first:
                transformed = transformation(**self.options())(function)
            else:
                transformed = transformation(function, **self.options())
            return [transformed(*positional, **named) for positional, named in arguments]

        return attempted(calls, watched=arguments, traces=traces)

    def function(self, traces: list[Any]) -> Callable[..., Any]:
        """The Python function, which appends to `traces` each time that it runs."""
        return written(self.described.form, self.described.result, traces)


LANES = 2
"""The number of lanes of a map, and of steps of a loop."""


def is_axis(axis: Any) -> bool:
    """Whether an entry of the axes of a loop is an axis: not `CARRIED`, and not shared."""
    return isinstance(axis, int)


def moved(tree: Any, start: int, end: int) -> Any:
    """A tree whose arrays have their axis `start` at `end`.

    Args:
      tree: Of arrays.
      start: The place of the axis; may be negative.
      end: Its new place; may be negative.

    Returns:
      A tree of the same structure.
    """
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, start, end), tree)


def scalar_of(values: Sequence[Any]) -> Any:
    """A scalar that depends on every value, on each in another way.

    Args:
      values: Arrays.
    """
    floats = [value.astype("float32") for value in map(jnp.asarray, values)]
    weighted = [(n + 1) * jnp.sum(value * value) for n, value in enumerate(floats)]
    return sum(weighted, jnp.zeros(()))


def shifted(arrays: Sequence[Any], by: Any) -> Any:
    """A tuple of the arrays, each with a number added.

    Args:
      arrays: Of any dtypes.
      by: A number, or an array of one.
    """
    return tuple(value + jnp.asarray(by, value.dtype) for value in arrays)


def written(form: str, result: str, traces: list[Any]) -> Callable[..., Any]:
    """A Python function of `PARAMETERS`, which records each of its runs.

    Args:
      form: How it is written: one of `FORMS`.
      result: Its result: one of `RESULTS`, `COLLECTIVE`, `STEPPED` or `SCALARS`.
      traces: A list; each run appends `form` to it. Under `jit` a run is a trace.

    Returns:
      The function, partial, method or callable object.
    """

    def function(x: Any, y: Any = 2.0, scale: Any = 3) -> Any:
        traces.append(form)
        return computed(result, x, y, scale)

    def keyword_only(x: Any, y: Any = 2.0, *, scale: Any = 3) -> Any:
        return function(x, y, scale)

    def variadic(*arrays: Any, **named: Any) -> Any:
        traces.append(form)
        return computed(result, arrays, named, 3)

    def preceded(bound: Any, x: Any, y: Any = 2.0, scale: Any = 3) -> Any:
        return bound, function(x, y, scale)

    match form:
        case "keyword only":
            return keyword_only
        case "variadic":
            return variadic
        case "partial":
            return functools.partial(preceded, np.float32(7))
        case "partial by name":
            return functools.partial(function, scale=5)
        case "method":
            return Owner(function).method
        case "callable":
            return Owner(function)
    return function


@dataclass(frozen=True, eq=False)
class Owner:
    """An object of a plain class, whose method and whose call run a function."""

    function: Callable[..., Any]

    def method(self, x: Any, y: Any = 2.0, scale: Any = 3) -> Any:
        """Run the function.

        Args:
          x: A tree of arrays.
          y: A tree of arrays, or a number.
          scale: A number, or a string.

        Returns:
          The result of the function.
        """
        return self.function(x, y, scale)

    __call__ = method


def computed(result: str, x: Any, y: Any, scale: Any) -> Any:
    """Compute the result of a described function for its arguments.

    Args:
      result: Which result: one of `RESULTS`, `COLLECTIVE`, `STEPPED` or `SCALARS`.
      x: A tree of arrays.
      y: A tree of arrays, or a number.
      scale: A number, or a string, whose length is the number.

    Returns:
      A tree of arrays, scalars and `None`, as the text of those constants says.
    """
    factor = len(scale) if isinstance(scale, str) else scale

    def scaled(leaf: Any) -> Any:
        return leaf * factor

    match result:
        case "tree":
            return {"x": jax.tree.map(scaled, x), "y": y}
        case "first":
            return jax.tree.map(scaled, x)
        case "sum":
            return sum(jnp.sum(leaf) for leaf in jax.tree.leaves((x, y))) * factor
        case "constants":
            return jax.tree.map(scaled, x), jnp.arange(8), 2.5, None
        case "swapped":
            return [y, x]
        case "psum":
            total = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(x))
            return jax.lax.psum(total * factor, "data"), y  # type: ignore[no-untyped-call]
        case "index":
            return jax.lax.axis_index("data") + jnp.sum(jax.tree.leaves(x)[0])
        case "gathered":
            return jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, "data"), x)
        case "x, slice" | "y, slice" | "slice, x" | "x" | "slice":
            carried, others = (y, (x, scale)) if result == "y, slice" else (x, (y, scale))
            total = sum(jnp.sum(jnp.asarray(leaf)) for leaf in jax.tree.leaves(others))
            after = jax.tree.map(lambda leaf: (leaf * 2 + total).astype(leaf.dtype), carried)
            stacked = {"total": total * jnp.ones(2), "seen": carried}
            return {"x": after, "slice": stacked, "slice, x": (stacked, after)}.get(
                result, (after, stacked)
            )
        case "loss" | "loss and aux" | "complex loss":
            squares = [jnp.sum(leaf * leaf) for leaf in jax.tree.leaves((x, y))]
            loss = sum(squares[1:], squares[0]) * factor
            if result == "complex loss":
                return loss * (1 + 2j)
            return loss if result == "loss" else (loss, {"y": y})
    return None
