"""Objects that are passed to lifted functions by name: JIT-12.

The oracles are the eager call, and JAX's own gradient.
"""

import contextlib
import itertools

import jax
import jax.numpy as jnp
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import costly, options, raised, reached, requirement
from scutch.lawkit.modes import under_other_modes
from scutch.strategies.moded_calls import FLAGS

mostly = st.sampled_from([True, True, False])


BY_NAME = ("jit", "compiled", "vmap", "remat", "grad", "value_and_grad")
"""Lifts of functions that take objects by name; the compiled form is that of `jit`."""
POOL = 3
"""How many objects there are to be passed."""


def _objects(nnx, twice):
    """Objects of one class, each with a parameter, which may be in it twice, and a count."""
    made = []
    for number in range(POOL):
        node = graphs.classes(nnx)["Node"]()
        node.a = nnx.Param(jnp.arange(2.0) + number)
        node.b = nnx.BatchStat(jnp.full(2, 3.0 * number + 1))
        if twice:
            node.c = node.a
        made.append(node)
    return made


def _total(objects):
    """An array of the values of objects, whose statistics are changed."""
    total = 0.0
    for number, each in enumerate(objects):
        each.b.set_value(each.b.get_value() * 2 + each.a.get_value() * number)
        total = total + (number + 1) * each.a.get_value() ** 2 * each.b.get_value()
    return total


def _with_compiled(law):
    """A law that is tried on the compiled form and on a gradient first, in each mode."""
    for lift, mode in itertools.product(("compiled", "grad"), FLAGS):
        law = example(
            lift=lift, mode=mode, placed=[0], named={"other": 1}, twice=False, around=True
        )(law)
    return law


@requirement(
    "transformations/nothing-lost/lifts-of-objects[names]",
    must_reach=(*BY_NAME, "shared", "apart", "other modes"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@costly
@_with_compiled
@given(
    lift=st.sampled_from(BY_NAME),
    mode=st.sampled_from(FLAGS),
    placed=st.lists(st.integers(0, POOL - 1), min_size=1, max_size=2),
    named=st.dictionaries(
        st.sampled_from(["other", "model"]), st.integers(0, POOL - 1), min_size=1
    ),
    twice=st.booleans(),
    around=mostly,
)
def test_objects_by_name_take_part_in_every_mode(
    transforms, nnx, lift, mode, placed, named, twice, around
):
    """In every mode, a lifted function takes objects by position and by name.

    The modes are `graph=False` and `graph_updates=False`. The function and its compiled form change
    the objects and return results as the eager call does; gradients are for the first argument. An
    object that is passed twice may be refused with `graph=False`, or by `grad` if it is also the
    first argument. With `graph=False`, an object that holds a variable twice may be refused, too.
    Other modes that are set around the call change nothing for a lift that is given both.
    """
    if around:
        reached("other modes")
        mode = {"graph": True, "graph_updates": True, **mode}
    chosen = [*placed, *named.values()]
    shared = len({*chosen}) < len(chosen)
    reached("shared" if shared else "apart")
    refusable = (shared or twice) and not mode.get("graph", True)
    refusable = refusable or ("grad" in lift and chosen.count(chosen[0]) > 1)

    def work(*objects, **others):
        total = _total([*objects, *(others[name] for name in sorted(others))])
        return total.sum() if "grad" in lift else total

    def made(function, pool):
        return function(*(pool[n] for n in placed), **{name: pool[n] for name, n in named.items()})

    def by_lift(pool):
        if lift == "compiled":
            return made(made(transforms.jit(work, **mode).lower, pool).compile(), pool)
        return made(getattr(transforms, lift)(work, **mode), pool)

    def loss(parameter):
        pool = _objects(nnx, twice)
        pool[placed[0]].a.set_value(parameter)
        return made(work, pool)

    eager, lifted = _objects(nnx, twice), _objects(nnx, twice)
    expected = made(work, eager)
    results = []
    with under_other_modes(nnx, **mode) if around else contextlib.nullcontext():
        error = raised(lambda: results.append(by_lift(lifted)))
    if error is not None and refusable:
        return
    if error is not None:
        raise error
    found = results[0]
    if lift in ("grad", "value_and_grad"):
        value, found = (expected, found) if lift == "grad" else found
        assert alike(value, expected)
        expected = jax.grad(loss)(_objects(nnx, twice)[placed[0]].a.get_value())
        found = found.a.get_value()
    assert alike(jnp.asarray(found), jnp.asarray(expected)), f"{found}, expected {expected}"
    different = graphs.differences(nnx, eager, lifted)
    assert not different, f"eager and lifted: {different}"
