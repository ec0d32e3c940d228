"""Strategies for programs over objects; see `scutch.inputs.programs`.

`programs(kinds, ...)` draws a `descriptions.Program` whose function takes steps of the given kinds
only, so that each law judges one kind of change: `programs(VALUES)` changes values,
`programs(LISTS)` changes lists in place. The graphs are small, and their variables are whole
numbers of few shapes: results compare exactly, and an assignment rarely fails for its shapes.
"""

from typing import Any

from hypothesis import strategies as st

from scutch.inputs.described_objects import Data, Graph, Object, Program, Ref, Step, Variable
from scutch.inputs.descriptions import Array
from scutch.inputs.programs import CONTAINER, KINDS, NAMES, RESULTS, STATIC, STEPS

_CELLS = tuple(
    Variable(kind, Array(shape, "int32", seed), metadata)
    for seed, (kind, shape, metadata) in enumerate(
        (k, s, m) for s in ((2,), ()) for m in (None, {"note": 1}) for k in KINDS
    )
)
_NODES = ("Node", "Param", "Node", "List", "Branch", "Dict", "Count")
_ARGUMENTS = (
    (Ref(0),),
    (Ref(0), Ref(1)),
    ({"x": Ref(0)}, [Ref(1), Ref(0)]),
    ((Ref(1), None), Ref(0)),
)


def cells() -> st.SearchStrategy[Variable]:
    """Variables of the types in `programs.KINDS` and of two shapes, each with other contents."""
    return st.sampled_from(_CELLS)


@st.composite
def small_graphs(
    draw: st.DrawFn,
    *,
    kinds: tuple[str, ...] = _NODES,
    plain: tuple[str, ...] = ("", "list", "dict"),
    size: int = 4,
) -> Graph:
    """Graphs of a few nodes, with sharing, cycles, containers and static data.

    Args:
      draw: Passed by Hypothesis.
      kinds: The types of nodes beside the root, which is a `Node`.
      plain: Which plain containers a module may hold: `list`, `dict`, and `""` for none.
      size: How many numbered nodes there are at most, at least 2.

    Returns:
      A strategy of descriptions of graphs.
    """
    chosen = ["Node", *draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=size - 1))]
    inside = st.one_of(cells(), st.sampled_from([Ref(n) for n in range(1, len(chosen))] + [Ref(0)]))
    return Graph(tuple(draw(_node(kind, inside, plain)) for kind in chosen))


@st.composite
def _node(
    draw: st.DrawFn, kind: str, inside: st.SearchStrategy[Any], plain: tuple[str, ...]
) -> Any:
    """One numbered node, whose attributes hold new variables or references to any node."""
    some = st.lists(inside, min_size=1, max_size=2)
    match kind:
        case "Node" | "Branch":
            names = draw(st.sampled_from((NAMES[:1], NAMES[:2], NAMES[1:], NAMES)))
            attributes = {name: draw(inside) for name in names}
            if contained := draw(st.sampled_from(plain)):
                items = draw(some)
                attributes[CONTAINER] = Data(items if contained == "list" else _keyed(items))
            if draw(st.booleans()):
                attributes[STATIC] = 3
            return Object(kind, attributes)
        case "List" | "Dict":
            return Object(kind, _keyed(draw(some)))
    cell = draw(cells())
    return Variable(kind, cell.value, cell.metadata)


def _keyed(items: list[Any]) -> dict[str, Any]:
    """One or two items under the keys `k` and `l`."""
    return dict(zip("kl", items, strict=False))


def steps(kinds: tuple[str, ...] = STEPS) -> st.SearchStrategy[Step]:
    """Single steps of the given kinds, with operands chosen by numbers from 0 to 3.

    Args:
      kinds: Words of `programs.STEPS`, `METADATA` or `RESULTS`.
    """
    small = st.integers(0, 3)
    return st.builds(Step, st.sampled_from(kinds), small, small, small)


def programs(
    kinds: tuple[str, ...] = STEPS,
    *,
    graphs: st.SearchStrategy[Graph] | None = None,
    results: tuple[str, ...] = RESULTS,
    between: tuple[str, ...] = (),
    calls: int = 1,
    max_steps: int = 3,
) -> st.SearchStrategy[Program]:
    """Programs whose function takes steps of the given kinds.

    Args:
      kinds: The steps of the function; it takes none if empty.
      graphs: A strategy for the objects; `small_graphs()` if `None`.
      results: The kinds of results; the function returns none if empty.
      between: The steps that are taken outside between two calls; none if empty.
      calls: How often the function is called, at least 1.
      max_steps: How many steps the function takes at most; it takes one at least.

    Returns:
      A strategy of descriptions of programs.
    """
    pause = st.lists(steps(between), min_size=1, max_size=2).map(tuple) if between else st.just(())
    inside = st.lists(steps(kinds), min_size=1, max_size=max_steps) if kinds else st.just([])
    return st.builds(
        Program,
        small_graphs() if graphs is None else graphs,
        st.sampled_from(_ARGUMENTS),
        inside.map(tuple),
        st.lists(steps(results), max_size=2).map(tuple) if results else st.just(()),
        st.tuples(*[pause] * (calls - 1)),
    )
