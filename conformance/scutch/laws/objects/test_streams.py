"""Streams of random keys: OBJ-6.

The oracles are a second set of streams with the same seeds, and the functions of `jax.random`. A
*stream* gives a new key whenever it is called; `Rngs` holds streams by name.
"""

import copy
import operator

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, plain_text
from scutch.lawkit.marks import options, raised, reached, refused, requirement
from scutch.laws.objects.streams import (
    NAMES,
    asked,
    copying_call,
    key_numbers,
    next_keys,
    seeds,
)

IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")
"""Of keys, by the names that JAX has for them. The first one is that of seeds."""
METHODS = ("normal", "uniform", "gumbel", "exponential")


@requirement(
    "objects/streams/same-seed-same-keys",
    must_reach=("several", "integer", "key", "data of a key", "rbg"),
)
@given(
    seeds=seeds,
    names=asked,
    how=st.sampled_from(["integer", "key", "data of a key", *IMPLEMENTATIONS[1:]]),
)
def test_the_same_seed_gives_the_same_keys(nnx, seeds, names, how):
    """Streams with the same seeds give the same keys, call by call, whether they were seeded by an
    integer, by the key of that integer, or by the numbers of that key, as `jax.random.PRNGKey`
    gives them, and looked up by attribute or by item; keys of any implementation are seeds.
    """
    names = [name for name in names if name in seeds]
    if len(names) > 1:
        reached("several")
    of = how if how in IMPLEMENTATIONS else IMPLEMENTATIONS[0]
    keys = {n: jax.random.key(s, impl=of) for n, s in seeds.items()}
    numbers = {n: jax.random.key_data(key) for n, key in keys.items()}
    one = nnx.Rngs(**(keys if how in IMPLEMENTATIONS else seeds))
    other = nnx.Rngs({"integer": seeds, "data of a key": numbers}.get(how, keys))
    assert alike([key_numbers(getattr(one, name)()) for name in names], next_keys(other, names))


@requirement("objects/streams/streams-are-independent", must_reach=("others", "several"))
@given(seeds=seeds, picks=st.lists(st.integers(0, len(NAMES) - 1), max_size=5))
def test_streams_are_independent(nnx, seeds, picks):
    """The keys of a stream do not depend on the other streams or on calls of them, and no key comes
    twice.
    """
    assume(len({*seeds.values()}) == len(seeds))
    names = [[*seeds][pick % len(seeds)] for pick in picks]
    together = next_keys(nnx.Rngs(**seeds), names)
    for stream in set(names):
        own = [key for key, name in zip(together, names, strict=True) if name == stream]
        if len(own) < len(names):
            reached("others")
        if len(own) > 1:
            reached("several")
        assert alike(own, next_keys(nnx.Rngs(**{stream: seeds[stream]}), [stream] * len(own)))
    assert len({*map(plain_text, together)}) == len([*together])


unknown_names = st.one_of(
    st.sampled_from(["noise", "array", "jax_array"]), st.text("abz", min_size=1)
)


@requirement(
    "objects/streams/unknown-stream-uses-default", must_reach=("has", "not has", "special")
)
@given(
    seed=st.integers(0, 5),
    count=st.integers(1, 3),
    has=st.booleans(),
    name=unknown_names,
    special=st.booleans(),
)
def test_a_name_without_a_stream_uses_the_default_one(nnx, seed, count, has, name, special):
    """A name without a stream of its own takes the next key of the stream `default`.

    Without a default stream, it is an error that shows the name. A name with two underscores on
    either side raises `AttributeError`, because Python, NumPy and JAX look up such names to
    classify a value. `in` knows the names of streams.
    """
    own = "default" if has else "params"
    rngs = nnx.Rngs(**{own: seed})
    assert alike([operator.contains(rngs, each) for each in (own, name)], [True, False])
    if special:
        reached("special")
        error = raised(lambda: getattr(rngs, f"__{name}__"))
        assert isinstance(error, AttributeError), f"__{name}__ is there, or fails by {error!r}"
    if has:
        expected = next_keys(nnx.Rngs(seed), ["default"] * count)
        assert alike([key_numbers(getattr(rngs, name)()) for _ in range(count)], expected)
    else:
        refused(lambda: getattr(rngs, name)(), naming=(name,))


COPIES = {
    "merge": lambda nnx, rngs: nnx.merge(*nnx.split(rngs)),
    "clone": lambda nnx, rngs: nnx.clone(rngs),
    "deepcopy": lambda nnx, rngs: copy.deepcopy(rngs),
}


@requirement("objects/streams/copied-stream-goes-on", must_reach=tuple(COPIES))
@given(seeds=seeds, before=asked, after=asked, how=st.sampled_from(list(COPIES)))
def test_a_merged_stream_goes_on(nnx, seeds, before, after, how):
    """A clone or a deep copy of streams, or streams that were split and merged, give the keys that
    the original would have given next.
    """
    before, after = ([name for name in names if name in seeds] for names in (before, after))
    rngs = nnx.Rngs(**seeds)
    next_keys(rngs, before)
    twin = COPIES[how](nnx, rngs)
    expected = next_keys(nnx.Rngs(**seeds), [*before, *after])[len(before) :]
    assert alike(next_keys(twin, after), expected)


def _two_alike(nnx, seed, whole):
    """The streams of a seed, or one stream of them, made twice."""
    reached("streams" if whole else "stream")
    twice = [nnx.Rngs(seed, params=seed + 1) for _ in range(2)]
    return twice if whole else [rngs.params for rngs in twice]


@requirement("objects/streams/random-methods-use-next-key", must_reach=("stream", "streams"))
@options("nnx.RngStream.normal")
@given(
    seed=st.integers(0, 5),
    name=st.sampled_from(METHODS),
    used=st.integers(0, 2),
    whole=st.booleans(),
    options=st.fixed_dictionaries(
        {"shape": st.sampled_from([(2,), (), (1, 3)])},
        optional={"dtype": st.sampled_from(["float16", "float32"])},
    ),
    by_name=st.booleans(),
)
def test_random_methods_draw_with_the_next_key(nnx, seed, name, used, whole, options, by_name):
    """`rngs.normal(...)` equals `jax.random.normal` with the stream's next key.

    So do the other functions of `jax.random`. Both get the same arguments. The call uses the key
    up.
    """
    ordered = tuple(options[part] for part in ("shape", "dtype") if part in options)
    arguments, keywords = ((), options) if by_name else (ordered, {})
    streams = _two_alike(nnx, seed, whole)
    for _ in range(used):
        streams[0](), streams[1]()
    found = getattr(streams[0], name)(*arguments, **keywords)
    expected = getattr(jax.random, name)(streams[1](), *arguments, **keywords)
    assert alike(found.dtype, expected.dtype)
    assert np.array_equal(found, expected)
    assert alike(key_numbers(streams[0]()), key_numbers(streams[1]()))


INITIALIZERS = ("glorot_normal", "he_uniform", "lecun_normal", "xavier_uniform")


@requirement("objects/streams/initializers-use-next-key", must_reach=("stream", "streams"))
@options("nnx.RngStream.lecun_normal")
@given(
    seed=st.integers(0, 5),
    name=st.sampled_from(INITIALIZERS),
    used=st.integers(0, 2),
    whole=st.booleans(),
    shape=st.sampled_from([(2, 3), (1, 2), (2, 2, 2)]),
    dtype=st.sampled_from([(), ("float16",), ("float32",)]),
    options=st.dictionaries(st.sampled_from(("in_axis", "out_axis")), st.just(0), max_size=1),
)
def test_initializers_of_streams_draw_with_the_next_key(
    nnx, seed, name, used, whole, shape, dtype, options
):
    """`rngs.lecun_normal(...)(shape)` equals JAX's initializer with the stream's next key.

    So do the other initializers. It is the next key at the time when the array is made, and the
    call uses it up.
    """
    streams = _two_alike(nnx, seed, whole)
    initializer = getattr(streams[0], name)(**options)
    for _ in range(used):
        streams[0](), streams[1]()
    expected = getattr(jax.nn.initializers, name)(**options)
    for _ in range(2):
        found, wanted = initializer(shape, *dtype), expected(streams[1](), shape, *dtype)
        assert alike(found.dtype, wanted.dtype)
        assert np.array_equal(found, wanted)
    assert alike(key_numbers(streams[0]()), key_numbers(streams[1]()))


LANES = {"one": 1, "several": 3, "array": (2, 2), "squeezed": ()}
"""The shapes of the keys of a stream of a copy; `squeezed` is one key without an axis."""


@requirement(
    "objects/streams/lanes-draw-own-keys",
    must_reach=("split", "fork", "not tree", "tree", *LANES),
)
@options("nnx.with_rngs")
@given(
    change=st.sampled_from(["split", "fork"]),
    lanes=st.sampled_from(list(LANES)),
    tree=st.booleans(),
    drawn=st.integers(0, 2),
)
def test_a_copy_with_other_streams_draws_in_each_lane(nnx, change, lanes, tree, drawn):
    """Copies that `split_rngs` and `fork_rngs` give with `graph_updates=False` draw different keys
    in each lane, and the same again for the same seeds. Their streams have the names, and without
    `graph=False` the sharing, that they had.
    """
    shape = LANES[lanes]
    axes = shape if isinstance(shape, tuple) else (shape,)

    def copied():
        rngs = nnx.Rngs(params=0, dropout=1)
        for _ in range(drawn):
            rngs.params()
        node = nnx.Dict(one=rngs) if tree else nnx.Dict(one=rngs, other=rngs)
        function, options = copying_call(nnx, change, shape, "params")
        if change == "fork":
            options |= {"split": {"params": shape or None}}
        elif lanes == "squeezed":
            options |= {"splits": 1, "squeeze": True}
        return node, function(node, **options, graph=not tree)

    def keys():
        definition, state = nnx.split(copied()[1].one.params)

        def lane(state):
            stream = nnx.merge(definition, state)
            return [jax.random.key_data(stream()) for _ in range(2)]

        for _ in axes:
            lane = jax.vmap(lane)
        return [key for each in lane(state) for key in each.reshape(-1, each.shape[-1]).tolist()]

    node, copy = copied()
    for by in ("params", "dropout"):
        flat = [nnx.to_flat_state(nnx.state(each, by)) for each in (node, copy)]
        paths = [[path for path, _ in each] for each in flat]
        assert alike(*paths), f"the leaves of {by} are at {paths}"
    assert tree or copy.one is copy.other
    assert alike(copy.one.params.count.get_value().shape, axes)
    found = keys()
    assert alike(found, keys())
    assert alike(len({*map(plain_text, found)}), 2 * int(np.prod(axes))), "a key came twice"
