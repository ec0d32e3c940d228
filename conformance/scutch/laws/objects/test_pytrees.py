"""A graph definition and a state are pytrees of JAX: OBJ-10.

They are taken through JAX's own transformations, never through lifted ones.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, says_equal
from scutch.lawkit.marks import dear, reached, requirement
from scutch.strategies import copies, small_graphs
from scutch.strategies.object_calls import rewritten

LANES = 2
NODES = ("Node", "Branch", "List", "Dict", "Param", "Count", "Variable", "Variable")
"""The types of nodes; the class of all variables is one of them that its users never derive."""
drawn = small_graphs(kinds=NODES, size=3)
floats = drawn.map(lambda graph: rewritten(graph, "float32", None))


def _same(tree):
    """The tree again, every array computed anew."""
    return jax.tree.map(lambda leaf: leaf * 1, tree)


def _stacked(tree):
    return jax.tree.map(lambda leaf: jnp.stack([leaf, leaf + 1]), tree)


def _mapped(tree):
    return jax.tree.map(lambda leaf: leaf[0], jax.vmap(_same)(_stacked(tree)))


def _looped(tree):
    return jax.lax.scan(lambda carry, _: (_same(carry), None), tree, length=LANES)[0]


def _sliced(tree):
    stacked = jax.lax.scan(lambda _, one: (None, _same(one)), None, _stacked(tree))[1]
    return jax.tree.map(lambda leaf: leaf[0], stacked)


def _gradient(tree):
    """The gradient of half the sum of squares, which is the tree itself."""

    def loss(tree):
        return sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)), jnp.zeros(())) / 2

    return jax.grad(loss)(tree)


def _chosen(tree):
    return jax.lax.cond(True, _same, lambda tree: tree, tree)


def _foreseen(tree):
    """The abstract result, filled in."""
    shapes = jax.eval_shape(_same, tree)
    leaves = [leaf * 1 for leaf in jax.tree.leaves(tree)]
    assert alike([leaf.shape for leaf in leaves], [leaf.shape for leaf in jax.tree.leaves(shapes)])
    return jax.tree.unflatten(jax.tree.structure(shapes), leaves)


def _flattened(tree):
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, leaves)


def _with_paths(tree):
    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    return jax.tree.unflatten(structure, [leaf for _, leaf in paths])


EAGER = (_flattened, _with_paths, _same, _foreseen, jax.checkpoint(_same))
"""Ways through JAX that compile nothing; each gives a tree like its argument."""

THROUGH = {
    "jit": jax.jit(_same),
    "vmap": _mapped,
    "scan carry": _looped,
    "scan slices": _sliced,
    "grad": _gradient,
    "cond": _chosen,
}
"""Other ways."""

COMPANY = {
    "alone": (lambda tree: tree, lambda tree: tree),
    "in a dict": (lambda tree: {"b": tree, "a": jnp.ones(2)}, lambda tree: tree["b"]),
    "in a list": (lambda tree: [None, (tree,), ()], lambda tree: tree[1][0]),
}
"""Trees around a tree, with the way to get it out again."""


def _assert_passes(tree, how, company, accept):
    """Take a tree through one way that compiles, and through all that do not."""
    around, out = COMPANY[company]
    # JAX maps and loops over one array at least.
    assume(how not in ("scan slices", "vmap") or jax.tree.leaves(around(tree)))
    for through in (THROUGH[how], *EAGER):
        accept(out(through(around(tree))))


ways = {"how": st.sampled_from(list(THROUGH)), "company": st.sampled_from(list(COMPANY))}


@requirement("objects/graphs/jax-transforms-pass-split-objects", must_reach=tuple(COMPANY))
@dear
@given(root=floats, **ways)
def test_a_split_object_passes_through_jax(nnx, root, how, company):
    """The definition and state of `split` pass through any transformation of JAX.

    `merge` of the returned pair gives an object that is isomorphic to the first.
    """
    reached(company)

    def accept(split):
        difference = graphs.differences(nnx, root, nnx.merge(*split))
        assert not difference, f"before and after: {difference}"

    _assert_passes(nnx.split(root), how, company, accept)


@requirement("objects/definitions/definition-has-no-leaves", must_reach=tuple(COMPANY))
@dear
@given(root=drawn, **ways)
def test_a_definition_has_no_leaves_and_passes_through_jax(nnx, root, how, company):
    """A graph definition is a pytree without leaves, and passes through any transformation of JAX.

    The returned definition is equal to the first, and so is its tree structure.
    """
    definition, (_, state) = nnx.graphdef(root), nnx.split(root)
    assert alike(jax.tree.leaves(definition), [])
    reached(company)

    def accept(found):
        assert type(found) is type(definition)
        assert says_equal(found, definition)
        assert hash(found) == hash(definition)
        assert says_equal(jax.tree.structure(found), jax.tree.structure(definition))
        difference = graphs.differences(nnx, root, nnx.merge(found, state))
        assert not difference, f"with the state of the first one: {difference}"

    _assert_passes(definition, how, company, accept)


@requirement("objects/definitions/equal-definitions-trace-once", must_reach=("equal", "other"))
@dear
@given(pair=copies(drawn), other=drawn)
def test_equal_definitions_are_traced_once(nnx, pair, other):
    """A jitted function is traced once for the equal definitions of two graphs that were built
    separately, and once more for a definition that is not equal.
    """
    traces = []

    @jax.jit
    def work(definition, x):
        traces.append(definition)
        return x * 2, definition

    (one, two), third = map(nnx.graphdef, pair), nnx.graphdef(other)
    x = np.float32(3)
    for definition in (one, two, one):
        doubled, found = work(definition, x)
        assert float(doubled) == 6
        assert says_equal(found, one)
    assert len(traces) == 1
    same = says_equal(third, one)
    reached("equal" if same else "other")
    work(third, x)
    assert len(traces) == (1 if same else 2)


@requirement("objects/graphs/jit-runs-merged-objects", must_reach=("static", "dynamic"))
@dear
@given(root=floats, how=st.sampled_from(["static", "dynamic"]))
def test_plain_jit_runs_a_merged_object(nnx, root, how):
    """A function that merges, changes variables and splits runs under plain `jax.jit`.

    It returns the same as the eager call.

    The definition is passed as a static argument, or as an ordinary one.
    """

    def work(definition, state):
        merged = nnx.merge(definition, state)
        for variable in graphs.nodes(nnx, merged):
            if isinstance(variable, nnx.Variable):
                variable.set_value(variable.get_value() + 1)
        return nnx.split(merged)

    expected, (definition, state) = nnx.clone(root), nnx.split(root)
    for variable in graphs.nodes(nnx, expected):
        if isinstance(variable, nnx.Variable):
            variable.set_value(variable.get_value() + 1)
    jitted = jax.jit(work, static_argnums=0) if how == "static" else jax.jit(work)
    merged = nnx.merge(*jitted(definition, state))
    difference = graphs.differences(nnx, expected, merged)
    assert not difference, f"eager and jitted: {difference}"


STATIC = {
    "list": list,
    "dictionary": lambda content: dict.fromkeys(content, 1),
    "set": set,
    "list in a tuple": lambda content: ("a", list(content)),
}
"""Static data that Python cannot hash."""


@requirement("objects/graphs/jit-runs-merged-objects", must_reach=(*STATIC, "static", "dynamic"))
@dear
@given(
    kind=st.sampled_from(list(STATIC)),
    how=st.sampled_from(["static", "dynamic"]),
    content=st.lists(st.sampled_from(["loss", "accuracy", "top_5"]), max_size=3, unique=True),
)
def test_plain_jit_runs_an_object_with_static_data_without_a_hash(nnx, kind, how, content):
    """A definition of an object that holds a list, a dictionary or a set as static data can be
    passed to `jax.jit`, static or not, and the merged object has the data.
    """
    root = graphs.classes(nnx)["Node"]()
    root.a, root.b = nnx.Param(jnp.zeros(())), nnx.static(STATIC[kind](content))
    held = []

    def work(definition, state):
        merged = nnx.merge(definition, state)
        held.append(merged.b)
        return merged.a.get_value() + 1

    jitted = jax.jit(work, static_argnums=0) if how == "static" else jax.jit(work)
    assert alike(np.asarray(jitted(*nnx.split(root))), np.ones((), "float32"))
    assert alike(held, [STATIC[kind](content)])
