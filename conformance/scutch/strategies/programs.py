"""Programs over objects; see `scutch.programs`."""

from typing import Any

from hypothesis import strategies as st

from scutch.descriptions import Array, Data, Graph, Object, Program, Ref, Step, Variable
from scutch.programs import CONTAINER, KINDS, NAMES, RESULTS, STATIC, STEPS

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
    """Variables of few types and shapes, each with other contents."""
    return st.sampled_from(_CELLS)


@st.composite
def small_graphs(draw: st.DrawFn, size: int = 4) -> Graph:
    """Graphs of a few nodes, with sharing, cycles, containers and static data.

    Args:
      draw: Hypothesis's.
      size: How many numbered nodes there are at most, two at least.
    """
    kinds = ["Node", *draw(st.lists(st.sampled_from(_NODES), min_size=1, max_size=size - 1))]
    refs = st.sampled_from([Ref(n) for n in range(1, len(kinds))] + [Ref(0)])
    inside = st.one_of(refs, cells())
    return Graph(tuple(draw(_node(kind, inside)) for kind in kinds))


@st.composite
def _node(draw: st.DrawFn, kind: str, inside: st.SearchStrategy[Any]) -> Any:
    match kind:
        case "Node" | "Branch":
            attributes = draw(st.dictionaries(st.sampled_from(NAMES), inside, max_size=3))
            if contained := draw(st.sampled_from(["", "", "list", "dict"])):
                items = draw(st.lists(inside, max_size=2))
                plain = items if contained == "list" else dict(zip("kl", items, strict=False))
                attributes[CONTAINER] = Data(plain)
            if draw(st.booleans()):
                attributes[STATIC] = 3
            return Object(kind, attributes)
        case "List" | "Dict":
            items = draw(st.lists(inside, max_size=2))
            return Object(kind, dict(zip("kl", items, strict=False)))
    cell = draw(cells())
    return Variable(kind, cell.value, cell.metadata)


def steps(kinds: tuple[str, ...] = STEPS) -> st.SearchStrategy[Step]:
    """Single steps."""
    small = st.integers(0, 3)
    return st.builds(Step, st.sampled_from(kinds), small, small, small)


def programs(
    kinds: tuple[str, ...] = STEPS,
    *,
    results: tuple[str, ...] = RESULTS,
    between: tuple[str, ...] = (),
    calls: int = 1,
    max_steps: int = 3,
) -> st.SearchStrategy[Program]:
    """Programs of the given kinds of steps.

    Args:
      kinds: What is done inside.
      results: What is returned.
      between: What is done between calls.
      calls: How often the function is called.
      max_steps: How many steps are taken inside at most.
    """
    pause = st.lists(steps(between), min_size=1, max_size=2).map(tuple) if between else st.just(())
    inside = st.lists(steps(kinds), min_size=1, max_size=max_steps) if kinds else st.just([])
    return st.builds(
        Program,
        small_graphs(),
        st.sampled_from(_ARGUMENTS),
        inside.map(tuple),
        st.lists(steps(results), max_size=2).map(tuple) if results else st.just(()),
        st.tuples(*[pause] * (calls - 1)),
    )
