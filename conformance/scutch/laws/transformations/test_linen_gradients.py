"""Gradients of parts of Linen modules, and of functions with their own gradients: LIN-9i (`002_`).

The oracle is JAX's own transformation of `apply` of the part.
"""

import jax
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.engine.agreement import compare_routes
from scutch.inputs.described_models import Layer, Model
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import costly, reached, refused, requirement
from scutch.lawkit.parts import mutable_collections, outer, weighted_gradients, within
from scutch.lawkit.tolerances import GRADIENTS
from scutch.strategies import parts

GRADIENTS_OF = ("vjp", "jvp", "grad", "value_and_grad")
collections = st.sampled_from(["params", ["params", "batch_stats"], True])
"""Which collections are differentiated, as a filter."""


def _of_part(kind, aux, weights):
    """A function of the output of a part: a scalar for gradients, and aux beside it or not."""

    def function(output):
        first = (output * weights).sum() if "grad" in kind else 2 * output
        return (first, output) if aux else first

    return function


def _taken(variables, wanted):
    """The collections that a filter takes, and the others."""
    names = [wanted] if isinstance(wanted, str) else wanted
    taken = {c: t for c, t in variables.items() if wanted is True or holds(names, c)}
    return taken, {c: t for c, t in variables.items() if not holds(taken, c)}


def _by_lift(linen, kind, function, weights, ahead, aux, wanted):
    """A function from a part and its input to the result of a lifted gradient."""
    options = {"has_aux": True} if aux else {}

    def call(part, x):
        each = lambda part, x: function(part(x))  # noqa: E731
        if kind == "vjp":
            taken = {} if alike(wanted, "params") else {"vjp_variables": wanted}
            output, back, *beside = linen.vjp(each, part, x, **taken, **options)
            return output, back(weights), beside
        if kind == "jvp":
            return linen.jvp(each, part, (x,), (weights,), ahead)
        return getattr(linen, kind)(each, part, x, **options)

    return call


def _by_jax(kind, function, applied, weights, ahead, aux, wanted):
    """A function that returns JAX's gradient of `apply` of a part, and the changed collections."""

    def call(variables, x):
        taken, rest = _taken(variables, [*ahead] if kind == "jvp" else wanted)

        def pure(taken, x):
            output, updates = applied({**rest, **taken}, x)
            found = function(output)
            first, beside = found if aux else (found, None)
            return first, (beside, updates)

        if kind == "jvp":
            output, tangent, (_, updates) = jax.jvp(
                pure, (taken, x), (ahead, weights), has_aux=True
            )
            return (output, tangent), updates
        if kind == "vjp":
            output, back, (beside, updates) = jax.vjp(pure, taken, x, has_aux=True)
            return (output, back(weights), [beside] if aux else []), updates
        slope = jax.value_and_grad(pure, 1, has_aux=True)
        (value, (beside, updates)), gradient = slope(taken, x)
        if kind == "grad":
            return (((gradient,), beside) if aux else (gradient,)), updates
        return ((value, beside) if aux else value, (gradient,)), updates

    return call


def _with_each_left_out(law):
    """A law that is tried on each gradient first, by the options that it has if none are given."""
    fixed = {"model": Model((Layer("Scale"),)), "train": False, "held": False}
    for kind in GRADIENTS_OF:
        law = example(**fixed, kind=kind, aux=False, wanted="params")(law)
    return law


@requirement(
    "transformations/equals-jax/gradients-of-linen",
    must_reach=(*GRADIENTS_OF, "aux", "changed", "held"),
)
@costly
@_with_each_left_out
@given(
    model=parts(),
    kind=st.sampled_from(GRADIENTS_OF),
    aux=st.booleans(),
    train=st.booleans(),
    wanted=collections,
    held=st.booleans(),
)
def test_gradients_inside_a_module_are_those_of_its_part(
    linen, model, kind, aux, train, wanted, held
):
    """Lifted `vjp`, `jvp`, `grad` and `value_and_grad` of a part equal JAX's own.

    JAX's functions are taken of the part's `apply`.

    Outputs, cotangents or tangents of variables and inputs, and changed collections agree. `grad`
    and `value_and_grad` also take a module that has the part as a field, and refuse a function
    whose output is no scalar.
    """
    held = held and "grad" in kind
    if held:
        reached("held")
    aux = aux and kind != "jvp"
    part, variables = model.module(train=train), model.variables(boxed=False)
    ahead = {c: t for c, t in model.variables(1, boxed=False).items() if alike(c, "params")}
    changing = mutable_collections(variables, train=train)
    weights = np.arange(1.0, 1 + model.x.size, dtype="float32").reshape(model.x.shape)
    function = _of_part(kind, aux, weights)
    by_lift = _by_lift(linen, kind, function, weights, ahead, aux, wanted)
    lifted = outer(linen, part, by_lift, held=held)

    def applied(variables, x):
        return part.apply(variables, x, mutable=changing)

    by_jax = _by_jax(kind, function, applied, weights, ahead, aux, wanted)

    def ours(variables, x):
        found, updates = lifted.apply(within(variables), x, mutable=changing)
        return {"gradients": found, "changed collections": dict(updates)}

    def theirs(variables, x):
        expected, changed = by_jax(variables, x)
        for name, told in (("aux", aux), ("changed", changed)):
            if told:
                reached(name)
        return {"gradients": expected, "changed collections": within(changed)}

    def check(found, expected):
        for what, each in found.items():
            assert_close(each, expected[what], what, **GRADIENTS)

    compare_routes(ours, theirs, (variables, model.x), check)
    if "grad" in kind and weights.ndim:  # JAX differentiates nothing but scalars

        def of_array(part, x):
            output = (lambda part, x: (part(x), x)) if aux else (lambda part, x: part(x))
            return getattr(linen, kind)(output, part, x, has_aux=aux)

        refused(
            lambda: jax.eval_shape(outer(linen, part, of_array).apply, within(variables), model.x)
        )


@requirement(
    "transformations/equals-jax/gradients-of-linen[custom]",
    must_reach=("changed", "not differentiated", "by default"),
)
@costly
@given(
    model=parts(),
    train=st.booleans(),
    wanted=st.one_of(st.none(), collections),
    factor=st.sampled_from([2.0, -1.0]),
    beside=st.lists(st.integers(1, 3), max_size=2),
)
def test_a_module_may_have_a_gradient_of_its_own(linen, model, train, wanted, factor, beside):
    """A function under `custom_vjp` has the cotangents that its backward function returns.

    Its output is unchanged. The cotangents are those of the variables and of the input. The
    backward function receives the arguments that are not differentiated.
    """
    part, variables = model.module(train=train), model.variables(boxed=False)
    changing = mutable_collections(variables, train=train)
    vjp_options, options = {}, {}
    if wanted is None:
        reached("by default")
    else:
        vjp_options, options = {"vjp_variables": wanted}, {"grad_vars": wanted}
    if beside:
        reached("not differentiated")
        options["nondiff_argnums"] = tuple(range(2, 2 + len(beside)))

    def function(part, x, *numbers):
        return sum([1, *numbers]) * part(x)

    def forward(part, x, *numbers):
        return linen.vjp(lambda part, x: function(part, x, *numbers), part, x, **vjp_options)

    def backward(*given):
        *numbers, back, cotangent = given
        of_variables, of_x = back(cotangent)
        return jax.tree.map(lambda leaf: factor * leaf, of_variables), sum([3, *numbers]) * of_x

    own = linen.custom_vjp(function, forward_fn=forward, backward_fn=backward, **options)
    lifted = outer(linen, part, lambda part, x: own(part, x, *beside))
    plain = outer(linen, part, lambda part, x: function(part, x, *beside))
    taken, rest = _taken(variables, wanted or "params")

    def slope(module):
        def called(taken, x):
            output, updates = module.apply(within({**rest, **taken}), x, mutable=changing)
            return output, dict(updates)

        return jax.jit(lambda taken, x: weighted_gradients(called, taken, x))(taken, model.x)

    def computed(x):
        found, changed = lifted.apply(within(variables), x, mutable=changing)
        return found, dict(changed)

    (_, (output, updates)), (of_variables, of_x) = slope(lifted)
    (_, (expected, changed)), (plain_variables, plain_x) = slope(plain)
    if changed:
        reached("changed")
    gradients = (
        jax.tree.map(lambda leaf: factor * leaf, plain_variables),
        sum([3, *beside]) * plain_x,
    )
    assert_close((of_variables, of_x), gradients, "gradients", **GRADIENTS)
    assert_close(output, expected, "outputs", **GRADIENTS)
    assert_close(updates, changed, "changed collections", **GRADIENTS)
    alone = jax.jit(computed)(model.x)
    assert_close(alone, (expected, changed), "without gradients", **GRADIENTS)
