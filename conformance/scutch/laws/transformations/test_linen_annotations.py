"""Logical names that lie beside the variables: LIN-2a (`002_`).

The oracles are the names that were given, and the module without them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.keys import small_key
from scutch.lawkit.equality import alike, assert_close
from scutch.lawkit.marks import costly, requirement

FORMS = ("alone", "scan", "vmap")
axis_names = st.permutations(["embed", "mlp", None]).map(lambda names: tuple(names[:2]))


def _kernel(linen, module, collection, names):
    """A parameter or variable of a module, with names beside it or without any."""
    if collection == "params" and names is None:
        return module.param("kernel", linen.initializers.normal(), (2, 2))
    if collection == "params":
        return linen.param_with_axes("kernel", linen.initializers.normal(), (2, 2), axes=names)
    if names is None:
        return module.variable(collection, "kernel", jnp.ones, (2, 2)).value
    return linen.variable_with_axes(collection, "kernel", jnp.ones, (2, 2), axes=names).value


def _holder(linen, collection, names, inner):
    """A class of modules with that variable, in itself or in a part."""

    class Leaf(linen.Module):
        @linen.compact
        def __call__(self, x):
            return x @ _kernel(linen, self, collection, names)

    class Holder(linen.Module):
        @linen.compact
        def __call__(self, x):
            return Leaf(name="leaf")(x)

    return Holder if inner else Leaf


def _lifted(linen, form, Module, collection, axis, names):
    """A class of modules, alone or under a lift that adds an axis, which has a name or none."""
    options = {"variable_axes": {collection: axis}, "split_rngs": {"params": True}}
    mapped = {**options, "in_axes": None, "axis_size": 3}

    class Step(linen.Module):
        @linen.compact
        def __call__(self, x, _):
            return Module(name="body")(x), None

    match form, names:
        case "alone", _:
            return Module
        case "vmap", None:
            return linen.vmap(Module, **mapped)
        case "vmap", _:
            added = {"partitioning_axis_names": {collection: "layers"}}
            return linen.vmap_with_axes(Module, **mapped, **added)
        case _, None:
            return linen.scan(Step, **options, length=3)
    added = {"axis_name": "layers", "axes_collections": (collection,)}
    return linen.scan_with_axes(Step, **options, length=3, **added)


def _part_of_another(linen, lifted):
    """A class of modules that lift another one, and call it, in a method of their own."""

    class Outer(linen.Module):
        @linen.compact
        def __call__(self, *given):
            return lifted()(name="part")(*given)

    return Outer


@requirement(
    "transformations/fits-rank/lifts-of-linen",
    must_reach=(*FORMS, "variable", "inner", "outer"),
)
@costly
@given(
    names=axis_names,
    form=st.sampled_from(FORMS),
    axis=st.integers(0, 2),
    variable=st.booleans(),
    inner=st.booleans(),
    outer=st.booleans(),
    seed=st.integers(0, 9),
)
def test_names_beside_a_variable_have_one_name_per_axis(
    linen, names, form, axis, variable, inner, outer, seed
):
    """`get_axis_names` gives the names of `param_with_axes` and `variable_with_axes`, as the specs
    of the variables; a lift with its name among them adds it at the axis of the variables, also
    inside a method of another module. The variables are those that the module has without names.
    """
    collection = "moving" if variable else "params"

    x = np.ones((1, 2), "float32")
    given = (x, None) if form == "scan" else (x,)

    def module(names):
        held = _holder(linen, collection, names, inner)

        def lifted():
            return _lifted(linen, form, held, collection, axis, names)

        return _part_of_another(linen, lifted)() if outer else lifted()()

    named, plain = module(names), module(None)
    variables, expected = (each.init(small_key(seed), *given) for each in (named, plain))
    beside_it = variables[f"{collection}_axes"]
    assert_close({name: variables[name] for name in expected}, expected)
    specs = jax.tree.leaves(
        linen.get_axis_names(beside_it), is_leaf=lambda n: isinstance(n, jax.sharding.PartitionSpec)
    )
    whole = [*names[:axis], "layers", *names[axis:]] if form != "alone" else names
    assert alike([tuple(spec) for spec in specs], [tuple(whole)])
    assert_close(named.apply(variables, *given), plain.apply(expected, *given))
