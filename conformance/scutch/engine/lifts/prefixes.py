"""What several lifts draw for their arguments: axes, specs, prefixes of objects.

`prefixes` draws a prefix for each argument of a function of objects:

    prefixes((Ref(0), {"x": Ref(1)}), (0, -1, None))

draws `(0, 0)`, or `(-1, {"x": ByType({"Param": 0}, None)})`.
"""

from typing import Any

from hypothesis import strategies as st

from scutch.engine.carriers.objects import ByType
from scutch.inputs.descriptions import CONTAINERS, Mesh, Spec, mapped
from scutch.inputs.programs import KINDS

MAPPED = (0, -1, None, 0, 1)
"""Axes of variables under a map."""
PAIRS = (0, None, (0, None), (None, 0), -1)
"""Axes of the pair of arrays."""
MESHES = (
    Mesh((2,), ("data",)),
    Mesh((8,), ("data",)),
    Mesh((1,), ("data",)),
    Mesh((4,), ("data",)),
    Mesh((2, 2), ("data", "model")),
    Mesh((4, 2), ("data", "model")),
)
SPECS = (Spec(("data",)), Spec(()), Spec(("data",)))


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
