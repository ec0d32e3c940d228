"""Strategies for calls of transformed functions of objects; see `scutch.engine.carriers.objects`.

Under a transformation that keeps the structure, programs change values alone, so that most calls
are legal. Illegal calls come up by themselves: a variable that all lanes share and one lane sets,
shardings that disagree, a size that the mesh does not divide. JAX decides which calls are illegal.
"""

import dataclasses
from typing import Any

from hypothesis import strategies as st

from scutch.engine.carriers.arrays import Sharding
from scutch.engine.carriers.objects import HELD, WORLDS, ObjectCall, Transformation
from scutch.engine.lifts import OBJECTS
from scutch.engine.lifts.jit import sharded_jits
from scutch.engine.lifts.prefixes import SPECS
from scutch.inputs.described_objects import Ref
from scutch.inputs.descriptions import Array, Description, mapped
from scutch.inputs.jit_calls import BY, FORMS, STAGES, Call
from scutch.inputs.programs import STEPS, VALUES
from scutch.strategies.programs import programs, small_graphs

GRAPHS = small_graphs(size=3)
KEEPING = ("bump", "bump", "copy", "call", "call")
"""Steps that keep shapes, which most programs that run on parts of arrays must."""

PLACES = st.sampled_from(("", *WORLDS))
"""Where calls are made. One with shardings of its own needs no mesh in context."""


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
      automatic: Whether `shard_map` leaves a mesh axis to the compiler.

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
            else OBJECTS[kind].drawn(arguments, whole=whole, automatic=automatic)
        )
        for kind in kinds
    )
    held: Any = "NumPy's"
    if sharded and under[0].mesh is not None:
        laid = [Sharding(under[0].mesh, spec.names) for spec in SPECS]
        held = draw(st.sampled_from(("NumPy's", *HELD, *laid)))
    return ObjectCall(
        rewritten(program.graph, dtype, shape),
        arguments,
        program.steps,
        program.results,
        under,
        dtype or "int32",
        held,
        draw(PLACES if not sharded else st.just("")),
    )


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
