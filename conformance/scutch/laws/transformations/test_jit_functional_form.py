"""The functional form in every mode: JIT-12r.

The oracle is the same call without a mode, where none is set.
"""

import contextlib
from collections import OrderedDict
from typing import Any, NamedTuple

import jax.numpy as jnp
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.inputs.filters import build_filter
from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.marks import at_least, raised, reached, requirement
from scutch.lawkit.modes import takes_modes
from scutch.lawkit.states import flat_state, raw_values
from scutch.strategies import arrays, object_trees, small_graphs, type_filters, variables

AROUND = {"nothing": None, "a graph": True, "a tree": False}
"""The mode that is set around a call, which one that the call is given overrides."""
FORMS = ("merged", "of values", "copied", "cloned")
ORDERED = ("fields", "keys")
"""Trees of JAX that are in an order of their own: by fields, or by keys."""


def _has_a_cycle(nnx, root):
    """Whether an object leads back to itself."""
    return any(
        inside is node
        for node in graphs.nodes(nnx, root)
        for path, inside in graphs.walk(nnx, node)
        if path
    )


def _shares_a_node(nnx, root):
    """Whether a walk meets an object or a variable twice."""
    met = [id(value) for _, value in graphs.walk(nnx, root) if graphs.is_node(nnx, value)]
    return len({*met}) < len(met)


def _plain(nnx):
    """An object with a variable, of a class that JAX takes for no tree."""
    made = graphs.class_without_pytree(nnx)()
    made.a = nnx.Param(jnp.ones(2))
    return made


apart = object_trees(variable=variables(arrays(max_rank=2), kinds=(*graphs.VARIABLES, "Variable")))


class Fields(NamedTuple):
    """A tuple of JAX whose fields are not in the order of their names."""

    b: Any
    a: Any


def _in_order(nnx, kind):
    """A container of variables, and of one array twice, that JAX takes apart in an order of its own
    and not in that of its keys: a named tuple or an ordered dictionary.
    """
    array, made = jnp.ones(2), nnx.Param(jnp.zeros(2))
    inside = {"b": (array, array, nnx.Param(3 * array)), "a": made}
    return Fields(**inside) if kind == "fields" else OrderedDict(inside)


@requirement(
    "transformations/modes/functional-form-is-kept",
    must_reach=(*FORMS, "shared", "apart", "no pytree", *AROUND, *ORDERED),
)
@at_least(40)
@given(
    root=st.one_of(apart, apart, small_graphs(size=3)),
    form=st.sampled_from(FORMS),
    mode=st.sampled_from([False, None, False, True]),
    around=st.sampled_from(list(AROUND)),
    wanted=st.one_of(st.none(), type_filters()),
    holds_plain=st.sampled_from([False, False, True]),
    ordered=st.sampled_from([None, *ORDERED]),
)
def test_the_functional_form_is_that_of_every_mode(
    nnx, root, form, mode, around, wanted, holds_plain, ordered
):
    """`state`, `split` with `merge`, and `clone` give equal leaves and copies in every mode.

    The call gives the mode, or a context around it sets it. An object may hold one array twice, and
    JAX trees whose keys are ordered otherwise than sorted. The mode `graph=False` may refuse an
    object that shares a node, or that holds an object of a class declared to be no pytree.
    """
    if not takes_modes(nnx.state, "graph"):
        not_available("the functional form has no modes")
    spare = [name for name in graphs.ATTRIBUTES if not hasattr(root, name)]
    if holds_plain and spare:
        reached("no pytree")
        setattr(root, spare[0], _plain(nnx))
    if ordered and len(spare) > 1:
        reached(ordered)
        setattr(root, spare[1], nnx.data(_in_order(nnx, ordered)))
    shared = _shares_a_node(nnx, root)
    reached("shared" if shared else "apart")
    set_around = AROUND[around] if hasattr(nnx, "set_graph_mode") else None
    of_a_tree = mode is False or (mode is None and set_around is False)
    assume(not (of_a_tree and _has_a_cycle(nnx, root)))  # JAX goes around it for ever.
    filters = () if wanted is None else (build_filter(nnx, wanted),)
    expected = flat_state(nnx, nnx.state(root, *filters))
    found, options = {}, {} if mode is None else {"graph": mode}

    def call():
        found["state"] = flat_state(nnx, nnx.state(root, *filters, **options))
        if form == "cloned":
            found["copy"] = nnx.clone(root, **options)
            return
        definition, state = nnx.split(root, **options)
        if form == "of values":
            state = nnx.from_flat_state(raw_values(nnx, state))
        copied = {"copy": True} if form == "copied" else {}
        found["copy"] = nnx.merge(definition, state, **copied)

    with contextlib.nullcontext() if set_around is None else nnx.set_graph_mode(set_around):
        error = raised(call)
    if error is not None and of_a_tree and (shared or (holds_plain and spare)):
        return
    if error is not None:
        raise error
    assert graphs.same_leaves(nnx, found["state"], expected)
    assert not graphs.differences(nnx, root, found["copy"])
    if form != "merged":
        ours, theirs = ({*map(id, graphs.nodes(nnx, each))} for each in (root, found["copy"]))
        assert not ours & theirs, "the copy has nodes of the object"
