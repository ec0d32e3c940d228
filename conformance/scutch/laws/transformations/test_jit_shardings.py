"""Shardings of arguments, updated variables and results, and `StateSharding`: JIT-5 and JIT-6.

The oracles are the shardings that were asked for, and the eager call for values. A *prefix* is one
sharding that stands for a whole tree of arguments. A `StateSharding` maps filters to shardings, and
gives each variable of an object the sharding of the first filter that takes it.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.engine.agreement import attempted, difference
from scutch.inputs import graphs
from scutch.inputs.descriptions import Mesh
from scutch.inputs.filters import FAILING
from scutch.lawkit.domain import assume, need_devices
from scutch.lawkit.equality import alike, holds, plain_text, says_equal, says_unequal
from scutch.lawkit.marks import costly, few, raised, reached, refused, requirement
from scutch.lawkit.placement import has_sharding

SPECS = (("data",), (), (None, "data"))
few_meshes = st.sampled_from([Mesh((2,), ("data",)), Mesh((8,), ("data",)), Mesh((1,), ("data",))])
specs = st.sampled_from(SPECS)


def _block(nnx):
    """A module with a matrix, and another matrix in a module below; each of shape (8, 8)."""
    kinds = graphs.classes(nnx)
    root, child = kinds["Node"](), kinds["Branch"]()
    root.a, root.b = nnx.Param(np.arange(64, dtype="float32").reshape(8, 8)), child
    child.a = nnx.BatchStat(np.ones((8, 8), "float32"))
    return root


def _work(root, x):
    """Add to the parameter, and return another array."""
    root.a.set_value(root.a.get_value() + x)
    return x * 2


def _made(nnx):
    """A function that returns an array and a new module."""

    def make(x):
        root = _block(nnx)
        return _work(root, x), root

    return make


def _on(mesh, spec):
    """The sharding of a spec on a mesh."""
    return NamedSharding(mesh, PartitionSpec(*spec))


def _assert_same_as_plain(nnx, root, x, result, calls=1):
    """Fail unless the variables of a block, and the last result, equal those of eager calls."""
    plain = _block(nnx)
    for _ in range(calls):
        array = _work(plain, x)
    assert np.array_equal(root.a.get_value(), plain.a.get_value())
    assert np.array_equal(root.b.a.get_value(), plain.b.a.get_value())
    assert np.array_equal(result, array)


X = np.arange(8, dtype="float32") + np.zeros((8, 1), "float32")
"""A batch that every mesh divides."""


HELD = {
    "NumPy's": lambda value: value,
    "JAX's": jnp.asarray,
    "elsewhere": lambda value: jax.device_put(value, jax.devices()[-1]),
}
"""Arrays that variables hold before a call."""


def _holding(nnx, held):
    """A block whose two variables hold arrays of two kinds of `HELD`."""
    root = _block(nnx)
    for variable, kind in zip((root.a, root.b.a), held, strict=True):
        variable.set_value(HELD[kind](variable.get_value()))
    return root


NEXT = ("again", "replaced", "inside jit")
"""The call that follows a first one.

Two more with the same variables, or one with an array replaced, or one inside of a jitted function.
"""

kinds_held = st.sampled_from(["NumPy's", "JAX's", "JAX's", "elsewhere"])


@requirement(
    "transformations/places-arrays/jit-of-objects[inputs]",
    must_reach=("not prefix", "prefix", "elsewhere", *NEXT),
)
@costly
@given(
    mesh=few_meshes,
    pair=st.tuples(specs, specs),
    prefix=st.booleans(),
    held=st.tuples(kinds_held, kinds_held),
    how=st.sampled_from(NEXT),
)
def test_variables_have_the_shardings_of_the_inputs(transforms, nnx, mesh, pair, prefix, held, how):
    """With `in_shardings`, one sharding for each argument or one for all, every variable of an
    argument has its sharding after the call, and the result is that of the eager call; so it is
    after another call, when arrays were replaced in between, and when the variables got the very
    arrays back that they held at first, of which some may lie on another device.
    """
    one, other = (_on(mesh, spec) for spec in pair)
    jitted = transforms.jit(_work, in_shardings=one if prefix else (one, other))
    if holds(held, "elsewhere"):
        assume(one.is_fully_replicated)  # JAX sends an array to other devices, and does not cut it
        reached("elsewhere")
    root = _holding(nnx, held)
    variables = root.a, root.b.a
    at_first = [variable.get_raw_value() for variable in variables]
    result = jitted(root, X)
    _assert_sharded(root, one)
    if how == "replaced":
        root.b.a.set_value(jnp.asarray(np.asarray(root.b.a.get_value())))
    calls = 3 if how == "again" else 2  # only a third call finds all as the one before left it
    for _ in range(calls - 1):
        if how == "inside jit":
            result = transforms.jit(lambda root, x: jitted(root, x))(root, X)
        else:
            result = jitted(root, X)
            _assert_sharded(root, one)
    _assert_same_as_plain(nnx, root, X, result, calls)
    for variable, array in zip(variables, at_first, strict=True):
        variable.set_value(array)
    result = jitted(root, X)
    _assert_sharded(root, one)
    _assert_same_as_plain(nnx, root, X, result)


WHERE = ("the same", "in another order", "elsewhere")
"""The devices on which a variable lies before a call, compared with those that are asked for."""


@requirement(
    "transformations/places-arrays/jit-of-objects",
    must_reach=("returned", "refused", "moved", *WHERE),
)
@costly
@given(
    have=specs,
    want=specs,
    where=st.sampled_from(WHERE),
    two=st.booleans(),
    committed=st.booleans(),
    changing=st.booleans(),
)
def test_a_variable_that_lies_somewhere_is_moved_as_jax_moves_it(
    transforms, nnx, have, want, where, two, committed, changing
):
    """With `in_shardings`, lifted `jit` moves the array of a variable to the devices that are asked
    for exactly where `jax.jit` does so, and refuses it where that does: an array that was put on
    some devices may go to others, and may not be cut otherwise.
    """
    need_devices(8)
    count = 2 if two else 4
    devices = jax.devices()
    held = {"the same": devices[:count], "elsewhere": devices[count : 2 * count]}.get(
        where, devices[:count][::-1]
    )
    asked = NamedSharding(jax.sharding.Mesh(devices[:count], ("data",)), PartitionSpec(*want))
    array = jnp.arange(64.0).reshape(8, 8)
    if committed:
        present = NamedSharding(jax.sharding.Mesh(held, ("data",)), PartitionSpec(*have))
        array = jax.device_put(array, present)
    variable = nnx.Param(array)

    def by_lift(variable):
        if changing:
            variable.set_value(variable.get_value() + 1)
        return variable.get_value() * 2

    expected = attempted(lambda: jax.jit(lambda x: (x + changing) * 2, in_shardings=asked)(array))
    found = attempted(lambda: transforms.jit(by_lift, in_shardings=(asked,))(variable))
    reached("refused" if expected.error else "returned")
    if expected.error is None and committed and where != "the same":
        reached("moved")
    assert not (different := difference(found, expected)), different
    if changing and expected.error is None:
        assert has_sharding(variable, asked)


def _assert_sharded(root, sharding):
    """Fail unless both variables of a block have a sharding."""
    assert has_sharding(root.a, sharding)
    assert has_sharding(root.b.a, sharding)


@requirement(
    "transformations/places-arrays/jit-of-objects[outputs]", must_reach=("not prefix", "prefix")
)
@costly
@given(mesh=few_meshes, pair=st.tuples(specs, specs), prefix=st.booleans())
def test_outputs_have_the_shardings_asked_for(transforms, nnx, mesh, pair, prefix):
    """With `out_shardings`, one for each result or one for all, returned arrays and the variables
    of returned objects have their shardings.
    """
    one, other = (_on(mesh, spec) for spec in pair)

    jitted = transforms.jit(_made(nnx), out_shardings=one if prefix else (one, other))
    array, root = jitted(X)
    inside = one if prefix else other
    assert has_sharding(array, one)
    assert has_sharding(root.a, inside)
    assert has_sharding(root.b.a, inside)
    _assert_same_as_plain(nnx, root, X, array)


@requirement(
    "transformations/places-arrays/jit-of-objects[filters]", must_reach=("inputs", "outputs")
)
@costly
@given(mesh=few_meshes, pair=st.tuples(specs, specs), side=st.sampled_from(["inputs", "outputs"]))
def test_a_state_sharding_shards_by_filters(transforms, nnx, mesh, pair, side):
    """A `StateSharding` for an argument or a result gives each variable of the object the sharding
    of the first filter that takes it.
    """
    one, other = (_on(mesh, spec) for spec in pair)
    by_filter = transforms.StateSharding({nnx.Param: one, ...: other})
    root = _block(nnx)
    if side == "inputs":
        array = transforms.jit(_work, in_shardings=(by_filter, None))(root, X)
    else:
        array, root = transforms.jit(_made(nnx), out_shardings=(None, by_filter))(X)
    assert has_sharding(root.a, one)
    assert has_sharding(root.b.a, other)
    _assert_same_as_plain(nnx, root, X, array)


@requirement("transformations/places-arrays/jit-of-objects[None]")
@given(mesh=few_meshes, spec=specs, side=st.sampled_from(["argument", "result", "all"]))
def test_none_leaves_the_choice_open(transforms, nnx, mesh, spec, side):
    """`None` in the place of an argument or a result asks for no sharding there; shardings given
    for other places hold, and the result is that of the eager call.
    """
    one = _on(mesh, spec)
    if side == "result":
        array, root = transforms.jit(_made(nnx), out_shardings=(one, None))(X)
        assert has_sharding(array, one)
    else:
        root = _block(nnx)
        shardings = (None, one) if side == "argument" else None
        array = transforms.jit(_work, in_shardings=shardings)(root, X)
    _assert_same_as_plain(nnx, root, X, array)


@requirement("transformations/refuses/jit-of-objects[indivisible]")
@few("JAX refuses it; JIT-10 draws what JAX refuses")
@given(mesh=few_meshes, size=st.sampled_from([3, 7]))
def test_an_indivisible_size_is_refused(transforms, nnx, mesh, size):
    """A sharding that does not divide the size of a variable is refused with an error that shows
    the size, and the variable keeps its value.
    """
    assume(mesh.size > 1)
    root = _block(nnx)
    root.a = nnx.Param(np.arange(size, dtype="float32"))
    before = root.a.get_raw_value()
    jitted = transforms.jit(lambda root: None, in_shardings=(_on(mesh, ("data",)),))
    refused(lambda: jitted(root), naming=(size,))
    assert root.a.get_raw_value() is before


FORMS = ("mapping", "pairs", "state")


def _filters(nnx, names):
    """Filters by name: by type, by path, and for everything."""
    known = {
        "param": nnx.Param,
        "stat": nnx.BatchStat,
        "inner": nnx.PathContains("b"),
        "all": ...,
    }
    return [known[name] for name in names]


names = st.permutations(["param", "stat", "inner"]).map(lambda some: (*some, "all"))


@requirement("transformations/places-arrays/filters-decide-by-order", must_reach=FORMS)
@few("every order of the filters in which the first decides")
@given(order=names, form=st.sampled_from(FORMS))
def test_the_first_filter_decides(transforms, nnx, order, form):
    """`StateSharding.map_prefix` gives the sharding of the first filter, in the order given, that
    takes the path and variable; a `State` gives the sharding at the very path.
    """
    root = _block(nnx)
    pairs = list(zip(_filters(nnx, order), order, strict=True))
    if form == "state":
        sharding = transforms.StateSharding(nnx.State({"a": "outer", "b": {"a": "below"}}))
        expected = "outer", "below"
    else:
        sharding = transforms.StateSharding(dict(pairs) if form == "mapping" else pairs)
        takes = {"a": ("param", "all"), "b": ("stat", "inner", "all")}
        expected = tuple(next(n for n in order if n in takes[key]) for key in "ab")
    found = sharding.map_prefix(("a",), root.a), sharding.map_prefix(("b", "a"), root.b.a)
    assert alike(found, expected)


@requirement("transformations/refuses/jit-of-objects[no-filter]")
@few("every form of a sharding by filters, at every moment that can refuse it")
@given(how=st.sampled_from(["asked", "called"]), form=st.sampled_from(FORMS))
def test_a_variable_that_no_filter_takes_is_refused(transforms, nnx, how, form):
    """A variable that no filter of a `StateSharding` takes is refused with an error that shows its
    path, by `map_prefix` and by a call.
    """
    pairs = [(nnx.Param, None)]
    given = {"mapping": dict(pairs), "pairs": pairs, "state": nnx.State({"a": None})}[form]
    sharding = transforms.StateSharding(given)
    root = _block(nnx)
    if how == "asked":
        refused(lambda: sharding.map_prefix(("b", "a"), root.b.a), naming=("b", "a"))
        return
    jitted = transforms.jit(lambda root: None, in_shardings=(sharding,))
    refused(lambda: jitted(root), naming=("b", "a"))


@requirement(
    "transformations/refuses/jit-of-objects[no-filter]", must_reach=("asked", "called", "returned")
)
@few("every error of a filter, at every moment that can ask it")
@given(how=st.sampled_from(["asked", "called", "returned"]), error=st.sampled_from(list(FAILING)))
def test_an_error_of_a_filter_of_shardings_reaches_the_caller(transforms, nnx, how, error):
    """An error that a filter of a `StateSharding` itself raises comes out of `map_prefix`, and of a
    call with it in `in_shardings` or `out_shardings`.
    """
    sharding = transforms.StateSharding({nnx.Param: None, FAILING[error]: None})
    root = _block(nnx)
    ask = {
        "asked": lambda: sharding.map_prefix(("b", "a"), root.b.a),
        "called": lambda: transforms.jit(lambda root: None, in_shardings=(sharding,))(root),
        "returned": lambda: transforms.jit(_made(nnx), out_shardings=(None, sharding))(X),
    }[how]
    found = raised(ask)
    assert alike(type(found).__name__, error), f"the {error} came out as {found!r}"


@requirement(
    "transformations/places-arrays/filters-compare-by-content",
    must_reach=("equal", "different", "state"),
)
@given(pair=st.tuples(names, names), mesh=few_meshes, form=st.sampled_from(FORMS))
def test_equality_follows_filters_and_shardings(transforms, nnx, pair, mesh, form):
    """Two `StateSharding`s are equal exactly when their filters and shardings are, in order; then
    their hashes are equal. Those of a `State` are equal to those of one with the same content.
    """
    values = [_on(mesh, ("data",)), _on(mesh, ())]

    def make(order, kind, values=values):
        if alike(kind, "state"):
            a, b, c = order[:3]
            return transforms.StateSharding(nnx.State({a: {b: values[0], c: values[1]}}))
        pairs = list(zip(_filters(nnx, order[:2]), values, strict=True))
        return transforms.StateSharding(dict(pairs) if alike(kind, "mapping") else pairs)

    state = form == "state"
    one, other = make(pair[0], form), make(pair[1], "state" if state else "pairs")
    swapped = make(pair[0], "state" if state else "pairs", values[::-1])
    same = pair[0][:2] == pair[1][:2]
    reached("equal" if same else "different")
    if state:
        reached("state")
    assert says_equal(one, other) is same
    assert says_unequal(one, swapped)
    assert not same or hash(one) == hash(other)


@requirement("transformations/places-arrays/filters-can-be-read")
@few("every form of a sharding by filters, at every moment that can refuse it")
@given(order=names, form=st.sampled_from(FORMS[:2]))
def test_filters_and_shardings_can_be_read_back(transforms, nnx, order, form):
    """`StateSharding.filters` and `.shardings` are tuples of the given ones, in order.

    A later change of the given container does not change them, and `repr` shows every entry.
    """
    filters = _filters(nnx, order)
    pairs = list(zip(filters, order, strict=True))
    given = dict(pairs) if form == "mapping" else pairs
    sharding = transforms.StateSharding(given)
    given.clear()
    assert alike(sharding.filters, tuple(filters))
    assert alike(sharding.shardings, tuple(order))
    text = repr(sharding)
    missing = [word for word in ("StateSharding", *order) if word not in plain_text(text)]
    assert not missing, f"{text} shows none of {missing}"
