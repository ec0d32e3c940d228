"""Jitted calls keep no object alive: JIT-3."""

import contextlib
import gc
import weakref

import jax.numpy as jnp
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.inputs.programs import inputs
from scutch.lawkit.marks import costly, requirement

PARTS = ("variable", "array", "list", "itself", "the other")


@contextlib.contextmanager
def new_objects_collected():
    """Collect garbage at the end, among the objects made inside the context only.

    A collection over all older objects of JAX and of the laws would take a second.
    """
    gc.freeze()
    try:
        yield
        gc.collect()
    finally:
        gc.unfreeze()


@requirement("transformations/traced-once/jit-of-objects[memory]", must_reach=(*PARTS, "lives_on"))
@costly
@given(
    parts=st.lists(st.sampled_from(PARTS), min_size=1, unique=True),
    lives_on=st.booleans(),
    adds=st.booleans(),
)
@example(parts=["array", "itself"], lives_on=True, adds=False)
@example(parts=["variable", "list", "the other"], lives_on=True, adds=True)
def test_calls_keep_no_object_alive(transforms, nnx, parts, lives_on, adds):
    """Objects that only a jitted call was given are garbage collected after it, though the jitted
    function lives on, and another object that it was given beside them.
    """

    def made():
        module = graphs.classes(nnx)["Node"]()
        module.a = nnx.Param(inputs(0)[0])
        return module

    def work(first, module, arrays):
        first.a.set_value(first.a.get_value() + arrays[1])
        if adds:
            module.b = graphs.classes(nnx)["Count"](arrays[0])
        return module

    jitted, alive, other = transforms.jit(work), [], made()
    with new_objects_collected():
        for call in range(3):
            module, first = made(), other if lives_on else made()
            fill = {
                "variable": nnx.Param(inputs(1)[1]),
                "array": jnp.ones(2),
                "list": nnx.List([nnx.Param(jnp.ones(2))]),
                "itself": module,
                "the other": first,
            }
            for number, part in enumerate(parts):
                setattr(module, f"part_{number}", fill[part])
            jitted(first, module, inputs(call))
            alive += [weakref.ref(module), *[weakref.ref(first)] * (not lives_on)]
        del module, first, fill
    kept = sum(reference() is not None for reference in alive)
    assert kept == 0, f"{kept} of {len(alive)} objects are kept alive"
