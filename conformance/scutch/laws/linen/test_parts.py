"""Modules that are passed in as parts: LIN-1m (`002_`)."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.keys import small_key
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.marks import reached, requirement

X = np.ones((2, 3), "float32")


HELD = ("fields", "tuple", "dict")
"""How a module holds its parts: one in each field, or all in a container in one field."""
GOT = ("made", "clone", "copy", "changed clone", "changed copy", "unbound", "of bound parts")
"""How a module is got that holds parts, and is not bound."""


def _classes(linen):
    """A class of parts with a parameter, and one of modules that call the part in a field."""

    class Part(linen.Module):
        @linen.compact
        def __call__(self, x):
            return x * self.param("w", linen.initializers.ones, (3,))

    class Around(linen.Module):
        inner: Any

        def __call__(self, x):
            return self.inner(x)

    return Part, Around


def _nested(value, depth, wrap):
    """The value, put into so many others."""
    return functools.reduce(lambda inner, _: wrap(inner), range(depth), value)


class _Places(NamedTuple):
    """The places of a module for parts.

    Args:
      chosen: The part in each place.
      depths: How many modules are around the part in each place; there may be more of them.
      held: How the module holds the parts, one of `HELD`.
    """

    chosen: tuple[int, ...]
    depths: tuple[int, ...]
    held: str

    @property
    def names(self):
        return [f"part_{n}" for n in range(len(self.chosen))]

    def fields(self, parts, wrap):
        """The values of the fields of a module that has these parts in its places."""
        placed = {
            name: _nested(parts[k], depth, wrap)
            for name, k, depth in zip(self.names, self.chosen, self.depths, strict=False)
        }
        if alike(self.held, "fields"):
            return placed
        by_key = {name[5:]: part for name, part in placed.items()}
        return {"part": tuple(by_key.values()) if alike(self.held, "tuple") else by_key}

    def first(self, made):
        """Each part with its first place; of a part at several depths it may be any of them.

        Args:
          made: The parameters that `init` makes.

        Yields:
          The numbers of the part and of the place.
        """
        for k in sorted({*self.chosen}):
            own = [place for place, part in enumerate(self.chosen) if alike(part, k)]
            if len({self.depths[place] for place in own}) > 1:
                own = [place for place in own if holds(made, self.names[place])] or own
            yield k, own[0]


def _variables(places, place_of, more=0):
    """A number for each part, under its place, nested as deep as the part."""
    made = {}
    for k, place in place_of.items():
        value = {"w": np.full(3, k + more, "float32")}
        nested = _nested(value, places.depths[place], lambda inner: {"inner": inner})
        made[places.names[place]] = nested
    return {"params": made}


def _whole(linen, places, setup):
    """A class of modules that sum up the outputs of the parts in their places.

    The method `backwards` calls them in the other order.
    """

    def summed(self, x, step):
        parts = {
            "fields": lambda: [getattr(self, name) for name in places.names],
            "tuple": lambda: self.part,
            "dict": lambda: [self.part[name[5:]] for name in places.names],
        }[places.held]()
        return sum(100**n * part(x) for n, part in list(enumerate(parts))[::step])

    def call(self, x):
        return summed(self, x, 1)

    body = {"__module__": __name__, "__call__": call if setup else linen.compact(call)}
    body["backwards"] = lambda self, x: summed(self, x, -1)
    if setup:
        body["setup"] = lambda self: setattr(self, "beside", linen.Dense(2))
    fields = dict.fromkeys(places.names if places.held == "fields" else ["part"], Any)
    return type("Whole", (linen.Module,), {**body, "__annotations__": fields})


@requirement("linen/parts/passed-module-is-part", must_reach=("shared", "shared deep", *HELD, *GOT))
@given(
    chosen=st.lists(st.integers(0, 2), min_size=2, max_size=4),
    held=st.sampled_from(HELD),
    depths=st.lists(st.sampled_from([0, 0, 1, 2]), min_size=4, max_size=4),
    got=st.sampled_from(GOT),
    setup=st.booleans(),
    bind=st.booleans(),
    called=st.booleans(),
)
def test_a_module_that_is_passed_in_is_a_part(
    linen, chosen, held, depths, got, setup, bind, called
):
    """A module in a field, or in a container in a field, is a part of the module with the field.

    So is a module in a field of such a part. `init` makes the part's variables under its path, once
    for a part at several paths, and `apply` reads them there, whichever path is used first. This
    also holds for a clone, a copy or an unbound module of a module that is bound to other
    variables, and for a part that was itself bound to others.
    """
    if len({*chosen}) < len([*chosen]):
        reached("shared")
    if len({*zip(chosen, depths, strict=False)}) > len({*chosen}):
        reached("shared deep")
    Part, Around = _classes(linen)
    places = _Places(tuple(chosen), tuple(depths), held)
    Whole = _whole(linen, places, setup)

    def holding(parts):
        return places.fields(parts, Around)

    def bound(held):
        """The whole, bound to variables, and called or not."""
        alive.append(whole.bind(held))
        if called:
            alive[-1](X)
        return alive[-1]

    made = jax.eval_shape(Whole(**holding([Part() for _ in range(3)])).init, small_key(0), X)
    variables = functools.partial(_variables, places, dict(places.first(made["params"])))
    alive = []  # Parts may refer to a bound module weakly.
    whole = Whole(**holding([Part() for _ in range(3)]))
    if got.startswith("changed"):
        same = Whole(**holding([Part()] * 3))
        whole = getattr(same, got.split()[1])(**holding([Part() for _ in range(3)]))
    elif got == "unbound":
        whole, given_back = bound(variables()).unbind()
        assert alike(given_back, variables())
    elif got == "of bound parts":
        apart = [Part().bind({"params": {"w": np.full(3, 7 + k, "float32")}}) for k in range(3)]
        whole = Whole(**holding(apart))
    elif got != "made":
        whole = getattr(bound(variables(5)), got)()
    made = jax.eval_shape(whole.init, small_key(0), X)
    assert alike(jax.tree.map(jnp.shape, made), jax.tree.map(jnp.shape, variables()))
    expected = sum(100**n * (1 + k) * X for n, k in enumerate(chosen))
    output = whole.bind(variables(1))(X) if bind else whole.apply(variables(1), X)
    assert alike(np.asarray(output), expected)
    if bind:
        output = whole.bind(variables(1)).backwards(X)
    else:
        output = whole.apply(variables(1), X, method="backwards")
    assert alike(np.asarray(output), expected), "the parts are called in the other order"
