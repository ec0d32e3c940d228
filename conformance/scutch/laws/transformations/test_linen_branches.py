"""Branches and loops of Linen modules are JAX's: LIN-9q to LIN-9y (`002_`).

A generated model is the part of a module, which calls it in branches or in a loop. The oracle is
JAX's own `switch` or `while_loop` of `apply` of the part.
"""

import jax
import jax.numpy as jnp
from hypothesis import given
from hypothesis import strategies as st

from scutch.engine.carriers.linen import COLLECTIONS
from scutch.inputs import models
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import costly, reached, requirement
from scutch.lawkit.parts import mutable_collections, outer, weighted_gradients, within
from scutch.lawkit.tolerances import GRADIENTS
from scutch.strategies import parts

BRANCHES = {
    "called": lambda part, x: part(x),
    "scaled": lambda part, x: -2 * part(x),
    "twice": lambda part, x: part(part(x)),
    "left out": lambda part, x: 3 * x,
}
"""Functions of a part, which has been called before: so none of them makes variables."""


class _Applied:
    """A part in plain JAX, whose calls keep the changed collections for the next call."""

    def __init__(self, part, variables, changing):
        self.part, self.variables, self.changing = part, variables, changing

    def __call__(self, x):
        """The output for `x`."""
        output, updates = self.part.apply(self.variables, x, mutable=self.changing)
        self.variables = {**self.variables, **updates}
        return output

    def changed(self):
        """The collections that may change, as they are now."""
        return {c: tree for c, tree in self.variables.items() if holds(self.changing, c)}


def _assert_same(
    lifted, pure, variables, x, changing, *, gradients=True, everything=False, indices=()
):
    """Outputs, changed collections and gradients of a lifted module, and of a pure function.

    With `everything`, no collection is kept from changing but by the lift. With `indices`, both are
    called with each of these before the input, in a pair.
    """

    def by_lift(variables, x):
        output, updates = lifted.apply(within(variables), x, mutable=everything or changing)
        return output, {c: tree["part"] for c, tree in updates.items() if holds(changing, c)}

    def seen(route, *index):
        def called(variables, x):
            return route(variables, (*index, x) if index else x)

        if not gradients:
            return called(variables, x)
        return weighted_gradients(
            lambda params, x: called({**variables, "params": params}, x),
            variables.get("params", {}),
            x,
        )

    both = jax.jit(lambda *index: [seen(route, *index) for route in (by_lift, pure)])
    for index in [(n,) for n in indices] or [()]:
        found, expected = both(*index)
        assert_close(found, expected, **GRADIENTS)


filters = st.sampled_from(
    [{}, {"variables": True}, {"variables": list(COLLECTIONS)}, {"rngs": True}]
)


@requirement("transformations/equals-jax/cond-of-linen", must_reach=("cond", "switch", "held"))
@costly
@given(
    model=parts(),
    train=st.booleans(),
    kind=st.sampled_from(["cond", "switch"]),
    names=st.permutations(list(BRANCHES)),
    size=st.integers(1, 3),
    options=filters,
    held=st.booleans(),
)
def test_branches_of_a_part_are_those_of_jax(linen, model, train, kind, names, size, options, held):
    """`switch`, or `cond` for two branches, of functions of a part, or of a module that has the
    part as a field, gives the output, gradients and changed collections that `jax.lax.switch` or
    `jax.lax.cond` of `apply` of the part gives, for each index.
    """
    part, variables = model.module(train=train), model.variables(boxed=False)
    changing = mutable_collections(variables, train=train)
    two = kind == "cond"
    branches = [BRANCHES[name] for name in names[: 2 if two else size]]

    def choose(index, functions, *operands, cond, switch, **options):
        if two:
            return cond(index > 0, *functions, *operands, **options)
        return switch(index, functions, *operands, **options)

    def call(part, given):
        index, x = given
        return choose(index, branches, part, x, cond=linen.cond, switch=linen.switch, **options)

    def pure(variables, given):
        index, x = given

        def of(branch):
            def function(x):
                applied = _Applied(part, variables, changing)
                return branch(applied, x), applied.changed()

            return function

        return choose(index, [*map(of, branches)], x, cond=jax.lax.cond, switch=jax.lax.switch)

    lifted = outer(linen, part, call, held=held)
    indices = (0, 1) if two else range(-1, 1 + len(branches))
    _assert_same(lifted, pure, variables, model.x, changing, indices=indices)


counters = parts(("Counter", "Scale", "BatchNorm"))


@requirement(
    "transformations/equals-jax/while-loop-of-linen",
    must_reach=("by the carry", "by a variable", "held"),
)
@costly
@given(
    model=st.one_of(parts(), counters),
    train=st.booleans(),
    turns=st.integers(0, 3),
    wanted=st.booleans(),
    held=st.booleans(),
    everything=st.booleans(),
)
def test_a_loop_over_a_part_is_that_of_jax(linen, model, train, turns, wanted, held, everything):
    """`while_loop` over functions of a part, or of a module that has the part as a field, with
    collections that are carried or shared, gives the output and changed collections that
    `jax.lax.while_loop` over `apply` of the part gives.
    """
    if held:
        reached("held")
    part, variables = model.module(train=train), model.variables(boxed=False)
    changing = mutable_collections(variables, train=train)
    counted = wanted and train and holds(variables, "counts")
    reached("by a variable" if counted else "by the carry")
    limit = turns + 1.5

    def more(part, carry):
        turn, _ = carry
        if counted:  # a count is larger by 1 after each turn
            counts = getattr(part, "inner", part).variables["counts"]
            return jnp.min(jnp.stack(jax.tree.leaves(counts))) < limit
        return turn < turns

    def body(part, carry):
        turn, x = carry
        return turn + 1, part(x)

    def call(part, x):
        shared = [c for c in variables if not holds(changing, c)]
        return linen.while_loop(
            more, body, part, (0, x), carry_variables=changing, broadcast_variables=shared
        )[1]

    def pure(variables, x):
        fixed = {c: tree for c, tree in variables.items() if not holds(changing, c)}

        def applied(state):
            return _Applied(part, {**fixed, **state[0]}, changing)

        def turn(state):
            now = applied(state)
            carry = body(now, state[1])
            return now.changed(), carry

        held = {c: variables[c] for c in changing}
        changed, (_, output) = jax.lax.while_loop(
            lambda state: more(applied(state), state[1]), turn, (held, (0, x))
        )
        return output, changed

    lifted = outer(linen, part, call, held=held)
    options = {"gradients": False, "everything": everything}
    _assert_same(lifted, pure, variables, model.x, changing, **options)


@requirement("transformations/fits-rank/lifts-of-linen[add_metadata_axis]")
@given(
    model=parts(("Dense", "Mix"), ("Partitioned", "LogicallyPartitioned")),
    axis=st.sampled_from([0, 1, 2]),
    name=st.sampled_from(["layers", "stage", None]),
)
def test_an_axis_is_named_without_a_lift(linen, meta, model, axis, name):
    """`init` of a module under `add_metadata_axis` has the boxes of the module with the name added
    at the axis, in which lie the same values; `apply` sees the boxes without it.
    """
    params = {meta.PARTITION_NAME: name}
    part = model.module()
    kind = linen.add_metadata_axis(
        type(part), variable_axes={"params": axis}, metadata_params=params
    )
    module = kind(part.layers, part.width, part.train)
    plain = part.init(models.keys(), model.x)
    expected = meta.add_axis(plain, axis, params)
    made = module.init(models.keys(), model.x)
    assert alike(jax.tree.structure(dict(made)), jax.tree.structure(dict(expected)))
    assert_close(made, expected)
    assert_close(module.apply(expected, model.x), part.apply(plain, model.x))
