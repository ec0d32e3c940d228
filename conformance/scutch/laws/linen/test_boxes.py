"""Boxes that store other forms, and boxes of assigned variables: LIN-1n, 1o, 2h, 8n (`002_`).

A box of the first sort has a leaf of another shape than its unboxed value; see
`scutch.inputs.stored_boxes`. The oracles are the value that was boxed, the same module whose
parameters are not boxed, and the methods of each box. One law is about the error for a shape that
does not fit.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.keys import small_key
from scutch.inputs.stored_boxes import STORED, stored, trailing
from scutch.lawkit.boxes import outermost
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, assert_close, plain_text
from scutch.lawkit.marks import costly, reached, refused, requirement
from scutch.lawkit.tolerances import CALLS
from scutch.strategies import any_boxes, arrays, trees
from scutch.strategies.names import numbered_names

floats = arrays(dtypes=("float32",), max_rank=3)
forms = st.sampled_from(STORED)
FITS = ("fits", "the value does not", "what is stored does")


def _giving(linen, initializer):
    """A module that gives its parameter `k`, which the initializer makes of a key."""

    class Giving(linen.Module):
        @linen.compact
        def __call__(self):
            return self.param("k", initializer)

    return Giving()


@requirement("linen/boxes/passed-box-shape-is-unboxed", must_reach=(*STORED, *FITS))
@costly
@given(value=floats, form=forms, fits=st.sampled_from(FITS))
def test_a_parameter_that_is_passed_is_checked_without_its_box(meta, linen, value, form, fits):
    """`apply` accepts a boxed parameter if its unboxed value has the shape that is expected.

    The expected shape is that of the initializer's value. `apply` refuses a box of which only the
    stored leaf has that shape.
    """
    box = stored(meta.AxisMetadata, form)(value)
    shape = value.shape
    if fits != "fits":
        shape = (*shape, 2) if fits == "the value does not" else box.packed.shape
        assume(not alike(shape, value.shape))
    module = _giving(linen, lambda key: jnp.ones(shape))
    if fits == "fits":
        assert alike(module.apply({"params": {"k": box}}), jnp.asarray(value))
    else:
        refused(lambda: module.apply({"params": {"k": box}}))


@requirement("linen/boxes/initializer-may-store-otherwise", must_reach=STORED)
@costly
@given(value=floats, form=forms)
def test_an_initializer_may_box_in_another_form(meta, linen, value, form):
    """A parameter whose initializer boxes it in another form is made by `init` in its box, and
    given by `apply` without it, whether the variables that are passed are boxed or not.
    """
    boxed = stored(meta.AxisMetadata, form)
    module = _giving(linen, lambda key: boxed(value))
    variables = module.init(small_key(0))
    assert alike(variables, {"params": {"k": boxed(value)}})
    for each in (variables, meta.unbox(variables)):
        assert alike(module.apply(each), jnp.asarray(value))


KINDS = ("scan", "vmap")
SHAPES = ((3, 2), (2,), (2, 3, 2), (), (0, 2))


def _lifted(linen, kind, box, shape, axis):
    """A lifted module with a parameter of a shape, which a function boxes."""

    class Body(linen.Module):
        @linen.compact
        def __call__(self, carry, x):
            made = self.param("k", lambda key: box(jax.random.normal(key, shape)))
            return carry + x, made * x

    options = {"variable_axes": {"params": axis}, "split_rngs": {"params": True}}
    axes = {"in_axes": (0, 0), "out_axes": 0} if kind == "vmap" else {"in_axes": 0, "out_axes": 0}
    return getattr(linen, kind)(Body, **options, **axes)()


@requirement(
    "transformations/fits-rank/lifts-of-linen[stored-elsewhere]",
    must_reach=(*KINDS, "first", "another"),
)
@costly
@given(
    kind=st.sampled_from(KINDS),
    shape=st.sampled_from(SHAPES),
    axis=st.sampled_from([1, 1, 2, 0]),
    length=st.sampled_from([3, 2, 1]),
)
def test_a_box_may_store_the_axis_of_a_lift_elsewhere(meta, linen, kind, shape, axis, length):
    """Under a lift a box whose `add_axis` stores the new axis as the last one, and whose
    `remove_axis` puts it back, has the unboxed value that the same parameter has without a box, and
    the module computes from both alike.
    """
    assume(axis <= len(shape))
    reached("another" if axis else "first")
    xs = np.arange(1, 1 + length, dtype="float32")
    carry = np.zeros(length if kind == "vmap" else (), "float32")
    boxed, bare = (
        _lifted(linen, kind, box, shape, axis)
        for box in (trailing(meta.AxisMetadata), lambda made: made)
    )

    def run(module):
        variables = module.init(small_key(1), carry, xs)
        return meta.unbox(variables), module.apply(variables, carry, xs)

    ours, theirs = jax.jit(lambda: (run(boxed), run(bare)))()
    assert_close(ours, theirs, **CALLS)


CHANGES = {
    "one more before": lambda shape: (7, *shape),
    "one more after": lambda shape: (*shape, 7),
    "one less": lambda shape: shape[1:],
    "longer": lambda shape: tuple(size + 5 for size in shape),
}


@requirement(
    "linen/collections/misfit-variables-are-refused[message]",
    must_reach=(*CHANGES, "boxed", "not boxed"),
)
@given(
    shape=st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple),
    how=st.sampled_from(list(CHANGES)),
    boxed=st.booleans(),
    name=numbered_names("w", "scale"),
)
def test_the_refusal_of_a_shape_says_which_is_which(linen, shape, how, boxed, name):
    """The error for a parameter of another shape than its initializer gives has both shapes; where
    it speaks of the initializer, the shape that it gives comes next.
    """
    initializer, passed = linen.initializers.ones, CHANGES[how](shape)
    if boxed:
        initializer = linen.with_partitioning(initializer, (None,) * len([*shape]))

    class Holds(linen.Module):
        @linen.compact
        def __call__(self):
            return self.param(name, initializer, shape)

    def applied():
        Holds().apply({"params": {name: np.zeros(passed, "float32")}})

    text = plain_text(refused(applied, naming=(shape, passed)))
    _, _, after = text.lower().partition("initializer")
    places = [after.find(plain_text(each)) for each in (shape, passed)]
    if places[0] < 0 <= places[1] or 0 <= places[1] < places[0]:
        raise AssertionError(f"the initializer gives {shape}, and the error says: {text}")


ASSIGNED = ("a box", "boxes in a tree", "boxes and others", "no box")
"""The value of a variable that is assigned."""
small = arrays(max_rank=2)
variables_of_boxes = trees(st.one_of(any_boxes(small), any_boxes(small), small))


@requirement("linen/boxes/assigned-value-stays-boxed", must_reach=(*ASSIGNED, "another structure"))
@given(
    tree=variables_of_boxes,
    there=st.booleans(),
    fits=st.sampled_from([True, True, False]),
    by_setup=st.booleans(),
)
def test_a_variable_that_is_assigned_stays_in_its_boxes(meta, linen, tree, there, fits, by_setup):
    """A value that is assigned to a variable is in the boxes that the variable had in its places,
    by the method `replace_boxed` of each, and is read without them; one of another structure is
    read as it was assigned.
    """
    found, rebuild = outermost(meta, tree)
    is_box = [*map(meta.is_axis_metadata, found)]
    if any(is_box):
        alone = len(is_box) == 1 and found[0] is tree
        reached("a box" if alone else "boxes in a tree" if all(is_box) else "boxes and others")
    else:
        reached("no box")
    values = [np.full((n % 3, 2), n, "float32") for n in range(len(is_box))]
    value = rebuild(values) if fits else (values, np.ones(2))

    class Assigns(linen.Module):
        def setup(self):
            if by_setup:
                self.held = self.variable("kept", "w", lambda: tree)

        @linen.compact
        def __call__(self):
            held = self.held if by_setup else self.variable("kept", "w", lambda: tree)
            held.value = value
            return held.value

    given_it = {"kept": {"w": tree}} if there else {}
    read, changed = Assigns().apply(given_it, mutable=["kept"])
    assert alike(read, value)
    if not fits:
        reached("another structure")
        return
    pairs = zip(found, is_box, values, strict=True)
    boxed = rebuild([each.replace_boxed(v) if box else v for each, box, v in pairs])
    assert alike(changed["kept"]["w"], boxed)
