"""Collections, streams and random values inside of a lift: LIN-1m, LIN-9m, LIN-9x (`002_`).

The first law checks that the filters of each lift are obeyed. The others need no oracle for random
numbers: the part is linear in its input, so that its gradient shows the numbers with which it was
computed.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.keys import small_key
from scutch.lawkit.equality import alike, assert_close
from scutch.lawkit.inside import KINDS, inside
from scutch.lawkit.marks import costly, dear, reached, refused, requirement
from scutch.lawkit.tolerances import CALLS, GRADIENTS
from scutch.strategies.names import numbered_names

X = np.arange(1, 7, dtype="float32")
WHAT = ("collection", "stream", "writing")


FORMS = ("name", "several", "deny", "none")
"""How a filter is written that takes a name, and one that does not."""


def _filters(linen, form, name):
    """A filter that takes a name, and one that does not take it."""
    without = {
        "name": "others",
        "several": ("others", "params"),
        "deny": linen.DenyList(name),
        "none": False,
    }[form]
    within = {"name": name, "several": ("others", name), "deny": linen.DenyList("others")}
    return within.get(form, True), without


@requirement("transformations/refuses/lifts-of-linen[filters]", must_reach=(*WHAT, *KINDS))
@dear
@given(
    kinds=st.permutations(KINDS),
    what=st.sampled_from([*WHAT, "stream"]),
    name=st.sampled_from(["noise", "extra", "extra_noise"]),
    form=st.sampled_from(FORMS),
    mutable=st.sampled_from(FORMS),
)
@example(kinds=["while_loop"], what="stream", name="noise", form="deny", mutable="none")
def test_what_a_filter_does_not_take_is_not_there_inside(linen, kinds, what, name, form, mutable):
    """Inside a lift, only the collections and streams that its filters take can be used.

    Other collections cannot be read or written, and no key can be drawn from other streams. A
    collection that is taken can be written only if `mutable` of `apply` takes it, too. Without a
    filter of streams, keys can be drawn from every stream.
    """

    class Body(linen.Module):
        @linen.compact
        def __call__(self, x):
            if what == "stream":
                return x + jax.random.uniform(self.make_rng(name))
            if what == "writing":
                self.put_variable(name, "held", jnp.float32(7))
                return x
            return x + self.get_variable(name, "held", default=np.float32(np.nan))

    taken, without = _filters(linen, form, name)
    may_change, may_not = _filters(linen, mutable, name)
    variables, rngs = {name: {"part": {"held": np.float32(1)}}}, {name: small_key(0)}
    writes = what == "writing"

    def applied(kind, choice, changing=may_change):
        filters = (True, choice) if what == "stream" else (choice, True)
        module = inside(linen, kind, Body, *filters, writes=writes)
        return module.apply(variables, X, rngs=rngs, mutable=changing if writes else False)

    for kind in kinds if what == "stream" else kinds[:6]:
        reached(kind)
        found = applied(kind, taken)
        if writes:
            assert np.array_equal(found[1][name]["part"]["held"], 7)
            refused(partial(applied, kind, taken, may_not))
        else:
            assert np.isfinite(found).all()
        if what == "stream":
            assert np.isfinite(applied(kind, True)).all()
        if what == "collection":
            assert np.isnan(applied(kind, without)).all()
        else:
            refused(partial(applied, kind, without))


DRAWS = ("vjp", "jvp", "grad", "value_and_grad", "custom_vjp", "jit", "remat", "cond", "switch")
"""Lifts in which a part draws. The first four give a gradient themselves."""


def _drawing(linen, kind, body):
    """A module that returns its part's output inside a lift, with the gradient if it has one."""

    def called(part, x):
        return part(x)

    def with_aux(part, x):
        output = part(x)
        return output.sum(), output

    def by_vjp(part, x):
        output, back = linen.vjp(called, part, x)
        return output, back(jnp.ones_like(x))[1]

    def by_value_and_grad(part, x):
        (_, output), (gradient,) = linen.value_and_grad(with_aux, part, x, has_aux=True)
        return output, gradient

    def by_grad(part, x):
        (gradient,), output = linen.grad(with_aux, part, x, has_aux=True)
        return output, gradient

    ways = {
        "vjp": by_vjp,
        "jvp": lambda part, x: linen.jvp(called, part, (x,), (jnp.ones_like(x),), {}),
        "grad": by_grad,
        "value_and_grad": by_value_and_grad,
        "custom_vjp": lambda part, x: [
            linen.custom_vjp(called, partial(linen.vjp, called), lambda back, out: back(out))(
                part, x
            )
        ],
        "cond": lambda part, x: [linen.cond(x.sum() > 0, called, called, part, x)],
        "switch": lambda part, x: [linen.switch(0, [called, called], part, x)],
    }

    class Outer(linen.Module):
        @linen.compact
        def __call__(self, x):
            if kind in ("jit", "remat"):
                return [getattr(linen, kind)(body)(name="part")(x)]
            return ways[kind](body(name="part"), x)

    return Outer()


@requirement(
    "transformations/equals-jax/gradients-of-linen[noise]", must_reach=(*DRAWS, "parameter")
)
@costly
@given(
    kind=st.sampled_from(DRAWS),
    seed=st.integers(0, 99),
    jitted=st.booleans(),
    parameter=st.booleans(),
)
def test_a_gradient_is_that_of_the_numbers_drawn(linen, kind, seed, jitted, parameter):
    """Where a part draws inside of a lift, a gradient in its input, or in its parameter, is that of
    the output with the numbers that were drawn for it; another key gives other numbers.
    """

    class Body(linen.Module):
        @linen.compact
        def __call__(self, x):
            scale = self.param("scale", linen.initializers.ones, ()) if parameter else 1
            return x * scale * (0.5 + jax.random.uniform(self.make_rng("noise"), x.shape))

    module = _drawing(linen, kind, Body)
    variables = {"params": {"part": {"scale": np.float32(2)}}} if parameter else {}

    def seen(key):
        """The output, the gradient of its sum in the input, and the variables' where it is told."""

        def of(variables, x):
            output, *gradients = module.apply(variables, x, rngs={"noise": key})
            return output.sum(), (output, gradients)

        slope = jax.grad(of, (0, 1), has_aux=True)
        of_all, (output, gradients) = slope(variables, X)
        return output, of_all, gradients

    output, (of_variables, of_x), inside_it = (jax.jit(seen) if jitted else seen)(small_key(seed))
    assert_close(of_x * X, output, "gradient in the input", **CALLS)
    for each in inside_it:
        assert_close(each * X, output, "gradient inside, in the input", **CALLS)
    for each in jax.tree.leaves(of_variables):
        assert_close(2 * each, output.sum(), "gradient in the parameter", **GRADIENTS)
    other, *_ = seen(small_key(seed + 100))
    assert not np.array_equal(output, other)


ENDED = ("run", "jit", "remat", "vmap", "grad", "cond", "run of its maker")
"""The run or lift that is over when a variable is written; the last one makes a part after it."""


def _called(part, x):
    return part(x)


@requirement("linen/collections/lost-changes-are-refused", must_reach=ENDED)
@given(
    ended=st.sampled_from(ENDED),
    collection=st.sampled_from(["counts", "cache"]),
    name=numbered_names("seen", "total"),
    mutable=st.sampled_from([True, "that", "others too"]),
)
def test_a_variable_cannot_be_written_when_its_run_is_over(linen, ended, collection, name, mutable):
    """A variable cannot be written after its run, or the lift in which it was made, has ended.

    The variable was made by the running module, or by a part inside a lift. A part that a module
    makes after its run cannot write, either. The updates that `apply` returned do not change.
    """
    kept = []

    def counted(module):
        kept.append(module.variable(collection, name, jnp.zeros, ()))
        kept[-1].value = kept[-1].value + 1

    class Part(linen.Module):
        @linen.compact
        def __call__(self, x):
            counted(self)
            return x.sum()

    def write():
        if ended == "run of its maker":
            kept[-1].making(X)
        kept[-1].value = jnp.float32(7)

    class Late(linen.Module):
        @linen.compact
        def making(self, x):
            Part(name="part")(x)

        def __call__(self, x):
            kept.append(self)

    class Whole(linen.Module):
        @linen.compact
        def __call__(self, x):
            if ended == "run":
                return counted(self)
            if ended in ("jit", "remat", "vmap"):
                lanes = {"variable_axes": {collection: 0}, "axis_size": 2, "in_axes": None}
                lifted = getattr(linen, ended)(Part, **(lanes if ended == "vmap" else {}))
                lifted(name="part")(x)
            elif ended == "grad":
                linen.grad(_called, Part(name="part"), x)
            else:
                linen.cond(x.sum() > 0, _called, _called, Part(name="part"), x)
            refused(write)
            return None

    held = np.zeros(2 if ended == "vmap" else (), "float32")
    tree = {name: held} if ended == "run" else {"part": {name: held}}
    may = {"that": collection, "others too": [collection, "others"]}.get(mutable, mutable)
    late = ended == "run of its maker"
    _, updates = (Late if late else Whole)().apply({collection: tree}, X, mutable=may)
    refused(write)
    expected = jax.tree.map(lambda leaf: leaf + (not late), tree)
    assert alike(jax.tree.map(np.asarray, updates), {collection: expected})
