"""Collections, streams and parts that a lift lets in: LIN-9l, LIN-9n to LIN-9p (`002_`).

The oracles are the module itself, without the lift, and the refusals of JAX.
"""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.inputs.keys import small_key
from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import alike, assert_close
from scutch.lawkit.marks import at_least, costly, raised, reached, requirement
from scutch.lawkit.placement import entries, has_sharding, in_context
from scutch.lawkit.tolerances import MODELS
from scutch.strategies import meshes

X = np.arange(6, dtype="float32").reshape(2, 3)


@dataclasses.dataclass(frozen=True)
class Config:
    """A field of a module that is neither a number nor a module."""

    scale: float


MUTABLE = {
    "all": lambda linen, name: True,
    "none": lambda linen, name: False,
    "name": lambda linen, name: name,
    "list": lambda linen, name: [name],
    "deny": lambda linen, name: linen.DenyList(name),
}
"""Spellings of the option `mutable` for one collection."""
PARTS = ("none", "once", "twice", "two", "nested")
"""Parts that are passed as fields: one in one field or in both, two, or one in a field of one."""
RESPECTS = {
    "scale": (1.0, 2.0),
    "parts": PARTS,
    "width": (3, 2),
    "how": tuple(MUTABLE),
    "name": ("counts", "stats"),
    "shift": (None, 0.5, 2.0),
}
"""The values that a call may have in each of its respects."""


@st.composite
def call_after_call(draw):
    """Two or three calls, each but the first unlike the one before in one respect alone."""
    found = [{respect: draw(st.sampled_from(values)) for respect, values in RESPECTS.items()}]
    respects = st.sampled_from(["scale", *RESPECTS])
    for respect in draw(st.lists(respects, min_size=1, max_size=2)):
        others = [value for value in RESPECTS[respect] if value != found[-1][respect]]
        found.append({**found[-1], respect: draw(st.sampled_from(others))})
    return found


def _body(linen):
    """A module with a configuration, a part and a second one as fields, and two collections."""

    class Body(linen.Module):
        config: Config
        first: linen.Module | None = None
        second: linen.Module | None = None

        @linen.compact
        def __call__(self, x, shift=0.0):
            for part in (self.first, self.second):
                x = x if part is None else x.sum() + part(X)
            for name in ("counts", "stats"):
                held = self.variable(name, "total", jnp.zeros, ())
                if self.is_mutable_collection(name) and not self.is_initializing():
                    held.value = held.value + 1 + x.sum()
            return self.config.scale * x + shift

    return Body


def _made(linen, cls, call):
    """A module for one call, with the parts that it says."""

    class Around(linen.Module):
        inner: linen.Module

        def __call__(self, x):
            return self.inner(x)

    config, part, how = Config(call["scale"]), linen.Dense(call["width"]), call["parts"]
    if how == "nested":
        return cls(config, Around(part))
    second = {"twice": part, "two": linen.Dense(call["width"])}.get(how)
    return cls(config, *([] if how == "none" else [part, second]))


@requirement(
    "transformations/equals-jax/jit-of-linen[calls]",
    must_reach=("jit", "remat", "by name", *PARTS, *MUTABLE),
)
@costly
@given(
    kind=st.sampled_from(["jit", "jit", "remat"]), calls=call_after_call(), seed=st.integers(0, 9)
)
def test_every_call_of_a_lifted_module_is_that_of_the_module(linen, kind, calls, seed):
    """A class under `jit` or `remat`, called several times with other fields, parts, mutable
    collections and arguments by name, has each time the variables, outputs and changes of the
    module itself.
    """
    cls = _body(linen)
    lifted = getattr(linen, kind)(cls)
    for call in calls:
        reached(call["parts"], call["how"], *(() if call["shift"] is None else ("by name",)))
        mutable = MUTABLE[call["how"]](linen, call["name"])
        options = {} if call["shift"] is None else {"shift": call["shift"]}
        plain, ours = _made(linen, cls, call), _made(linen, lifted, call)
        shapes = [jax.eval_shape(m.init, small_key(seed), X) for m in (ours, plain)]
        assert alike(jax.tree.structure(shapes[0]), jax.tree.structure(shapes[1]))
        variables = jax.tree.map(lambda leaf: np.full(leaf.shape, 2, leaf.dtype), shapes[1])
        found, expected = (m.apply(variables, X, mutable=mutable, **options) for m in (ours, plain))
        assert_close(found, expected, "outputs and changes", **MODELS)


SPELLED = {
    "one name": lambda linen: "ab",
    "its letters": lambda linen: ["a", "b"],
    "one name in a list": lambda linen: ["ab"],
    "all but one name": lambda linen: linen.DenyList("ab"),
    "all but its letters": lambda linen: linen.DenyList(["a", "b"]),
    "all": lambda linen: True,
    "none": lambda linen: False,
}
"""Filters of collections that are much alike, and others."""
FIELDS = ("first", "second", "third")
SHARED = ((0, 1, 0), (0, 1, 1), (0, 0, 1), (0, 1, 2))
"""Which of some parts is in each of three fields."""


@requirement("transformations/equals-jax/jit-of-linen[calls]", must_reach=("jit", "remat"))
@costly
@given(
    kind=st.sampled_from(["jit", "jit", "remat"]),
    number=st.integers(2, 4),
    shared=st.permutations(SHARED),
    spelled=st.permutations(list(SPELLED)),
)
def test_calls_of_a_lifted_module_that_are_much_alike_stay_apart(
    linen, kind, number, shared, spelled
):
    """A class under `jit` or `remat` whose modules share other parts in each call, and may change
    other collections, whose names are much alike, has each time the outputs and changes of the
    module itself.
    """

    class Part(linen.Module):
        @linen.compact
        def __call__(self, x):
            return x * self.param("w", linen.initializers.ones, ())

    class Body(linen.Module):
        first: linen.Module
        second: linen.Module
        third: linen.Module

        @linen.compact
        def __call__(self, x):
            for name in ("a", "b", "ab"):
                held = self.variable(name, "total", jnp.zeros, ())
                if self.is_mutable_collection(name):
                    held.value = held.value + 1
            return self.first(x) + 10 * self.second(x) + 100 * self.third(x)

    lifted, x = getattr(linen, kind)(Body), np.arange(2, dtype="float32")
    total = {"total": np.float32(3)}
    for filtered, places in itertools.product(spelled[: 5 // number], shared[:number]):
        params = {name: {"w": np.float32(2 + n)} for n, name in enumerate(FIELDS)}
        variables = {"params": params, "a": total, "b": total, "ab": total}
        mutable = SPELLED[filtered](linen)
        results = []
        for cls in (lifted, Body):
            parts = [Part() for _ in FIELDS]
            module = cls(*(parts[k] for k in places))
            results.append(module.apply(variables, x, mutable=mutable))
        assert_close(*results, "outputs and changes", **MODELS)


@requirement(
    "transformations/refuses/lifts-of-linen[sizes]",
    must_reach=("scan", "vmap", "refused", "accepted"),
)
@given(
    kind=st.sampled_from(["scan", "vmap"]),
    sizes=st.lists(st.sampled_from([2, 2, 3, None]), min_size=2, max_size=2),
    stacked=st.sampled_from([None, 2, 3]),
    length=st.sampled_from([None, 2, 3]),
)
def test_sizes_of_a_lift_must_agree_as_with_jax(linen, kind, sizes, stacked, length):
    """A lifted `scan` or `vmap` whose inputs, stacked variables and stated length have several
    sizes, or none at all, is refused, as by JAX.
    """
    # A loop over variables alone is stated: its length does not follow from the inputs.
    assume(kind == "vmap" or stacked is None or length or any(sizes))

    class Body(linen.Module):
        @linen.compact
        def __call__(self, carry, x, y):
            scale = self.param("scale", linen.initializers.ones, ())
            output = scale * (x + y)
            return (carry, output) if kind == "scan" else output

    axis = None if stacked is None else 0
    scale = np.ones(() if stacked is None else stacked, "float32")
    xs = [np.ones(() if size is None else size, "float32") for size in sizes]
    if kind == "scan":
        axes = tuple(linen.broadcast if size is None else 0 for size in sizes)
        shared = (
            {"variable_broadcast": "params"}
            if stacked is None
            else {"variable_axes": {"params": 0}}
        )
        lifted = linen.scan(
            Body, in_axes=axes, length=length, split_rngs={"params": False}, **shared
        )
    else:
        axes = (None, *(None if size is None else 0 for size in sizes))
        lifted = linen.vmap(
            Body,
            in_axes=axes,
            axis_size=length,
            variable_axes={"params": axis},
            split_rngs={"params": False},
        )
    error = raised(lambda: lifted().apply({"params": {"scale": scale}}, np.float32(0), *xs))
    known = {size for size in (*sizes, stacked, length) if size is not None}
    if len(known) == 1:
        reached("accepted")
        assert error is None, f"it raised {error!r}"
    else:
        reached("refused")
        assert error is not None, f"it was accepted; the sizes are {sizes}, {stacked}, {length}"


@requirement(
    "transformations/nothing-lost/jit-of-linen[keys]",
    must_reach=("jit", "remat", "plain before", "streams"),
)
@costly
@at_least(30)
@given(
    kind=st.sampled_from(["jit", "remat", "fold_rngs"]),
    form=st.sampled_from(["one part", "several parts"]),
    times=st.integers(2, 3),
    before=st.booleans(),
    streams=st.booleans(),
    seed=st.integers(0, 9),
)
def test_each_call_of_a_lifted_part_draws_keys_of_its_own(
    linen, kind, form, times, before, streams, seed
):
    """A part under `jit`, `remat` or `fold_rngs` that is called several times in one `apply`, and
    several parts of one class, draw other numbers each time; the whole draws the same for the same
    keys, and others for other keys.
    """
    if not hasattr(linen, kind):
        not_available(f"there is no {kind}")
    for name, told in (("plain before", before), ("streams", streams)):
        if told:
            reached(name)
    names = ["noise", "more"] if streams else ["noise"]

    class Part(linen.Module):
        @linen.compact
        def __call__(self, x):
            return [jax.random.uniform(self.make_rng(name), x.shape) for name in names]

    lifted = getattr(linen, kind)(Part)

    class Whole(linen.Module):
        @linen.compact
        def __call__(self, x):
            drawn = [[jax.random.uniform(self.make_rng("noise"), x.shape)]] if before else []
            if form == "one part":
                part = lifted()
                return drawn + [part(x) for _ in range(times)]
            return drawn + [lifted()(x) for _ in range(times)]

    def draw(first):
        keys = {name: small_key(first + 20 * n) for n, name in enumerate(names)}
        return [np.asarray(a) for each in Whole().apply({}, X, rngs=keys) for a in each]

    found, again, other = draw(seed), draw(seed), draw(seed + 10)
    assert all(np.array_equal(*pair) for pair in zip(found, again, strict=True))
    assert not any(np.array_equal(*pair) for pair in zip(found, other, strict=True))
    alike = [
        (i, j) for i, one in enumerate(found) for j in range(i) if np.array_equal(one, found[j])
    ]
    assert not alike, f"the draws {alike} are the same"


def _need_lanes_mapped_by_name(array, axis):
    """Leave the law where JAX itself does not map over an `Explicit` axis that is named (0.8.1)."""
    try:
        jax.eval_shape(jax.vmap(lambda lane: lane, axis, axis, spmd_axis_name="data"), array)
    except ValueError:
        not_available("this JAX maps no axis of an Explicit mesh by its name")


def _noisy(linen, kind, seen):
    """A class of modules that add noise, and append to `seen` the spec of their input."""

    class Body(linen.Module):
        @linen.compact
        def __call__(self, carry, x, other):
            seen.append(entries(x.aval.sharding.spec))
            noise = jax.random.uniform(self.make_rng("noise"))
            scale = self.param("scale", linen.initializers.normal(), (1,))
            output = carry * x + noise * scale + other
            return (output, output) if kind == "scan" else output

    return Body


@requirement(
    "transformations/equals-jax/lifts-of-linen[sharded]",
    must_reach=("vmap", "scan", "lanes", "rows", "split", "shared"),
)
@costly
@given(
    kind=st.sampled_from(["vmap", "vmap", "scan"]),
    mesh=meshes(explicit=True, axes=(("data",),)),
    where=st.sampled_from(["lanes", "lanes", "rows"]),
    axis=st.sampled_from([0, 1, -1, -2]),
    whole=st.booleans(),
    split=st.sampled_from([True, True, False]),
    seed=st.integers(0, 9),
)
def test_a_lift_computes_on_sharded_arrays_what_it_computes_on_whole_ones(
    linen, kind, mesh, where, axis, whole, split, seed
):
    """Under a mesh of `Explicit` axes, lifted `vmap` and `scan` of a module take arrays that are
    sharded along the axis of the lanes, which `spmd_axis_name` says, or along another one, beside
    others that all lanes share: the variables and results are those of whole arrays, the module
    sees its part sharded along the other axis, and the result is sharded as the input is. Streams
    are split or shared.
    """
    where = "rows" if kind == "scan" else where  # JAX does not loop over a sharded axis
    reached(where, "split" if split else "shared")
    lanes_first = axis in (0, -2)
    spec = ("data", None) if (where == "lanes") == lanes_first else (None, "data")
    x = np.arange(64, dtype="float32").reshape(8, 8) / 64
    other = np.float32(2) if whole else np.arange(8, dtype="float32")
    seen = []
    Body = _noisy(linen, kind, seen)
    rngs = {"params": split, "noise": split}
    if kind == "scan":
        in_axes = (axis, linen.broadcast)
        options = {"in_axes": in_axes, "out_axes": axis, "variable_axes": {"params": 0}}
        lifted = linen.scan(Body, split_rngs=rngs | {"params": True}, **options)()
    else:
        options = {"spmd_axis_name": "data"} if where == "lanes" else {}
        options |= {"in_axes": (None, axis, None if whole else 0), "out_axes": axis}
        lifted = linen.vmap(Body, variable_axes={"params": 0}, split_rngs=rngs, **options)()
    keys = {name: small_key(seed + n) for n, name in enumerate(rngs)}
    initialize = jax.jit(lifted.init_with_output)
    carry = np.ones(8, "float32")
    expected = initialize(keys, carry, x, other)
    seen.clear()

    def placed(array, *names):
        return jax.device_put(array, NamedSharding(mesh, PartitionSpec(*names)))

    with in_context(mesh):
        carry = placed(carry, "data" if where == "rows" else None)
        if kind == "vmap" and where == "lanes" and not whole:
            other = placed(other, "data")
        inputs = carry, placed(x, *spec), other
        if where == "lanes":
            _need_lanes_mapped_by_name(inputs[1], axis)
        found = initialize(keys, *inputs)
        again = jax.jit(lifted.apply)(found[1], *inputs, rngs=keys)
    result = found[0][1] if kind == "scan" else found[0]
    assert_close(found, expected, "results and variables", **MODELS)
    assert_close(again, expected[0], "results of apply", **MODELS)
    inside = ("data",) if where == "rows" else ()
    assert set(seen) == {inside}, f"the module saw {set(seen)}; its part is sharded by {inside}"
    assert has_sharding(result, inputs[1].sharding), f"the result lies as {result.sharding}"
