"""Collections that change: LIN-8 (`002_`).

A Linen module keeps its variables in *collections*: `params`, `batch_stats`, or any name of the
user's. `apply(..., mutable=...)` lists the collections that may change, and returns them beside the
output.

The oracles are the model evaluated in plain JAX by `scutch.inputs.evaluation`, the formulas of
batch normalization, and Python loops.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.inputs.keys import small_key
from scutch.inputs.models import LIFTS
from scutch.lawkit.equality import alike, alike_in_any_order, assert_close
from scutch.lawkit.lifts import stacked
from scutch.lawkit.marks import costly, dear, reached, refused, requirement
from scutch.lawkit.placement import has_sharding, in_context
from scutch.lawkit.tolerances import CALLS, GRADIENTS
from scutch.lawkit.training import assert_trains_as_evaluated
from scutch.strategies import lifted_models, logical_placements
from scutch.strategies import models as drawn_models
from scutch.strategies.models import layers
from scutch.strategies.names import numbered_names

MUTABLE = ("name", "names", "true", "false", "all but")
stateful = drawn_models(layers(("BatchNorm", "Counter", "Sow", "Dense"), ("", "Partitioned")))


@requirement("linen/collections/mutable-collections-come-back", must_reach=MUTABLE)
@costly
@given(model=stateful, how=st.sampled_from(MUTABLE))
def test_apply_returns_the_collections_that_it_may_change(model, how):
    """`apply` returns beside the output the collections that `mutable` selects (one name, several,
    a boolean, all but some) with the changes that plain JAX computes, and leaves its argument as it
    was.
    """
    before, variables = model.variables(), model.variables()
    everything = {*variables, "intermediates"}
    asked, expected = {
        "name": ("counts", {"counts"}),
        "names": (["counts", "batch_stats"], {"counts", "batch_stats"}),
        "true": (True, everything),
        "false": (False, set()),
        "all but": (model.linen.DenyList(["params"]), everything - {"params"}),
    }[how]
    train = how in ("names", "true", "all but")
    result = model.module(train=train).apply(variables, model.x, mutable=asked)
    assert alike(variables, before)
    if how == "false":
        assert not isinstance(result, tuple)
        return
    output, updates = result
    assert alike(output.shape, model.x.shape)
    sows = any(alike(layer.kind, "Sow") for layer in model.described.layers)
    assert alike_in_any_order(
        updates, expected & ({*variables} | ({"intermediates"} if sows else set()))
    )
    if train:
        _, changed = model.evaluated(model.variables(boxed=False), model.x, train=True)
        found = model.linen.meta.unbox({c: updates[c] for c in changed})
        assert_close(jax.tree.leaves(found), jax.tree.leaves(changed), **GRADIENTS)


@requirement(
    "linen/collections/mutable-collections-come-back",
    must_reach=("named", "not named", "on_mesh", "not on_mesh", "part"),
)
@costly
@given(
    placed=logical_placements(max_rank=2),
    named=st.booleans(),
    on_mesh=st.booleans(),
    part=st.booleans(),
    steps=st.lists(st.integers(-3, 3), min_size=1, max_size=3),
)
def test_values_that_a_handle_is_given_come_back(
    linen, logical, placed, named, on_mesh, part, steps
):
    """Values that a module gives the handle of a variable, which it has with logical names or
    without, are read from the handle, and come back from `apply` for the next call. Under a mesh
    and rules a variable with names lies where `with_logical_constraint` puts it.
    """
    start = np.asarray(placed.array, "float32")
    if on_mesh:  # JAX constrains no array of one device
        start = jax.device_put(start, NamedSharding(placed.mesh, PartitionSpec()))

    class Sum(linen.Module):
        @linen.compact
        def __call__(self, x):
            if named:
                total = linen.variable_with_axes(
                    "sums", "total", lambda: start, axes=placed.names, module=self
                )
            else:
                total = self.variable("sums", "total", lambda: start)
            total.value = total.value * 2 + x
            return total.value

    class Holder(linen.Module):
        @linen.compact
        def __call__(self, x):
            return Sum(name="sum")(x)

    module, path = (Holder(), ("sums", "sum", "total")) if part else (Sum(), ("sums", "total"))
    rules = placed.rules if on_mesh else ()
    variables, expected = {}, np.asarray(start)
    with in_context(placed.mesh if on_mesh else None), logical.logical_axis_rules(rules):
        lies = logical.with_logical_constraint(start, placed.names) if on_mesh else start
        for step in steps:
            output, variables = module.apply(variables, float(step), mutable=["sums"])
            expected = expected * 2 + step
            found = functools.reduce(lambda held, key: held[key], path, variables)
            for array in (output, found):
                assert_close(array, expected, **CALLS)
                if named and on_mesh:
                    assert has_sharding(array, lies.sharding)


@requirement("linen/collections/immutable-collection-refuses-writes")
@given(
    collection=st.sampled_from(["counts", "cache"]),
    name=numbered_names("seen", "total"),
    mutable=st.sampled_from([False, ["others"], "params"]),
)
def test_a_collection_that_is_not_mutable_cannot_be_written(linen, collection, name, mutable):
    """Writing a variable of a collection that is not mutable raises an error. The handle of the
    variable says whether it can be written.
    """
    told = []
    refused(_writing(linen, collection, name, mutable, told))
    _writing(linen, collection, name, [collection], told)()
    assert alike(told, [False, True]), f"is_mutable, before and after: {told}"


@requirement(
    "linen/collections/missing-variable-is-refused", must_reach=("no initializer", "not mutable")
)
@given(
    collection=st.sampled_from(["counts", "cache"]),
    name=numbered_names("seen", "total"),
    initializer=st.booleans(),
    mutable=st.sampled_from([False, ["others"], True]),
    other=st.booleans(),
)
def test_a_missing_variable_is_refused(linen, collection, name, initializer, mutable, other):
    """A variable that is missing, and that has no initializer or lies in a collection that is not
    mutable, raises an error; with both it is made.
    """
    reads = _reading(linen, collection, name, initializer)
    variables = {collection: {"another": np.zeros(())}} if other else {}
    if initializer and mutable is True:
        assert np.array_equal(reads.apply(variables, mutable=mutable)[0], 0)
    else:
        reached("not mutable" if initializer else "no initializer")
        refused(lambda: reads.apply(variables, mutable=mutable))


def _reading(linen, collection, name, initializer):
    """A module that reads a variable, which it may make."""

    class Reads(linen.Module):
        @linen.compact
        def __call__(self):
            first = (jnp.zeros, ()) if initializer else ()
            return self.variable(collection, name, *first).value

    return Reads()


@requirement("linen/collections/immutable-collection-refuses-writes[message]")
@given(
    collection=st.sampled_from(["counts", "cache"]),
    name=numbered_names("seen", "total"),
    mutable=st.sampled_from([False, ["others"], True]),
    other=st.booleans(),
)
def test_the_refusal_of_a_missing_variable_names_it(linen, collection, name, mutable, other):
    """The error for a variable that is missing, and is not made, has the collection and the name of
    the variable.
    """
    reads = _reading(linen, collection, name, mutable is not True)
    variables = {collection: {"another": np.zeros(())}} if other else {}
    refused(lambda: reads.apply(variables, mutable=mutable), naming=(collection, name))


@requirement("linen/collections/immutable-collection-refuses-writes[message]")
@given(
    collection=st.sampled_from(["counts", "cache"]),
    name=numbered_names("seen", "total"),
    mutable=st.sampled_from([False, ["others"], "params"]),
)
def test_the_refusal_to_write_names_the_variable(linen, collection, name, mutable):
    """The error for writing an immutable variable shows its collection and its name."""
    refused(_writing(linen, collection, name, mutable, []), naming=(collection, name))


def _writing(linen, collection, name, mutable, told):
    """A call of a module that writes a variable of a collection, with `mutable` as given, after
    adding to `told` whether the handle says that it can.
    """

    class Writes(linen.Module):
        @linen.compact
        def __call__(self, x):
            held = self.variable(collection, name, jnp.zeros, ())
            told.append(held.is_mutable())
            held.value = held.value + 1
            return x

    variables = {collection: {name: np.zeros(())}}
    return lambda: Writes().apply(variables, np.ones(2), mutable=mutable)


@requirement("linen/layers/batch-norm-keeps-statistics", must_reach=("train", "not train"))
@costly
@given(
    momentum=st.sampled_from([0.5, 0.9, 0.0]),
    train=st.booleans(),
    rows=st.integers(2, 5),
    width=st.integers(1, 3),
    seed=st.integers(0, 9),
)
def test_batch_normalization_keeps_running_statistics(linen, momentum, train, rows, width, seed):
    """In training, `BatchNorm` normalizes by the batch and moves its statistics by its momentum; in
    inference, it normalizes by its statistics and leaves them.
    """
    draws = np.random.default_rng(seed)
    x = draws.normal(1, 2, (rows, width)).astype("float32")
    stats = {n: draws.uniform(0.5, 2, width).astype("float32") for n in ("mean", "var")}
    module = linen.BatchNorm(use_running_average=not train, momentum=momentum)
    params = {"scale": np.full(width, 2, "float32"), "bias": np.ones(width, "float32")}
    output, updates = module.apply(
        {"params": params, "batch_stats": stats}, x, mutable=["batch_stats"]
    )
    batch = {"mean": x.mean(0), "var": x.var(0)}
    used = batch if train else stats
    normal = (x - used["mean"]) / np.sqrt(used["var"] + 1e-5)
    assert_close(output, 2 * normal + 1, **GRADIENTS)
    for name, before in stats.items():
        expected = momentum * before + (1 - momentum) * batch[name] if train else before
        assert_close(updates["batch_stats"][name], expected, **GRADIENTS)


@requirement("linen/layers/lifted-statistics-are-own", must_reach=LIFTS)
@dear
@given(model=lifted_models(of=layers(("BatchNorm", "Counter", "Mix"), ("",)), negative=False))
def test_lifted_statistics_are_each_their_own(model):
    """Under `scan` each layer, and under `vmap` each copy, reads and updates statistics of its own,
    as in plain loops.
    """
    reached(model.described.layers[0].kind)
    assert_trains_as_evaluated(model)


@requirement("linen/layers/carried-collection-passes-on")
@costly
@given(start=st.integers(-3, 9), length=st.integers(1, 4), factor=st.sampled_from([1, 2, 3]))
def test_a_carried_collection_passes_from_layer_to_layer(linen, start, length, factor):
    """Under `scan` with `variable_carry`, each layer reads the value of the layer before it.

    `apply` returns the value that the last layer wrote.
    """

    class Body(linen.Module):
        @linen.compact
        def __call__(self, x, _):
            held = self.variable("cache", "total", jnp.zeros, ())
            seen = held.value
            held.value = factor * seen + 1
            return x, seen

    loop = linen.scan(Body, variable_carry="cache", length=length)()
    variables = {"cache": {"total": np.asarray(start, "float32")}}
    (_, seen), updates = loop.apply(variables, np.ones(2), None, mutable=["cache"])
    expected = [start]
    for _ in range(length):
        expected.append(factor * expected[-1] + 1)
    assert np.array_equal(seen, expected[:-1])
    assert np.array_equal(updates["cache"]["total"], expected[-1])


@requirement("linen/collections/sown-values-keep-order", must_reach=("plain", *LIFTS, "twice"))
@costly
@given(
    how=st.sampled_from(["plain", *LIFTS]),
    times=st.integers(1, 3),
    length=st.integers(2, 3),
    twice=st.booleans(),
)
def test_sown_values_are_collected_in_order(linen, how, times, length, twice):
    """Sown values come out as a tuple in their order, stacked under `scan` and `vmap`.

    A bound module holds the same tuples. Values sown under one name in two collections stay apart.
    Where the collection is not mutable, nothing is sown.
    """
    reached("twice" if twice else "once")
    filled = ["intermediates", "others"] if twice else ["intermediates"]

    class Body(linen.Module):
        @linen.compact
        def __call__(self, x, *_):
            for n in range(times):
                for sign, name in zip((1, -1), filled, strict=False):
                    self.sow(name, "seen", sign * (x + n))
            return (x + 10, None) if how == "scan" else x

    x, options = np.ones(2, "float32"), {"variable_axes": dict.fromkeys(filled, 0)}
    lifted, rest = (Body, ()) if how == "plain" else stacked(linen, how, Body, length, **options)
    module = lifted()
    _, sown = module.apply({}, x, *rest, mutable=filled)
    expected = [x + n for n in range(times)]
    if how != "plain":
        rounds = [10 * turn if how == "scan" else 0 for turn in range(length)]
        expected = [np.stack([each + turn for turn in rounds]) for each in expected]
    for sign, name in zip((1, -1), filled, strict=False):
        found = sown[name]["seen"]
        assert isinstance(found, tuple)
        assert all(np.array_equal(a, sign * b) for a, b in zip(found, expected, strict=True))
    bound = module.bind({}, mutable=filled)
    bound(x, *rest)
    assert alike(*[[dict(each[name]) for name in filled] for each in (bound.variables, sown)])
    silent = module.apply({}, x, *rest)
    assert not (isinstance(silent, tuple) and isinstance(silent[-1], dict))


def _captured(how, linen):
    """The value of `capture_intermediates` that captures all calls, a method, or a class."""
    return {
        "all": True,
        "method": lambda module, name: alike(name, "doubled"),
        "class": lambda module, name: isinstance(module, linen.Dense) and alike(name, "__call__"),
    }[how]


@requirement(
    "linen/collections/outputs-are-captured", must_reach=("all", "method", "class", "apply", "init")
)
@costly
@given(
    how=st.sampled_from(["all", "method", "class"]),
    widths=st.lists(st.integers(1, 3), max_size=2),
    times=st.integers(1, 2),
    mutable=st.sampled_from([False, ["counts"], "intermediates"]),
    run=st.sampled_from(["apply", "init"]),
)
def test_outputs_of_parts_are_captured(linen, how, widths, times, mutable, run):
    """`apply` with `capture_intermediates` returns beside the output those of each call, or of each
    method that a predicate takes, by the paths of the modules and in the order of the calls; and so
    does `init_with_output`, beside the variables.
    """

    class Whole(linen.Module):
        @linen.compact
        def __call__(self, x):
            for n, width in enumerate(widths):
                part = linen.Dense(width, name=f"part_{n}")
                x = [part(x) for _ in range(times)][-1]
            return self.doubled(x)

        def doubled(self, x):
            return 2 * x

    x, captured = np.arange(4, dtype="float32").reshape(2, 2), _captured(how, linen)
    if run == "init":
        output, made = Whole().init_with_output(small_key(0), x, capture_intermediates=captured)
        params = {"params": made.get("params", {})}
        again, updates = Whole().apply(params, x, capture_intermediates=captured, mutable=mutable)
        sown = [dict(each).get("intermediates", {}) for each in (made, updates)]
        assert_close((output, sown[0]), (again, sown[1]), **GRADIENTS)
        return
    variables, outputs, found = {"params": {}}, {}, x
    for n, width in enumerate(widths):
        kernel = np.linspace(-1, 1, found.shape[1] * width, dtype="float32").reshape(-1, width)
        bias = np.arange(width, dtype="float32")
        variables["params"][f"part_{n}"] = {"kernel": kernel, "bias": bias}
        found = found @ kernel + bias
        outputs[f"part_{n}"] = {"__call__": (found,) * times}
    expected = {
        "all": {**outputs, "__call__": (2 * found,)},
        "method": {"doubled": (2 * found,)},
        "class": outputs,
    }[how]
    result, updates = Whole().apply(variables, x, mutable=mutable, capture_intermediates=captured)
    assert_close(result, 2 * found, **GRADIENTS)
    assert_close(dict(updates).get("intermediates", {}), expected, **GRADIENTS)
