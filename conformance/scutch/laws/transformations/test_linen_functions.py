"""Functions and methods of a module that are lifted, in its own method: LIN-9k, LIN-9z (`002_`).

The oracle is the module in which nothing is lifted: the function goes on with the names that the
method has given so far, and the method goes on with those that the function has given.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.engine.agreement import compare_routes
from scutch.inputs.models import keys
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import at_least, costly, dear, reached, requirement
from scutch.lawkit.tolerances import MODELS

X = np.ones((2, 3), "float32")
FORMS = ("function", "method", "class")
"""The targets of a lift.

A function that a method calls, a method of the class, or a method named in the lift of a whole
class.
"""
KINDS = ("jit", "remat")
widths = st.lists(st.integers(1, 3), max_size=2)


def _looped(linen):
    """A lift of a method: a loop of one turn, in which JAX may trace the method more than once."""

    def lifting(block):
        def call(self, x):
            shared = {"variable_broadcast": "params", "split_rngs": {"params": False}}
            loop = linen.scan(lambda module, carry, each: (carry, block(module, each)), **shared)
            return loop(self, 0, x[None])[1][0]

        return call

    return lifting


class _Middle:
    """A module with a compact method that calls a function of itself, plain or lifted.

    Args:
      linen: The namespace of modules.
      before, inside, after: The widths of the layers that are made before the function, in it and
        after it.
      times: How often the method calls the function.
      bias: Whether the layers have one.
      more: The other values that the function uses: `"setup"` for a parameter and a part made in
        `setup`, `"field"` for a part in a field, `"param"` for a parameter of the module.
    """

    def __init__(self, linen, *, before, inside, after, times, bias, more):
        self.linen, self.bias, self.more = linen, bias, more
        self.widths, self.times = (before, inside, after), times

    def _layers(self, x, place):
        for width in self.widths[place]:
            x = self.linen.Dense(width, use_bias=self.bias)(x)
        return x

    def module(self, kind=None, form=None):
        """The module, in which the function is lifted in one of the forms, or is not."""
        linen, more, layers, times = self.linen, self.more, self._layers, self.times
        lifting = _looped(linen) if alike(kind, "scan") else kind and getattr(linen, kind)

        def set_up(module):
            if holds(more, "setup"):
                module.shift = module.param("shift", linen.initializers.ones, ())
                module.part = linen.Dense(3)

        def block(self, x):
            x = self.part(x) + self.shift if holds(more, "setup") else x
            x = self.held(x) if holds(more, "field") else x
            x = x * self.param("scale", linen.initializers.ones, ()) if holds(more, "param") else x
            return layers(x, 1)

        def call(self, x):
            x = layers(x, 0)
            called = lifting(block) if alike(form, "function") else type(self).block
            for _ in range(times):
                x = called(self, jnp.resize(x, (2, 3)))
            return layers(x, 2)

        cls = type(
            "Whole",
            (linen.Module,),
            {
                "__module__": __name__,
                "__annotations__": {"held": Any},
                "held": None,
                "setup": set_up,
                "block": lifting(block) if alike(form, "method") else block,
                "__call__": linen.compact(call),
            },
        )
        cls = lifting(cls, methods=["block"]) if alike(form, "class") else cls
        return cls(linen.Dense(3) if holds(more, "field") else None)

    def assert_same(self, kind, form, runs=1):
        """Fail unless the lifted module has the variables of the plain one, and in each of several
        runs of `apply` its values and gradients.
        """
        lifted, plain = self.module(kind, form), self.module()
        found, expected = (jax.eval_shape(each.init, keys(), X) for each in (lifted, plain))
        assert alike(jax.tree.structure(found), jax.tree.structure(expected))
        assert alike(*[[leaf.shape for leaf in jax.tree.leaves(t)] for t in (found, expected)])
        leaves, structure = jax.tree.flatten(expected)
        numbers = [np.linspace(0, 1 / (1 + n), leaf.size) for n, leaf in enumerate(leaves)]
        variables = structure.unflatten(
            np.asarray(each, "float32").reshape(leaf.shape)
            for each, leaf in zip(numbers, leaves, strict=True)
        )

        def slopes(module):
            def slope(x):
                return jax.value_and_grad(lambda v: (module.apply(v, x) ** 2).sum())

            return lambda v: [slope(X + n)(v) for n in range(runs)]

        compare_routes(
            slopes(lifted),
            slopes(plain),
            (variables,),
            lambda ours, theirs: assert_close(ours, theirs, "values and gradients", **MODELS),
        )


@requirement(
    "transformations/equals-jax/jit-of-linen[in-a-method]",
    must_reach=(*KINDS, "scan", *FORMS, "inside", "after", "setup", "field", "param", "twice"),
)
@costly
@at_least(22)
@given(
    kind=st.sampled_from([*KINDS, "scan", "scan"]),
    form=st.sampled_from(FORMS),
    before=widths,
    inside=widths,
    after=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    bias=st.booleans(),
    more=st.lists(st.sampled_from(["setup", "field", "param", "twice"]), unique=True),
)
def test_a_lifted_function_goes_on_in_its_method(
    linen, kind, form, before, inside, after, bias, more
):
    """A lifted function in the middle of a compact method makes the parts that it makes unlifted.

    Names, values, outputs and gradients agree. The function or method of the module is under `jit`
    or `remat`, or it is a function in a `scan`; it is called once or twice. It can use the
    attributes made in `setup`, and the part in a field.
    """
    form = "function" if kind == "scan" else form
    twice = "twice" in more and "param" not in more and (kind == "remat" or not inside)
    told = {"inside": inside, "after": after, "twice": twice}
    told |= {name: name in more for name in ("setup", "field", "param")}
    reached(form, *(name for name in told if told[name]))
    middle = _Middle(
        linen,
        before=before,
        inside=inside,
        after=after,
        times=2 if twice else 1,
        bias=bias,
        more=more,
    )
    middle.assert_same(kind, form)


@requirement(
    "transformations/equals-jax/jit-of-linen[parts-each-time]",
    must_reach=("called again", "applied again", *KINDS, *FORMS),
)
@dear
@at_least(18)
@given(
    kind=st.sampled_from(KINDS),
    form=st.sampled_from(FORMS),
    before=widths,
    bias=st.booleans(),
    inside=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    after=widths,
    times=st.integers(1, 2),
    runs=st.integers(1, 2),
)
def test_a_lifted_function_makes_parts_of_its_own_each_time(
    linen, kind, form, before, bias, inside, after, times, runs
):
    """A lifted function that makes parts makes new ones in every call, as it does unlifted.

    The function or method is under `jit` or `remat`, and called twice in a method or in several
    runs. Parts made after it have the same names and values as without the lift, too.
    """
    told = {"called again": times > 1, "applied again": runs > 1}
    reached(*(name for name in told if told[name]))
    middle = _Middle(
        linen, before=before, inside=inside, after=after, times=times, bias=bias, more=()
    )
    middle.assert_same(kind, form, runs)


COUNTERS = ("itself", "field", "setup")
"""Who counts how often it is called: the module, the part in its field, and one of `setup`."""


@requirement(
    "transformations/equals-jax/jit-of-linen[in-a-method]",
    must_reach=(*KINDS, *FORMS, *COUNTERS, "bind", "not bind"),
)
@costly
@given(
    kind=st.sampled_from(KINDS),
    form=st.sampled_from(FORMS),
    bind=st.booleans(),
    counters=st.lists(st.sampled_from(COUNTERS), min_size=1, max_size=2, unique=True),
    times=st.integers(2, 3),
)
def test_a_lifted_function_changes_variables_each_time(linen, kind, form, bind, counters, times):
    """A function or method under `jit` or `remat`, of a module whose compact method runs several
    times, changes the variables of the module and of its parts each time.
    """
    lifting = getattr(linen, kind)

    def counted(self, x):
        count = self.variable("counts", "calls", jnp.zeros, ())
        count.value = count.value + 1
        return 10 * x + count.value

    class Part(linen.Module):
        __call__ = linen.compact(counted)

    def block(self, x):
        calls = {"itself": lambda x: counted(self, x), "field": self.held, "setup": self.part}
        for each in counters:
            x = calls[each](x)
        return x

    body = {
        "__module__": __name__,
        "__annotations__": {"held": Any},
        "setup": lambda self: setattr(self, "part", Part()),
        "block": lifting(block) if alike(form, "method") else block,
        "repeated": lambda self, x: [self(x) for _ in range(times)],
    }
    lifted = lifting(block) if alike(form, "function") else None
    body["__call__"] = linen.compact(lambda self, x: (lifted or type(self).block)(self, x))
    cls = type("Whole", (linen.Module,), body)
    whole = (lifting(cls, methods=["block"]) if alike(form, "class") else cls)(Part())
    none = {"calls": np.float32(0)}
    held = {"itself": none, "field": {"held": none}, "setup": {"part": none}}
    variables = {"counts": {key: v for each in counters for key, v in held[each].items()}}
    if bind:
        bound = whole.bind(variables, mutable=["counts"])
        outputs, changed = bound.repeated(X), bound.variables
    else:
        outputs, changed = whole.apply(variables, X, method="repeated", mutable=["counts"])
    digits = sum(10**n for n in range(len([*counters])))
    expected = [10 ** len([*counters]) * X + digits * n for n in range(1, times + 1)]
    assert alike([np.asarray(each) for each in outputs], [each.astype("f4") for each in expected])
    counts = jax.tree.map(lambda _: np.float32(times), variables["counts"])
    assert alike(jax.tree.map(np.float32, changed["counts"]), counts)
