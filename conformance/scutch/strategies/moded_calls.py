"""Calls of lifted functions of objects in modes, `graph=False` and `graph_updates=False`.

The strategies draw programs that a mode is for, and programs that it must refuse or keep.
"""

import dataclasses
from typing import Any

from hypothesis import strategies as st

from scutch.engine.carriers.arrays import CARRIED, Sharding
from scutch.engine.carriers.objects import ObjectCall, Transformation
from scutch.engine.lifts import OBJECTS
from scutch.engine.lifts.prefixes import MAPPED, MESHES, SPECS, at_objects
from scutch.inputs.described_objects import Data, Graph, Object, Program, Ref, Variable
from scutch.inputs.descriptions import Description, Spec, mapped
from scutch.inputs.jit_calls import BY, Call
from scutch.inputs.programs import KEPT, UNSHARED, VALUES
from scutch.strategies.object_calls import GRAPHS, rewritten, ways
from scutch.strategies.programs import cells, programs, steps

MODES: dict[str, dict[str, Any]] = {
    "graph=False": {"graph": False},
    "graph_updates=False": {"graph_updates": False},
    "partial": {"mode": "partial", "graph_updates": False},
    "partial, graph=False": {"mode": "partial", "graph": False},
}
"""The modes of lifted `jit` that Flax documents: without sharing, without changes of structure,
with its first arguments taken apart beforehand."""

FLAGS: tuple[dict[str, Any], ...] = ({"graph": False}, {"graph_updates": False})
"""The options of every lift that are modes: without sharing, without changes of structure."""

_CHANGES = tuple(kind for kind in VALUES if kind != "call")
"""The steps that change values in a mode."""

_TREES = ((Ref(0),), (Ref(0), Ref(1)), ({"x": Ref(0)}, [Ref(1)]), ((Ref(1), None), Ref(0)))


def unshared_programs(
    kinds: tuple[str, ...], results: tuple[str, ...] = ()
) -> st.SearchStrategy[Program]:
    """Programs of one call on one or two objects in which nothing is shared, with vectors of two.

    Args:
      kinds: The steps of the function.
      results: The kinds of results; the function returns none if empty, else one or two.
    """
    pair = st.tuples(_trees(), _trees()).map(lambda each: rewritten(Graph(each), None, (2,)))
    taken = st.lists(steps(kinds), min_size=1, max_size=3).map(tuple)
    some = st.lists(steps(results), min_size=1, max_size=2).map(tuple)
    returned = some if results else st.just(())
    return st.builds(Program, pair, st.sampled_from(_TREES), taken, returned)


@st.composite
def moded_calls(draw: st.DrawFn, mode: str, *, laid: bool = False) -> ObjectCall:
    """Calls of `jit` in one of `MODES`, with programs that it is for.

    Values of variables change; objects are trees where the mode keeps no sharing.

    Args:
      draw: Hypothesis's.
      mode: A key of `MODES`.
      laid: Whether `jit` is given shardings; if not, they are drawn, but never for a partial
        application.
    """
    sharded = laid or ("partial" not in mode and draw(st.booleans()))
    if "graph=False" in mode or sharded:  # no cycles beside shardings
        shared = () if "graph=False" in mode else (({"x": Ref(0)}, [Ref(1), Ref(0)]),)
        arguments = draw(st.sampled_from((*_TREES, *shared)))
        graph = Graph((draw(_trees()), draw(_trees())))
    else:
        drawn = draw(programs((), graphs=GRAPHS))
        graph, arguments = drawn.graph, drawn.arguments
    done = draw(st.lists(steps(_CHANGES), min_size=1, max_size=3))
    results = draw(st.lists(steps(UNSHARED if "graph=False" in mode else KEPT), max_size=2))
    given: tuple[Any, ...] = ()
    out = None
    if "partial" in mode:
        how = draw(ways(None, st.none(), named=not sharded))
        if not sharded and draw(st.booleans()):  # the scale is static by name, and passed by name
            scale = draw(st.sampled_from((None, 3)))
            how = Call(how.form, "name", "name", scale, None, how.stage)
    else:
        static = draw(st.sampled_from(BY))
        how = draw(ways(static, st.sampled_from((None, "position")), named=not sharded))
        if sharded and static:  # the static scale is passed, and never to a compiled form
            how = dataclasses.replace(how, scale=3, stage="call")
    if sharded:
        mesh = draw(st.sampled_from(MESHES))
        values = tuple(Sharding(mesh, spec.names) for spec in SPECS)
        given = tuple(at_objects(draw(st.sampled_from(values)), each) for each in arguments)
        out = draw(st.sampled_from((None, *values)))
    under = Transformation("jit", given, None, out, None, MODES[mode] | {"call": how})
    if given:
        graph = rewritten(graph, None, draw(st.sampled_from(((8,), (8,), None))))
    return ObjectCall(graph, arguments, tuple(done), tuple(results), (under,))


@st.composite
def moded_lifts(draw: st.DrawFn, kind: str) -> ObjectCall:
    """Calls of lifts other than `jit` with `graph=False` or `graph_updates=False`.

    Values of variables change, and objects are trees.

    Args:
      draw: Hypothesis's.
      kind: A key of `OBJECTS`.
    """
    mode = draw(st.sampled_from(FLAGS))
    arguments = draw(st.sampled_from(_TREES[:2] if kind == "grad" else _TREES))
    lift = draw(OBJECTS[kind].drawn(arguments))
    values = {"vmap": MAPPED, "scan": (0, -1, None, 0), "shard_map": SPECS}.get(kind, (None,))
    given: tuple[Any, ...] = tuple(draw(st.sampled_from(values)) for _ in arguments)
    if kind == "scan" and draw(st.booleans()):
        place = draw(st.integers(0, len(given) - 1))
        given = (*given[:place], CARRIED, *given[place + 1 :])
    options = {**lift.options, "modes": mode}
    if kind == "grad":
        options["wrt"] = "Param"
    dtype, shape = "float32" if kind == "grad" else None, (8,) if kind == "shard_map" else None
    graph = Graph((draw(_trees()), draw(_trees())))
    if kind == "grad":
        graph = of_parameters(graph)
    done = draw(st.lists(steps(_CHANGES), min_size=1, max_size=3))
    returned = ("value",) if lift.kind == "grad" else UNSHARED
    results = draw(st.lists(steps(returned), max_size=2))
    under = dataclasses.replace(lift, prefixes=given, options=options)
    return ObjectCall(
        rewritten(graph, dtype, shape),
        arguments,
        tuple(done),
        tuple(results),
        (under,),
        dtype or "int32",
    )


LIFTS = ("vmap", "scan", "grad", "remat", "shard_map")
"""The lifts that have modes, beside `jit`."""

_SHARED = ((Ref(0),), (Ref(0), Ref(0)), (Ref(0), Ref(1)), ({"x": Ref(0)}, [Ref(1), Ref(0)]))


@st.composite
def unkept_calls(draw: st.DrawFn) -> ObjectCall:
    """Calls in every mode of functions whose arguments share objects, and which return arguments.

    All objects, arrays and results have one axis or spec, so that a variable has one.
    """
    kind = draw(st.sampled_from(("jit", "jit", *LIFTS)))
    parts = [draw(_trees()), draw(_trees())]
    if draw(st.booleans()):
        parts[0] = Object("Node", {**parts[0].attributes, "c": Ref(1)})
    graph, arguments = Graph(tuple(parts)), draw(st.sampled_from(_SHARED))
    if kind == "jit":
        options: dict[str, Any] = {**draw(st.sampled_from(list(MODES.values()))), "call": Call()}
    else:
        mode = draw(st.sampled_from(FLAGS))
        options = {"modes": mode}
    mesh, dtype, shape = None, None, None
    prefix: Any = None
    if kind == "grad":
        graph, arguments = of_parameters(graph), draw(st.sampled_from(_SHARED[:3]))
        options["wrt"], dtype = "Param", "float32"
    elif kind == "shard_map":
        mesh, prefix, shape = draw(st.sampled_from(MESHES)), Spec(("data",)), (8,)
    elif kind in ("vmap", "scan"):
        prefix = 0
    given = () if prefix is None else (prefix,) * len(arguments)
    x = (prefix, Spec(())) if kind == "shard_map" else prefix
    done = draw(st.lists(steps(_CHANGES), max_size=2))
    results = draw(st.lists(steps(("node", "fresh", "value")), min_size=1, max_size=2))
    under = Transformation(kind, given, x, prefix, mesh, options)
    return ObjectCall(
        rewritten(graph, dtype, shape),
        arguments,
        tuple(done),
        tuple(results),
        (under,),
        dtype or "int32",
    )


def of_parameters(value: Any) -> Any:
    """A description in which every variable is a parameter.

    Args:
      value: A description, or a container of descriptions.

    Returns:
      The new description; `value` is left as it is.
    """
    if isinstance(value, Variable):
        return Variable("Param", value.value, value.metadata)
    if isinstance(value, Description):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}  # type: ignore[arg-type]
        return type(value)(**{name: of_parameters(each) for name, each in fields.items()})
    return mapped(of_parameters, value)


@st.composite
def _trees(draw: st.DrawFn) -> Object:
    """Objects in which nothing is shared."""
    inner = Object("Branch", {name: draw(cells()) for name in draw(st.sampled_from(("a", "ab")))})
    attributes = {"a": draw(cells()), "b": inner, "d": Data([draw(cells()), draw(cells())])}
    kept = draw(st.lists(st.sampled_from(list(attributes)), min_size=1, unique=True))
    return Object("Node", {name: attributes[name] for name in sorted(kept)} | {"e": 3})
