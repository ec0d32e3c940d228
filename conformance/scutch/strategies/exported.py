"""Strategies for exported functions, with their trees of parameters and their inputs.

Every strategy draws descriptions, which `scutch.inputs` builds: a tree of parameters has `Array`s
for leaves, a function is the list of steps of a program, a backend is its name. A law puts them
together:

    parameter_trees().example()  # such as {'w': Array((2,)), '~': [Array((), 'int32')]}
    programs().example()  # such as ['tree', 'wave']

The names of exported variables are made of the keys of dictionaries. So `KEYS` has keys that are
no Python names, such as `"a b"` and `""`; `PLAIN_KEYS` has neither, for laws that are not
about names.
"""

from typing import Any

from hypothesis import strategies as st

from scutch.inputs.backends import BACKENDS, JAX
from scutch.inputs.descriptions import Array, Node, Record
from scutch.inputs.exported import STEPS
from scutch.strategies.values import DTYPES, SHAPES

KEYS: tuple[Any, ...] = ("w", "b", "~", "mlp/~/w", "a b", "é", "0", "x.y", "_", "")
PLAIN_KEYS: tuple[Any, ...] = ("w", "b", "mlp/~/w", "layer_0", "0", "x.y")
METHODS = ("f", "g", "predict")
_SHAPES = (*(shape for shape in SHAPES if len(shape) < 3), (1, 2, 1), (2, 1, 1, 2))
_CONTAINERS = ("dict", "leaf", "list", "tuple", "record", "layer", "boxed", "unkeyed", "none")


def backends() -> st.SearchStrategy[str]:
    """Names of backends; the quick one, plain JAX, comes up more often."""
    return st.sampled_from([JAX, JAX, JAX, *BACKENDS])


def leaves(dtypes: tuple[str, ...] = DTYPES) -> st.SearchStrategy[Array]:
    """Parameters of ranks 0 to 4, empty ones among them."""
    return st.builds(Array, st.sampled_from(_SHAPES), st.sampled_from(dtypes), st.integers(0, 3))


@st.composite
def parameter_trees(
    draw: st.DrawFn,
    *,
    leaf: st.SearchStrategy[Array] | None = None,
    keys: tuple[str, ...] = KEYS,
    nodes: tuple[str, ...] = _CONTAINERS,
    depth: int = 2,
    some: bool = False,
) -> Any:
    """Trees of parameters in all kinds of containers, with odd keys.

    Args:
      draw: Hypothesis's.
      leaf: Draws the leaves; where left out, arrays of every dtype.
      keys: Those of dictionaries.
      nodes: The containers; `leaf` among them ends a branch early.
      depth: How many containers lie around a leaf at most.
      some: Whether there is at least one leaf.

    Returns:
      A strategy for trees of descriptions, as `build` takes them; with `some`, dictionaries of a
      leaf `last` and any tree `tree`.
    """
    tree = _tree(draw, leaves() if leaf is None else leaf, keys, nodes, depth)
    return {"last": draw(leaves() if leaf is None else leaf), "tree": tree} if some else tree


def _tree(
    draw: st.DrawFn, leaf: Any, keys: tuple[str, ...], nodes: tuple[str, ...], depth: int
) -> Any:
    kind = draw(st.sampled_from(nodes)) if depth else "leaf"
    match kind:
        case "none":
            return None
        case "leaf":
            return draw(leaf)
        case "record":
            return Record(*(_tree(draw, leaf, keys, nodes, depth - 1) for _ in range(2)))
        case "layer" | "boxed" | "unkeyed" | "lossy":
            return Node(kind, _tree(draw, leaf, keys, nodes, depth - 1))
    children = [_tree(draw, leaf, keys, nodes, depth - 1) for _ in range(draw(st.integers(0, 2)))]
    match kind:
        case "list":
            return children
        case "tuple":
            return tuple(children)
    chosen = draw(st.lists(st.sampled_from(keys), min_size=2, max_size=2, unique=True))
    return dict(zip(chosen, children, strict=False))


def programs() -> st.SearchStrategy[list[str]]:
    """Functions as lists of steps; some return a tree."""
    steps = st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=2)
    return st.builds(lambda tree, steps: [*tree, *steps], st.sampled_from([[], ["tree"]]), steps)


def program_maps() -> st.SearchStrategy[dict[str, list[str]]]:
    """One or two functions by key."""
    return st.dictionaries(st.sampled_from(METHODS), programs(), min_size=1, max_size=2)


def forms() -> st.SearchStrategy[str]:
    """How an input is given: as an array, or in a dictionary."""
    return st.sampled_from(["array", "dict"])


def shape_texts(width: int = 2) -> st.SearchStrategy[str]:
    """Polymorphic shapes of a batch of rows of a width."""
    return st.sampled_from([f"b, {width}", "b, _", "b, ...", f"(rows, {width})", "2*b, _"])
