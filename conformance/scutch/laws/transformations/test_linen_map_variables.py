"""Mapped variables of Linen modules are JAX's: LIN-9s to LIN-9w (`002_`).

A generated model is the part of a module, which calls it with other variables. The oracle is
`apply` of the part to variables that were mapped before.
"""

import jax
import jax.numpy as jnp
from hypothesis import given
from hypothesis import strategies as st

from scutch.engine.carriers.linen import COLLECTIONS
from scutch.inputs import models
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import at_least, costly, raised, reached, refused, requirement
from scutch.lawkit.parts import mutable_collections, weighted_gradients, within
from scutch.lawkit.tolerances import GRADIENTS
from scutch.strategies import parts

MAPS = {
    "negated": (lambda tree: jax.tree.map(lambda leaf: -leaf, tree),) * 2,
    "doubled": (
        lambda tree: jax.tree.map(lambda leaf: 2 * leaf, tree),
        lambda tree: jax.tree.map(lambda leaf: leaf / 2, tree),
    ),
    "transposed": (lambda tree: jax.tree.map(jnp.transpose, tree),) * 2,
    "stacked": (
        lambda tree: jax.tree.map(lambda leaf: leaf[0], tree),
        lambda tree: jax.tree.map(lambda leaf: leaf[None], tree),
    ),
}
"""Pairs of a function that maps collections for a module, and its inverse."""

REST = "all but params"
"""Stands for a deny list."""
MAPPED = ("params", ["params", "batch_stats"], True, "counts")
"""Filters of the collections that are mapped."""


drawn = {
    "model": parts(),
    "how": st.sampled_from(list(MAPS)),
    "wanted": st.sampled_from(MAPPED),
    "where": st.sampled_from(["outside", "inside"]),
}


def _names(wanted):
    """The collections that a filter takes."""
    if wanted is True:
        return COLLECTIONS
    if alike(wanted, REST):
        return COLLECTIONS[1:]
    return [wanted] if isinstance(wanted, str) else wanted


class _Mapped:
    """A part that computes with mapped variables, alone or as a part of another module."""

    def __init__(self, linen, part, how, wanted, where, init, *, mutable=True, by_name=False):
        self.part, self.alone = part, alike(where, "outside")
        self.names, self.by_name = _names(wanted), by_name
        self.into, self.out = MAPS[how]
        wanted = linen.DenyList("params") if alike(wanted, REST) else wanted
        given = {"mapped_collections": wanted, "init": init, "mutable": mutable}
        default = {"mapped_collections": True, "init": False, "mutable": False}
        options = {name: value for name, value in given.items() if not alike(value, default[name])}
        functions = {"trans_in_fn": self.into, "trans_out_fn": self.out}
        kind = linen.map_variables(type(part), **functions, **options)

        class Outer(linen.Module):
            @linen.compact
            def __call__(self, x):
                lifted = kind(part.layers, part.width, part.train, name="part")
                return lifted(x=x) if by_name else lifted(x)

        self.module = kind(part.layers, part.width, part.train) if self.alone else Outer()

    def mapped(self, function, tree):
        """Collections, with the function applied to those that the filter takes."""
        return {c: function(each) if holds(self.names, c) else each for c, each in tree.items()}

    def of_part(self, tree):
        """The collections of the part, from the collections of the module."""
        return {c: each if self.alone else each["part"] for c, each in tree.items()}

    def apply(self, variables, x, changing):
        """`apply` of the module, to variables of the part."""
        held = variables if self.alone else within(variables)
        args, kwargs = ((), {"x": x}) if self.by_name else ((x,), {})
        found = self.module.apply(held, *args, mutable=changing, **kwargs)
        output, updates = (found, {}) if changing is False else found
        return output, self.of_part(updates)

    def init(self, keys, x):
        """`init` of the module: variables of the part."""
        made = self.module.init(keys, x=x) if self.by_name else self.module.init(keys, x)
        return self.of_part(made)

    def pure(self, variables, x, changing):
        """`apply` of the part to mapped variables; the changed collections are mapped back."""
        found = self.part.apply(self.mapped(self.into, variables), x, mutable=changing)
        output, updates = (found, {}) if changing is False else found
        return output, self.mapped(self.out, dict(updates))


def _assert_mapped(linen, model, train, how, wanted, where, *, init, by_name=False):
    """Fail unless both routes have the same outputs, changed collections and gradients."""
    part, variables = model.module(train=train), model.variables(boxed=False)
    changing = mutable_collections(variables, train=train)
    both = _Mapped(linen, part, how, wanted, where, init, by_name=by_name)
    held = both.mapped(both.out, variables)

    def seen(route):
        return weighted_gradients(
            lambda params, x: route({**held, "params": params}, x, changing),
            held.get("params", {}),
            model.x,
        )

    if init and raised(lambda: jax.eval_shape(lambda: seen(both.apply))) is not None:
        return
    found, expected = jax.jit(lambda: [seen(both.apply), seen(both.pure)])()
    assert_close(found, expected, **GRADIENTS)


@requirement("transformations/equals-jax/map-variables-of-linen", must_reach=("outside", "inside"))
@costly
@given(train=st.booleans(), by_name=st.booleans(), **drawn)
def test_a_module_computes_with_mapped_variables(linen, train, model, how, wanted, where, by_name):
    """`apply` under `map_variables` equals `apply` of the unlifted module on mapped variables.

    Outputs, gradients and changed collections agree, once the collections are mapped back. The
    module is called alone or as a part of another one.
    """
    reached(where)
    _assert_mapped(linen, model, train, how, wanted, where, init=False, by_name=by_name)


@requirement(
    "transformations/equals-jax/map-variables-of-linen[init]", must_reach=("outside", "inside")
)
@costly
@at_least(15)
@given(**{**drawn, "model": parts(("Dense", "BatchNorm", "Counter", "Counter", "Counter"))})
def test_mapped_variables_are_made_by_init(linen, model, how, wanted, where):
    """`init` under `map_variables` gives the module's variables, mapped back by `trans_out_fn`.

    The lift has `init=True`. With these variables, `apply` gives the output of the unlifted module
    on the mapped ones, for each spelling of `mutable` under which nothing may change.
    """
    reached(where)
    both = _Mapped(linen, model.module(), how, wanted, where, True, by_name=alike(how, "doubled"))
    made = jax.jit(both.init)(models.keys(), model.x)
    plain = jax.eval_shape(both.part.init, models.keys(), model.x)
    expected = jax.eval_shape(lambda tree: both.mapped(both.out, dict(tree)), plain)
    assert alike(jax.tree.map(jnp.shape, made), jax.tree.map(jnp.shape, expected))
    none_may = False, [], linen.DenyList(True)
    *found, computed = jax.jit(
        lambda made, x: [
            *[both.apply(made, x, mutable)[0] for mutable in none_may],
            both.pure(made, x, False)[0],
        ]
    )(made, model.x)
    for each in found:
        assert_close(each, computed, **GRADIENTS)


@requirement("transformations/equals-jax/map-variables-of-linen[init-in-apply]")
@costly
@given(**drawn)
def test_a_module_that_makes_mapped_variables_is_trained(linen, model, how, wanted, where):
    """`map_variables` with `init=True` trains as the unlifted module does, or the call is refused.

    Statistics and counts change, and other variables do not.
    """
    _assert_mapped(linen, model, True, how, wanted, where, init=True)


@requirement(
    "transformations/refuses/map-variables-of-linen[immutable]", must_reach=("outside", "inside")
)
@costly
@given(
    model=parts(("Counter", "BatchNorm")),
    how=drawn["how"],
    init=st.booleans(),
    wanted=st.sampled_from([["counts", "batch_stats"], True, REST]),
    where=drawn["where"],
)
def test_mapped_variables_change_only_where_it_is_asked_for(linen, model, how, init, wanted, where):
    """A module under `map_variables` without `mutable` that changes a mapped collection is refused,
    also where it may make variables in `init`; where it changes none, it is applied.
    """
    for train in (True, False):
        part = model.module(train=train)
        both = _Mapped(linen, part, how, wanted, where, init=False, mutable=False)
        variables = both.mapped(both.out, model.variables(boxed=False))
        changing = mutable_collections(variables, train=True)

        def applied(both=both, variables=variables, changing=changing):
            return jax.eval_shape(lambda v: both.apply(v, model.x, changing), variables)

        if train:
            refused(applied)
        else:
            applied()
