"""Graphs of objects and variables; see `scutch.objects`."""

from typing import Any

from hypothesis import strategies as st

from scutch.descriptions import Array, Data, Graph, Object, Ref, Static, Variable
from scutch.objects import ATTRIBUTES, MODULES, TRACKED, VARIABLES
from scutch.strategies.values import arrays, keys

STATICS = ("text", 3, None, 2.5, True, ("gelu", 2))
_NAMES = (("data",), (None,), ("data", None), (None, ("data", "model")))
_PARTS = ("variable", "array", "static", "variable")
_CONTAINERS = ("list", "tuple", "dict")


def cells() -> st.SearchStrategy[Any]:
    """What a variable holds: arrays of every dtype, keys, numbers, trees of arrays."""
    small = arrays(max_rank=2)
    tree = st.builds(lambda a, b: {"b": a, "a": (b,)}, small, small)
    return st.one_of(small, keys(), st.sampled_from([1.5, 2]), tree)


@st.composite
def metadata(draw: st.DrawFn, rank: int = 0) -> dict[str, Any]:
    """Metadata of variables: user's entries of several types, in any order, and names of axes.

    Flax 0.12 takes names without a mesh only where sharding is not to be eager.

    Args:
      draw: Hypothesis's.
      rank: How many axes the value has; names are drawn only for that many.
    """
    entries = {
        "note": st.sampled_from(["some", 1, None, ("x", 2)]),
        "tag": st.sampled_from(["frozen", "hot"]),
        "out_sharding": st.sampled_from([n for n in _NAMES if len(n) == rank] or [()]),
    }
    chosen = draw(st.lists(st.sampled_from(list(entries)), max_size=3, unique=True))
    notes = {name: draw(entries[name]) for name in chosen if name != "out_sharding" or rank}
    return notes | ({"eager_sharding": False} if "out_sharding" in notes else {})


@st.composite
def variables(
    draw: st.DrawFn,
    holds: st.SearchStrategy[Any] | None = None,
    *,
    kinds: tuple[str, ...] = VARIABLES,
    annotated: bool = True,
) -> Variable:
    """Variables of every type.

    Args:
      draw: Hypothesis's.
      holds: Their values; where left out, `cells`.
      kinds: Their types.
      annotated: Whether they have metadata.
    """
    value = draw(cells() if holds is None else holds)
    rank = len(value.shape) if isinstance(value, Array) else 0
    notes = draw(metadata(rank)) if annotated and draw(st.booleans()) else None
    return Variable(draw(st.sampled_from(kinds)), value, notes or None)


@st.composite
def graphs(
    draw: st.DrawFn,
    *,
    shared: bool = True,
    cycles: bool = True,
    containers: bool = True,
    marks: bool = True,
    bare: bool = True,
    max_objects: int = 4,
    variable: st.SearchStrategy[Variable] | None = None,
) -> Graph:
    """Graphs of a few objects, each of which can be reached unless something else is shared.

    Args:
      draw: Hypothesis's.
      shared: Whether an object or variable may sit in several places.
      cycles: Whether an object may lead back to itself; this is sharing, too.
      containers: Whether there are plain lists, tuples and dicts of nodes, and tracked ones.
      marks: Whether some attributes are marked as data or static.
      bare: Whether arrays stand in attributes without a variable.
      max_objects: The largest number of objects.
      variable: Variables; where left out, `variables`.
    """
    variable = variables() if variable is None else variable
    size = draw(st.integers(1, max_objects))
    loose = draw(st.integers(0, 2)) if shared else 0
    waiting = list(range(1, size))
    parts = _PARTS if bare else ("variable", "static")

    def target(owner: int) -> Ref | None:
        later = [n for n in waiting if n > owner]
        if later and draw(st.booleans()):
            waiting.remove(later[0])
            return Ref(later[0])
        free = [*range(0 if cycles else owner + 1, size if shared or cycles else 0)]
        free += range(size, size + loose)
        return Ref(draw(st.sampled_from(free))) if free else None

    def part(owner: int, inside: bool) -> Any:
        kinds = [*parts, "node", "node"]
        kinds += [] if inside or not containers else _CONTAINERS
        kinds += ["mark"] if marks and not inside else []
        kind = draw(st.sampled_from(kinds))
        match kind:
            case "node":
                found = target(owner)
                return draw(variable) if found is None else found
            case "array":
                return draw(arrays(max_rank=2))
            case "static":
                return draw(st.sampled_from(STATICS))
            case "mark":
                marked = st.sampled_from([Data(1.5), Static("text"), Static(2), Data(3)])
                return draw(marked)
            case "variable":
                return draw(variable)
        elements = [part(owner, True) for _ in range(draw(st.integers(0, 2)))]
        match kind:
            case "list":
                return elements
            case "tuple":
                return tuple(elements)
        return dict(zip(("k", "j"), elements, strict=False))

    nodes: list[Any] = []
    for number in range(size):
        names = draw(st.lists(st.sampled_from(ATTRIBUTES), min_size=1, max_size=3, unique=True))
        kind = draw(st.sampled_from((*MODULES, *TRACKED) if containers and number else MODULES))
        plain = kind in TRACKED
        attributes = {name: part(number, plain) for name in names}
        spare = (name for name in ATTRIBUTES if name not in attributes)
        for late in [n for n in waiting if n == number + 1]:
            waiting.remove(late)
            attributes[next(spare)] = Ref(late)
        nodes.append(Object(kind, attributes))
    return Graph((*nodes, *(draw(variable) for _ in range(loose))))
