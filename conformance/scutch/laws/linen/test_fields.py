"""A user's class of modules as a Python class, with fields and properties: LIN-1w, LIN-1z.

A class of modules is a dataclass, whose fields are the parameters of its constructor, and it may
have properties. The oracle is Python: `dataclasses.dataclass` of a class with the same fields, and
the value that a getter computes.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.keys import small_key
from scutch.lawkit.equality import alike, plain_text, says_equal
from scutch.lawkit.marks import raised, reached, refused, requirement
from scutch.strategies.names import numbered_names

FIELDS = ("a", "b", "c", "d")
each_field = st.lists(st.booleans(), min_size=4, max_size=4)
"""One answer for each field."""


def _values(one):
    return [getattr(one, name) for name in FIELDS]


@requirement(
    "linen/fields/kw-only-fields",
    must_reach=("accepted", "refused", "by position", "own hash", "left out", "made by setup"),
)
@given(
    inherited=st.integers(1, 3),
    by_name=st.sampled_from([(True, True), (True, False), (False, True)]),
    has_default=each_field,
    left_out=each_field,
    positions=st.sampled_from([0, 0, 1, 2]),
    number=st.integers(1, 9),
    own_hash=st.booleans(),
    made_in=st.sampled_from([0, 1, 2]),
)
def test_fields_may_be_passed_by_name_alone(
    linen, inherited, by_name, has_default, left_out, positions, number, own_hash, made_in
):
    """A class of modules with `kw_only=True`, a subclass of another one or the base of one, takes
    the fields that a dataclass of the same options takes; its modules are equal, and hash alike,
    where the fields are, and a clone may have others, and is then unequal. A field that the
    constructor does not take, which `setup` makes, is not compared.
    """
    defaults = [name for name, told in zip(FIELDS, has_default, strict=True) if told]
    added = FIELDS[:inherited], FIELDS[inherited:]
    open_to_positions = [
        name for names, alone in zip(added, by_name, strict=True) if not alone for name in names
    ]

    def set_up(self):
        self.made = 10 * number

    def total(self, x):
        more = self.made if made_in < 2 and isinstance(self, linen.Module) else 0
        return more + x + sum(10**n * getattr(self, name) for n, name in enumerate(FIELDS))

    def made(base):
        """The class that adds its fields to those of a class that adds some to the base."""
        for place, (names, alone) in enumerate(zip(added, by_name, strict=True)):
            body = {"__module__": __name__, "__annotations__": dict.fromkeys(names, int)}
            if place == made_in:
                body["__annotations__"]["made"] = int
                body |= {"made": dataclasses.field(init=False), "setup": set_up}
            body |= {name: 7 for name in names if name in defaults} | {"__call__": total}
            body |= {"__hash__": lambda self: number} if own_hash else {}
            if issubclass(base, linen.Module):
                base = type("Ours", (base,), body, **({"kw_only": True} if alone else {}))
            else:
                base = dataclasses.dataclass(type("Plain", (base,), body), kw_only=alone)
        return base

    def one_of(base):
        """An instance, with some fields by position, some left out, and the others by name."""
        passed = {
            name: number + n
            for n, name in enumerate(FIELDS)
            if not (left_out[n] and name in defaults) and name not in open_to_positions[:positions]
        }
        return made(base)(*range(positions), **passed)

    if raised(lambda: one_of(object)) is not None:
        reached("refused")
        refused(lambda: one_of(linen.Module))
        return
    ours, plain = one_of(linen.Module), one_of(object)
    told = {
        "accepted": True,
        "by position": positions > 0,
        "own hash": own_hash,
        "made by setup": made_in < 2 and not own_hash,
        "left out": any(left_out[n] for n, name in enumerate(FIELDS) if name in defaults),
    }
    reached(*filter(told.get, told))
    assert alike(_values(ours), _values(plain))
    same, other = ours.clone(), ours.clone(d=-1)
    assert alike(_values(other), [*_values(plain)[:-1], -1])
    assert alike(hash(same), hash(ours))
    assert not own_hash or alike(hash(ours), number)
    assert own_hash or says_equal(ours, same)
    assert not says_equal(ours, other)
    expected = total(plain, 1) + (10 * number if made_in < 2 else 0)
    assert alike(np.asarray(ours.apply({}, 1)), np.asarray(expected))


READS = ("property", "cached property", "descriptor")
"""How a class has an attribute that is computed from another one."""
HELD = ("field", "setup", "setter", "nobody")
"""The origin of the attribute that is read: a field, `setup`, a setter, or none."""


class Computed:
    """A descriptor that is no property, and that reads with a function of the instance."""

    def __init__(self, getter):
        self.getter = getter

    def __get__(self, instance, owner=None):
        return self if instance is None else self.getter(instance)


class Settable(Computed):
    """A descriptor that is no property, and that sets and deletes with functions, too."""

    def __init__(self, getter, setter, deleter):
        super().__init__(getter)
        self.setter, self.deleter = setter, deleter

    def __set__(self, instance, value):
        self.setter(instance, value)

    def __delete__(self, instance):
        self.deleter(instance)


@requirement("linen/methods/property-reads-like-getter", must_reach=(*READS, *HELD, "deep"))
@given(
    read=st.sampled_from(READS),
    held=st.sampled_from([*HELD, "nobody"]),
    depth=st.integers(1, 3),
    name=numbered_names("kept", "other"),
    number=st.integers(1, 9),
    bound=st.booleans(),
)
def test_a_property_reads_what_its_getter_reads(linen, read, held, depth, name, number, bound):
    """A property or other descriptor of a module can read fields and attributes made in `setup`.

    The attributes may also be set there by a setter and changed by a deleter. If a getter, or a
    further property that it reads, reads an attribute that does not exist, the error or one of its
    causes names that attribute.
    """
    if depth > 1:
        reached("deep")
    kinds = {
        "property": property,
        "cached property": functools.cached_property,
        "descriptor": Computed,
    }
    names = [f"computed_{n}" for n in range(depth)]

    def computing(inner):
        return kinds[read](lambda self: 1 + getattr(self, inner))

    def setter(self, value):
        object.__setattr__(self, name, value)

    def deleter(self):
        object.__setattr__(self, name, getattr(self, name) - 1)

    def set_up(self):
        if held == "setup":
            setattr(self, name, number)
        if held == "setter":
            self.set_from_outside = number + 1
            del self.set_from_outside

    def call(self, x):
        return x * self.computed_0

    body = {"__module__": __name__, "setup": set_up, "__call__": call}
    inner = [*names[1:], name]
    body |= {place: computing(source) for place, source in zip(names, inner, strict=True)}
    whole = Settable if read == "descriptor" else property
    body["set_from_outside"] = whole(lambda self: getattr(self, name), setter, deleter)
    body |= {"__annotations__": {name: Any}} if held == "field" else {}
    cls = type("Computing", (linen.Module,), body)
    module = cls(number) if held == "field" else cls()

    def found():
        return module.bind({}).computed_0 if bound else module.apply({}, 1)

    if held != "nobody":
        assert alike(np.asarray(found()), np.asarray(number + depth))
        assert alike(module.init(small_key(0), 1), {})
        return
    error: Any = refused(found)
    told = []
    while error is not None and len(told) < 2 * depth + 2:
        told.append(plain_text(error))
        error = error.__cause__ or error.__context__
    assert any(name in plain_text(text) for text in told), f"none of {told} has {name!r}"
