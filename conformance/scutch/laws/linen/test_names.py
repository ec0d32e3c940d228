"""Names of modules and of their variables: LIN-1 (`002_`)."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.keys import small_key
from scutch.lawkit.equality import alike, alike_in_any_order
from scutch.lawkit.marks import refused, requirement
from scutch.strategies import models as drawn_models
from scutch.strategies.models import layers
from scutch.strategies.names import numbered_names


@requirement("linen/names/unnamed-parts-are-numbered")
@given(model=st.one_of(*[drawn_models(of, max_size=4) for of in (layers(), layers(("Shift",)))]))
def test_parts_are_named_by_class_and_count(model):
    """The variables of a compact module stand under the class of their part and its count, such as
    `Dense_0`, or under the name that the part was given.
    """
    found = jax.eval_shape(model.initialized)
    paths = {
        tuple(str(key.key) for key in path)
        for path, _ in jax.tree_util.tree_flatten_with_path(
            found, is_leaf=model.meta.is_axis_metadata
        )[0]
    }
    assert alike_in_any_order(paths, model.declared_variables())


PLACES = ("compact", "setup", "list", "dict", "field")


@requirement("linen/names/unnamed-parts-are-numbered", must_reach=PLACES)
@given(
    place=st.sampled_from(PLACES),
    names=st.lists(st.sampled_from("abc"), min_size=1, unique=True),
    given_name=st.booleans(),
)
def test_a_part_knows_the_name_of_its_variables(linen, place, names, given_name):
    """The `name` of each part is the key under which its variables stand, in a compact method, in
    `setup`, there also in lists and dictionaries, and in a field.
    """

    class Part(linen.Module):
        @linen.compact
        def __call__(self, x):
            return x + self.param("w", linen.initializers.ones, ())

    def part(number):
        """A part to be, the first of them perhaps with a name of its own."""
        return Part(**({"name": "own"} if given_name and not number else {}))

    found = []

    def set_up(self):
        for number, name in enumerate(names):
            setattr(self, name, part(number))
        match place:
            case "list":
                self.parts = [Part() for _ in names]
            case "dict":
                self.parts = {name: Part() for name in names}

    def call(self, x):
        if place == "compact":
            parts = [part(number) for number in range(len(names))]
        else:
            parts = [getattr(self, name) for name in names]
        if place in ("list", "dict"):
            parts += self.parts if place == "list" else self.parts.values()
        for each in parts:
            x = each(x)
            found.append(each.name)
        return x

    members = {"__module__": __name__, "__call__": call}
    if place == "compact":
        members["__call__"] = linen.compact(call)
    elif place == "field":
        members |= {"__annotations__": dict.fromkeys(names, linen.Module)}
    else:
        members["setup"] = set_up
    fields = {name: Part() for name in names} if place == "field" else {}
    whole = type("Whole", (linen.Module,), members)(**fields)
    variables = jax.eval_shape(whole.init, small_key(0), 1.0)
    assert alike_in_any_order(found, variables["params"])


NAMED = ("none", "jit", "remat", "vmap")


@requirement("linen/names/unnamed-parts-are-numbered", must_reach=NAMED)
@given(
    lift=st.sampled_from(NAMED),
    classes=st.lists(st.sampled_from("AB"), min_size=2, max_size=4),
    named=st.integers(0, 4),
)
def test_parts_of_another_class_shift_no_number(linen, lift, classes, named):
    """The parts of one class have the names that they have without the parts of another class,
    lifted or not; a part that has a name of its own shifts no number either.
    """
    shared = {"variable_axes": {"params": None}, "split_rngs": {"params": False}}
    options = shared if lift == "vmap" else {}

    def part_of(cls):
        def call(self, x):
            return x + self.param("w", linen.initializers.ones, ())

        made = type(cls, (linen.Module,), {"__module__": __name__, "__call__": linen.compact(call)})
        return made if lift == "none" else getattr(linen, lift)(made, **options)

    parts = {cls: part_of(cls) for cls in "AB"}

    def names(chosen, named=None):
        """The names of the parts of the classes, in their order; one of them is given."""
        found = []

        class Whole(linen.Module):
            @linen.compact
            def __call__(self, x):
                for n, cls in enumerate(chosen):
                    part = parts[cls](**({"name": "own"} if alike(n, named) else {}))
                    x = part(x)
                    found.append(part.name)
                return x

        jax.eval_shape(Whole().init, small_key(0), np.ones(2))
        return found

    every = names(classes, named)
    for cls in "AB":
        places = [n for n, each in enumerate(classes) if alike(each, cls) and n != named]
        ours, alone = [every[n] for n in places], names([cls] * len(places))
        assert alike(ours, alone), f"they are {ours}; alone they are {alone}"


PAIRS = (
    "param param",
    "variable variable",
    "param module",
    "module module",
    "variable module",
    "field param",
    "field variable",
    "field module",
)
"""Two things with one name. A field holds a module, which has the name of the field."""


@requirement("linen/names/second-name-is-refused", must_reach=PAIRS)
@given(pair=st.sampled_from(PAIRS), name=numbered_names("weight", "W", "inner_part"))
def test_one_name_for_two_things_is_refused(linen, pair, name):
    """A name that is given to two variables of a collection, to two sub-modules, or to a variable
    and a sub-module raises an error.
    """
    refused(lambda: _twofold(linen, pair, name)().init(small_key(0), np.ones((2, 2))))


@requirement("linen/names/second-name-is-refused[message]", must_reach=PAIRS)
@given(pair=st.sampled_from(PAIRS), name=numbered_names("weight", "W", "inner_part"))
def test_the_refusal_of_a_second_name_has_the_name(linen, pair, name):
    """The error for a name that is given twice has the name in its message."""
    twofold = _twofold(linen, pair, name)()
    refused(lambda: twofold.init(small_key(0), np.ones((2, 2))), naming=(name,))


def _twofold(linen, pair, name):
    """A class of modules that gives one name to two things, of the kinds in `pair`."""

    held = {"__module__": __name__}
    if "field" in pair:
        held |= {"__annotations__": {name: linen.Module}, name: linen.Dense(2)}
    base = type("Held", (linen.Module,), held)

    class Twofold(base):
        @linen.compact
        def __call__(self, x):
            for kind in pair.split():
                if kind == "field":
                    x = getattr(self, name)(x)
                elif kind == "param":
                    x = x + self.param(name, linen.initializers.zeros, ())
                elif kind == "variable":
                    x = x + self.variable("cache", name, jnp.zeros, ()).value
                else:
                    x = linen.Dense(2, name=name)(x)
            return x

    return Twofold
