"""Parts that are copied, unbound, or shared by lifted modules: LIN-1s, LIN-1t, LIN-1u (`002_`).

A *part* is a module in another one, its *parent*. Its variables lie under its name in the parent's.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.keys import small_key
from scutch.lawkit.equality import alike, assert_close, says_equal
from scutch.lawkit.marks import costly, reached, requirement
from scutch.lawkit.tolerances import MODELS
from scutch.strategies.names import numbered_names

X = np.arange(1, 4, dtype="float32")


def _full(number):
    """A parameter full of one number."""
    return np.full(3, number, "float32")


def _parts(linen):
    """A class of modules with a parameter, and one with such a part and a parameter of `setup`."""

    class Inner(linen.Module):
        @linen.compact
        def __call__(self, x):
            return x * self.param("w", linen.initializers.ones, (3,))

    class Outer(linen.Module):
        held: Any
        more: float = 0.0

        def setup(self):
            self.shift = self.param("shift", linen.initializers.zeros, (3,))

        def __call__(self, x):
            return self.held(x) + self.shift + self.more

    return Inner, Outer


def _total(parts, x):
    """The sum of the outputs of several parts, with a power of 100 as the weight of each."""
    return sum(100**n * part(x) for n, part in enumerate(parts))


def _variables(names):
    """Variables of a module with parts of class `Outer` under these names."""
    parts = {name: {"shift": _full(n), "held": {"w": _full(2 + n)}} for n, name in enumerate(names)}
    return {"params": parts}


def _check_parts(module, names, more):
    """Fail unless a module has parts of class `Outer` under these names, and computes with them.

    Args:
      module: It returns the total of its parts.
      names: The names of its parts, in the order of their digits.
      more: The field `more` of each part.
    """
    variables = _variables(names)
    made = jax.eval_shape(module.init, small_key(0), X)
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (made, variables)]
    assert alike(*shapes), f"init makes {shapes[0]}, expected {shapes[1]}"
    expected = sum(100**n * ((2 + n) * X + n + each) for n, each in enumerate(more))
    assert alike(np.asarray(module.apply(variables, X)), expected)


TEMPLATES = ("passed", "made", "from outside")
"""Where the module comes from of which copies are made."""
COPIES = ("copy", "copy for a parent")


@requirement(
    "linen/copies/copy-is-own-part",
    must_reach=(*TEMPLATES, *COPIES, "setup", "compact", "named", "changed"),
)
@given(
    template=st.sampled_from(TEMPLATES),
    setup=st.booleans(),
    called=st.booleans(),
    copies=st.lists(st.tuples(st.sampled_from(COPIES), st.booleans()), min_size=1, max_size=3),
    more=st.sampled_from([None, 2.0]),
    name=numbered_names("twin", "part"),
)
def test_a_copy_is_a_part_of_its_parent(linen, template, setup, called, copies, more, name):
    """`copy` makes a part of the module that calls it, or of the one that is passed as `parent`,
    under the name that is passed or a new one. The copy has variables of its own, and the fields
    that are passed.
    """
    Inner, Outer = _parts(linen)
    reached(*(how for how, _ in copies), "setup" if setup else "compact")
    changes = {} if more is None else {"more": more}
    reached("unchanged" if more is None else "changed")
    outside = Outer(Inner(parent=None), parent=None)
    called = called and template != "from outside"
    names = [{"passed": "template", "made": "first" if setup else "Outer_0"}.get(template)] * called

    def whole_of(self):
        """The parts that are called: the original or not, and the copies."""
        if template == "made":
            original = Outer(Inner(parent=None))
            if setup:
                self.first = original
        else:
            original = outside if template == "from outside" else self.template
        found = [original] * called
        for n, (how, named) in enumerate(copies):
            given_name = {"name": f"{name}_{n}"} if named else {}
            parent = {} if how == "copy" else {"parent": self}
            copy = original.copy(**parent, **given_name, **changes)
            if setup:
                setattr(self, f"{name}_{n}", copy)
            found.append(copy)
        return found

    numbers = iter(range(template == "made" and not setup, 9))
    for n, (_, named) in enumerate(copies):
        reached("named" if named else "without a name")
        names.append(f"{name}_{n}" if named or setup else f"Outer_{next(numbers)}")
    body: dict[str, Any] = {"__module__": __name__, "__annotations__": {"template": Any}}
    if setup:
        body["setup"] = lambda self: object.__setattr__(self, "found", whole_of(self))
        body["__call__"] = lambda self, x: _total(self.found, x)
    else:
        body["__call__"] = linen.compact(lambda self, x: _total(whole_of(self), x))
    Whole = type("Whole", (linen.Module,), body)
    whole = Whole(Outer(Inner()) if template == "passed" else None)
    _check_parts(whole, names, [0.0] * called + [more or 0.0] * len([*copies]))


UNBOUND = ("whole", "its part", "part of setup", "part of a compact method")
"""The module to unbind; `whole` is the bound module itself."""


@requirement("linen/copies/unbound-module-is-new", must_reach=(*UNBOUND, "moved", "not moved"))
@given(
    what=st.sampled_from(UNBOUND),
    moved=st.booleans(),
    called=st.booleans(),
    names=st.lists(numbered_names("kept", "inner"), min_size=2, max_size=2, unique=True),
    number=st.integers(1, 5),
)
def test_what_unbind_returns_is_as_new(linen, what, moved, called, names, number):
    """`unbind` returns a module that equals the module before `bind`, and its variables.

    The module can be a part of any other module under any name: neither it nor its parts keep a
    name that they got when they were bound.
    """
    Inner, Outer = _parts(linen)
    place, new_place = names
    seen = []

    def before():
        """The module that is bound, in the same way wherever it is made."""
        return Outer(Inner(parent=None), parent=None)

    def call(self, x):
        part = Outer(Inner(parent=None), name=place) if "compact" in what else getattr(self, place)
        seen.append(part.unbind())
        return part(x)

    body: dict[str, Any] = {"__module__": __name__, "__call__": linen.compact(call)}
    if what == "part of setup":
        body["setup"] = lambda self: setattr(self, place, Outer(Inner(parent=None)))
    Whole = type("Whole", (linen.Module,), body)
    variables = {"shift": _full(1), "held": {"w": _full(number)}}
    if what in ("whole", "its part"):
        bound = before().bind({"params": variables})
        if called:
            bound(X)
        seen.append(bound.unbind())
    else:
        Whole().apply({"params": {place: variables}}, X)
    (module, given_back), expected = seen[-1], before()
    assert alike(jax.tree.map(np.asarray, given_back), {"params": variables})
    if what == "its part":
        module, expected, variables = module.held, expected.held, variables["held"]
    if not moved:
        assert says_equal(module, expected), f"it is {module}, and was {expected}"
        assert module.name is None
    Around = type(
        "Around",
        (linen.Module,),
        {
            "__module__": __name__,
            "__annotations__": {new_place: Any},
            "__call__": lambda self, x: getattr(self, new_place)(x),
        },
    )
    found = Around(module).apply({"params": {new_place: variables}}, X)
    assert alike(np.asarray(found), number * X + (what != "its part"))
    made = jax.eval_shape(Around(module).init, small_key(0), X)
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (made, {"params": {new_place: variables}})]
    assert alike(*shapes), f"init makes {shapes[0]}, expected {shapes[1]}"


LIFTED_METHODS = {"jit of a method": "jit", "remat of a method": "remat"}
HOLDERS = ("none", "jit", "remat", "vmap", *LIFTED_METHODS)
"""How a module that has the shared part calls it."""


def _shared_part(linen, made):
    """A class of modules whose `setup` makes a parameter, a part or both."""

    class Shared(linen.Module):
        def setup(self):
            if made != "part":
                self.shift = self.param("shift", linen.initializers.zeros, (3,))
            if made != "parameter":
                self.inner = linen.Dense(3, use_bias=False)

        def __call__(self, x):
            x = x if made == "parameter" else self.inner(x)
            return x if made == "part" else x + self.shift

    return Shared


def _lifted(linen, how, target):
    """A class or a method under a lift whose lanes share the variables."""
    shared = {"variable_axes": {"params": None}, "split_rngs": {"params": False}}
    return getattr(linen, how)(target, **(shared if alike(how, "vmap") else {}))


def _holder(linen, how):
    """A class of modules with the shared part in the field `part`."""
    method = LIFTED_METHODS.get(how)

    def call(self, x):
        return self.part(x)

    body: dict[str, Any] = {"__module__": __name__, "__annotations__": {"part": Any}}
    body["__call__"] = _lifted(linen, method, call) if method else call
    cls = type("Holder", (linen.Module,), body)
    return cls if method or alike(how, "none") else _lifted(linen, how, cls)


@requirement(
    "linen/methods/setup-runs-first",
    must_reach=(*HOLDERS, "lifted first", "plain first", "setup", "not setup"),
)
@costly
@given(
    holders=st.lists(st.sampled_from(HOLDERS), min_size=1, max_size=3),
    setup=st.booleans(),
    order=st.permutations(range(4)),
    made=st.sampled_from(["parameter", "part", "both"]),
    number=st.integers(1, 3),
)
def test_setup_of_a_shared_part_has_run_in_each_call(linen, holders, setup, order, made, number):
    """A part that several modules share has run its `setup` in each call, whoever calls first.

    Some of the modules are lifted, or have a lifted method. The variables of the part are made
    once.
    """
    reached(*holders)
    order = [each for each in order if each <= len([*holders])]
    first = holders[order[0] - 1] if order[0] else "none"
    reached("plain first" if first == "none" else "lifted first")

    Shared = _shared_part(linen, made)

    def parts_of(self):
        self_made = Shared() if setup else Shared(name="shared")
        if setup:
            self.shared = self_made
        named = [{} if setup else {"name": f"holder_{n}"} for n in range(len([*holders]))]
        every = [
            _holder(linen, how)(self_made, **names)
            for how, names in zip(holders, named, strict=True)
        ]
        if setup:
            for n, each in enumerate(every):
                setattr(self, f"holder_{n}", each)
        return [self_made, *every]

    def total(self, parts, x):
        return sum(10**n * parts[k](x) for n, k in enumerate(order))

    body: dict[str, Any] = {"__module__": __name__}
    if setup:
        body["setup"] = lambda self: object.__setattr__(self, "every", parts_of(self))
        body["__call__"] = lambda self, x: total(self, self.every, x)
    else:
        body["__call__"] = linen.compact(lambda self, x: total(self, parts_of(self), x))
    Whole = type("Whole", (linen.Module,), body)
    kernel = np.arange(9, dtype="float32").reshape(3, 3)
    params = {} if made == "part" else {"shift": _full(number)}
    params |= {} if made == "parameter" else {"inner": {"kernel": kernel}}
    variables, x = {"params": {"shared": params}}, np.stack([X, 2 * X])
    made_now = jax.eval_shape(Whole().init, small_key(0), x)
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (made_now, variables)]
    assert alike(*shapes), f"init makes {shapes[0]}, expected {shapes[1]}"
    once = (x if made == "parameter" else x @ kernel) + (0 if made == "part" else number)
    expected = sum(10**n for n in range(len(order))) * once
    assert_close(Whole().apply(variables, x), expected, **MODELS)
