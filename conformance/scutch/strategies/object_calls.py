"""Strategies for calls of transformed functions of objects; see `scutch.inputs.object_calls`.

Under a transformation that keeps the structure, programs change values alone, so that most calls
are legal. Illegal calls come up by themselves: a variable that all lanes share and one lane sets,
shardings that disagree, a size that the mesh does not divide. JAX decides which calls are illegal.
"""

import dataclasses
from typing import Any

from hypothesis import strategies as st

from scutch.inputs.described_objects import Ref
from scutch.inputs.descriptions import CONTAINERS, Array, Description, Mesh, Spec, mapped
from scutch.inputs.jit_calls import BY, FORMS, STAGES, Call
from scutch.inputs.object_calls import HELD, ByType, ObjectCall, Transformation
from scutch.inputs.programs import KINDS, STEPS, VALUES
from scutch.inputs.transformations import CARRIED, Sharding
from scutch.strategies.programs import programs, small_graphs

GRAPHS = small_graphs(size=3)
MAPPED = (0, -1, None, 0, 1)
_LOOPED = (0, CARRIED, -1, None, CARRIED)
_PAIRS = (0, None, (0, None), (None, 0), -1)
MESHES = (
    Mesh((2,), ("data",)), Mesh((8,), ("data",)), Mesh((1,), ("data",)), Mesh((4,), ("data",)),
    Mesh((2, 2), ("data", "model")), Mesh((4, 2), ("data", "model")),
)  # fmt: skip
_GRIDS = tuple(mesh for mesh in MESHES if len(mesh.axes) == 2)
KEEPING = ("bump", "bump", "copy", "call", "call")
"""Steps that keep shapes, which most programs that run on parts of arrays must."""

SPECS = (Spec(("data",)), Spec(()), Spec(("data",)))


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
            return tuple(at_objects(draw(st.one_of(value, by_type)), each) for each in arguments)
        case _:
            common = draw(value)
    return tuple(at_objects(common, each) for each in arguments)


def at_objects(prefix: Any, argument: Any) -> Any:
    """A container like an argument, with a prefix in the place of each object.

    Args:
      prefix: An axis, a spec or a sharding, or a `ByType` of them.
      argument: A description; in the place of `None` the container has `None`, too.
    """
    if type(argument) in CONTAINERS:
        return mapped(lambda each: at_objects(prefix, each), argument)
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
            given = draw(prefixes(arguments, MAPPED, whole=whole))
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
            mesh = draw(st.sampled_from(_GRIDS if automatic else MESHES))
            given = draw(prefixes(arguments, SPECS, whole=whole))
            out = draw(st.sampled_from(SPECS))
            pair = (draw(st.sampled_from(SPECS)), Spec(()))
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
    mesh = draw(st.sampled_from(MESHES))
    mesh = Mesh(mesh.shape, mesh.axes, draw(st.sampled_from((False, False, True))))
    values = tuple(Sharding(mesh, spec.names) for spec in SPECS)
    if one:
        same = draw(st.sampled_from(values))
        return Transformation("jit", (same,) * len(arguments), None, same, mesh)
    given = draw(prefixes(arguments, values, whole=whole))
    return Transformation("jit", given, None, draw(st.sampled_from((None, *values))), mesh)


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
    program = draw(programs(changes, graphs=GRAPHS, results=results))
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
        laid = [Sharding(under[0].mesh, spec.names) for spec in SPECS]
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
    how = draw(ways(static, st.sampled_from(BY)))
    under = (Transformation("jit", options={"call": how}),)
    return ObjectCall(call.graph, call.arguments, call.steps, call.results, under)


@st.composite
def ways(
    draw: st.DrawFn, static: str | None, donated: st.SearchStrategy[Any], *, named: bool = True
) -> Call:
    """How a function is written and called; the pair by position unless `named`.

    Args:
      draw: Given by Hypothesis.
      static: How the static argument is marked, one of `BY`, or `None`.
      donated: How the donated argument is marked.
      named: Whether the pair may be passed by name.

    Returns:
      The description.
    """
    pair = "position"
    scale: int | None = 3  # a negative number counts both
    if static != "negative":
        pair = draw(st.sampled_from(("position", "name"))) if named else pair
        scale = draw(st.sampled_from((None, 1, 3))) if static else None
    form, stage = draw(st.sampled_from(FORMS)), draw(st.sampled_from(STAGES))
    return Call(form, pair, static, scale, draw(donated), stage)
