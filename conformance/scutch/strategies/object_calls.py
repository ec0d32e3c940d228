"""Strategies for calls of transformed functions of objects; see `scutch.inputs.object_calls`.

Under a transformation that keeps the structure, programs change values alone, so that most calls
are legal. Illegal calls come up by themselves: a variable that all lanes share and one lane sets,
shardings that disagree, a size that the mesh does not divide. JAX decides which calls are illegal.
"""

import dataclasses
from typing import Any

from hypothesis import strategies as st

from scutch.inputs.descriptions import (
    CONTAINERS,
    Array,
    Data,
    Description,
    Graph,
    Mesh,
    Object,
    Program,
    Ref,
    Spec,
    Variable,
    mapped,
)
from scutch.inputs.object_calls import (
    BY,
    FORMS,
    HELD,
    STAGES,
    ByType,
    Call,
    ObjectCall,
    Transformation,
)
from scutch.inputs.programs import KEPT, KINDS, STEPS, UNSHARED, VALUES
from scutch.inputs.transformations import CARRIED, Sharding
from scutch.strategies.programs import cells, programs, small_graphs, steps

_GRAPHS = small_graphs(size=3)
_MAPPED = (0, -1, None, 0, 1)
_LOOPED = (0, CARRIED, -1, None, CARRIED)
_PAIRS = (0, None, (0, None), (None, 0), -1)
_MESHES = (
    Mesh((2,), ("data",)), Mesh((8,), ("data",)), Mesh((1,), ("data",)), Mesh((4,), ("data",)),
    Mesh((2, 2), ("data", "model")), Mesh((4, 2), ("data", "model")),
)  # fmt: skip
_GRIDS = tuple(mesh for mesh in _MESHES if len(mesh.axes) == 2)
KEEPING = ("bump", "bump", "copy", "call", "call")
"""Steps that keep shapes, which most programs that run on parts of arrays must."""

_SPECS = (Spec(("data",)), Spec(()), Spec(("data",)))


def rewritten(value: Any, dtype: str | None, shape: tuple[int, ...] | None) -> Any:
    """A description in which every array has another dtype, or another shape.

    Args:
      value: A description, or a container of descriptions.
      dtype: For every array; `None` leaves it.
      shape: For every array; `None` leaves it.

    Returns:
      The new description; `value` is left as it is.
    """
    if isinstance(value, Array):
        return Array(shape or value.shape, dtype or value.dtype, value.seed)
    if isinstance(value, Description):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}  # type: ignore[arg-type]
        return type(value)(**{name: rewritten(each, dtype, shape) for name, each in fields.items()})
    return mapped(lambda each: rewritten(each, dtype, shape), value)


@st.composite
def prefixes(
    draw: st.DrawFn, arguments: tuple[Any, ...], values: tuple[Any, ...], *, whole: bool = False
) -> Any:
    """Prefixes of arguments: by type, one for all, one for each, or one for each part.

    Args:
      draw: Hypothesis's.
      arguments: The arguments of the function, one prefix for each.
      values: The axes, specs or shardings that a prefix may give to a variable.
      whole: Whether each is a prefix by type for the whole argument, containers of objects too.
        Otherwise such a prefix stands where an object stands.

    Returns:
      A strategy of tuples, with a prefix for each argument.
    """
    value = st.sampled_from(values)
    by_type = st.builds(ByType, st.fixed_dictionaries(dict.fromkeys(KINDS, value)), value)
    if whole:
        return (draw(by_type),) * len(arguments)
    match draw(st.sampled_from(("types", "types", "whole", "each", "parts"))):
        case "types":
            common: Any = draw(by_type)
        case "whole":
            return (draw(value),) * len(arguments)
        case "each":
            return tuple(_at_objects(draw(st.one_of(value, by_type)), each) for each in arguments)
        case _:
            common = draw(value)
    return tuple(_at_objects(common, each) for each in arguments)


def _at_objects(prefix: Any, argument: Any) -> Any:
    """A container like an argument, with a prefix in the place of each object."""
    if type(argument) in CONTAINERS:
        return mapped(lambda each: _at_objects(prefix, each), argument)
    return None if argument is None else prefix


@st.composite
def transformations(
    draw: st.DrawFn,
    kind: str,
    arguments: tuple[Any, ...],
    *,
    whole: bool = False,
    automatic: bool = False,
) -> Transformation:
    """Transformations of one kind, for a function of such arguments.

    Args:
      draw: Hypothesis's.
      kind: A key of `object_calls.ORACLES`.
      arguments: Those of the function, beside the pair of arrays.
      whole: As in `prefixes`.
      automatic: Whether `shard_map` leaves a mesh axis to the compiler.

    Returns:
      A strategy of descriptions.
    """
    pair: Any
    out: Any
    options: Any
    match kind:
        case "vmap":
            given = draw(prefixes(arguments, _MAPPED, whole=whole))
            pair, out = draw(st.sampled_from(_PAIRS)), draw(st.sampled_from((0, 0, -1, 1)))
            return Transformation(kind, given, pair, out)
        case "scan":
            given = _by_type(draw(prefixes(arguments, _LOOPED, whole=whole)))
            if len(arguments) == 1 and not whole and draw(st.booleans()):
                given = (CARRIED,)
            pair, out = draw(st.sampled_from(_PAIRS)), draw(st.sampled_from((0, 0, -1)))
            options = draw(st.sampled_from(({}, {}, {"reverse": True}, {"unroll": 2})))
            return Transformation(kind, given, pair, out, None, options)
        case "shard_map":
            mesh = draw(st.sampled_from(_GRIDS if automatic else _MESHES))
            given = draw(prefixes(arguments, _SPECS, whole=whole))
            out = draw(st.sampled_from(_SPECS))
            pair = (draw(st.sampled_from(_SPECS)), Spec(()))
            options = dict(draw(st.sampled_from(({}, {}, {"check_vma": False}))))
            options |= {"axis_names": ("data",)} if automatic else {}
            return Transformation(kind, given, pair, out, mesh, options)
        case "grad":
            return Transformation(kind, options={"wrt": draw(st.sampled_from(KINDS))})
        case "remat":
            options = draw(st.sampled_from(({}, {"prevent_cse": False})))
            return Transformation(kind, options=options)
    return Transformation(kind)


def _by_type(prefix: Any) -> Any:
    """A prefix of `scan` in which every `CARRIED` is wrapped in a `ByType`.

    A loop that carries more than one argument needs this form.
    """
    if type(prefix) in CONTAINERS:
        return mapped(_by_type, prefix)
    return ByType({}, CARRIED) if prefix == CARRIED else prefix


@st.composite
def sharded_jits(
    draw: st.DrawFn, arguments: tuple[Any, ...], *, whole: bool = False, one: bool = False
) -> Transformation:
    """`jit` with shardings for arguments and results, of Auto and Explicit meshes.

    Args:
      draw: Hypothesis's.
      arguments: Those of the function, beside the pair of arrays.
      whole: As in `prefixes`.
      one: Whether all arguments and results have one sharding, so that an object which is both an
        argument and a result has one sharding, too.

    Returns:
      A strategy of descriptions.
    """
    mesh = draw(st.sampled_from(_MESHES))
    mesh = Mesh(mesh.shape, mesh.axes, draw(st.sampled_from((False, False, True))))
    values = tuple(Sharding(mesh, spec.names) for spec in _SPECS)
    if one:
        same = draw(st.sampled_from(values))
        return Transformation("jit", (same,) * len(arguments), None, same, mesh)
    given = draw(prefixes(arguments, values, whole=whole))
    out = draw(st.sampled_from((None, *values)))
    return Transformation("jit", given, None, out, mesh)


@st.composite
def object_calls(
    draw: st.DrawFn,
    *kinds: str,
    sharded: bool = False,
    whole: bool = False,
    automatic: bool = False,
) -> ObjectCall:
    """Calls of functions of objects under transformations.

    Args:
      draw: Hypothesis's.
      kinds: Of the transformations, the outermost first.
      sharded: Whether `jit` is given shardings.
      whole: Whether the arguments are containers of objects, each with one prefix by type.
      automatic: As in `transformations`.

    Returns:
      A strategy of descriptions.
    """
    structural = set(kinds) <= {"jit", "remat"} and not sharded
    one = sharded and not whole and draw(st.booleans())
    results = ("node", "value", "fresh") if structural else ("value", *("node",) * one)
    cut = sharded or "shard_map" in kinds
    changes = STEPS if structural else (*KEEPING, *VALUES) if cut else VALUES
    program = draw(programs(changes, graphs=_GRAPHS, results=results))
    dtype = "float32" if "grad" in kinds else None
    shape = (8,) if cut and draw(st.sampled_from((True, True, True, False))) else None
    arguments = program.arguments
    if "scan" in kinds and draw(st.booleans()):  # which may be all that a loop carries
        arguments = arguments[:1]
    if "grad" in kinds:  # the gradient is for the first argument, one object
        further = (Ref(0),), (Ref(0), Ref(1)), (Ref(0), {"x": Ref(1)})
        arguments = draw(st.sampled_from(further))
    if whole:
        arguments = draw(st.sampled_from((([Ref(0)],), ({"x": Ref(0)}, [Ref(1), Ref(0)]))))
    under = tuple(
        draw(
            sharded_jits(arguments, whole=whole, one=one)
            if sharded
            else transformations(kind, arguments, whole=whole, automatic=automatic)
        )
        for kind in kinds
    )
    held: Any = "NumPy's"
    if sharded and under[0].mesh is not None:
        laid = [Sharding(under[0].mesh, spec.names) for spec in _SPECS]
        held = draw(st.sampled_from(("NumPy's", *HELD, *laid)))
    return ObjectCall(
        rewritten(program.graph, dtype, shape), arguments, program.steps, program.results, under,
        dtype or "int32", held,
    )  # fmt: skip


@st.composite
def called_jits(draw: st.DrawFn) -> ObjectCall:
    """Calls of `jit` of functions that are written, declared and called in different ways."""
    call = draw(object_calls("jit"))
    static = draw(st.sampled_from(BY))
    how = draw(_ways(static, st.sampled_from(BY)))
    under = (Transformation("jit", options={"call": how}),)
    return ObjectCall(call.graph, call.arguments, call.steps, call.results, under)


@st.composite
def _ways(
    draw: st.DrawFn, static: str | None, donated: st.SearchStrategy[Any], *, named: bool = True
) -> Call:
    """How a function is written and called; the pair by position unless `named`."""
    pair = "position"
    scale: int | None = 3  # a negative number counts both
    if static != "negative":
        pair = draw(st.sampled_from(("position", "name"))) if named else pair
        scale = draw(st.sampled_from((None, 1, 3))) if static else None
    form, stage = draw(st.sampled_from(FORMS)), draw(st.sampled_from(STAGES))
    return Call(form, pair, static, scale, draw(donated), stage)


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
        drawn = draw(programs((), graphs=_GRAPHS))
        graph, arguments = drawn.graph, drawn.arguments
    done = draw(st.lists(steps(_CHANGES), min_size=1, max_size=3))
    results = draw(st.lists(steps(UNSHARED if "graph=False" in mode else KEPT), max_size=2))
    given: tuple[Any, ...] = ()
    out = None
    if "partial" in mode:
        how = draw(_ways(None, st.none(), named=not sharded))
        if not sharded and draw(st.booleans()):  # the scale is static by name, and passed by name
            scale = draw(st.sampled_from((None, 3)))
            how = Call(how.form, "name", "name", scale, None, how.stage)
    else:
        static = draw(st.sampled_from(BY))
        how = draw(_ways(static, st.sampled_from((None, "position")), named=not sharded))
        if sharded and static:  # the static scale is passed, and never to a compiled form
            how = dataclasses.replace(how, scale=3, stage="call")
    if sharded:
        mesh = draw(st.sampled_from(_MESHES))
        values = tuple(Sharding(mesh, spec.names) for spec in _SPECS)
        given = tuple(_at_objects(draw(st.sampled_from(values)), each) for each in arguments)
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
      kind: A key of `object_calls.ORACLES`.
    """
    mode = draw(st.sampled_from(FLAGS))
    arguments = draw(st.sampled_from(_TREES[:2] if kind == "grad" else _TREES))
    lift = draw(transformations(kind, arguments))
    given: tuple[Any, ...]
    if kind == "scan" and draw(st.booleans()):
        arguments, given = (Ref(0),), (CARRIED,)
    else:
        values = {"vmap": _MAPPED, "scan": (0, -1, None, 0), "shard_map": _SPECS}.get(kind, (None,))
        given = tuple(draw(st.sampled_from(values)) for _ in arguments)
    options = {**lift.options, "modes": mode}
    if kind == "grad":
        options["wrt"] = "Param"
    dtype, shape = "float32" if kind == "grad" else None, (8,) if kind == "shard_map" else None
    graph = Graph((draw(_trees()), draw(_trees())))
    if kind == "grad":
        graph = _of_parameters(graph)
    done = draw(st.lists(steps(_CHANGES), min_size=1, max_size=3))
    returned = ("value",) if lift.kind == "grad" else UNSHARED
    results = draw(st.lists(steps(returned), max_size=2))
    under = dataclasses.replace(lift, prefixes=given, options=options)
    return ObjectCall(
        rewritten(graph, dtype, shape), arguments, tuple(done), tuple(results), (under,),
        dtype or "int32",
    )  # fmt: skip


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
        graph, arguments = _of_parameters(graph), draw(st.sampled_from(_SHARED[:3]))
        options["wrt"], dtype = "Param", "float32"
    elif kind == "shard_map":
        mesh, prefix, shape = draw(st.sampled_from(_MESHES)), Spec(("data",)), (8,)
    elif kind in ("vmap", "scan"):
        prefix = 0
    given = () if prefix is None else (prefix,) * len(arguments)
    x = (prefix, Spec(())) if kind == "shard_map" else prefix
    done = draw(st.lists(steps(_CHANGES), max_size=2))
    results = draw(st.lists(steps(("node", "fresh", "value")), min_size=1, max_size=2))
    under = Transformation(kind, given, x, prefix, mesh, options)
    return ObjectCall(
        rewritten(graph, dtype, shape), arguments, tuple(done), tuple(results), (under,),
        dtype or "int32",
    )  # fmt: skip


def _of_parameters(value: Any) -> Any:
    """A description in which every variable is a parameter."""
    if isinstance(value, Variable):
        return Variable("Param", value.value, value.metadata)
    if isinstance(value, Description):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}  # type: ignore[arg-type]
        return type(value)(**{name: _of_parameters(each) for name, each in fields.items()})
    return mapped(_of_parameters, value)


@st.composite
def _trees(draw: st.DrawFn) -> Object:
    """Objects in which nothing is shared."""
    inner = Object("Branch", {name: draw(cells()) for name in draw(st.sampled_from(("a", "ab")))})
    attributes = {"a": draw(cells()), "b": inner, "d": Data([draw(cells()), draw(cells())])}
    kept = draw(st.lists(st.sampled_from(list(attributes)), min_size=1, unique=True))
    return Object("Node", {name: attributes[name] for name in sorted(kept)} | {"e": 3})
