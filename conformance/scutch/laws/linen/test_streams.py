"""Streams of random keys of Linen modules: LIN-8 (`002_`).

A Linen module draws random numbers from *streams* of keys, such as `dropout`, that the caller
passes as `rngs`. The oracle is the formula of dropout.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.keys import small_key
from scutch.inputs.models import LIFTS
from scutch.lawkit.equality import alike
from scutch.lawkit.lifts import stacked
from scutch.lawkit.marks import at_least, costly, dear, reached, refused, requirement
from scutch.lawkit.placement import assert_placed
from scutch.lawkit.tolerances import CALLS, near
from scutch.laws.linen.explicit_axes import on_mesh, reach_ways, sharded_input
from scutch.strategies import logical_placements
from scutch.strategies.names import numbered_names


def _mask(linen, rate, key, x):
    """An array after dropout with a key."""
    rngs = {"dropout": key}
    return np.asarray(linen.Dropout(rate, deterministic=False).apply({}, x, rngs=rngs))


@requirement("linen/streams/dropout-follows-key")
@costly
@given(
    rate=st.sampled_from([0.5, 0.25, 0.75]),
    seed=st.integers(0, 99),
    rows=st.sampled_from([8, 16]),
    raw=st.booleans(),
)
def test_dropout_follows_its_key(linen, rate, seed, rows, raw):
    """Dropout with the same key, which may be an array of numbers, drops the same entries, with
    another key others, about as many as its rate says; it scales the rest. A deterministic one
    changes nothing and needs no key.
    """
    key = jax.random.PRNGKey if raw else jax.random.key
    x = np.arange(1, rows * 16 + 1, dtype="float32").reshape(rows, 16)
    one, again, other = (_mask(linen, rate, key(s), x) for s in (seed, seed, seed + 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    kept = np.not_equal(one, 0)
    assert near(one[kept], (x / (1 - rate))[kept], **CALLS)
    assert 0.5 * rate < 1 - kept.mean() < 0.5 + 0.5 * rate
    still = linen.Dropout(rate, deterministic=True).apply({}, x)
    assert np.array_equal(still, x)


@requirement(
    "linen/streams/dropout-follows-key", must_reach=("jitted", "eager", "sharded", "along an axis")
)
@costly
@given(
    placed=logical_placements(explicit=True),
    rate=st.sampled_from([0.5, 0.75]),
    seed=st.integers(0, 9),
    along=st.sampled_from([(), (), (0,), (-1,)]),
    jitted=st.booleans(),
)
def test_dropout_of_a_sharded_array_drops_the_same(linen, placed, rate, seed, along, jitted):
    """Dropout of an array that is sharded over `Explicit` mesh axes drops the entries that it drops
    of the array on one device, and the result lies as the array does.
    """
    x, sharding = sharded_input(placed)
    reach_ways(sharding, jitted)
    if along:
        reached("along an axis")
    layer = linen.Dropout(rate, broadcast_dims=along, deterministic=False)

    def drop(x):
        return layer.apply({}, x, rngs={"dropout": small_key(seed)})

    assert_placed(on_mesh(drop, x, sharding, jitted), drop(x), sharding)


_words = st.text("abcdef", min_size=3, max_size=6)


@st.composite
def _paths(draw):
    """Paths of two parts, of which some are one word, cut into two names at different places."""
    word, other = draw(_words), draw(_words)
    cuts = draw(st.lists(st.integers(1, len(word) - 1), min_size=1, max_size=3, unique=True))
    paths = [(word[:cut], word[cut:]) for cut in cuts]
    return [*paths, *draw(st.sampled_from([[], [(other[:1], other[1:] + "z")]]))]


@requirement("linen/streams/dropout-follows-key", must_reach=("one word", "two calls", "raw"))
@costly
@given(paths=_paths(), calls=st.integers(1, 2), seed=st.integers(0, 9), raw=st.booleans())
@example(paths=[("ab", "cdef"), ("abc", "def")], calls=1, seed=0, raw=False)
def test_each_module_and_call_drops_other_entries(linen, paths, calls, seed, raw):
    """Dropout in modules at different paths, and in each call of one, drops other entries of an
    array, whatever the names of the modules are.
    """
    for name, is_so in {"one word": len(paths) > 1, "two calls": calls > 1, "raw": raw}.items():
        if is_so:
            reached(name)

    class Inner(linen.Module):
        names: tuple = ()

        @linen.compact
        def __call__(self, x):
            parts = [linen.Dropout(0.5, deterministic=False, name=name) for name in self.names]
            return [part(x) for part in parts for _ in range(calls)]

    class Outer(linen.Module):
        @linen.compact
        def __call__(self, x):
            below = {}
            for first, second in dict.fromkeys(paths):
                below.setdefault(first, []).append(second)
            inner = [Inner(tuple(names), name=first) for first, names in below.items()]
            return [mask for part in inner for mask in part(x)]

    key = jax.random.PRNGKey(seed) if raw else small_key(seed)
    masks = Outer().apply({}, np.ones((8, 16), "float32"), rngs={"dropout": key})
    assert len(masks) == len({*paths}) * calls
    assert len({np.asarray(mask).tobytes() for mask in masks}) == len(masks), "equal masks"


@requirement("linen/streams/missing-stream-is-refused")
@given(stream=numbered_names("dropout", "noise", "sampling"), others=st.booleans())
def test_a_missing_stream_is_refused(linen, stream, others):
    """Drawing from a stream that the caller did not pass raises an error."""
    refused(_drawing(linen, stream, others))


@requirement("linen/streams/missing-stream-is-refused[message]")
@given(stream=numbered_names("dropout", "noise", "sampling"), others=st.booleans())
def test_the_refusal_to_draw_names_the_stream(linen, stream, others):
    """The error for a stream that the caller did not pass has the name of the stream."""
    refused(_drawing(linen, stream, others), naming=(stream,))


def _drawing(linen, stream, others):
    """A call of a module that draws from a stream without a key, beside another with one or not."""

    class Draws(linen.Module):
        @linen.compact
        def __call__(self, x):
            return x + jax.random.normal(self.make_rng(stream), x.shape)

    rngs = {"other": small_key(0)} if others else {}
    return lambda: Draws().apply({}, np.ones(2), rngs=rngs)


STREAMS = ("params", "dropout", "noise")


@requirement(
    "linen/streams/missing-stream-is-refused", must_reach=("drawn", "refused", "jit", "remat")
)
@costly
@given(
    passed=st.lists(st.sampled_from(STREAMS), max_size=2, unique=True),
    stream=st.sampled_from(STREAMS),
    lifts=st.lists(st.sampled_from(["none", "jit", "remat"]), min_size=1, max_size=3),
)
def test_a_module_knows_the_streams_that_were_passed(linen, passed, stream, lifts):
    """`has_rng` is true, in every part of a module, lifted or not, of the streams that the caller
    passed, and of no others; drawing from a stream that was not passed is refused, unless the
    stream `params` was.
    """
    told, known = [], sorted(passed)

    class Leaf(linen.Module):
        @linen.compact
        def __call__(self, x):
            told.append([name for name in sorted(STREAMS) if self.has_rng(name)])
            return x + jax.random.normal(self.make_rng(stream), x.shape)

    def around(part):
        class Outer(linen.Module):
            @linen.compact
            def __call__(self, x):
                told.append([name for name in sorted(STREAMS) if self.has_rng(name)])
                return part(name="inner")(x)

        return Outer

    cls = Leaf
    for how in lifts:
        reached(how)
        cls = around(cls if how == "none" else getattr(linen, how)(cls))
    rngs = {name: small_key(number) for number, name in enumerate(known)}

    def call():
        return cls().apply({}, np.ones(2), rngs=rngs)

    if stream in passed or "params" in passed:
        reached("drawn")
        call()
    else:
        reached("refused")
        refused(call)
    assert told, "no part was called"
    assert all(alike(each, known) for each in told), f"{told}, of which {known} were passed"


REPEATS = (*LIFTS, "while_loop", "remat_scan")


def _repeated(linen, kind, split):
    """A module that returns ones after dropout, for each of two layers, copies or turns."""
    splits = {"split_rngs": {"dropout": split}}

    class Body(linen.Module):
        @linen.compact
        def __call__(self, x, *_):
            dropped = linen.Dropout(0.5, deterministic=False)(x)
            return (x, dropped) if kind == "scan" else dropped

    class Turn(linen.Module):
        """One turn of a loop, which writes ones after dropout into the row of its number."""

        @linen.compact
        def __call__(self, state):
            turn, rows = state
            dropped = linen.Dropout(0.5, deterministic=False)(jnp.ones(rows.shape[1:]))
            return turn + 1, rows.at[turn].set(dropped)

    class Outer(linen.Module):
        @linen.compact
        def __call__(self, rows):
            start = (jnp.asarray(0), rows)
            if kind == "remat_scan":
                options = {} if split else splits  # by default all streams are split
                return linen.remat_scan(Turn, lengths=(2,), **options)()(start)[1]
            if kind == "while_loop":
                return linen.while_loop(
                    lambda turn, state: state[0] < 2,
                    lambda turn, state: turn(state),
                    Turn(),
                    start,
                    **splits,
                )[1]
            lifted, rest = stacked(linen, kind, Body, 2, **splits)
            found = lifted()(rows[0], *rest)
            return found[1] if kind == "scan" else found

    return Outer()


@requirement("linen/streams/lifted-dropout-splits", must_reach=("split", "not split", *REPEATS))
@dear
@at_least(12)
@given(kind=st.sampled_from(REPEATS), split=st.booleans(), seed=st.integers(0, 9))
def test_lifted_dropout_is_split_or_shared(linen, kind, split, seed):
    """Under `scan`, `vmap`, `while_loop` and `remat_scan`, dropout drops other entries in each
    layer, copy or turn where its stream is split, and the same ones where it is shared.
    """
    rows, rngs = jnp.ones((2, 8, 16)), {"dropout": small_key(seed)}
    found = _repeated(linen, kind, split).apply({}, rows, rngs=rngs)
    assert np.array_equal(found[0], found[1]) is not split
