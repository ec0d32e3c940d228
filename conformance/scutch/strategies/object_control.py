"""Strategies for calls of branches, loops and derivatives of functions of objects.

The described calls are those of `scutch.engine.carriers.objects`. Programs change values alone, as
JAX asks of a branch or a turn.
"""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from scutch.engine.carriers.objects import ObjectCall, Transformation
from scutch.engine.lifts import OBJECTS
from scutch.inputs.described_objects import Ref
from scutch.inputs.programs import RESULTS, VARIABLE_CHANGES
from scutch.strategies.moded_calls import FLAGS, of_parameters, unshared_programs
from scutch.strategies.object_calls import GRAPHS, PLACES, rewritten
from scutch.strategies.programs import programs

_OUTER = ("", "", "", "jit", "vmap", "scan", "grad", "remat")
_INSIDE = {
    "cond": ("", "jit", "remat"),
    "switch": ("", "jit", "remat"),
    "while_loop": ("", "remat", "scan", "vmap", "grad"),
    "fori_loop": ("", "remat", "scan"),
    "vjp": ("",),
    "jvp": ("",),
}
"""Transformations of the function of a branch, whose results keep their shapes, or of a turn."""
_OF_OBJECTS = ((Ref(0),), (Ref(0), Ref(1)), (Ref(0), {"x": Ref(1)}))
"""Arguments that a gradient can be for: the first one is an object."""


@st.composite
def controlled_calls(draw: st.DrawFn, *kinds: str) -> ObjectCall:
    """Calls of one of the transformations, in no mode or in a mode, alone or inside another.

    A branch or a turn of a loop may call a function that is transformed itself.

    Args:
      draw: Hypothesis's.
      kinds: Keys of `OBJECTS`.

    Returns:
      A strategy of descriptions.
    """
    kind = draw(st.sampled_from(kinds))
    derivative = kind in ("vjp", "jvp")
    modes: dict[str, Any] = draw(st.sampled_from(FLAGS if derivative else ({}, {}, *FLAGS)))
    outer = draw(st.sampled_from(("", "jit") if modes else _OUTER))
    if modes:
        program = draw(unshared_programs(VARIABLE_CHANGES, ("value",)))
    else:
        returns_objects = kind in ("cond", "switch") and outer in ("", "jit")
        results = RESULTS if returns_objects else ("value",)
        program = draw(programs(VARIABLE_CHANGES, graphs=GRAPHS, results=results))
    inside = "" if modes or outer not in ("", "jit") else draw(st.sampled_from(_INSIDE[kind]))
    with_gradient = "grad" in (outer, inside)
    arguments = draw(st.sampled_from(_OF_OBJECTS)) if with_gradient else program.arguments
    dtype = "float32" if derivative or with_gradient else "int32"
    lift = draw(OBJECTS[kind].drawn(arguments, keeps=not modes and not outer))
    under = (
        *[draw(OBJECTS[name].drawn(arguments)) for name in (outer,) if name],
        replace(lift, options={**lift.options, "modes": modes}),
        *[draw(OBJECTS[name].drawn(arguments)) for name in (inside,) if name],
    )
    graph = rewritten(program.graph, None if dtype == "int32" else dtype, None)
    return ObjectCall(
        graph, arguments, program.steps, program.results, under, dtype, where=draw(PLACES)
    )


@st.composite
def custom_calls(draw: st.DrawFn) -> ObjectCall:
    """Calls of functions with a gradient of their own, most of them inside `grad`, in any mode."""
    modes: dict[str, Any] = draw(st.sampled_from(({}, {}, *FLAGS)))
    program = draw(unshared_programs(VARIABLE_CHANGES, ("value",)))
    gradient = Transformation("grad", options={"wrt": "Param", "of_results": True, "modes": modes})
    outer = draw(st.sampled_from(((gradient,), (gradient,), ())))
    under = (*outer, Transformation("custom_vjp", options={"modes": modes}))
    graph = rewritten(of_parameters(program.graph), "float32", None)
    arguments = draw(st.sampled_from(_OF_OBJECTS[:2]))
    # Some releases of JAX replace an array of NumPy by a literal, which is no array.
    return ObjectCall(graph, arguments, program.steps, program.results, under, "float32", "JAX's")
