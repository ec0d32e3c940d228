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

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from scutch.inputs import graphs
from scutch.inputs.descriptions import (
    CONTAINERS,
    Builder,
    Description,
    Graph,
    Mesh,
    Ref,
    Step,
    build,
    mapped,
)
from scutch.inputs.programs import Interpreter
from scutch.inputs.transformations import CARRIED, Sharding, is_axis, moved
from scutch.lawkit.domain import OutOfDomain, assume
from scutch.lawkit.mapped import shard_map

LANES = 2
"""The number of lanes of a map, and of steps of a loop."""


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


FORMS = ("function", "decorator", "method", "callable", "partial")
"""How the function of a call is written, or given to `jit`."""

STAGES = ("call", "lower", "trace")
"""How it is called: as it is, or as the compiled form that `lower` or `trace` lead to."""

BY = (None, "position", "negative", "name")
"""How options of `jit` name an argument, where they do."""


@dataclass(frozen=True, repr=False)
class Call(Description):
    """How a jitted function `f(first, ..., pair, scale=2)` is written and called.

    Args:
      form: One of `FORMS`.
      pair: Whether the pair of arrays is passed by `"position"` or by `"name"`.
      static: One of `BY`: how `scale` is declared static.
      scale: How often 1 is added to the pair; the default, `None`, is left out of the call.
      donate: One of `BY`: how the first argument is donated.
      stage: One of `STAGES`.
    """

    form: str = "function"
    pair: str = "position"
    static: str | None = None
    scale: int | None = None
    donate: str | None = None
    stage: str = "call"

    def build(self, world: Builder) -> "Call":
        """The description itself: it is built without an implementation."""
        return self

    @property
    def added(self) -> int:
        """How often the function adds 1 to each array of the pair."""
        if self.static is None:
            return 0
        return DEFAULT_SCALE if self.scale is None else self.scale

    @property
    def by_position(self) -> bool:
        """Whether `scale` is passed by position: where it is passed, and the pair is, too."""
        return self.scale is not None and self.pair == "position"

    def options(self, count: int) -> dict[str, Any]:
        """The options of `jit` for a function of so many arguments before the pair."""
        passed = count + (self.pair == "position") + self.by_position
        static = {"position": count + 1, "negative": -1, "name": "scale"}
        donated = {"position": 0, "negative": -passed, "name": "first"}
        found: dict[str, Any] = {}
        for option, by, names in (
            ("static", self.static, static),
            ("donate", self.donate, donated),
        ):
            if by is not None:
                found[f"{option}_{'argnames' if by == 'name' else 'argnums'}"] = names[by]
        return found

    def written(self, function: Callable[..., Any], count: int) -> Callable[..., Any]:
        """A function of `first`, maybe `second`, `pair` and `scale`, in the form of this call.

        Args:
          function: A function of the objects and the pair.
          count: How many arguments come before the pair, 1 or 2.
        """

        def added(pair: Any, scale: Any) -> Any:
            return _added(pair, scale if self.static is not None else 0)

        def one(first: Any, pair: Any, scale: Any = DEFAULT_SCALE) -> Any:
            return function(first, added(pair, scale))

        def two(first: Any, second: Any, pair: Any, scale: Any = DEFAULT_SCALE) -> Any:
            return function(first, second, added(pair, scale))

        plain = one if count == 1 else two
        owner: Any = (_OwnerOfOne if count == 1 else _OwnerOfTwo)(plain)
        forms = {"method": owner.method, "callable": owner, "partial": functools.partial(plain)}
        found: Callable[..., Any] = forms.get(self.form, plain)
        return found

    def make(self, jitted: Any, objects: tuple[Any, ...], pair: Any) -> Any:
        """Call a jitted function.

        Args:
          jitted: The function that `written` returns, lifted by `jit`.
          objects: The arguments before the pair.
          pair: The pair of arrays.

        Returns:
          The result of the jitted function, or of its compiled form.
        """
        last = {"pair": pair, "scale": self.scale}
        if self.scale is None:
            del last["scale"]
        positions: list[Any] = [*objects]
        if self.pair == "position":
            positions.append(last.pop("pair"))
        if self.stage == "call":
            if self.by_position:
                positions.append(last.pop("scale"))
            return jitted(*positions, **last)
        scale = [last.pop("scale")] if self.by_position else []
        staged = getattr(jitted, self.stage)(*positions, *scale, **last)
        compiled = (staged.lower() if self.stage == "trace" else staged).compile()
        last.pop("scale", None)  # the compiled form does not take the static argument
        return compiled(*positions, **last)


DEFAULT_SCALE = 2
"""The default of the argument `scale` of a `Call`."""


@dataclass(frozen=True, eq=False)
class _OwnerOfOne:
    """An object of a plain class whose method takes one argument before the pair."""

    function: Callable[..., Any]

    def method(self, first: Any, pair: Any, scale: Any = DEFAULT_SCALE) -> Any:
        return self.function(first, pair, scale)

    __call__ = method


@dataclass(frozen=True, eq=False)
class _OwnerOfTwo:
    """An object of a plain class whose method takes two arguments before the pair."""

    function: Callable[..., Any]

    def method(self, first: Any, second: Any, pair: Any, scale: Any = DEFAULT_SCALE) -> Any:
        return self.function(first, second, pair, scale)

    __call__ = method


def _added(pair: Any, count: int) -> Any:
    """A pair of arrays, with 1 added so many times; `count` is a Python number or refused."""
    for _ in range(count):
        pair = tuple(array + 1 for array in pair)
    return pair


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
        """The options that JAX's own transformation has, too."""
        return {name: each for name, each in self.options.items() if name != "modes"}

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
    """

    graph: Graph
    arguments: tuple[Any, ...] = (Ref(0),)
    steps: tuple[Step, ...] = ()
    results: tuple[Step, ...] = ()
    under: tuple[Transformation, ...] = ()
    dtype: str = "int32"
    held: str | Sharding = "NumPy's"

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
        nodes = self.described.graph.grow(self.world)
        arguments = build(self.described.arguments, replace(self.world, nodes=nodes))
        return World(self.nnx, arguments)

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
            values = tuple(
                self._stacked(v, a) for v, a in zip(values, _pair_axes(each), strict=True)
            )
        return values

    def _stacked(self, value: Any, axis: Any) -> Any:
        """A value with the axis of a map or a loop, and other contents in each lane."""
        if not isinstance(axis, int):
            return value
        self.assume(-np.ndim(value) - 1 <= axis <= np.ndim(value))
        lanes = [np.asarray(value) + lane for lane in range(LANES)]
        return np.stack(lanes, axis)

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

        def at_least_one_axis(value: Any) -> Any:
            return value if self._is_node(value) else jnp.atleast_1d(value)

        return [jax.tree.map(at_least_one_axis, each, is_leaf=self._is_node) for each in results]

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

    # ---------------------------------------------------------------- the two routes

    def by_jax(self) -> World:
        """Make the call by JAX's transformations; return the changed objects and the results."""
        function: Callable[..., Any] = self.pure
        for each in reversed(self.under):
            function = ORACLES[each.kind](self, each, function)
        before, pair = self.outside(), self.pair()
        kept, further = function(before.values(), pair)
        expected = self.inside()
        results = self.run(expected.arguments, self._seen_pair())
        for each in reversed(self.under):
            if each.kind == "grad":
                results = _grad_results(self, each, results)
        expected.results.extend(results)
        expected.fill([*kept, *further])
        return expected

    def _seen_pair(self) -> tuple[Any, ...]:
        """The pair as the function sees it."""
        dtype = self.described.dtype
        return np.zeros(self.width(), dtype), np.zeros((), dtype)

    def by_lift(self, transforms: Any) -> World:
        """Make the call by lifted transformations; return the changed objects and the results."""

        def function(*given: Any) -> list[Any]:
            self._check_given(given[:-1])
            return self.run(given[:-1], given[-1])

        for each in reversed(self.under):
            function = LIFTED[each.kind](self, transforms, each, function)
        world = self.outside()
        world.results.extend(function(*world.arguments, self.pair()))
        return world

    def _check_given(self, arguments: tuple[Any, ...]) -> None:
        """Refuse arguments of the function that are not of the classes that they are outside."""
        classes = [
            [type(leaf) for leaf in jax.tree.leaves(given, is_leaf=self._is_node)]
            for given in (arguments, self.inside().arguments)
        ]
        if classes[0] != classes[1]:
            raise TypeError("the function is given {}, and not {}".format(*classes))

    def _is_node(self, value: Any) -> bool:
        return graphs.is_node(self.nnx, value)

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


# ---------------------------------------------------------------- vmap


def _vmap_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    axes = call.given(each)
    return jax.vmap(function, (axes, each.x), (axes, each.out))


def _vmap_lift(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    in_axes = (*call.prefixes(transforms, each, "StateAxes"), each.x)
    return transforms.vmap(function, in_axes=in_axes, out_axes=each.out, **each.modes)


# ---------------------------------------------------------------- scan


def _pair_axes(each: Transformation) -> tuple[Any, Any]:
    return each.x if isinstance(each.x, tuple) else (each.x, each.x)


def _scan_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    """A loop by `jax.lax.scan`; no law applies if a step changes a value that all steps share."""
    axes = call.given(each)

    def loop(values: list[Any], pair: tuple[Any, ...]) -> Any:
        places = [(values, n, a) for n, a in enumerate(axes)]
        places += [(list(pair), n, a) for n, a in enumerate(_pair_axes(each))]
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


def _loss(values: list[Any]) -> Any:
    """A scalar that depends on every value, on each in another way."""
    floats = [value.astype("float32") for value in map(jnp.asarray, values)]
    weighted = [(n + 1) * jnp.sum(value * value) for n, value in enumerate(floats)]
    return sum(weighted, jnp.zeros(()))


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
            return _loss(after), (after, results)

        (value, (after, results)), slopes = jax.value_and_grad(loss, has_aux=True)(
            [values[number] for number in numbers]
        )
        return after, call.ranked([value, *results, *slopes])

    return differentiated


def _grad_results(call: BuiltObjectCall, each: Transformation, results: list[Any]) -> list[Any]:
    """The results with the places of a loss before them, and of gradients after them."""
    return [np.zeros(()), *results, *[np.zeros(())] * len(_wanted(call, each, call.inside()))]


def _grad_lift(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    kind = graphs.classes(call.nnx)[each.options["wrt"]]

    def loss(*arguments: Any) -> Any:
        results = function(*arguments)
        return _loss(World(call.nnx, arguments[:-1]).values()), results

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
        return function(values, _added(pair, added))

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


def _remat_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    return jax.checkpoint(function, **each.plain)


def _remat_lift(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    return transforms.remat(function, **each.plain, **each.modes)


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
    "remat": _remat_oracle,
    "shard_map": _shard_map_oracle,
}
"""JAX's own transformation of a pure function `(values, pair) -> (values, further values)`."""

LIFTED: Mapping[str, Callable[..., Any]] = {
    "vmap": _vmap_lift,
    "scan": _scan_lift,
    "grad": _grad_lift,
    "jit": _jit_lift,
    "remat": _remat_lift,
    "shard_map": _shard_map_lift,
}
"""The lifted transformation of a function `(*objects, pair) -> results`."""


def agreement(
    call: BuiltObjectCall, transforms: Any, *, shardings: bool = False, refusable: bool = False
) -> str:
    """Make a call by both routes, and fail unless they agree.

    Args:
      call: The call.
      transforms: The namespace of lifted transformations.
      shardings: Whether arrays must lie where JAX lays them.
      refusable: Whether the lift may refuse a call that JAX accepts.

    Returns:
      `"returned"` if both routes return; `"refused"` if both refuse, or if `refusable` is true and
      the lift alone refuses.

    Raises:
      AssertionError: One route refuses a call that the other accepts, or the objects or results
        differ; the message says where.
      OutOfDomain: A route meets a call that is outside the domain of the law.
    """
    try:
        expected, refusal = _made(call.by_jax, REFUSALS)
        found, error = _made(lambda: call.by_lift(transforms), Exception)
    except OutOfDomain:
        assume(not call.left_open)
        raise
    if refusal is not None:
        if error is None:
            raise AssertionError(f"it was accepted; JAX refuses: {_short(refusal)}")
        return "refused"
    if error is not None and refusable:
        return "refused"
    if error is not None:
        raise AssertionError(f"it raised {_short(error)}; JAX accepts it") from error
    worlds = [[world.arguments, world.results] for world in (expected, found)]
    if different := graphs.differences(call.nnx, *worlds):
        raise AssertionError(f"with JAX and lifted: {different}")
    if shardings:
        _assert_laid_alike(expected, found)
    return "returned"


def _assert_laid_alike(expected: World, found: World) -> None:
    """Fail where an array of JAX lies on the devices in another way than JAX laid it."""
    paths = expected.leaves()
    for path, theirs, ours in zip(paths, expected.values(), found.values(), strict=True):
        if not isinstance(ours, jax.Array):  # it has the array of NumPy that it had before
            continue
        if not ours.sharding.is_equivalent_to(theirs.sharding, theirs.ndim):
            lies = f"{theirs.sharding} with JAX, as {ours.sharding} lifted"
            raise AssertionError(f"{path} lies as {lies}")


REFUSALS = (TypeError, ValueError, Conflict)
"""The errors by which JAX's route refuses a call. Any other error there is the judge's fault."""


def _made(
    call: Callable[[], World], errors: type[Exception] | tuple[type[Exception], ...]
) -> tuple[Any, Exception | None]:
    try:
        return call(), None
    except errors as error:
        return None, error


def _short(error: Exception) -> str:
    """An error as its type and the beginning of its message."""
    return f"{type(error).__name__}: {str(error)[:300]}"
