"""Variables that are made, read and written, their hooks and their arithmetic: OBJ-5.

The oracles are the events that hooks note, and NumPy's or JAX's result on the bare value. A *hook*
is a function in a variable's metadata, or a method of its class, that the implementation calls when
the variable is made (`on_create_value`), read (`on_get_value`) or written (`on_set_value`).
"""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.descriptions import Array
from scutch.inputs.graphs import classes, nodes
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.marks import costly, few, options, reached, requirement
from scutch.strategies import arrays, object_trees
from scutch.strategies.names import numbered_names

READS = {
    "value": lambda variable: variable.value,
    "item": lambda variable: variable[...],
    "get_value": lambda variable: variable.get_value(),
}


def _assign(variable, value):
    """Write the value as the attribute `value`."""
    variable.value = value


def _put(variable, value):
    """Write the value by the index `...`."""
    variable[...] = value


WRITES = {"value": _assign, "item": _put, "set_value": lambda v, value: v.set_value(value)}
numbers = st.integers(-3, 3).map(float)
kinds = st.sampled_from(["Param", "BatchStat", "Count"])


def _hook(events, name, change):
    """A hook that notes a name, its variable and its value, and returns a changed value."""

    def hook(variable, value):
        events.append((name, variable, np.asarray(value)))
        return change(value)

    return hook


def _array(value):
    """A vector of two equal numbers."""
    return jax.numpy.full(2, value, "float32")


@requirement("objects/hooks/get-hook-runs-once", must_reach=tuple(READS))
@given(kind=kinds, value=numbers, how=st.sampled_from(list(READS)))
def test_a_get_hook_runs_once_for_each_read(nnx, kind, value, how):
    """Reading a variable calls its get hook once, and gives the result of the hook.

    The hook gets the variable and the stored value, which stays unchanged.
    """
    events = []
    hook = _hook(events, "get", lambda x: x + 10)
    variable = classes(nnx)[kind](_array(value), on_get_value=hook)
    assert not events
    assert np.array_equal(READS[how](variable), _array(value + 10))
    assert [(name, owner is variable) for name, owner, _ in events] == [("get", True)]
    assert np.array_equal(events[0][2], _array(value))
    assert np.array_equal(variable.get_raw_value(), _array(value))


@requirement("objects/hooks/set-hook-runs-once", must_reach=tuple(WRITES))
@given(kind=kinds, value=numbers, how=st.sampled_from(list(WRITES)))
def test_a_set_hook_runs_once_for_each_assignment(nnx, kind, value, how):
    """Assigning to a variable calls its set hook once, and stores the result of the hook.

    The hook gets the variable and the new value.
    """
    events = []
    hook = _hook(events, "set", lambda x: x + 10)
    variable = classes(nnx)[kind](_array(0), on_set_value=hook)
    assert not events
    WRITES[how](variable, _array(value))
    assert [(name, owner is variable) for name, owner, _ in events] == [("set", True)]
    assert np.array_equal(events[0][2], _array(value))
    assert np.array_equal(variable.get_raw_value(), _array(value + 10))


@requirement("objects/hooks/create-hook-runs-once")
@given(kind=kinds, value=numbers)
def test_a_creation_hook_runs_once(nnx, kind, value):
    """Making a variable calls its creation hook once, and stores the result of the hook.

    A later assignment does not call it.
    """
    events = []
    hook = _hook(events, "create", lambda x: x + 10)
    variable = classes(nnx)[kind](_array(value), on_create_value=hook)
    assert [name for name, _, _ in events] == ["create"]
    assert np.array_equal(variable.get_raw_value(), _array(value + 10))
    variable[...] = _array(value)
    assert np.array_equal(variable[...], _array(value))
    assert len(events) == 1


@requirement("objects/hooks/hooks-run-in-order", must_reach=("several", "method"))
@few("every event, up to three hooks, that are functions or methods")
@given(
    event=st.sampled_from(["get", "set", "create"]), count=st.integers(1, 3), method=st.booleans()
)
def test_hooks_run_in_order(nnx, event, count, method):
    """Several hooks run in the order given, each once, on the result of the one before; a method of
    the class with the name of a hook runs as one.
    """
    events = []
    name = f"on_{event}_value"
    hooks = [_hook(events, i, lambda x, i=i: x * 2 + i) for i in range(count)]
    kind = nnx.Param
    if method:
        reached("method")
        hooks = hooks[:1]
        kind = type("Hooked", (nnx.Param,), {name: lambda self, value: hooks[0](self, value)})
    elif count > 1:
        reached("several")
    options = {} if method else {name: tuple(hooks)}
    variable = kind(_array(1), **options)
    if event == "set":
        variable.set_value(_array(1))
    result = variable.get_value() if event == "get" else variable.get_raw_value()
    expected = 1
    for i in range(len(hooks)):
        expected = expected * 2 + i
    assert [i for i, _, _ in events] == list(range(len(hooks)))
    assert np.array_equal(result, _array(expected))


@requirement("objects/hooks/graph-functions-call-no-hook", must_reach=("variable",))
@given(root=object_trees())
def test_taking_objects_apart_is_no_event(nnx, root):
    """Splitting, merging, cloning, updating, flattening and iterating call no hook of any
    variable.
    """
    events = []
    found = [node for node in nodes(nnx, root) if isinstance(node, nnx.Variable)]
    for variable in found:
        reached("variable")
        variable.set_metadata(
            on_get_value=_hook(events, "get", lambda x: x),
            on_set_value=_hook(events, "set", lambda x: x),
            on_create_value=_hook(events, "create", lambda x: x),
        )
    definition, state = nnx.split(root)
    nnx.merge(definition, state)
    nnx.clone(root)
    nnx.update(root, nnx.state(root))
    jax.tree_util.tree_map(lambda x: x, state)
    nnx.from_flat_state(nnx.to_flat_state(state))
    list(nnx.iter_graph(root))
    assert not events


COMPARISONS = ("lt", "le", "gt", "ge")
OF_BITS = ("and_", "or_", "xor", "lshift", "rshift")
BINARY = (
    "add",
    "sub",
    "mul",
    "matmul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    *COMPARISONS,
    *OF_BITS,
)
UNARY = ("neg", "pos", "abs", "invert")


@requirement(
    "objects/arithmetic/variable-computes-like-value",
    must_reach=("arithmetic", "comparison", "bits"),
)
@given(
    value=st.builds(Array, st.just((2,)), st.sampled_from(["float32", "int32"])),
    name=st.sampled_from(BINARY),
    unary=st.sampled_from(UNARY),
)
def test_a_variable_computes_like_its_value(nnx, value, name, unary):
    """Operators, functions of `jax.numpy` and indices give the same on a variable as on its value.

    So do `shape`, `dtype` and further attributes and methods of arrays, `round` to digits, and
    the call of a value that is a function.
    """
    whole = alike(value.dtype, np.dtype("int32"))
    value = jax.numpy.asarray(value)
    variable = nnx.Param(value)
    assume(whole or (name not in OF_BITS and unary != "invert"))
    function, alone = getattr(operator, name), getattr(operator, unary)
    kinds = {"comparison": COMPARISONS, "bits": OF_BITS}
    reached(next((kind for kind, names in kinds.items() if name in names), "arithmetic"))
    assert alike(function(variable, value), function(value, value))
    if name not in COMPARISONS:
        assert alike(function(variable, nnx.Param(value)), function(value, value))
        assert name == "matmul" or alike(function(2, variable), function(2, value))
    assert alike(alone(variable), alone(value))
    assert alike(jax.numpy.square(variable), jax.numpy.square(value))
    if jax.__version_info__ >= (0, 5):  # JAX 0.4 reduces no tree, though it is a `__jax_array__`.
        assert alike(jax.numpy.sum(variable), jax.numpy.sum(value))
    assert alike(variable[0], value[0])
    assert alike((variable.shape, variable.dtype), (value.shape, value.dtype))
    assert alike(
        (variable.size, variable.ndim, len(variable)), (value.size, value.ndim, len(value))
    )
    assert alike(variable.reshape((2, 1)).T, value.reshape((2, 1)).T)
    assert alike(variable.at[0].set(5), value.at[0].set(5))
    assert alike(np.asarray(variable), np.asarray(value))
    assert alike([*variable], [*value])
    assert whole or alike(round(variable, 1), round(value, 1))
    called = jax.tree_util.Partial(jax.numpy.clip, value)
    assert alike(nnx.Variable(called)(0, max=1), called(0, max=1))


SIDES = ("array", "number", "variable", "array on the left", "number on the left")
compared = {
    "value": arrays(max_rank=2),
    "other": st.integers(0, 3),
    "side": st.sampled_from(SIDES),
}


def _compares_as_its_value_does(nnx, compare, value, other, side):
    """Fail unless a comparison with a variable equals the same comparison with its value."""
    reached(side)
    value = jax.numpy.asarray(value)
    variable = nnx.Param(value)
    theirs = other if side.startswith("number") else jax.numpy.roll(value, other)
    mine = nnx.Param(theirs) if side == "variable" else theirs
    ours, expected = (variable, mine), compare(value, theirs)
    if side.endswith("left"):
        ours, expected = (mine, variable), compare(theirs, value)
    assert alike(compare(*ours), expected)


@requirement("objects/arithmetic/comparison-is-elementwise", must_reach=SIDES)
@costly
@given(**compared)
def test_a_variable_equals_what_its_value_equals(nnx, value, other, side):
    """`==` of a variable compares each entry, as `==` of its value does.

    The other side is an array, a number or another variable.
    """
    _compares_as_its_value_does(nnx, operator.eq, value, other, side)


@requirement("objects/arithmetic/comparison-is-elementwise", must_reach=SIDES)
@costly
@given(**compared)
def test_a_variable_is_unequal_to_what_its_value_is_unequal_to(nnx, value, other, side):
    """`!=` of a variable compares each entry, as `!=` of its value does.

    The other side is an array, a number or another variable.
    """
    _compares_as_its_value_does(nnx, operator.ne, value, other, side)


MARKED = ("each axis", "a word", "nothing")
"""The metadata of a variable under a key: an entry for each axis, one word, or nothing."""


@requirement(
    "objects/metadata/lifts-extend-other-tuples",
    must_reach=(*MARKED, "vmap", "scan", "made", "not made", "unnamed"),
)
@options("nnx.Variable.out_sharding")
@given(
    lift=st.sampled_from(["vmap", "scan"]),
    made=st.booleans(),
    rank=st.integers(0, 2),
    axis=st.integers(0, 2),
    named=st.booleans(),
    size=st.integers(1, 3),
    marks=st.dictionaries(
        numbered_names("mark", "note"),
        st.tuples(st.sampled_from(MARKED), st.sampled_from(["inner", "stack", None])),
        min_size=1,
        max_size=2,
    ),
)
def test_further_metadata_have_an_entry_for_the_axis_of_a_lift(
    transforms, nnx, lift, made, rank, axis, named, size, marks
):
    """A lift adds the entries of `transform_metadata` to tuples of metadata, at its axis.

    Outside the lift, such a tuple has the entry at the new axis, inside it has not. Metadata that
    are no tuples stay unchanged.
    """
    assume(axis <= rank)
    reached("named" if named else "unnamed")
    inside, outside = {}, {}
    for key, (kind, entry) in marks.items():
        reached(kind)
        if kind == "a word":
            inside[key] = outside[key] = "word"
        elif kind == "each axis" and rank:
            parts = tuple(f"{key} {n}" for n in range(rank))
            inside[key], outside[key] = parts, (*parts[:axis], entry, *parts[axis:])
    if named and rank:
        names = tuple(f"axis {n}" for n in range(rank))
        inside["out_sharding"] = names
        outside["out_sharding"] = (*names[:axis], "layers", *names[axis:])
    shape, keys, seen = (2,) * rank, [*marks, "out_sharding"], []

    def noted(variable):
        metadata = variable.get_metadata()
        return {key: metadata[key] for key in keys if holds(metadata, key)}

    def variable(shape, metadata):
        return nnx.Param(jnp.zeros(shape), eager_sharding=False, **metadata)

    def make(x):
        module = nnx.Dict(a=variable(shape, inside))
        seen.append(noted(module["a"]))
        return module

    def use(module, x):
        seen.append(noted(module["a"]))
        return x

    def call():
        entries = {key: entry for key, (_, entry) in marks.items()}
        lifted = functools.partial(
            getattr(transforms, lift),
            in_axes=0 if made else (axis, 0),
            out_axes=axis if made else 0,
            transform_metadata={nnx.PARTITION_NAME: "layers", **entries},
        )
        if made:
            return noted(lifted(make)(jnp.zeros(size))["a"])
        module = nnx.Dict(a=variable((*shape[:axis], size, *shape[axis:]), outside))
        lifted(use)(module, jnp.zeros(size))
        return noted(module["a"])

    after = []
    jax.eval_shape(lambda: after.append(call()))
    assert all(alike(each, inside) for each in seen), f"{seen} inside, expected {inside}"
    assert alike(after, [outside]), f"{after} outside, expected {outside}"
