"""A mode that a call is given overrides the mode that is set around it: JIT-12s.

The functions that take a mode are in two tables, each as a call of it on one object. The oracle is
the same call without a mode, where none is set, on an equal object.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.inputs.descriptions import Array
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import at_least, costly, dear, options, raised, reached, requirement
from scutch.lawkit.modes import takes_modes, under_other_modes
from scutch.lawkit.states import flat_state, raw_values
from scutch.lawkit.training import MOMENTUM
from scutch.strategies import object_trees, variables

BOTH = ("graph", "graph_updates")


class Call(NamedTuple):
    """A call of a function that takes modes.

    Args:
      made: Takes the function, the namespace of objects, an object and the modes; returns the value
        to compare: text, or a container of objects, variables, arrays and text.
      modes: The modes that the function is given.
      owner: The namespace that has the function.
    """

    made: Callable[..., Any]
    modes: tuple[str, ...] = ("graph",)
    owner: str = "nnx"


def _leaves(nnx, state):
    """The leaves of a state, with their paths as text."""
    return [[repr(path), leaf] for path, leaf in flat_state(nnx, state).items()]


def _nodes(nnx, pairs):
    """The objects and variables among pairs of path and value, with their paths as text."""
    return [[repr(path), value] for path, value in pairs if graphs.is_node(nnx, value)]


def _structure(function, nnx, root, modes):
    """A new object of a structure."""
    definition = function(root, **modes)
    return nnx.merge(definition, nnx.from_flat_state(raw_values(nnx, nnx.state(root, **modes))))


def _mapped(function, nnx, root, modes):
    """The copy that a map returns, and the path of each node that it has met."""
    met = []

    def same(path, node):
        if graphs.is_node(nnx, node):
            met.append(repr(path))
        return node

    return [function(same, root, **modes), sorted(met)]


def _changed_streams(**options):
    """The streams while they are changed."""

    def made(function, nnx, root, modes):
        function(root, **options, **modes)

    return made


def _set(function, nnx, root, modes):
    """Attributes of all modules are set."""
    function(root, raise_if_not_found=False, e="text", **modes)


def _trained(function, nnx, root, modes):
    """An object and an optimizer of it after two updates, by a state and by an object."""
    optimizer = function(root, MOMENTUM, wrt=nnx.Param, **modes)
    gradients = [nnx.state(root, nnx.Param, **modes), nnx.clone(root, **modes)]
    updates = [optimizer.update(root, each) for each in gradients]
    return [*jax.tree.leaves(optimizer.opt_state), *jax.tree.leaves(updates)]


def _split_in_a_context(function, nnx, root, modes):
    """The states of an object, split with filters by a context that numbers shared nodes."""
    with function() as context:
        _, *states = context.split(root, nnx.Param, ...)
    return [_leaves(nnx, state) for state in states]


CALLS = {
    "graphdef": Call(_structure),
    "variables": Call(lambda f, nnx, root, modes: _leaves(nnx, f(root, **modes))),
    "clone": Call(lambda f, nnx, root, modes: f(root, **modes)),
    "iter_graph": Call(lambda f, nnx, root, modes: _nodes(nnx, f(root, **modes))),
    "iter_children": Call(lambda f, nnx, root, modes: _nodes(nnx, f(root, **modes))),
    "iter_modules": Call(lambda f, nnx, root, modes: _nodes(nnx, f(root, **modes))),
    "iter_module_children": Call(lambda f, nnx, root, modes: _nodes(nnx, f(root, **modes))),
    "map": Call(lambda f, nnx, root, modes: f(lambda path, x: x, root, **modes)),
    "recursive_map": Call(_mapped),
    "view": Call(lambda f, nnx, root, modes: f(root, raise_if_not_found=False, **modes)),
    "with_attributes": Call(
        lambda f, nnx, root, modes: f(root, raise_if_not_found=False, e="text", **modes)
    ),
    "Module.set_attributes": Call(_set),
    "reseed": Call(_changed_streams(first=3)),
    "split_rngs": Call(_changed_streams(splits=2), BOTH),
    "fork_rngs": Call(_changed_streams(), BOTH),
    "Optimizer": Call(_trained, owner="transforms"),
    "split_context": Call(_split_in_a_context, ()),
}
"""Functions that compile nothing; one that takes no modes knows only graphs."""


def _holder(nnx, root, again, holds_plain):
    """An object that holds a drawn one and seed streams.

    With `again`, it also holds one of the nodes in these a second time. That node has variables: on
    a tree, sharing shows only in variables. With `holds_plain`, it also holds an object that is no
    pytree.
    """
    made = graphs.classes(nnx)["Node"]()
    made.a, made.b = root, nnx.Rngs(first=0, second=1)
    if again:
        inside = [each for each in graphs.nodes(nnx, made)[1:] if graphs.leaves(nnx, [each])]
        made.c = inside[again % len(inside)]
    if holds_plain:
        made.d = graphs.class_without_pytree(nnx)()
        made.d.a = nnx.Param(np.ones(2, "float32"))
    return made


def _in_containers(nnx, root):
    """Whether a plain container holds static data, which JAX takes for a leaf of a tree."""
    plain = (list, tuple, dict)
    return any(
        not graphs.is_node(nnx, child) and not isinstance(child, plain)
        for _, value in graphs.walk(nnx, root)
        if isinstance(value, plain)
        for _, child in graphs.children(nnx, value)
    )


def _function(owner, name):
    """A function of a namespace by its name, or by those of its class and its own."""
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner


def _results(nnx, modes, call, plain, moded):
    """The results of a call without modes, and of one with modes where others are set around it.

    The list is empty if the first call is refused. The second item is the error of the second call,
    or `None`.
    """
    results = []
    if raised(lambda: results.append(call(*plain))) is not None:
        return [], None
    with under_other_modes(nnx, **modes):
        error = raised(lambda: results.append(call(*moded)))
    return results, error


vectors = variables(st.just(Array((2,))), kinds=(*graphs.VARIABLES, "Variable"))
drawn = object_trees(containers=True, bare=False, variable=vectors, max_objects=2)


@requirement(
    "transformations/modes/call-overrides-context",
    must_reach=("shared", "apart", "no pytree", "a graph", "a tree"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@costly
@at_least(20)
@given(
    root=drawn,
    again=st.one_of(st.just(0), st.integers(0, 20)),
    graph=st.booleans(),
    holds_plain=st.sampled_from([False, False, True]),
)
def test_the_mode_of_a_call_overrides_the_one_around_it(
    transforms, nnx, root, again, holds_plain, graph
):
    """A function that is given `graph=` ignores the modes that are set around the call.

    Its result equals the result without any mode. `graph=False` may be refused if a node is shared,
    or if an object is of a class that is no pytree.
    """
    holder = _holder(nnx, root, again, holds_plain)
    graph = graph or _in_containers(nnx, root)
    reached("shared" if again else "apart")
    if holds_plain:
        reached("no pytree")
    reached("a graph" if graph else "a tree")
    for name, call in CALLS.items():
        function = _function(transforms if call.owner == "transforms" else nnx, name)
        if not takes_modes(function, *call.modes) or not (graph or call.modes == ("graph",)):
            continue
        one, other = nnx.clone(holder), nnx.clone(holder)
        modes = dict.fromkeys(call.modes, graph)
        results, error = _results(
            nnx,
            modes or {"graph": True},
            functools.partial(call.made, function, nnx),
            (one, {}),
            (other, modes),
        )
        if not results or (error is not None and not graph and (again or holds_plain)):
            continue
        if error is not None:
            raise error
        different = graphs.differences(nnx, [results[0], one], [results[1], other])
        assert not different, f"{name}: {different}"


def _step(nnx):
    """A function that changes the parameters of objects, each once, and gives a number."""

    def step(*models):
        total = 0.0
        for number, each in enumerate(graphs.nodes(nnx, models)):
            if isinstance(each, nnx.Param):
                each.set_value(2 * each.get_value() + number)
                total = total + (each.get_value() ** 2).sum()
        return total

    return step


def _of_graph(modes):
    """The mode ``graph`` of some modes, for functions that do not have the other one."""
    return {mode: modes[mode] for mode in modes if alike(mode, "graph")}


def _abstract(nnx, transforms, model, modes):
    """A copy with abstract values, and one of it."""
    shapes = nnx.eval_shape(lambda model: model, model, **modes)
    graph = _of_graph(modes)
    if not takes_modes(_function(nnx, "as_abstract"), *graph):
        return shapes
    return [shapes, nnx.as_abstract(shapes, **graph)]


def _abstract_model(nnx, transforms, model, modes):
    """An abstract copy by a function that makes it."""
    graph = _of_graph(modes)
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("data",))
    made = nnx.get_abstract_model(lambda: nnx.clone(model, **graph), mesh, **graph)
    return nnx.merge(*made)


def _gradients(nnx, transforms, model, modes):
    """A value and gradients by their paths."""
    value, gradients = transforms.value_and_grad(_step(nnx), **modes)(model)
    return [value, _leaves(nnx, gradients)]


def _lifted(lift):
    """A call with an object, and with one inside of it."""

    def made(nnx, transforms, model, modes):
        return getattr(transforms, lift)(_step(nnx), **modes)(model, model.a)

    return made


def _bound(nnx, transforms, model, modes):
    """A call of a function that an object is bound to."""
    function = transforms.jit(_step(nnx), **modes)
    return transforms.cached_partial(function, model, **modes)()


TRACED = {
    "jit": _lifted("jit"),
    "remat": _lifted("remat"),
    "value_and_grad": _gradients,
    "cached_partial": _bound,
    "eval_shape": _abstract,
    "get_abstract_model": _abstract_model,
}
"""Functions that trace another one."""

NAMED = {"cached_partial": BOTH, "eval_shape": BOTH, "get_abstract_model": ("graph",)}
"""The modes of those that are no lifts."""

OF_OBJECTS = ("eval_shape", "get_abstract_model")
"""Those that are in the namespace of objects."""


@requirement(
    "transformations/modes/call-overrides-context", must_reach=(*TRACED, "shared", "holds_plain")
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@dear
@at_least(20)
@given(
    root=drawn,
    again=st.integers(0, 20),
    holds_plain=st.booleans(),
    chosen=st.lists(st.sampled_from(list(TRACED)), min_size=3, max_size=3, unique=True),
)
def test_the_modes_of_a_lift_override_those_around_it(
    transforms, nnx, root, again, holds_plain, chosen
):
    """A lift, cached partial or abstract form with modes of its own ignores the modes around it.

    Its result equals the result without any mode.
    """
    holder = _holder(nnx, root, again, holds_plain)
    if again:
        reached("shared")
    modes = dict.fromkeys(BOTH, True)
    for name in chosen:
        owner = nnx if name in OF_OBJECTS else transforms
        if name in NAMED and not takes_modes(_function(owner, name), *NAMED[name]):
            continue
        reached(name)
        one, other = nnx.clone(holder), nnx.clone(holder)
        call = functools.partial(TRACED[name], nnx, transforms)
        results, error = _results(nnx, modes, call, (one, {}), (other, modes))
        if not results:
            continue
        if error is not None:
            raise error
        different = graphs.differences(nnx, [results[0], one], [results[1], other])
        assert not different, f"{name}: {different}"
