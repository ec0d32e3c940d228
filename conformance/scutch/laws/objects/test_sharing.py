"""Sharing within graphs: OBJ-1.

Two places that hold one node hold one node after `split` and `merge`, also in a cycle. Walks meet
each node once, and `find_duplicates` lists all of its paths.
"""

from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.graphs import ATTRIBUTES, children, differences, follow, is_node, nodes, walk
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike_in_any_order
from scutch.lawkit.marks import reached, requirement
from scutch.strategies import graphs


def _meetings(nnx, root):
    """How often a node is met again that was met before."""
    found = [id(value) for _, value in walk(nnx, root) if is_node(nnx, value)]
    return len(found) - len(set(found))


@requirement("objects/sharing/split-keeps-sharing", must_reach=("shared",))
@given(root=graphs(cycles=False, containers=False, marks=False))
def test_splitting_keeps_sharing(nnx, root):
    """Two places of an object that hold one node hold one node after `split` and `merge`; two that
    hold different nodes hold different ones.
    """
    if _meetings(nnx, root):
        reached("shared")
    assert not differences(nnx, root, nnx.merge(*nnx.split(root)))


def _is_cyclic(nnx, root, above=()):
    """Whether an object can be reached from itself."""
    inside = {*above, id(root)}
    parts = [each for _, each in children(nnx, root) or () if isinstance(each, nnx.Pytree)]
    return any(id(each) in inside or _is_cyclic(nnx, each, inside) for each in parts)


@requirement("objects/sharing/split-keeps-cycles", must_reach=("cycle",))
@given(root=graphs(containers=False, marks=False, max_objects=3))
def test_splitting_keeps_cycles(nnx, root):
    """An object that leads back to itself does so, by the same paths, after `split` and `merge`."""
    assume(_is_cyclic(nnx, root))
    reached("cycle")
    assert not differences(nnx, root, nnx.merge(*nnx.split(root)))


@requirement("objects/walks/graph-meets-nodes-once", must_reach=("shared", "shared variable"))
@given(root=graphs(marks=False), again=st.integers(0, 3))
def test_iterating_meets_each_node_once(nnx, root, again):
    """`iter_graph` gives every object and variable once, with a path that leads to it."""
    found = [node for node in nodes(nnx, root) if isinstance(node, nnx.Variable)]
    if again and found:
        spare = next(name for name in ATTRIBUTES if not hasattr(root, name))
        setattr(root, spare, found[again % len(found)])
        reached("shared variable")
    if _meetings(nnx, root):
        reached("shared")
    found = [(path, value) for path, value in nnx.iter_graph(root) if is_node(nnx, value)]
    wrong = [path for path, value in found if follow(nnx, root, path) is not value]
    assert not wrong, f"other objects are at the paths {wrong}"
    assert sorted(map(id, [value for _, value in found])) == sorted(map(id, nodes(nnx, root)))


@requirement("objects/walks/graph-ends-with-root")
@given(root=graphs(marks=False))
def test_iterating_ends_with_the_root(nnx, root):
    """`iter_graph` gives the object itself last."""
    found = [value for _, value in nnx.iter_graph(root)]
    assert found, "there is nothing to iterate"
    assert found[-1] is root


@requirement(
    "objects/sharing/duplicates-list-shared-paths",
    must_reach=("object", "variable", "none", "left out"),
)
@given(
    root=graphs(marks=False, bare=False, containers=False),
    again=st.integers(0, 3),
    only=st.one_of(st.none(), st.sampled_from(["Param", "BatchStat"])),
)
def test_duplicates_are_the_paths_of_what_is_shared(nnx, root, again, only):
    """`find_duplicates` gives all paths of each object and variable that has more than one.

    The inside of a shared object is walked once. With `only`, it lists the nodes of that type
    alone.
    """
    found = [node for node in nodes(nnx, root) if isinstance(node, nnx.Variable)]
    if again and found:
        spare = next(name for name in ATTRIBUTES if not hasattr(root, name))
        setattr(root, spare, found[again % len(found)])
    paths = {}
    for path, value in walk(nnx, root):
        if is_node(nnx, value):
            paths.setdefault(id(value), []).append((path, value))
    shared = [met for met in paths.values() if len(met) > 1]
    for (_, value), *_ in shared:
        reached("variable" if isinstance(value, nnx.Variable) else "object")
    if not shared:
        reached("none")
    options = {}
    if only is not None:
        kind = getattr(nnx, only)
        options["only"] = kind
        all_of_them, shared = shared, [met for met in shared if isinstance(met[0][1], kind)]
        if len(shared) < len(all_of_them):
            reached("left out")
    ours = [sorted(map(repr, map(tuple, group))) for group in nnx.find_duplicates(root, **options)]
    assert alike_in_any_order(ours, [sorted(repr(path) for path, _ in met) for met in shared])
