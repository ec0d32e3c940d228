"""Walks through objects, and copies whose nodes a function replaces: OBJ-1g, OBJ-1j, OBJ-11l,
JIT-12t.

The oracle is the walk of `graphs`, which reads objects attribute by attribute, and a change made by
hand. Each call is made in a mode that keeps a graph or, on trees, in one that does not.
"""

import itertools
from types import MappingProxyType

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.inputs.descriptions import Array
from scutch.lawkit import modes
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, alike_in_any_order, holds
from scutch.lawkit.marks import raised, reached, requirement
from scutch.strategies import graphs as drawn_graphs
from scutch.strategies import object_trees, variables


def _places(pairs):
    """Pairs of a key or a path and a node, as ones that can be compared."""
    return [[key, id(value)] for key, value in pairs]


STARTS = ("the object", "a list", "a dict", "no pytree")
"""Where a walk begins: at an object, at a container of it, or at one that JAX takes for no tree."""


def _start(nnx, root, start):
    """The start of a walk: the object, or a container or object with it and a variable inside."""
    variable = nnx.Param(np.ones(2, "float32"))
    if start == "a list":
        return [root, variable, 3]
    if start == "a dict":
        return {"b": variable, "a": root, "c": "text"}
    if start == "no pytree":
        made = graphs.class_without_pytree(nnx)()
        made.a, made.b, made.c = root, variable, "text"
        return made
    return root


def _hold_twice(nnx, root):
    """Give an object one plain container twice, if it has no more than three attributes."""
    spare = [name for name in graphs.ATTRIBUTES if not hasattr(root, name)]
    held = (np.ones(2, "float32"), ())
    for name in spare[:2]:
        graphs.put(nnx, root, name, held)


def _check_walks(nnx, root, begin, mode):
    """Check the walks through an object, or through a container that holds it, in one mode."""
    children, options = modes.function_and_options(nnx, "iter_children", mode)
    inside = [pair for pair in graphs.children(nnx, begin) if graphs.is_node(nnx, pair[1])]
    found = _places(children(begin, **options))
    assert alike_in_any_order(found, _places(inside)), f"{found} are children of {begin!r}"
    objects = [pair for pair in inside if isinstance(pair[1], nnx.Pytree)]
    module_children, options = modes.function_and_options(nnx, "iter_module_children", mode)
    found = _places(module_children(begin, **options))
    assert alike_in_any_order(found, _places(objects)), f"{found} are objects inside {begin!r}"
    begin = begin if graphs.is_module(nnx, begin) else root
    modules, options = modes.function_and_options(nnx, "iter_modules", mode)
    met = [pair for pair in modules(begin, **options) if graphs.is_module(nnx, pair[1])]
    for path, module in met:
        assert graphs.follow(nnx, begin, path) is module, f"another one is at {path}"
    expected = [node for node in graphs.nodes(nnx, begin) if graphs.is_module(nnx, node)]
    assert sorted(id(module) for _, module in met) == sorted(map(id, expected))
    _inner_first([path for path, _ in met])


@requirement("objects/walks/children-and-modules-are-met", must_reach=(*modes.CHOICES, *STARTS))
@given(
    graph=drawn_graphs(marks=False),
    tree=object_trees(containers=True),
    start=st.sampled_from(STARTS),
)
def test_walks_meet_the_objects_that_are_inside(nnx, graph, tree, start):
    """`iter_children` gives the objects and variables directly inside an object or a container,
    `iter_module_children` the objects alone, and `iter_modules` all modules of an object, each once
    and after those inside it, by keys and paths that lead to them. A plain container may be in two
    places, and an object of a class that JAX takes for no tree where the graph is kept.
    """
    _hold_twice(nnx, tree)
    for mode in modes.CHOICES:
        root = graph if mode == "a graph" else tree
        if start != "no pytree" or mode != "a tree":
            _check_walks(nnx, root, _start(nnx, root, start), mode)


def _inner_first(paths):
    """Fail where a path is met after one that leads to it."""
    for number, path in enumerate(paths):
        late = [each for each in paths[number + 1 :] if alike(each[: len(path)], path)]
        assert not late, f"{late} come after {path}"


vectors = variables(st.just(Array((2,))), kinds=graphs.VARIABLES)


def _replacement(nnx, node):
    """The replacement of a node: a new variable for a variable, a new object around an object."""
    if isinstance(node, nnx.Variable):
        return nnx.Param(np.zeros(3, "float32"))
    made = graphs.classes(nnx)["Node"]()
    made.a = node
    return made


def _replaced_by_hand(nnx, value, kind, done):
    """A value after each node of a type in it was replaced, inner ones first.

    Args:
      nnx: The namespace of objects, of the implementation under judgment.
      value: A value that may be changed.
      kind: The name of the type.
      done: The replaced or kept nodes so far, by the `id` of the original node.
    """
    if holds(done, id(value)):
        return done[id(value)]
    inside = graphs.children(nnx, value) or ()
    changed = [(key, _replaced_by_hand(nnx, child, kind, done)) for key, child in inside]
    if isinstance(value, dict):
        return dict(changed)
    if isinstance(value, list | tuple):
        return type(value)(child for _, child in changed)
    if not graphs.is_node(nnx, value):
        return value
    for (key, child), (_, other) in zip(inside, changed, strict=True):
        if other is child:
            continue
        if isinstance(value, nnx.List | nnx.Dict):
            value[key] = other
        else:
            graphs.put(nnx, value, key, other)
    is_one = alike(type(value).__name__, kind)
    done[id(value)] = _replacement(nnx, value) if is_one else value
    return done[id(value)]


def _in_plain(nnx, root, kind):
    """Whether a plain container holds a node of a type."""
    return any(
        alike(type(child).__name__, kind)
        for _, value in graphs.walk(nnx, root)
        if isinstance(value, list | tuple | dict)
        for _, child in graphs.walk(nnx, value)
    )


@requirement(
    "objects/walks/recursive-map-maps-once",
    must_reach=(*modes.CHOICES, "shared", "nothing", "variables", "objects"),
)
@given(
    graph=drawn_graphs(cycles=False, containers=False, marks=False, variable=vectors),
    tree=object_trees(containers=True, variable=vectors),
    mode=st.sampled_from([*modes.CHOICES, "a graph"]),
    chosen=st.integers(0, 20),
    again=st.integers(0, 10),
    holds_twice=st.booleans(),
)
def test_mapping_an_object_replaces_each_node_once(
    nnx, graph, tree, mode, chosen, again, holds_twice
):
    """`recursive_map` returns a copy in which a function has replaced each node once.

    It calls the function for each object and variable, inner ones first, with a path to the node,
    and puts the result at all paths of the node. It may refuse to replace a node in a plain
    container. The original object stays unchanged.
    """
    recursive_map, options = modes.function_and_options(nnx, "recursive_map", mode)
    root = graph if mode == "a graph" else tree
    spare = [name for name in graphs.ATTRIBUTES if not hasattr(root, name)]
    inside = graphs.nodes(nnx, root)[1:]
    if holds_twice:
        _hold_twice(nnx, root)
    elif mode == "a graph" and inside and spare:
        setattr(root, spare[0], inside[again % len(inside)])
    every = [value for _, value in graphs.walk(nnx, root) if graphs.is_node(nnx, value)]
    if len(every) > len(graphs.nodes(nnx, root)):
        reached("shared")
    left = {*graphs.TRACKED} | ({*graphs.VARIABLES} if mode != "a tree" else set())
    names = sorted({type(node).__name__ for node in every} - left)
    kind = [*names, "nothing"][chosen % (len(names) + 1)]
    named = {"nothing": "nothing"} | dict.fromkeys(graphs.MODULES, "objects")
    reached(named.get(kind, "variables"))
    before = nnx.clone(root)
    expected = _replaced_by_hand(nnx, nnx.clone(root), kind, {})
    met, results = [], []

    def replace(path, node):
        if graphs.is_node(nnx, node):
            met.append(path)
        return _replacement(nnx, node) if alike(type(node).__name__, kind) else node

    error = raised(lambda: results.append(recursive_map(replace, root, **options)))
    different = graphs.differences(nnx, before, root)
    assert not different, f"the object before and after: {different}"
    if error is not None and not alike(kind, "nothing") and _in_plain(nnx, root, kind):
        return
    if error is not None:
        raise error
    different = graphs.differences(nnx, expected, results[0])
    assert not different, f"by hand and by the call: {different}"
    followed = [id(graphs.follow(nnx, root, path)) for path in met]
    assert sorted(followed) == sorted(id(node) for node in graphs.nodes(nnx, root))
    _inner_first(met)


@requirement(
    "objects/walks/recursive-map-keeps-original",
    must_reach=("no mode", "a graph", "shared", "apart"),
)
@given(
    graph=drawn_graphs(cycles=False, containers=False, marks=False, variable=vectors),
    mode=st.sampled_from(["no mode", "a graph"]),
    chosen=st.integers(0, 20),
    again=st.integers(0, 10),
    twice=st.booleans(),
)
def test_mapping_to_other_variables_changes_the_copy_alone(nnx, graph, mode, chosen, again, twice):
    """Where `recursive_map` is given a function that returns another variable for each of a type,
    the copy has the new ones in all places of the old, and the object still has its own.
    """
    recursive_map, options = modes.function_and_options(nnx, "recursive_map", mode)
    inside = [each for each in graphs.nodes(nnx, graph) if isinstance(each, nnx.Variable)]
    assume(inside)
    spare = [name for name in graphs.ATTRIBUTES if not hasattr(graph, name)]
    twice = twice and len(spare) > 0
    reached("shared" if twice else "apart")
    if twice:
        setattr(graph, spare[0], inside[again % len(inside)])
    names = sorted({type(each).__name__ for each in inside})
    kind = names[chosen % len(names)]
    before = nnx.clone(graph)
    expected = _replaced_by_hand(nnx, nnx.clone(graph), kind, {})

    def replace(path, node):
        return _replacement(nnx, node) if alike(type(node).__name__, kind) else node

    mapped = recursive_map(replace, graph, **options)
    different = graphs.differences(nnx, before, graph)
    assert not different, f"the object before and after: {different}"
    different = graphs.differences(nnx, expected, mapped)
    assert not different, f"by hand and by the call: {different}"


def _same(path, value):
    """A function that replaces nothing."""
    return value


WALKS = MappingProxyType(
    {
        "iter_graph": lambda f, root, **options: f(root, **options),
        "iter_modules": lambda f, root, **options: f(root, **options),
        "recursive_map": lambda f, root, **options: f(_same, root, **options),
        "view": lambda f, root, **options: f(root, **options),
        "with_attributes": lambda f, root, **options: f(root, **options),
    }
)
"""Calls that go through an object: two give an iterator, the others a copy."""


TWICE = ("a variable", "an object above", "an object beside")
"""The node that a tree holds twice.

A variable; an object, inside of itself; or a new object, inside of itself and beside arrays alone.
"""


def _repeat(nnx, root, twice, owner, again):
    """Put something into a tree that is in two places.

    No walk goes around it for ever and meets nothing: an array or a variable comes before it.
    """
    node = graphs.classes(nnx)["Node"]
    paths = [path for path, value in graphs.walk(nnx, root) if graphs.is_module(nnx, value)]
    path = paths[owner % len(paths)]
    module = graphs.follow(nnx, root, path)
    for name in ("a", "e"):
        if hasattr(module, name):
            delattr(module, name)
    module.a = nnx.Param(np.ones(2, "float32"))
    if twice == "a variable":
        found = [node for node in graphs.nodes(nnx, root) if isinstance(node, nnx.Variable)]
        module.e = found[again % len(found)]
        return
    above = [graphs.follow(nnx, root, path[:length]) for length in range(len(path) + 1)]
    link, back = node(), node()
    link.a, back.a = np.ones(2, "float32"), np.ones(2, "float32")
    module.e, link.e = link, back
    back.e = link if twice == "an object beside" else above[again % len(above)]


def _walked(nnx, root, name, options, may_refuse):
    """Check one walk of an object that has something twice."""
    function, expected, met = getattr(nnx, name), graphs.nodes(nnx, root), []
    limit = 10 * len(expected) + 100

    def walk():
        result = WALKS[name](function, root, **options)
        met.extend(itertools.islice(result, limit) if name.startswith("iter_") else [result])

    error = raised(walk)
    assert not isinstance(error, RecursionError), f"{name} goes on until Python's stack ends"
    if error is not None and may_refuse:
        return
    if error is not None:
        raise error
    if not name.startswith("iter_"):
        different = graphs.differences(nnx, root, met[0])
        assert not different, f"the object and what {name} gives: {different}"
        return
    assert len(met) < limit, f"{name} goes on for ever"
    if name == "iter_modules":
        expected = [node for node in expected if graphs.is_module(nnx, node)]
    found = [(path, value) for path, value in met if graphs.is_node(nnx, value)]
    for path, value in found:
        assert graphs.follow(nnx, root, path) is value, f"{name} has another one at {path}"
    assert sorted(id(value) for _, value in found) == sorted(map(id, expected)), name


@requirement("transformations/modes/walk-ends", must_reach=(*modes.CHOICES, *WALKS, *TWICE))
@given(
    root=object_trees(variable=vectors),
    twice=st.sampled_from(TWICE),
    owner=st.integers(0, 5),
    again=st.integers(0, 5),
)
def test_a_walk_comes_to_an_end(nnx, root, twice, owner, again):
    """Where an object has a variable twice, or leads back to itself, a walk in each mode meets each
    node once, and a copy is of the same structure; or the call is refused, if it copies a cycle, or
    does not say that it keeps a graph. It neither goes on for ever nor until Python's stack ends.
    """
    _repeat(nnx, root, twice, owner, again)
    for name, mode in itertools.product(WALKS, modes.CHOICES):
        _, options = modes.function_and_options(nnx, name, mode)
        reached(name)
        cyclic_copy = twice != "a variable" and not name.startswith("iter_")
        _walked(nnx, root, name, options, mode != "a graph" or cyclic_copy)
