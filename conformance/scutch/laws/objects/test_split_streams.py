"""Streams that are split, forked or seeded anew: OBJ-6.

A *lane* is one of several keys of a stream that was split. The oracles are a second set of streams
with the same seeds, and the keys that the streams gave before.
"""

import functools
import inspect

import jax
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import alike, holds, plain_text
from scutch.lawkit.marks import options, reached, refused, requirement
from scutch.lawkit.modes import under_other_modes
from scutch.laws.objects.streams import NAMES, asked, next_keys, seeds


@requirement("objects/streams/lanes-draw-own-keys", must_reach=("several",))
@given(seed=st.integers(0, 5), lanes=st.sampled_from([1, 2, 4]), draws=st.integers(1, 2))
def test_split_streams_give_each_lane_its_own_keys(nnx, seed, lanes, draws):
    """After `split_rngs` each lane draws keys of its own, all different, determined by the seed;
    `vmap` over the lanes gives the keys of a loop over them.
    """

    def split():
        rngs = nnx.Rngs(params=seed)
        nnx.split_rngs(rngs, splits=lanes)
        return nnx.split(rngs)

    definition, state = split()
    if lanes > 1:
        reached("several")

    def lane(state):
        rngs = nnx.merge(definition, state)
        return [jax.random.key_data(rngs.params()) for _ in range(draws)]

    mapped = np.stack(jax.vmap(lane)(state), axis=1).tolist()
    assert len([*mapped]) == lanes, f"{len(mapped)} lanes after splitting by {lanes}"
    looped = [
        [key.tolist() for key in lane(jax.tree_util.tree_map(lambda x, i=i: x[i], state))]
        for i in range(lanes)
    ]
    assert alike(mapped, looped)
    assert len({*map(plain_text, [key for keys in looped for key in keys])}) == lanes * draws
    again = split()[1]
    assert alike(np.stack(jax.vmap(lane)(again), axis=1).tolist(), mapped)


CHOSEN = {
    "all": (lambda nnx: ..., NAMES),
    "name": (lambda nnx: "dropout", ("dropout",)),
    "other names": (lambda nnx: nnx.Not("dropout"), ("default", "params")),
    "two names": (lambda nnx: nnx.Any("params", "dropout"), ("params", "dropout")),
}
"""Filters of streams, each with the names of those that it takes."""

shapes = st.sampled_from([None, 1, 3, (2,), (2, 2), (1, 3)])
"""How many keys each stream of a fork has at once: one, some, or an array of them."""


def _drawn_in_lanes(nnx, stream, shape, count):
    """The keys that each lane of a split stream draws, as numbers, those drawn first before others.

    Args:
      nnx: The namespace of objects.
      stream: A stream whose keys have `shape`.
      shape: That of the lanes.
      count: How many keys each lane draws.
    """
    definition, state = nnx.split(stream)

    def lane(state):
        own = nnx.merge(definition, state)
        return [jax.random.key_data(own()) for _ in range(count)]

    for _ in shape:
        lane = jax.vmap(lane)
    drawn = []
    for keys in map(np.asarray, lane(state)):
        assert alike(keys.shape[:-1], shape), f"keys of shape {keys.shape[:-1]}"
        drawn.extend(keys.reshape(-1, keys.shape[-1]).tolist())
    return drawn


@requirement(
    "objects/streams/fork-draws-own-keys",
    must_reach=("one key", "lanes", "array", "several", "type", *CHOSEN),
)
@options("nnx.Rngs.fork")
@given(
    seeds=seeds,
    before=asked,
    after=asked,
    shape=shapes,
    chosen=st.sampled_from([None, "type", *CHOSEN]),
    how=st.sampled_from(["fork", "split"]),
)
@example(
    seeds={"params": 1, "dropout": 2},
    before=["params"],
    after=[],
    shape=3,
    chosen="name",
    how="split",
)
def test_a_fork_draws_keys_of_its_own(nnx, seeds, before, after, shape, chosen, how):
    """`rngs.fork()` has the streams of `rngs`, with keys that neither come twice nor are drawn by
    `rngs` before or after; `split` says how many keys each has at once, by a number or the shape of
    an array, or for the streams that a filter takes. Where streams have a method `split`, it gives
    such a fork, too; a stream that its filter leaves out may go on in the result where it was, and
    gives no key that it gave before. The same seeds and draws give the same fork.
    """
    before, after = ([name for name in names if name in seeds] for names in (before, after))
    assume(len({*seeds.values()}) == len(seeds))
    form = "one key" if shape is None else "array" if isinstance(shape, tuple) else "lanes"
    reached(form, *["several"] * (len(seeds) > 1))
    axes = () if shape is None else shape if isinstance(shape, tuple) else (shape,)
    splits = shape is not None and how == "split" and hasattr(nnx.Rngs, "split")

    def drawn():
        """The keys that are drawn before, by the fork, and after, of which no two are equal; and
        those drawn before, and by streams that the method `split` left out.
        """
        rngs = nnx.Rngs(**seeds)
        first = next_keys(rngs, before)
        if chosen == "type":
            by, taken = type(rngs[min(seeds)]), NAMES
        else:
            make, taken = CHOSEN[chosen or "all"]
            by = make(nnx)
        split = {by: shape} if chosen else shape
        if shape is None:
            fork = rngs.fork()
        elif splits:
            fork = rngs.split(split)
        else:
            fork = rngs.fork(split=split)
        assert alike(list(fork), list(rngs))
        own, left_out = [], []
        for name in seeds:
            is_left_out = splits and name not in taken
            keys = _drawn_in_lanes(nnx, fork[name], axes if name in taken else (), 1)
            (left_out if is_left_out else own).extend(keys)
        return [*first, *own, *next_keys(rngs, after)], [*first, *left_out]

    found = drawn()
    for keys in found:
        assert len({*map(plain_text, keys)}) == len([*keys]), "a key came twice"
    assert alike(drawn(), found)


SHAPES = (1, 2, 4, (3,), (2, 2), (1, 3))


def _assert_goes_on(name, found, following):
    """Fail unless the keys of a stream come one after the other among those that the stream gives
    if it is left alone; the first few of these may have been used up.
    """
    some = [following[n : n + len(found)] for n in range(3)]
    assert holds(some, found), f"{name} gives {found}; expected a part of {following}"


BLOCKS = ("with", "decorator", "decorator by keyword")


@requirement(
    "objects/streams/block-splits-are-restored",
    must_reach=(*BLOCKS, "restored", "nested", "left alone", *CHOSEN),
)
@given(
    seeds=seeds,
    before=asked,
    how=st.sampled_from((*BLOCKS, "restored")),
    shape=st.sampled_from(SHAPES),
    chosen=st.sampled_from(list(CHOSEN)),
    nested=st.booleans(),
)
def test_streams_are_split_for_the_time_of_a_block(nnx, seeds, before, how, shape, chosen, nested):
    """`split_rngs` gives the streams that its filter takes keys of the given shape, of which no two
    are equal, for the time of a `with` block or of a call, or until `restore_rngs`; all others give
    the keys that they would have given, and after it each goes on where it was, with keys that were
    not given before. The object that holds the streams keeps the attributes that it gets inside.
    """
    assume(len({*seeds.values()}) == len(seeds))
    before = [name for name in before if name in seeds]
    rngs, alone = nnx.Rngs(**seeds), nnx.Rngs(**seeds)
    given_out = [next_keys(rngs, before), next_keys(alone, before)][0]
    holder = nnx.Dict(inner=rngs) if nested else rngs
    options = {"splits": shape, "only": CHOSEN[chosen][0](nnx)}
    taken = [name for name in seeds if name in CHOSEN[chosen][1]]
    lanes = shape if isinstance(shape, tuple) else (shape,)

    def inside(holder):
        streams = holder.inner if nested else holder
        if nested:
            holder.visited = True
        for name in seeds:
            if name in taken:
                given_out.extend(_drawn_in_lanes(nnx, streams[name], lanes, 2))
            else:
                reached("left alone")
                assert alike(next_keys(streams, [name]), next_keys(alone, [name]))

        return "the result"

    match how:
        case "with":
            with nnx.split_rngs(holder, **options):
                result = inside(holder)
        case "restored":
            backups = nnx.split_rngs(holder, **options)
            result = inside(holder)
            nnx.restore_rngs(backups)
        case "decorator":
            result = nnx.split_rngs(**options)(inside)(holder)
        case _:
            result = nnx.split_rngs(**options)(inside)(holder=holder)
    assert alike(result, "the result")
    assert not nested or alike(holder.visited, True)
    for name in seeds:
        found, following = next_keys(rngs, [name] * 2), next_keys(alone, [name] * 4)
        if name in taken:
            _assert_goes_on(name, found, following)
            given_out.extend(found)
        else:
            assert alike(found, following[:2])
    assert len({*map(plain_text, given_out)}) == len([*given_out]), "a key came twice"


def _draw_fork(nnx, lanes, several, rngs, names):
    """The keys that streams with one key give, then those of each lane of the others."""
    keys = next_keys(rngs, [name for name in names if not holds(several, name)])
    for name in several:
        keys.extend(_drawn_in_lanes(nnx, rngs[name], (lanes,), max(1, names.count(name))))
    return keys


FORKED = (*BLOCKS, "others", "one key", "lanes", "left alone", "other modes")


@requirement("objects/streams/block-forks-leave-streams", must_reach=FORKED)
@given(
    seeds=seeds,
    before=asked,
    inside=asked,
    after=asked,
    how=st.sampled_from(BLOCKS),
    lanes=st.sampled_from([None, 1, 3]),
    chosen=st.sampled_from([None, *CHOSEN]),
    around=st.booleans(),
)
def test_a_fork_gives_other_keys(nnx, seeds, before, inside, after, how, lanes, chosen, around):
    """A fork of streams for the time of a block or a call gives keys that the streams do not give,
    the same again for the same seeds; the streams go on as if nothing had been drawn from the fork.
    `split` says how many keys a stream has at once, by a number or for the streams that filters
    take; all others are not forked. A call is made under the modes that the decorator was given,
    also where others are set around it.
    """
    assume(len({*seeds.values()}) == len(seeds))
    before, inside, after = (
        [name for name in names if name in seeds] for names in (before, inside, after)
    )
    reached("one key" if lanes is None else "lanes", *["others"] * (len({*inside}) > 1))
    taken = [name for name in seeds if chosen is None or name in CHOSEN[chosen][1]]
    split = lanes if chosen is None else {CHOSEN[chosen][0](nnx): lanes}
    options = {} if split is None else {"split": split}
    modes = {"graph": True, "graph_updates": True} if around and how in BLOCKS[1:] else {}
    if modes:
        reached("other modes")

    draw_fork = functools.partial(_draw_fork, nnx, lanes, taken if lanes is not None else [])

    def drawn(inside):
        rngs = nnx.Rngs(**seeds)
        first = next_keys(rngs, before)
        if how == "with":
            with nnx.fork_rngs(rngs, **options):
                middle = draw_fork(rngs, inside)
        else:
            call = nnx.fork_rngs(**options, **modes)(lambda rngs: draw_fork(rngs, inside))
            with under_other_modes(nnx, **modes):
                middle = call(rngs) if how == "decorator" else call(rngs=rngs)
        return first, middle, next_keys(rngs, after)

    own = [name for name in inside if name in taken]
    keys = drawn(own)
    first, last = keys[0], keys[2]
    assert alike(keys, drawn(own))
    assert alike((first, last), drawn([])[::2])
    alone = nnx.Rngs(**seeds)
    assert alike(first, next_keys(alone, before))
    for name in {*after}:
        found = [key for key, each in zip(last, after, strict=True) if each == name]
        _assert_goes_on(name, found, next_keys(alone, [name] * (len(found) + 2)))
    every = [key for each in keys for key in each]
    assert len({*map(plain_text, every)}) == len(every), "a key came twice"
    if others := [name for name in inside if name not in taken]:
        reached("left alone")
        alone = nnx.Rngs(**seeds)
        found = drawn(others)[1][: len(others)]
        assert alike(found, next_keys(alone, [*before, *others])[len(before) :])


def _without_keys(nnx, rngs):
    """The same streams with the shapes of their keys and counts, as in an abstract model."""
    definition, state = nnx.split(rngs)
    return nnx.merge(definition, jax.eval_shape(lambda: state))


@requirement(
    "objects/streams/reseeded-streams-start-anew",
    must_reach=("reseeded", "left alone", "shared", "abstract"),
)
@given(
    seeds=seeds,
    new=seeds,
    draws=st.lists(asked, min_size=2, max_size=2),
    shared=st.booleans(),
    how=st.sampled_from(["integer", "key"]),
    abstract=st.booleans(),
)
def test_reseeded_streams_start_anew(nnx, seeds, new, draws, shared, how, abstract):
    """After `reseed` the streams of the given names, wherever they are in an object, give keys that
    follow from their new seeds alone; streams of other names go on. A stream that had the shape of
    a key has a key then, and one of another name the shape still.
    """
    one, other, alone = (nnx.Rngs(**seeds) for _ in range(3))
    for rngs, names in zip((one, other), draws, strict=True):
        next_keys(rngs, [name for name in names if name in seeds])
    next_keys(alone, [name for name in draws[0] if name in seeds])
    given_seeds = {n: jax.random.key(s) for n, s in new.items()} if how == "key" else new
    if abstract:
        one = _without_keys(nnx, one)
    for rngs in (one, other):
        nnx.reseed(nnx.Dict(a=rngs, b=rngs) if shared else rngs, **given_seeds)
    for name in seeds:
        reached("reseeded" if name in new else "left alone")
        if abstract and name not in new:
            parts = (one[name].key.get_raw_value(), one[name].count.get_raw_value())
            assert all(type(part) is jax.ShapeDtypeStruct for part in parts)
            continue
        found = next_keys(one, [name] * 2)
        assert not alike(found[0], found[1])
        if name not in new:
            assert alike(found, next_keys(alone, [name] * 2))
            continue
        assert alike(found, next_keys(other, [name] * 2))
        third = nnx.Rngs(**{name: new[name] + 1})
        nnx.reseed(third, **{name: new[name]})
        assert alike(found, next_keys(third, [name] * 2))


POLICIES = {
    "by default": {},
    "match_shape": {"policy": "match_shape"},
    "function": {"policy": lambda path, key, shape: jax.random.split(key, shape)},
}


@requirement("objects/streams/reseeding-lanes-needs-policy", must_reach=(*POLICIES, "left alone"))
@given(
    seeds=seeds, new=seeds, shape=st.sampled_from(SHAPES), policy=st.sampled_from(list(POLICIES))
)
def test_lanes_that_are_reseeded_have_keys_of_their_own(nnx, seeds, new, shape, policy):
    """`reseed` refuses a stream that has several keys, which one seed cannot give; with the policy
    to match the shape, or with one that is a function, each lane draws keys of its own, which
    follow from the new seed alone. Streams of other names go on.
    """
    if not holds(inspect.signature(nnx.reseed).parameters, "policy"):
        not_available("reseed has no policies")
    assume(len({*new.values()}) == len(new))
    lanes = shape if isinstance(shape, tuple) else (shape,)

    def split(moved):
        rngs = nnx.Rngs(**{name: seed + moved for name, seed in seeds.items()})
        nnx.split_rngs(rngs, splits=shape)
        return rngs

    if policy == "by default":
        assume({*seeds} & {*new})
        refused(lambda: nnx.reseed(split(0), **new))
        return
    one, other, alone = split(0), split(9), split(0)
    for rngs in (one, other):
        nnx.reseed(rngs, **POLICIES[policy], **new)
    drawn = []
    for name in seeds:
        found, again = (_drawn_in_lanes(nnx, rngs[name], lanes, 2) for rngs in (one, other))
        if name in new:
            assert alike(found, again)
            drawn.extend(found)
        else:
            reached("left alone")
            assert alike(found, _drawn_in_lanes(nnx, alone[name], lanes, 2))
    assert len({*map(plain_text, drawn)}) == len([*drawn]), "a key came twice"
