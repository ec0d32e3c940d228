"""Further functions of objects, states and streams: OBJ-1, 4, 5 to 7.

Each has another function that does the same: `nnx.call` has merge, call and split; the train state
and the optimizer that holds its model have `optax`; a tracked list has Python's list.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.domain import assume, import_or_leave, not_available
from scutch.lawkit.equality import alike, assert_close, holds
from scutch.lawkit.marks import costly, options, reached, requirement
from scutch.lawkit.tolerances import CALLS
from scutch.laws.objects.streams import copying_call

numbers = st.lists(st.sampled_from([-1.0, 0.5, 2.0]), max_size=3)


def _counter(nnx, start=0.0):
    """A module with a parameter and a count of calls."""

    class Counter(nnx.Module):
        def __init__(self):
            self.w = nnx.Param(jnp.asarray([1.0, start]))
            self.calls = nnx.Variable(jnp.asarray(0))

        def scaled(self, x, *, by=1.0):
            self.calls.set_value(self.calls.get_value() + 1)
            return x * by * self.w.get_value()

        __call__ = scaled

    return Counter()


@requirement(
    "objects/graphs/jit-runs-merged-objects", must_reach=("not part", "part", "jitted", "apply")
)
@costly
@given(
    given=numbers,
    start=st.integers(0, 3),
    part=st.booleans(),
    jitted=st.booleans(),
    merged=st.booleans(),
    named=st.booleans(),
)
def test_a_functional_call_merges_calls_and_splits(nnx, given, start, part, jitted, merged, named):
    """`nnx.call` of what `split` returned, and `apply` of its definition and of its state, give the
    result of the method and the changed parts, again and again.
    """
    counter = _counter(nnx, start)
    expected = [x * (2.0 if named else 1.0) * np.asarray([1.0, start]) for x in given]
    parts = nnx.split(nnx.List([counter]) if part else counter)

    def called(parts, x):
        if merged:
            reached("apply")
        stand_in = parts[0].apply(*parts[1:]) if merged else nnx.call(parts)
        method = stand_in[0].scaled if part else stand_in
        return method(x, **({"by": 2.0} if named else {}))

    step = jax.jit(called) if jitted else called
    for x, wanted in zip(given, expected, strict=True):
        found, parts = step(parts, x)
        assert_close(found, wanted.astype("float32"), "result", **CALLS)
    whole = nnx.merge(*parts)
    assert alike(int((whole[0] if part else whole).calls.get_value()), len(given))


def _by_value(optax):
    """A transformation whose steps are as long as a number that `update` is given beside."""

    def update(updates, state, params=None, *, value=1.0, **others):
        return jax.tree.map(lambda each: -value * each, updates), state

    return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)


TRANSFORMATIONS = {
    "sgd": lambda optax: optax.sgd(0.1),
    "momentum": lambda optax: optax.sgd(0.1, momentum=0.9),
    "adam": lambda optax: optax.adam(0.1),
    "by value": _by_value,
}


@requirement("objects/optimizer/update-equals-optax", must_reach=("train state", "with the model"))
@given(
    name=st.sampled_from(list(TRANSFORMATIONS)),
    held=st.booleans(),
    steps=numbers,
    before=st.integers(0, 5),
    start=st.integers(0, 3),
)
def test_both_forms_of_training_compute_what_optax_computes(
    nnx, transforms, name, held, steps, before, start
):
    """`ModelAndOptimizer`, which holds its model, and `TrainState`, which holds the parts of one,
    change the parameters as `optax` does; the former hands on what else `update` is given. A train
    state counts its steps and applies its model.
    """
    del transforms
    optax = import_or_leave("optax", "optax, which the optimizer wraps, is not there")
    transformation, model = TRANSFORMATIONS[name](optax), _counter(nnx, start)
    definition, params, rest = nnx.split(model, nnx.Param, ...)
    values = {"w": model.w.get_value()}
    state = transformation.init(values)
    if held:
        reached("with the model")
        training = nnx.ModelAndOptimizer(model, transformation, wrt=nnx.Param)
    else:
        reached("train state")
        training = nnx.TrainState.create(definition, params=params, tx=transformation, step=before)
    for slope in steps:
        slopes = {"w": jnp.asarray([slope, 1.0])}
        beside = {"value": 1 + slope} if held and name == "by value" else {}
        updates, state = transformation.update(slopes, state, values, **beside)
        values = optax.apply_updates(values, updates)
        gradients = nnx.state(model, nnx.Param)
        nnx.replace_by_pure_dict(gradients, slopes)
        if held:
            training.update(gradients, **beside)
        else:
            training = training.apply_gradients(gradients)
    if held:
        assert_close(training.model.w.get_value(), values["w"], "parameters", **CALLS)
        assert training.model is model
        return
    assert alike(int(training.step), before + len(steps))
    assert_close(training.params["w"].get_value(), values["w"], "parameters", **CALLS)
    found, _ = training.apply("params", rest)(2.0)
    assert_close(found, 2 * values["w"], "result", **CALLS)


@requirement("objects/graphs/pop-removes-variables", must_reach=("several", "reduced", "none"))
@given(values=numbers, reduced=st.booleans())
def test_sown_values_are_kept_until_they_are_popped(nnx, values, reduced):
    """`sow` keeps values in a tuple in their order, or as a function reduces them; `pop` takes
    them, and the state is then that of a module that has kept nothing.
    """
    reached("several" if len(values) > 1 else "one" if values else "none")
    counter = _counter(nnx)
    options = {"reduce_fn": lambda old, new: old - new, "init_fn": lambda: 10.0} if reduced else {}
    for value in values:
        counter.sow(nnx.Intermediate, "seen", value, **options)
    popped = nnx.to_pure_dict(nnx.pop(counter, nnx.Intermediate))
    assert alike(
        popped, {"seen": 10.0 - sum(values) if reduced else tuple(values)} if values else {}
    )
    left, fresh = (nnx.to_pure_dict(nnx.state(each)) for each in (counter, _counter(nnx)))
    assert alike(sorted(left), sorted(fresh))


@requirement("objects/states/state-is-a-pytree")
@given(values=st.dictionaries(st.sampled_from("abc"), numbers), method=...)
def test_a_mapped_state_has_the_results_at_the_paths(nnx, values, method: bool):
    """`map_state` and `State.map` call a function with each path and leaf, and put its results at
    these paths; the state stays.
    """
    flat = {(key, i): x for key, each in values.items() for i, x in enumerate(each)}
    state = nnx.from_flat_state(flat)

    def function(path, leaf):
        return (*path, leaf)

    found = state.map(function) if method else nnx.map_state(function, state)
    assert alike(dict(nnx.to_flat_state(found)), {at: (*at, x) for at, x in flat.items()})
    assert alike(dict(nnx.to_flat_state(state)), flat)


keys = st.integers(-3, 12) | st.text("ab-", min_size=1, max_size=3)


@requirement("objects/states/pure-dict-restores-state")
@given(tree=st.recursive(st.floats(0, 1), lambda inner: st.dictionaries(keys, inner, min_size=1)))
def test_texts_of_integers_become_integers_again(nnx, tree):
    """`restore_int_paths` undoes at every depth that integer keys became texts."""

    def written(tree):
        return {str(k): written(v) for k, v in tree.items()} if isinstance(tree, dict) else tree

    if isinstance(tree, dict):
        assert alike(nnx.restore_int_paths(written(tree)), tree)


@requirement("objects/metadata/names-set-and-read-metadata", must_reach=("some", "not some"))
@given(new=st.integers(0, 3), old=st.integers(0, 3), some=st.booleans())
def test_metadata_is_set_for_chosen_variables(nnx, new, old, some):
    """`set_metadata(x, only=filter, **metadata)` sets metadata of every variable in `x` that the
    filter takes, and of no other.
    """
    counter = _counter(nnx)
    for variable in (counter.w, counter.calls):
        variable.set_metadata(mark=old)
    nnx.set_metadata({"part": counter}, **({"only": nnx.Param} if some else {}), mark=new)
    found = [variable.get_metadata("mark") for variable in (counter.w, counter.calls)]
    assert alike(found, [new, old if some else new])


@requirement("objects/containers/containers-are-walked")
@given(indices=st.lists(st.integers(-4, 4), max_size=5))
def test_inserted_variables_are_where_python_inserts_them(nnx, indices):
    """Variables inserted into a tracked list are in the state under the indices that a list of
    Python gives them.
    """
    expected, tracked = [], nnx.List([])
    for number, index in enumerate(indices):
        expected.insert(index, number)
        tracked.insert(index, nnx.Param(jnp.asarray(number)))
    found = {at: int(leaf) for at, leaf in nnx.to_pure_dict(nnx.state(tracked)).items()}
    assert alike(found, dict(enumerate(expected)))


SEEDED = ("params", "dropout", "noise")
CHANGES = ("split", "fork", "broadcast")
HOW = ("function", "decorator", "method", "own function", "own decorator")


def _key_data(stream):
    return np.asarray(jax.random.key_data(stream.key.get_value()))


@requirement("objects/streams/lanes-draw-own-keys", must_reach=(*CHANGES, "some", *HOW))
@options("nnx.with_rngs")
@given(
    change=st.sampled_from(CHANGES),
    shape=st.sampled_from([2, 3, (2, 2)]),
    some=st.booleans(),
    drawn=st.integers(0, 2),
    how=st.sampled_from(HOW),
    by_filter=st.booleans(),
)
def test_a_copy_with_other_streams_leaves_the_streams(
    nnx, change, shape, some, drawn, how, by_filter
):
    """`with_rngs` gives a copy of an object whose streams have several keys, all different; or
    several times one key; or one key of their own. The streams of the object never give these keys,
    and other streams stay. As a decorator it does so for the arguments of a function.
    `Rngs` has methods that do so for all streams. With `graph_updates=False`, `split_rngs` and
    `fork_rngs` give copies whose streams have such keys.
    """
    assume(how != "method" or not (some or by_filter))
    own = how.startswith("own")
    assume(change != "broadcast" if own else True)
    rngs = nnx.Rngs(params=0, dropout=1)
    for _ in range(drawn):
        rngs.params()
    one = some or by_filter or (change == "fork" and how != "method")
    wanted = "params" if one else ...
    asked = [wanted] if change == "fork" else {wanted: shape} if by_filter else shape
    with_rngs = nnx.with_rngs
    changes = {change: asked, "graph_updates": False, **({"only": "params"} if some else {})}
    if own:
        with_rngs, changes = copying_call(nnx, change, shape, wanted)

    def keys_of(copy):
        return _key_data(copy.params), _key_data(copy.dropout)

    if how == "method":
        copied = keys_of(rngs.fork() if change == "fork" else getattr(rngs, change)(shape))
    elif how.endswith("decorator"):
        copied = with_rngs(**changes)(keys_of)(rngs)
    else:
        copied = keys_of(with_rngs(rngs, **changes))
    found, dropout = copied
    if change == "fork":
        assert alike(found.shape, _key_data(rngs.params).shape)
    else:
        lanes = shape if isinstance(shape, tuple) else (shape,)
        assert alike(found.shape[: len(lanes)], lanes)
        different = len(np.unique(found.reshape(-1, found.shape[-1]), axis=0))
        assert alike(different, 1 if change == "broadcast" else int(np.prod(lanes)))
    keys = found.reshape(-1, found.shape[-1]).tolist()
    assert not holds(keys, _key_data(rngs.params).tolist())
    # Of `split_rngs` and `fork_rngs` Flax documents that the object is not modified, so their copy
    # may have the next key of its stream.
    assert own or not holds(keys, jax.random.key_data(rngs.params()).tolist())
    if one:
        assert np.array_equal(dropout, _key_data(rngs.dropout))
        again = jax.random.key_data(nnx.Rngs(params=0, dropout=1).dropout())
        assert np.array_equal(jax.random.key_data(rngs.dropout()), again)


FILTERS = {
    "name": lambda nnx: "params",
    "other names": lambda nnx: nnx.Not("params"),
    "no name": lambda nnx: nnx.All("params", "dropout"),
    "all": lambda nnx: ...,
}
TAKEN = {"name": ("params",), "other names": ("dropout", "noise"), "no name": (), "all": SEEDED}
"""By filter, the names of the streams that it takes."""


@requirement(
    "objects/streams/lanes-draw-own-keys",
    must_reach=("split", "broadcast", "lanes", "None", "left alone", "the second filter"),
)
@options("nnx.with_rngs")
@given(
    change=st.sampled_from(["split", "broadcast"]),
    drawn=st.integers(0, 2),
    order=st.permutations(list(FILTERS)),
    shapes=st.lists(st.sampled_from([None, 1, 3, (2, 2)]), min_size=1, max_size=len(FILTERS)),
)
def test_the_first_filter_says_how_many_keys_a_stream_gets(nnx, change, drawn, order, shapes):
    """`Rngs.split` and `Rngs.broadcast` of a mapping from filters to shapes give each stream as
    many keys as the first filter says that takes it: all different, or one several times. A stream
    has one key where that filter says `None`, and where no filter takes it. The streams of the
    object never give the keys that a filter has asked for.
    """
    if not hasattr(nnx.Rngs, "broadcast"):
        not_available("streams have no method broadcast")
    rngs = nnx.Rngs(**{name: number for number, name in enumerate(SEEDED)})
    for _ in range(drawn):
        rngs.params()
    pairs = list(zip(order, shapes, strict=False))
    copy = getattr(rngs, change)({FILTERS[name](nnx): shape for name, shape in pairs})
    assert alike(sorted(copy), sorted(SEEDED))
    for name in SEEDED:
        asked = [(n, shape) for n, (by, shape) in enumerate(pairs) if name in TAKEN[by]]
        place, shape = asked[0] if asked else (0, None)
        reached("lanes" if shape else "None" if asked else "left alone")
        if place == 1:
            reached("the second filter")
        lanes = shape if isinstance(shape, tuple) else (shape,) if shape else ()
        found = np.asarray(jax.random.key_data(copy[name].key.get_value()))
        assert alike(found.shape[:-1], lanes), f"{name} has keys of the shape {found.shape[:-1]}"
        keys = found.reshape(-1, found.shape[-1])
        different = 1 if change == "broadcast" else int(np.prod(lanes))
        assert alike(len(np.unique(keys, axis=0)), different)
        if shape:
            assert not holds(keys.tolist(), jax.random.key_data(rngs[name]()).tolist())
