"""Strategies for graphs of objects and variables, filters, and states; see `scutch.inputs.graphs`.

`graphs()` draws a `descriptions.Graph` with sharing, cycles and containers, each of which can be
switched off; `object_trees()` draws graphs without all of these; `variables()` draws single
variables.
"""

from typing import Any

from hypothesis import strategies as st

from scutch.inputs.described_objects import Data, Graph, Object, Ref, Static, Variable
from scutch.inputs.descriptions import Array
from scutch.inputs.graphs import ATTRIBUTES, MODULES, TRACKED, VARIABLES
from scutch.strategies.values import arrays, keys

STATICS = ("text", 3, None, 2.5, True, ("gelu", 2))
_NAMES: tuple[tuple[Any, ...], ...] = (
    ("data",),
    (None,),
    ("data", None),
    (None, ("data", "model")),
)
_PARTS = ("variable", "array", "static", "variable")
_CONTAINERS = ("list", "tuple", "dict")
_ARRAYS = arrays(max_rank=2)
_VALUES = {
    "array": _ARRAYS,
    "static": st.sampled_from(STATICS),
    "mark": st.sampled_from([Data(1.5), Static("text"), Static(2), Data(3)]),
}
"""Values of attributes that are neither nodes nor containers."""
_CELLS = st.one_of(
    _ARRAYS,
    keys(),
    st.sampled_from([1.5, 2]),
    st.builds(lambda a, b: {"b": a, "a": (b,)}, _ARRAYS, _ARRAYS),
)
_ENTRIES = {
    "note": st.sampled_from(["some", 1, None, ("x", 2)]),
    "tag": st.sampled_from(["frozen", "hot"]),
    "out_sharding": st.nothing(),
}
_CHOSEN = st.lists(st.sampled_from(tuple(_ENTRIES)), max_size=3, unique=True)
_ATTRIBUTES = st.lists(st.sampled_from(ATTRIBUTES), min_size=1, max_size=3, unique=True)


def cells() -> st.SearchStrategy[Any]:
    """Values of variables: arrays of every dtype, keys, Python numbers, and trees of arrays."""
    return _CELLS


@st.composite
def metadata(draw: st.DrawFn, rank: int = 0) -> dict[str, Any]:
    """Metadata of variables: entries of several types, in any order, and names of axes.

    Names come with `eager_sharding=False`: Flax 0.12 refuses names where there is no mesh, else.

    Args:
      draw: Passed by Hypothesis.
      rank: The rank of the value; exactly so many names are drawn, and none for rank 0.
    """
    names = st.sampled_from([n for n in _NAMES if len(n) == rank] or [()])
    entries = _ENTRIES | {"out_sharding": names}
    chosen = draw(_CHOSEN)
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
    """Variables of every type, half of them with metadata.

    Args:
      draw: Passed by Hypothesis.
      holds: A strategy for the values; `cells()` if `None`.
      kinds: The types, of `graphs.VARIABLES`.
      annotated: Whether some have metadata.

    Returns:
      A strategy of descriptions of variables.
    """
    value = draw(_CELLS if holds is None else holds)
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
    max_objects: int = 3,
    variable: st.SearchStrategy[Variable] | None = None,
) -> Graph:
    """Graphs of a few objects and variables.

    Every object can be reached from the root; a variable that `shared` adds may be in no
    place.

    Args:
      draw: Passed by Hypothesis.
      shared: Whether an object or variable may sit in several places.
      cycles: Whether an object may lead back to itself; where it may, objects can be shared, too.
      containers: Whether there are plain lists, tuples and dicts, and tracked ones.
      marks: Whether some attributes are marked as data or static.
      bare: Whether arrays may stand in attributes, outside of variables.
      max_objects: How many objects there are at most, at least 1.
      variable: A strategy for the variables; `variables()` if `None`.

    Returns:
      A strategy of descriptions of graphs.
    """
    variable = variables() if variable is None else variable
    size = draw(st.integers(1, max_objects))
    loose = draw(st.integers(0, 2)) if shared else 0
    waiting = list(range(1, size))
    parts = _PARTS if bare else ("variable", "static")

    def target(owner: int) -> Ref | None:
        """A reference to an object that nothing leads to yet, or to any that is allowed."""
        later = [n for n in waiting if n > owner]
        if len(later) > 0 and draw(st.booleans()):
            waiting.remove(later[0])
            return Ref(later[0])
        free = [*range(0 if cycles else owner + 1, size if shared or cycles else 0)]
        free += range(size, size + loose)
        return Ref(draw(st.sampled_from(free))) if free else None

    def part(owner: int, inside: bool) -> Any:
        """One attribute, or one element of a container."""
        kinds = [*parts, "node", "node"]
        kinds += [] if inside or not containers else _CONTAINERS
        kinds += ["mark"] if marks and not inside else []
        kind = draw(st.sampled_from(kinds))
        match kind:
            case "node":
                found = target(owner)
                return draw(variable) if found is None else found
            case "variable":
                return draw(variable)
            case "array" | "static" | "mark":
                return draw(_VALUES[kind])
        elements = [part(owner, True) for _ in range(draw(st.integers(0, 2)))]
        if kind in ("list", "tuple"):
            return elements if kind == "list" else tuple(elements)
        return dict(zip(("k", "j"), elements, strict=False))

    nodes: list[Any] = []
    for number in range(size):
        names = draw(_ATTRIBUTES)
        kind = draw(st.sampled_from((*MODULES, *TRACKED) if containers and number else MODULES))
        plain = kind in TRACKED
        attributes = {name: part(number, plain) for name in names}
        spare = (name for name in ATTRIBUTES if name not in attributes)
        for late in [n for n in waiting if n == number + 1]:
            waiting.remove(late)
            attributes[next(spare)] = Ref(late)
        nodes.append(Object(kind, attributes))
    return Graph((*nodes, *(draw(variable) for _ in range(loose))))


def object_trees(**options: Any) -> st.SearchStrategy[Graph]:
    """Graphs in which no node is shared, without containers and marks.

    Args:
      options: Options of `graphs`, which may switch sharing, cycles, containers or marks on again.
    """
    settled = {"shared": False, "cycles": False, "containers": False, "marks": False}
    return graphs(**(settled | options))


_ATOMS = st.one_of(
    st.tuples(st.sampled_from(["type", "of type"]), st.sampled_from((*VARIABLES, "Variable"))),
    st.tuples(st.sampled_from(["path", "predicate"]), st.sampled_from(ATTRIBUTES)),
    st.tuples(st.sampled_from(["tag", "name"]), st.sampled_from(["hot", "frozen"])),
    st.tuples(st.just("literal"), st.sampled_from(["...", True, False, None])),
)


def filters(*, spelled: bool = False) -> st.SearchStrategy[tuple[Any, ...]]:
    """Described filters of every kind, nested a few levels deep; see `scutch.inputs.filters`.

    Args:
      spelled: Whether only kinds are drawn for which the implementation has a class, so that two
        filters can be compared: no types, callables, strings, literals or sequences.
    """
    kinds = ("of type", "path", "tag")
    atoms = _ATOMS.filter(lambda f: f[0] in kinds) if spelled else _ATOMS
    joined = ["any", "all"] if spelled else ["any", "all", "list", "tuple"]

    def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        several = st.lists(inner, max_size=3)
        return st.one_of(
            st.builds(lambda kind, parts: (kind, *parts), st.sampled_from(joined), several),
            st.tuples(st.just("not"), inner),
        )

    return st.recursive(atoms, grown, max_leaves=4)


def type_filters() -> st.SearchStrategy[tuple[Any, ...]]:
    """Described filters by type or by path, for laws that are not about filters."""
    return st.one_of(
        st.tuples(st.just("type"), st.sampled_from(VARIABLES)),
        st.tuples(st.just("path"), st.sampled_from(ATTRIBUTES)),
    )


@st.composite
def state_dicts(draw: st.DrawFn, *, depth: int = 2) -> dict[Any, Any]:
    """Nested dictionaries of variables and arrays, whose keys are all strings or all integers.

    Some string keys, such as `"1"`, read like integers; a state must keep them apart from integers.

    Args:
      draw: Passed by Hypothesis.
      depth: How many levels there are at most below the first, at least 0.
    """
    keys = draw(st.sampled_from([ATTRIBUTES, (1, 0, 2, 10), ("1", "a", "0")]))
    chosen = draw(st.lists(st.sampled_from(keys), min_size=1, max_size=3, unique=True))
    leaf = st.one_of(variables(_ARRAYS), _ARRAYS)
    return {
        key: draw(state_dicts(depth=depth - 1)) if depth and draw(st.booleans()) else draw(leaf)
        for key in chosen
    }
