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
and writes what comes out back. The pure function builds new objects, gives their variables the
values that it got, runs the program on them, and returns the values that the variables have then.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scutch.inputs import graphs
from scutch.inputs.descriptions import Builder, Description, Graph, Mesh, Ref, Step, build
from scutch.inputs.programs import Interpreter
from scutch.inputs.transformations import CARRIED
from scutch.lawkit.domain import assume

LANES = 2
"""How often a map or a loop runs the function."""


@dataclass(frozen=True, repr=False)
class ByType(Description):
    """A prefix in the place of objects: what variables are given, by the names of their types.

    Args:
      given: By type; what `of` gives is that of a variable's own type.
      rest: For variables of other types.
    """

    given: Mapping[str, Any]
    rest: Any = None

    def build(self, world: Builder) -> "ByType":
        """The same with what it gives built."""
        return ByType(build(dict(self.given), world), build(self.rest, world))

    def of(self, variable: Any) -> Any:
        """What a variable is given."""
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
      mesh: Of `shard_map`.
      options: Further ones. That of `grad` is `wrt`, the name of a type of variables; of `jit`,
        modes of the lift; `mode` is `"partial"` for `jit_partial`.
    """

    kind: str
    prefixes: tuple[Any, ...] = ()
    x: Any = None
    out: Any = None
    mesh: Mesh | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self, world: Builder) -> "Transformation":
        """The same with prefixes, mesh and options built."""
        parts = (self.prefixes, self.x, self.out, self.mesh, dict(self.options))
        return Transformation(self.kind, *(build(part, world) for part in parts))


@dataclass(frozen=True, repr=False)
class ObjectCall(Description):
    """A call of a transformed function of objects.

    Args:
      graph: The objects, as the function sees them.
      arguments: What the function takes, beside a pair of arrays: nodes, and containers of them.
      steps: What it does.
      results: What it returns.
      under: The transformations, the outermost first.
      dtype: Of the pair of arrays.
    """

    graph: Graph
    arguments: tuple[Any, ...] = (Ref(0),)
    steps: tuple[Step, ...] = ()
    results: tuple[Step, ...] = ()
    under: tuple[Transformation, ...] = ()
    dtype: str = "int32"

    def build(self, world: Builder) -> "BuiltObjectCall":
        """The call, ready to be made by JAX and by the implementation."""
        return BuiltObjectCall(self, world, build(self.under, world))


@dataclass(frozen=True)
class World:
    """Objects, and what a function of them returned.

    Args:
      nnx: The namespace of the objects.
      arguments: Those of the function.
      results: What it returned; a list, so that its arrays can be replaced.
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
    """Two arguments with one variable in common ask for different things of it."""


@dataclass(frozen=True)
class BuiltObjectCall:
    """A described call in a world, with its transformations built."""

    described: ObjectCall
    world: Builder
    under: tuple[Transformation, ...]

    # ---------------------------------------------------------------- objects and arrays

    @property
    def nnx(self) -> Any:
        """The namespace of the objects."""
        return self.world.nnx

    def inside(self) -> World:
        """New objects, with the values that the function sees in its first lane."""
        nodes = self.described.graph.grow(self.world)
        arguments = build(self.described.arguments, _within(self.world, nodes))
        return World(self.nnx, arguments)

    def outside(self) -> World:
        """New objects, with the values that the outermost transformation is called with."""
        world = self.inside()
        values = world.values()
        for each in reversed(self.under):
            axes = self.given(each)
            values = [_stacked(v, axis) for v, axis in zip(values, axes, strict=True)]
        world.fill(values)
        return world

    def pair(self) -> tuple[Any, ...]:
        """The arrays that the outermost transformation is called with."""
        values: tuple[Any, ...] = (
            np.asarray([3, 5, 2, 7], self.described.dtype)[: self.width()],
            np.asarray(2, self.described.dtype),
        )
        for each in reversed(self.under):
            axes = each.x if isinstance(each.x, tuple) else (each.x, each.x)
            values = tuple(_stacked(v, a) for v, a in zip(values, axes, strict=True))
        return values

    def width(self) -> int:
        """The size of the first array of the pair."""
        return 4 if any(each.kind == "shard_map" for each in self.under) else 2

    def given(self, transformation: Transformation) -> list[Any]:
        """What the prefixes of a transformation give each variable, in the order of leaves.

        Raises:
          Conflict: Two arguments give one variable different things.
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
                    assume(by == prefix)
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
        """Run the program on objects."""
        hands = Interpreter(self.nnx, arguments, pair)
        for step in self.described.steps:
            hands.apply(step)
        return list(map(hands.result, self.described.results))

    def pure(self, values: list[Any], pair: Any) -> tuple[list[Any], list[Any]]:
        """The program as a pure function of the variables' values.

        Returns:
          The values of the arguments' leaves, and those of further ones in the results.
        """
        world = self.inside()
        world.fill(values)
        world.results.extend(self.run(world.arguments, pair))
        after, count = world.values(), len(World(self.nnx, world.arguments).leaves())
        return after[:count], after[count:]

    # ---------------------------------------------------------------- the two routes

    def by_jax(self) -> World:
        """What JAX's own transformations of the pure function leave and return."""
        function: Callable[..., Any] = self.pure
        for each in reversed(self.under):
            function = ORACLES[each.kind](self, each, function)
        before, pair = self.outside(), self.pair()
        kept, further = function(before.values(), pair)
        expected = self.inside()
        results = self.run(expected.arguments, self._seen_pair())
        for each in reversed(self.under):
            results = RESULTS[each.kind](self, each, expected, results)
        expected.results.extend(results)
        expected.fill([*kept, *further])
        return expected

    def _seen_pair(self) -> tuple[Any, ...]:
        """The pair as the function sees it."""
        dtype = self.described.dtype
        return np.zeros(self.width(), dtype), np.zeros((), dtype)

    def by_lift(self, transforms: Any) -> World:
        """What the lifted transformations leave and return."""
        function: Callable[..., Any] = lambda *a: self.run(a[:-1], a[-1])  # noqa: E731
        for each in reversed(self.under):
            function = LIFTED[each.kind](self, transforms, each, function)
        world = self.outside()
        world.results.extend(function(*world.arguments, self.pair()))
        return world

    def prefixes(self, transforms: Any, transformation: Transformation, kind: str) -> Any:
        """The prefixes of the arguments as the implementation takes them.

        Args:
          transforms: The namespace.
          transformation: Whose they are.
          kind: What a `ByType` becomes: `StateAxes` or `StateSharding`.
        """
        classes = graphs.classes(self.nnx)

        def taken(prefix: Any) -> Any:
            if isinstance(prefix, ByType):
                pairs = {classes[name]: taken(value) for name, value in prefix.given.items()}
                return getattr(transforms, kind)({**pairs, ...: taken(prefix.rest)})
            if isinstance(prefix, dict):
                return {key: taken(value) for key, value in prefix.items()}
            if type(prefix) in (list, tuple):
                return type(prefix)(map(taken, prefix))
            return transforms.Carry if prefix == CARRIED else prefix

        given = transformation.prefixes or (None,) * len(self.described.arguments)
        return tuple(map(taken, given))


def _within(world: Builder, nodes: tuple[Any, ...]) -> Builder:
    return Builder(world.meta, world.make_box, world.nnx, world.linen, nodes)


def _stacked(value: Any, axis: Any) -> Any:
    """A value with the axis of a map or a loop, and other contents in each lane."""
    if not isinstance(axis, int):
        return value
    assume(-np.ndim(value) - 1 <= axis <= np.ndim(value))
    lanes = [np.asarray(value) + lane for lane in range(LANES)]
    return np.stack(lanes, axis)


# ---------------------------------------------------------------- vmap


def _vmap_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    axes = call.given(each)
    return jax.vmap(function, (axes, each.x), (axes, each.out))


def _vmap_lift(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    in_axes = (*call.prefixes(transforms, each, "StateAxes"), each.x)
    return transforms.vmap(function, in_axes=in_axes, out_axes=each.out)


# ---------------------------------------------------------------- scan


def _is_axis(axis: Any) -> bool:
    return isinstance(axis, int)


def _moved(tree: Any, start: int, end: int) -> Any:
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, start, end), tree)


def _pair_axes(each: Transformation) -> tuple[Any, Any]:
    return each.x if isinstance(each.x, tuple) else (each.x, each.x)


def _scan_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    """A loop by `jax.lax.scan`; what all steps share must not change, of which JAX says nothing."""
    axes = call.given(each)

    def loop(values: list[Any], pair: tuple[Any, ...]) -> Any:
        places = [(values, n, a) for n, a in enumerate(axes)]
        places += [(list(pair), n, a) for n, a in enumerate(_pair_axes(each))]
        slices = [_moved(held[n], a, 0) for held, n, a in places if _is_axis(a)]

        def step(carry: list[Any], sliced: list[Any]) -> Any:
            carried, parts = iter(carry), iter(sliced)
            seen = [
                next(carried) if a == CARRIED else next(parts) if _is_axis(a) else held[n]
                for held, n, a in places
            ]
            after, results = function(seen[: len(values)], tuple(seen[len(values) :]))
            for old, new, axis in zip(seen, after, axes, strict=False):
                assume(axis is not None or new is old)
            new = [value for value, a in zip(after, axes, strict=True) if a == CARRIED]
            kept = [value for value, a in zip(after, axes, strict=True) if _is_axis(a)]
            return new, (kept, results)

        start = [held[n] for held, n, a in places if a == CARRIED]
        last, (kept, results) = jax.lax.scan(step, start, slices, LANES, **each.options)
        carried, stacked = iter(last), iter(kept)
        after = [
            next(carried) if a == CARRIED else _moved(next(stacked), 0, a) if _is_axis(a) else v
            for v, a in zip(values, axes, strict=True)
        ]
        return after, _moved(results, 0, each.out)

    return loop


def _scan_lift(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    """The lifted loop; it carries a count beside what the prefixes carry."""
    prefixes = call.prefixes(transforms, each, "StateAxes")

    def step(*arguments: Any) -> Any:
        *objects, count, pair = arguments
        return count + 1, function(*objects, pair)

    loop = transforms.scan(
        step, in_axes=(*prefixes, transforms.Carry, each.x), out_axes=(transforms.Carry, each.out),
        length=LANES, **each.options,
    )  # fmt: skip
    return lambda *arguments: loop(*arguments[:-1], jnp.zeros((), "int32"), arguments[-1])[1]


# ---------------------------------------------------------------- grad


def _loss(values: list[Any]) -> Any:
    """A scalar that depends on every value, on each in another way."""
    floats = [value.astype("float32") for value in map(jnp.asarray, values)]
    weighted = [(n + 1) * jnp.sum(value * value) for n, value in enumerate(floats)]
    return sum(weighted[1:], weighted[0])


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
    numbers = _wanted(call, each, call.inside())

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
        return after, [value, *results, *slopes]

    return differentiated


def _grad_results(
    call: BuiltObjectCall, each: Transformation, world: World, results: list[Any]
) -> list[Any]:
    """The results with the places of a loss before them, and of gradients after them."""
    return [np.zeros(()), *results, *[np.zeros(())] * len(_wanted(call, each, call.inside()))]


def _grad_lift(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    kind = graphs.classes(call.nnx)[each.options["wrt"]]

    def loss(*arguments: Any) -> Any:
        results = function(*arguments)
        return _loss(World(call.nnx, arguments[:-1]).values()), results

    wanted = 0 if each.options["wrt"] == "Param" else transforms.DiffState(0, kind)
    lifted = transforms.value_and_grad(loss, argnums=wanted, has_aux=True)

    def differentiated(*arguments: Any) -> Any:
        (value, results), slopes = lifted(*arguments)
        flat = {str(path): leaf for path, leaf in call.nnx.to_flat_state(slopes)}
        leaves = [flat[path] for path in sorted(flat)]
        raw = [v.get_raw_value() if isinstance(v, call.nnx.Variable) else v for v in leaves]
        return [value, *results, *raw]

    return differentiated


# ---------------------------------------------------------------- jit, remat, shard_map


def _jit_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    if not each.prefixes:
        return jax.jit(function)
    given = call.given(each)
    return jax.jit(function, in_shardings=(given, each.x), out_shardings=(given, each.out))


def _jit_lift(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    options = dict(each.options)
    if options.pop("mode", "") == "partial":
        partial = transforms.jit_partial
        return lambda *arguments: partial(function, *arguments[:-1], **options)(arguments[-1])
    if each.prefixes:
        shardings = (*call.prefixes(transforms, each, "StateSharding"), each.x)
        options |= {"in_shardings": shardings, "out_shardings": each.out}
    return transforms.jit(function, **options)


def _remat_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    return jax.checkpoint(function, **each.options)


def _remat_lift(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    return transforms.remat(function, **each.options)


def _shard_map_oracle(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    specs = call.given(each)
    return jax.shard_map(
        function, mesh=each.mesh, in_specs=(specs, each.x), out_specs=(specs, each.out),
        **each.options,
    )  # fmt: skip


def _shard_map_lift(
    call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any
) -> Any:
    in_specs = (*call.prefixes(transforms, each, "StateSharding"), each.x)
    options = {"mesh": each.mesh, "in_specs": in_specs, "out_specs": each.out, **each.options}
    return transforms.shard_map(function, **options)


def _same_results(
    call: BuiltObjectCall, each: Transformation, world: World, results: list[Any]
) -> list[Any]:
    return results


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

RESULTS: Mapping[str, Callable[..., Any]] = {
    kind: _grad_results if kind == "grad" else _same_results for kind in ORACLES
}
"""What a transformation does to the list of results."""


def agreement(call: BuiltObjectCall, transforms: Any, *, shardings: bool = False) -> str:
    """Make a call by both routes, and fail unless they agree.

    Args:
      call: The call.
      transforms: The namespace of lifted transformations.
      shardings: Whether arrays must lie where JAX lays them.

    Returns:
      `"returned"` or `"refused"`: what JAX does, and the lift, too.

    Raises:
      AssertionError: One route refuses what the other accepts, or leaves and returns something
        else; the message says where.
    """
    expected, refusal = _made(call.by_jax, REFUSALS)
    found, error = _made(lambda: call.by_lift(transforms), Exception)
    if refusal is not None:
        if error is None:
            raise AssertionError(f"it was accepted; JAX refuses: {_short(refusal)}")
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
        if not isinstance(theirs, jax.Array):
            continue
        same = isinstance(ours, jax.Array) and ours.sharding.is_equivalent_to(
            theirs.sharding, theirs.ndim
        )
        if not same:
            lies = getattr(ours, "sharding", "no array of JAX")
            raise AssertionError(f"{path} lies as {theirs.sharding} with JAX, as {lies} lifted")


REFUSALS = (TypeError, ValueError, Conflict)
"""What JAX raises where it refuses a call. Any other error in its route is the judge's fault."""


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
