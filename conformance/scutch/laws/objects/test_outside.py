"""Objects from outside a transformation, which a function under it cannot change: OBJ-11.

The oracle is the object before the call.
"""

import types

import jax
import jax.numpy as jnp
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.graphs import classes, differences, nodes
from scutch.lawkit.marks import reached, refused, requirement


def _array(number):
    """A vector of two equal numbers."""
    return jnp.full(2, number, "float32")


def _held(nnx):
    """A module with a variable, a statistic, a tracked list, a tracked dict and streams."""
    module = classes(nnx)["Node"]()
    module.a, module.b = nnx.Param(_array(1), note=1), nnx.BatchStat(_array(2))
    module.c, module.d = nnx.List([nnx.Param(_array(3))]), nnx.Dict(x=nnx.Param(_array(4)))
    module.e = nnx.Rngs(0)
    return module


def _set_part(nnx, held):
    held.a[0] = 7.0


def _set_item(nnx, held):
    held.a[...] = _array(7)


def _set_attribute(nnx, held):
    held.a.value = _array(7)


def _set_element(nnx, held):
    held.c[0] = nnx.Param(_array(7))


def _set_key(nnx, held):
    held.d["y"] = nnx.Param(_array(7))


def _set_class(nnx, held):
    held.a.__class__ = nnx.BatchStat


OUTSIDE = {
    "value": lambda nnx, held: held.a.set_value(_array(7)),
    "attribute value": _set_attribute,
    "item": _set_item,
    "part": _set_part,
    "raw value": lambda nnx, held: held.a.set_raw_value(_array(7)),
    "metadata": lambda nnx, held: held.a.set_metadata(note=7),
    "all metadata": lambda nnx, held: held.a.set_metadata({"note": 7}),
    "deleted metadata": lambda nnx, held: held.a.del_metadata("note"),
    "copy_from": lambda nnx, held: held.a.copy_from(nnx.Param(_array(7))),
    "class": _set_class,
    "update": lambda nnx, held: nnx.update(
        held, nnx.from_flat_state([(("a",), nnx.Param(_array(7), note=1))])
    ),
    "new attribute": lambda nnx, held: setattr(held, "f", 7),
    "another variable": lambda nnx, held: setattr(held, "a", nnx.Param(_array(7))),
    "appended": lambda nnx, held: held.c.append(nnx.Param(_array(7))),
    "element": _set_element,
    "key": _set_key,
    "stream": lambda nnx, held: held.e(),
}
"""Ways to change an object, all of which a function under a transformation might use on one that it
was not given."""


def _delete_key(nnx, held):
    del held.d["x"]


def _delete_element(nnx, held):
    del held.c[0]


DELETED = {
    "attribute": lambda nnx, held: delattr(held, "b"),
    "key": _delete_key,
    "element": _delete_element,
    "popped": lambda nnx, held: nnx.pop(held, nnx.BatchStat),
}
LEVELS = {
    "jit": lambda transforms, function: jax.jit(function)(1.0),
    "vmap": lambda transforms, function: jax.vmap(function)(jnp.ones(2)),
    "grad": lambda transforms, function: jax.grad(function)(1.0),
    "scan": lambda transforms, function: jax.lax.scan(
        lambda carry, x: (carry, function(x)), None, jnp.ones(2)
    ),
    "lifted jit": lambda transforms, function: transforms.jit(function)(1.0),
}


def _refuses_change(transforms, nnx, change, level, lift=lambda function: function, *, alone=False):
    """Fail unless a transformation refuses a change of an object that was made outside of it.

    The object must be unchanged afterwards.

    Args:
      transforms: The namespace of lifted transformations.
      nnx: The namespace of objects.
      change: A function of both.
      level: A key of `LEVELS`: the transformation.
      lift: Applied, inside the transformation, to the function that takes the object.
      alone: Whether that function is given only the variable `a` of the object.
    """
    reached(level)
    held, before = _held(nnx), _held(nnx)
    pairs = list(zip(nodes(nnx, before), nodes(nnx, held), strict=True))

    def changing(given):
        change(nnx, types.SimpleNamespace(a=given) if alone else given)
        return jnp.zeros(())

    def function(x):
        return x + lift(changing)(held.a if alone else held)

    refused(lambda: LEVELS[level](transforms, function))
    difference = differences(nnx, before, held, pairs)
    assert not difference, f"before and after: {difference}"


levels = st.sampled_from(list(LEVELS))


def _each(ways, **others):
    """Have a law tried on each way once before others are drawn: there are too many to draw all."""

    def marked(law):
        for way in reversed(list(ways)):
            law = example(way=way, level="jit", **others)(law)
        return law

    return marked


@requirement("objects/variables/outside-objects-stay-unchanged", must_reach=(*OUTSIDE, *LEVELS))
@_each(OUTSIDE)
@given(way=st.sampled_from(list(OUTSIDE)), level=levels)
def test_nothing_from_outside_a_transformation_is_changed_in_it(transforms, nnx, way, level):
    """A function under a transformation cannot change a variable, an object or a stream that was
    made outside and that it was not given: it is an error, and all is as before.
    """
    _refuses_change(transforms, nnx, OUTSIDE[way], level)


@requirement("objects/variables/outside-attributes-stay", must_reach=(*DELETED, *LEVELS))
@given(way=st.sampled_from(list(DELETED)), level=levels)
def test_nothing_from_outside_a_transformation_is_deleted_in_it(transforms, nnx, way, level):
    """Nor can it delete an attribute, an element or a key of such an object, or pop variables."""
    _refuses_change(transforms, nnx, DELETED[way], level)


THROUGH = ("jit", "remat")
ALONE = {"value of a variable alone": "value", "metadata of a variable alone": "metadata"}
"""Ways where the lifted function is given only the variable, which is all that it changes."""


@requirement(
    "objects/variables/refused-call-keeps-attributes",
    must_reach=(*OUTSIDE, *DELETED, *ALONE, *THROUGH),
)
@_each([*OUTSIDE, *DELETED, *ALONE], through="jit")
@given(
    way=st.sampled_from([*OUTSIDE, *DELETED, *ALONE]),
    level=levels,
    through=st.sampled_from(THROUGH),
)
def test_a_lifted_call_that_cannot_change_an_object_leaves_it_alone(
    transforms, nnx, way, level, through
):
    """Inside a transformation, a lifted function that changes an object of the outside, or a
    variable, which it is given, is refused; the object is as before.
    """
    change = {**OUTSIDE, **DELETED}[ALONE.get(way, way)]
    lift = getattr(transforms, through)
    _refuses_change(transforms, nnx, change, level, lift, alone=way in ALONE)
