"""Values computed by lifted transformations of modules: LIN-9t (`002_`).

A *lifted* transformation, such as `scan`, `vmap`, `jit` or `remat`, is JAX's transformation for
modules: it takes care of their variables and keys as well.

The oracle of `jit`, `remat` and `remat_scan` is the module itself, in a Python loop where it is
repeated. That of `scan` and `vmap` with options for inputs and outputs is NumPy. In the last law it
is the reference. `test_linen_oracle` compares lifted modules with JAX's own transformations.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh

from scutch.engine.agreement import compare_routes
from scutch.inputs.boxes import PARTITION_NAME
from scutch.inputs.keys import small_key
from scutch.inputs.models import LIFTS
from scutch.lawkit.domain import not_available
from scutch.lawkit.equality import alike, alike_in_any_order, assert_close, close, holds
from scutch.lawkit.lifts import stacked
from scutch.lawkit.marks import costly, dear, reached, requirement
from scutch.lawkit.parts import mutable_collections, weighted_gradients
from scutch.lawkit.tolerances import CALLS, GRADIENTS, near
from scutch.strategies import models as drawn_models
from scutch.strategies import parts
from scutch.strategies.models import PLAIN, layers, lifts


@requirement("transformations/options/lifts-of-linen[axes]", must_reach=LIFTS)
@costly
@given(
    kind=st.sampled_from(LIFTS),
    axis=st.sampled_from([0, 1, -1, 2]),
    out=st.sampled_from([0, 1, -1]),
    shared=st.booleans(),
    checked=st.booleans(),
    backwards=st.booleans(),
)
def test_inputs_and_outputs_lie_along_the_axes_asked_for(
    linen, kind, axis, out, shared, checked, backwards
):
    """`scan` and `vmap` take their inputs along `in_axes` and stack their outputs along `out_axes`;
    a broadcast input is the same in every run. So it is if `scan` need not check what is constant,
    and if it runs backwards.
    """

    class Body(linen.Module):
        @linen.compact
        def __call__(self, carry, x, y):
            scale = self.param("scale", linen.initializers.ones, ())
            result = scale * (x + 2 * y)
            return (carry + x.sum(), result + carry) if kind == "scan" else result + carry

    options = {"variable_axes": {"params": 0}, "split_rngs": {"params": True}, "out_axes": out}
    xs = np.arange(3 * 2 * 4.0, dtype="float32").reshape(3, 2, 4)
    xs = np.moveaxis(xs, 0, axis)
    ys = np.ones((2, 4), "float32") if shared else np.moveaxis(xs, axis, 0)[::-1]
    scale = {"params": {"scale": np.asarray([1, 2, 3], "float32")}}
    if kind == "scan":
        in_axes = (axis, linen.broadcast if shared else 0)
        if not checked:
            options["check_constancy_invariants"] = False
        module = linen.scan(Body, in_axes=in_axes, length=3, reverse=backwards, **options)()
        carry, found = module.apply(scale, np.float32(0), xs, ys)
        assert near(carry, xs.sum(), **CALLS)
    else:
        in_axes = (None, axis, None if shared else 0)
        module = linen.vmap(Body, in_axes=in_axes, **options)()
        found = module.apply(scale, np.float32(0), xs, ys)
    each = [(n + 1) * (np.take(xs, n, axis) + 2 * (ys if shared else ys[n])) for n in range(3)]
    if kind == "scan":
        before = range(3)[::-1] if backwards else range(3)
        for place, n in enumerate(before):
            each[n] = each[n] + sum(np.take(xs, m, axis).sum() for m in before[:place])
    assert near(found, np.stack(each, out), **CALLS)


@requirement(
    "transformations/equals-jax/lifts-of-linen[dtypes]",
    must_reach=("weak", "strong", "shared", "stacked", *LIFTS),
)
@costly
@given(
    kind=st.sampled_from([*LIFTS, "scan"]),
    shared=st.sampled_from([True, False, True]),
    weak=st.tuples(st.booleans(), st.booleans()),
    dtypes=st.tuples(*[st.sampled_from(["float32", "float16", "int32"])] * 2),
    own=st.sampled_from(["bfloat16", "float16"]),
    axis=st.sampled_from([0, 1, -1]),
)
def test_a_lifted_module_sees_the_types_of_its_inputs(linen, kind, shared, weak, dtypes, own, axis):
    """Under `scan` and `vmap`, a body's parameters have the same dtypes as without the lift.

    The dtypes follow from the inputs by JAX's promotion; some inputs are weakly typed.
    """
    reached("shared" if shared else "stacked")

    class Body(linen.Module):
        @linen.compact
        def __call__(self, carry, x):
            for name, each in (("carry", carry), ("x", x)):
                small = own if jnp.issubdtype(each.dtype, jnp.floating) else "int8"
                self.param(name, linen.initializers.zeros, (2,), jnp.result_type(each, small))
            return carry, x

    def filled(shape, dtype, weak):
        """An array; a weak one is made of a number of Python."""
        reached("weak" if weak else "strong")
        number = 1 if alike(dtype, "int32") else 1.0
        return jnp.full(shape, number) if weak else jnp.ones(shape, dtype)

    options = {"variable_broadcast": "params"} if shared else {"variable_axes": {"params": 0}}
    if kind == "vmap":
        options = {"variable_axes": {"params": None if shared else 0}}
    options |= {"split_rngs": {"params": not shared}, "in_axes": axis, "out_axes": axis}
    if kind == "vmap":
        options |= {"in_axes": (None, axis), "out_axes": (None, axis)}
    carry, xs = (filled(*each) for each in zip(((2,), (2, 2)), dtypes, weak, strict=True))
    found, expected = (
        jax.tree.map(lambda leaf: leaf.dtype, made.init(small_key(0), carry, x))
        for made, x in ((getattr(linen, kind)(Body, **options)(), xs), (Body(), xs[0]))
    )
    assert alike(found, expected), f"carry is {carry.aval}, x is {xs.aval}"


@requirement(
    "transformations/options/lifts-of-linen[keys]",
    must_reach=("split", "not split", *LIFTS, "remat_scan"),
)
@dear
@given(
    kind=st.sampled_from([*LIFTS, "remat_scan"]),
    split=st.booleans(),
    length=st.sampled_from([2, 3]),
    seed=st.integers(0, 9),
)
def test_split_keys_initialize_apart_and_shared_keys_alike(linen, kind, split, length, seed):
    """Under `scan`, `vmap` and `remat_scan`, the layers or copies start with different parameters
    where the stream `params` is split, and with equal ones where it is not.
    """

    class Body(linen.Module):
        @linen.compact
        def __call__(self, x, *_):
            x = x + self.param("weight", linen.initializers.normal(1.0), (3,))
            return (x, None) if kind == "scan" else x

    options = {"variable_axes": {"params": 0}, "split_rngs": {"params": split}}
    if kind == "remat_scan":
        options = {} if split else options  # by default all streams are split
        lifted, rest = linen.remat_scan(Body, lengths=(length,), **options), ()
    else:
        named = {"metadata_params": {PARTITION_NAME: None}}
        lifted, rest = stacked(linen, kind, Body, length, **options, **named)
    variables = lifted().init(small_key(seed), np.ones(3), *rest)
    weights = np.asarray(variables["params"]["weight"])
    for one in range(length):
        for other in range(one):
            assert np.array_equal(weights[one], weights[other]) is not split


UNCHANGING = ("jit", "remat", "fold_rngs", "named_call")


@requirement("transformations/equals-jax/jit-of-linen", must_reach=("jit", "remat"))
@dear
@given(model=drawn_models(layers(PLAIN), max_size=2), how=st.sampled_from(UNCHANGING))
def test_lifted_jit_and_remat_change_nothing(model, how):
    """A model under lifted `jit` or `remat` has the variables and boxes, outputs and gradients of
    the model itself. So has one that gets other keys by `fold_rngs`, and one whose method has a
    name in profiles by `named_call`.
    """
    plain, linen = model.module(), model.linen
    if not hasattr(linen, how):
        not_available(f"there is no {how}")
    if how == "named_call":
        body = {"__call__": linen.named_call(type(plain).__call__)}
        cls = type("Named", (type(plain),), body)
    else:
        cls = getattr(linen, how)(type(plain))
    lifted = cls(plain.layers, plain.width, plain.train)
    one, other = (jax.eval_shape(m.init, small_key(0), model.x) for m in (plain, lifted))
    assert alike(jax.tree.structure(one), jax.tree.structure(other))
    variables = model.variables()
    routes = [
        jax.value_and_grad(lambda v, m=m: (m.apply(v, model.x) ** 2).sum()) for m in (lifted, plain)
    ]
    compare_routes(
        *routes,
        (variables,),
        lambda ours, theirs: assert_close(ours, theirs, "values and gradients", **GRADIENTS),
    )


@requirement(
    "transformations/equals-jax/remat-scan-of-linen",
    must_reach=("changed", "nested", "carried", "shared"),
)
@costly
@given(
    model=parts(),
    lengths=st.sampled_from([(1,), (2,), (3,), (2, 2), (1, 3)]),
    axis=st.sampled_from([0, -1, None]),
    train=st.booleans(),
    how=st.sampled_from(["sliced", "carried", "shared"]),
)
def test_a_rematerialized_loop_is_the_loop(linen, model, lengths, axis, train, how):
    """`remat_scan` equals a Python loop that applies the module with each slice of the variables.

    Outputs, gradients and changed collections agree. Parameters may be shared by all turns, and
    changing collections may be carried.
    """
    part = model.module(train=train)
    slices = [model.variables(seed, boxed=False) for seed in range(int(np.prod(lengths)))]
    changing = mutable_collections(slices[0], train=train)
    whole = {"carried": changing, "shared": ["params"], "sliced": []}[how]
    options = {} if axis is None else {"variable_axes": {True: axis}}
    if whole:
        sliced = tuple(c for c in slices[0] if not holds(whole, c))
        options = {"variable_axes": {sliced: axis or 0}}
        options |= {"variable_carry" if how == "carried" else "variable_broadcast": whole}
    kind = linen.remat_scan(type(part), lengths=lengths, **options)
    for name, told in (("changed", changing), ("nested", len(lengths) > 1), (how, whole)):
        if told:
            reached(name)

    def stacked(slices, lengths):
        if not lengths:
            return slices[0]
        size = len(slices) // lengths[0]
        inner = [
            stacked(slices[first : first + size], lengths[1:])
            for first in range(0, len(slices), size)
        ]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis or 0), *inner)

    def of_the_loop(each):
        """Collections of the whole loop, from those of its turns: of `whole` ones, the last."""
        one = {c: tree for c, tree in each[-1].items() if holds(whole, c)}
        rest = [{c: tree for c, tree in s.items() if not holds(whole, c)} for s in each]
        return stacked(rest, lengths) | one

    def by_lift(slices, x):
        module = kind(part.layers, part.width, part.train)
        return module.apply(of_the_loop(slices), x, mutable=changing)

    def by_loop(slices, x):
        changed, held = [], {c: tree for c, tree in slices[-1].items() if holds(whole, c)}
        for variables in slices:
            x, updates = part.apply({**variables, **held}, x, mutable=changing)
            changed.append(dict(updates))
            held |= {c: tree for c, tree in updates.items() if holds(whole, c)}
        return x, of_the_loop(changed)

    def seen(route):
        def of_params(params, x):
            return route([s | p for s, p in zip(slices, params, strict=True)], x)

        params = [{c: t for c, t in each.items() if alike(c, "params")} for each in slices]
        return weighted_gradients(of_params, params, model.x)

    found, expected = jax.jit(lambda: [seen(route) for route in (by_lift, by_loop)])()
    assert_close(found, expected, **GRADIENTS)


ANSWERS = ("outputs", "gradients", "specs", "shardings")
with_specs = layers(boxes=("", "Partitioned", "LogicallyPartitioned", "Annotated", "Padded"))
"""Layers whose boxes offer a partition spec."""
mixed = drawn_models(st.one_of(with_specs, lifts(of=with_specs, negative=False)), max_size=2)


@requirement("transformations/equals-jax/lifts-of-linen[reference]")
@dear
@given(model=mixed)
def test_a_model_computes_what_it_computes_on_the_reference(implementation, reference, model):
    """A model has the same outputs, gradients, specs and shardings as on the reference."""
    for what in ANSWERS:
        expected, found = (_answer(model.over(each), what) for each in (reference, implementation))
        same = alike_in_any_order(expected, found) and all(
            _agree(found[path], expected[path]) for path in expected
        )
        assert same, (
            f"{what} differ: {reference.name} answers {expected}; "
            f"{implementation.name} answers {found}"
        )


def _answer(model, what):
    """The outputs, gradients, specs or shardings of a model on one implementation, by path."""
    variables, module = model.variables(), model.module()
    if what == "outputs":
        answer = jax.jit(module.apply)(variables, model.x)
    elif what == "gradients":
        answer = jax.jit(jax.grad(lambda v: (module.apply(v, model.x) ** 2).sum()))(variables)
        answer = model.linen.meta.unbox(answer)
    elif what == "specs":
        answer = model.linen.get_partition_spec(jax.eval_shape(model.initialized))
    else:
        axes = ("data", "model", "layers", "stage")
        mesh = Mesh(np.array(jax.devices()[:1]).reshape(1, 1, 1, 1), axes)
        answer = model.linen.get_sharding(jax.eval_shape(model.initialized), mesh)
    leaves, _ = jax.tree_util.tree_flatten_with_path(answer)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _agree(one, other):
    """Whether two answers are equal, arrays up to rounding."""
    if isinstance(one, jax.Array | np.ndarray):
        return close(one, other, **GRADIENTS)
    return alike(one, other)
