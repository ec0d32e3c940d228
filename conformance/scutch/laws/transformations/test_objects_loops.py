"""Lifted `vmap` and `scan` over objects: OBJ-7.

The oracle is a Python loop over the slices of an object. A *lane* is the slice that one step of a
map or loop works on. A type of variables has an *axis* along which it is sliced, or `None` if all
lanes share it, or it is *carried* from one step to the next.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.graphs import classes, differences, nodes
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.marks import at_least, costly, reached, requirement
from scutch.laws.transformations.nested_modules import PLACES, at, nested_model, node_pairs

KINDS = ("Param", "BatchStat", "Count")
"""The types of variables in the model, for each of which an axis is drawn."""

SIZE = 3
X = np.arange(1, 1 + SIZE, dtype="float32")

changes = st.lists(st.sampled_from(KINDS), unique=True).map(tuple)
ends = st.sampled_from([0, 1])


def _kind(nnx, variable):
    """The type in `KINDS` that a variable is of; a variable of a subclass counts as its
    parent's.
    """
    own = classes(nnx)
    return next(kind for kind in KINDS if isinstance(variable, own[kind]))


def _is_axis(axis):
    """Whether variables are sliced, neither shared nor carried."""
    return isinstance(axis, int)


def _model(nnx, axes, tied):
    """A nested model, whose variables are stacked `SIZE` times along the axes of their types."""

    def stacked(variable, value):
        axis = axes[_kind(nnx, variable)]
        if _is_axis(axis):
            variable.set_value(np.stack([value + i for i in range(SIZE)], axis))

    return nested_model(nnx, tied, stacked)


@functools.cache
def _body(nnx, changed):
    """A function of a module and a number, which changes variables of some types.

    Args:
      nnx: The namespace of objects.
      changed: The types, as a frozen set.
    """

    def body(module, x):
        total = x
        for weight, place in enumerate(PLACES, 1):
            total = total + weight * jnp.sum(at(module, place).get_value())
        for variable in (at(module, place) for place in PLACES):
            if _kind(nnx, variable) in changed:
                variable.set_value(variable.get_value() - total)
        return module.a.get_value() + total

    return body


def _lane(nnx, root, axes, index, before=None):
    """The slice of a model that one step works on.

    Args:
      nnx: The namespace of objects.
      root: The whole model.
      axes: For each type its axis, `None` or `CARRIED`.
      index: Which slice.
      before: The lane of the step before, whose carried variables this one goes on with; `None` in
        the first step.
    """
    lane = nnx.clone(root)
    olds = nodes(nnx, lane if before is None else before)
    for variable, old in zip(nodes(nnx, lane), olds, strict=True):
        if isinstance(variable, nnx.Variable):
            axis = axes[_kind(nnx, variable)]
            if _is_axis(axis):
                variable.set_value(np.take(variable.get_value(), index, axis))
            elif axis is not None:
                variable.set_value(old.get_value())
    return lane


def _gather(nnx, root, axes, lanes):
    """Set the variables of a model to the stacked values of its lanes.

    Args:
      nnx: The namespace of objects.
      root: The model, which is changed.
      axes: For each type its axis, `None` or `CARRIED`.
      lanes: The lanes, in the order of their slices.
    """
    found = [nodes(nnx, lane) for lane in lanes]
    for i, variable in enumerate(nodes(nnx, root)):
        if isinstance(variable, nnx.Variable):
            axis = axes[_kind(nnx, variable)]
            if _is_axis(axis):
                variable.set_value(np.stack([each[i].get_value() for each in found], axis))
            elif axis is not None:
                variable.set_value(found[-1][i].get_value())


def _prefix(transforms, nnx, axes, whole):
    """The axes as a lifted transformation takes them: one axis, or a `StateAxes` by types."""
    if whole:
        return axes[KINDS[0]]
    by_type = {classes(nnx)[kind]: axis for kind, axis in axes.items()}
    return transforms.StateAxes(by_type)


map_axes = st.fixed_dictionaries(dict.fromkeys(KINDS, st.sampled_from([0, 1, None])))


@requirement(
    "transformations/equals-jax/vmap-of-objects",
    must_reach=("whole", "not whole", "several axes", "shared", "changed"),
)
@given(axes=map_axes, whole=st.booleans(), tied=st.booleans(), changed=changes, out=ends)
def test_a_lifted_map_equals_the_loop_over_the_lanes(
    transforms, nnx, axes, whole, tied, changed, out
):
    """Lifted `vmap` gives the results and updates of a Python loop over the slices of an object;
    variables without an axis are the same for all lanes.
    """
    axes = dict.fromkeys(KINDS, axes["Param"]) if whole else axes
    for name, is_so in (("several axes", len(set(axes.values())) > 1), ("shared", tied)):
        if is_so:
            reached(name)
    changed = frozenset(kind for kind in changed if axes[kind] is not None)
    if changed:
        reached("changed")
    body = _body(nnx, changed)
    looped, model = _model(nnx, axes, tied), _model(nnx, axes, tied)
    pairs = node_pairs(nnx, looped, model)
    lanes = [_lane(nnx, looped, axes, i) for i in range(SIZE)]
    results = [body(lane, x) for lane, x in zip(lanes, X, strict=True)]
    _gather(nnx, looped, axes, lanes)
    in_axes = (_prefix(transforms, nnx, axes, whole), 0)
    found = transforms.vmap(body, in_axes=in_axes, out_axes=out)(model, X)
    assert alike(found, np.stack(results, out))
    difference = differences(nnx, looped, model, pairs)
    assert not difference, f"loop and map: {difference}"


CARRIED = "carried"
loop_axes = st.fixed_dictionaries(
    dict.fromkeys(KINDS, st.sampled_from([0, 1, None, CARRIED, CARRIED]))
)


@requirement(
    "transformations/equals-jax/scan-of-objects",
    must_reach=("whole", "not whole", "carried", "sliced", "shared by all", "reverse", "renewed"),
)
@costly
@at_least(18)
@given(
    axes=loop_axes,
    whole=st.booleans(),
    tied=st.booleans(),
    changed=changes,
    out=ends,
    reverse=st.booleans(),
    renewed=st.sampled_from([True, True, False]),
)
def test_a_lifted_scan_equals_the_loop(
    transforms, nnx, axes, whole, tied, changed, out, reverse, renewed
):
    """Lifted `scan` over objects gives the results and updates of a Python loop.

    The loop runs forward or in reverse. Each step has its slice, the carried variables as the step
    before left them, and the shared variables. If steps replace a carried variable by new ones, the
    old variable afterwards holds its value from before the loop, or from the end of the first step.
    """
    axes = dict.fromkeys(KINDS, axes["Param"]) if whole else axes
    for axis in axes.values():
        reached({CARRIED: CARRIED, None: "shared by all"}.get(axis, "sliced"))
    changed = frozenset(kind for kind in changed if axes[kind] is not None)
    body = stepped = _body(nnx, changed)
    looped, model = _model(nnx, axes, tied), _model(nnx, axes, tied)
    pairs = node_pairs(nnx, looped, model)
    old, at_first = model.b, model.b.get_value()
    renewed = renewed and alike(axes["BatchStat"], CARRIED)
    if renewed:
        reached("renewed")
        body, stepped = (_adding(stepped, renewed=each) for each in (False, True))
        pairs = None  # The new variable is no partner of the old one.
    order = range(SIZE)[:: -1 if reverse else 1]
    lanes, results = {}, {}
    before = None
    for i in order:
        before = lanes[i] = _lane(nnx, looped, axes, i, before)
        results[i] = body(before, X[i])
    stacked = np.stack([results[i] for i in range(SIZE)], out)
    _gather(nnx, looped, axes, [lanes[i] for i in range(SIZE)])
    for variable, last in node_pairs(nnx, looped, before):
        if isinstance(variable, nnx.Variable) and axes[_kind(nnx, variable)] == CARRIED:
            variable.set_value(last.get_value())
    assert alike(_scanned(transforms, nnx, axes, whole, stepped, model, out, reverse), stacked)
    difference = differences(nnx, looped, model, pairs or node_pairs(nnx, looped, model))
    assert not difference, f"loop and scan: {difference}"
    left = [at_first, 2 * lanes[order[0]].b.get_value()]
    assert not renewed or holds(left, old.get_value()), f"{old} is none of {left}"


def _adding(body, *, renewed):
    """A body that adds the number to the statistics at the end, maybe in a new variable; then the
    old one gets twice the sum.
    """

    def adding(module, x):
        result = body(module, x)
        value = module.b.get_value() + x
        if renewed:
            module.b.set_value(2 * value)
            module.b = type(module.b)(value)
        else:
            module.b.set_value(value)
        return result

    return adding


def _scanned(transforms, nnx, axes, whole, body, model, out, reverse):
    """The results of the lifted loop.

    A model that is carried whole is the carry; else the loop carries a count of its steps, which is
    checked here.
    """
    carry = transforms.Carry
    axes = {kind: carry if alike(axis, CARRIED) else axis for kind, axis in axes.items()}
    options = {"out_axes": (carry, out), "reverse": reverse}
    if whole and axes["Param"] is carry:
        step = _returning(body)
        returned, found = transforms.scan(step, in_axes=(carry, 0), **options)(model, X)
        assert returned is model
        return found
    prefix = _prefix(transforms, nnx, axes, whole)
    step = transforms.scan(_counting(body), in_axes=(prefix, carry, 0), **options)
    count, found = step(model, np.float32(0), X)
    assert alike(count, np.float32(SIZE))
    return found


@functools.cache
def _returning(body):
    """A step that carries the module."""
    return lambda module, x: (module, body(module, x))


@functools.cache
def _counting(body):
    """A step that carries a count of the steps."""
    return lambda module, count, x: (count + 1, body(module, x))


def _sown(nnx, module):
    """What was sown in a nested module, by the path."""
    return nnx.to_pure_dict(nnx.state(module, nnx.Intermediate))


def _sow(nnx, module, inner, times, x):
    """Sow some multiples of a value that depends on a nested module, in it or in the inner one."""
    home = module.c if inner else module
    for n in range(times):
        home.sow(nnx.Intermediate, "seen", (n + 1) * x * home.a.get_value())


def _stacked(trees, axis):
    """Trees of one structure, with their arrays stacked."""
    return jax.tree.map(lambda *arrays: np.stack(arrays, axis), *trees)


sowing = {"axis": st.sampled_from([0, 1, -1]), "inner": st.booleans(), "times": st.integers(1, 4)}


@requirement("transformations/equals-jax/vmap-of-objects", must_reach=("inner", "several"))
@given(**sowing)
def test_what_lanes_sow_is_stacked(transforms, nnx, axis, inner, times):
    """What a mapped function sows in a module whose variables all lanes share is stacked along the
    axis of its type.
    """
    reached(*["inner"] * inner, *["several"] * (times > 1))
    lanes = [nested_model(nnx, tied=False) for _ in X]
    for lane, x in zip(lanes, X, strict=True):
        _sow(nnx, lane, inner, times, x)
    model = nested_model(nnx, tied=False)
    prefix = transforms.StateAxes({nnx.Intermediate: axis, ...: None})
    transforms.vmap(lambda m, x: _sow(nnx, m, inner, times, x), in_axes=(prefix, 0))(model, X)
    assert alike(_sown(nnx, model), _stacked([_sown(nnx, lane) for lane in lanes], axis))


CARRIES = ("number", "object", "object and number")


@requirement(
    "transformations/equals-jax/scan-of-objects", must_reach=(*CARRIES, "inner", "several")
)
@costly
@given(carried=st.sampled_from(CARRIES), reverse=st.booleans(), **sowing)
def test_what_steps_sow_is_stacked(transforms, nnx, carried, reverse, axis, inner, times):
    """What the steps of a loop sow in a module that they share is stacked along the axis of its
    type, whether they carry a number, an object, or both in a container.
    """
    reached(*["inner"] * inner, *["several"] * (times > 1))

    def counter():
        made = classes(nnx)["Node"]()
        made.a = nnx.BatchStat(np.zeros((), "float32"))
        return made

    def started():
        number = jnp.float32(0)
        return {"number": number, "object": counter()}.get(carried, (counter(), number))

    def step(module, carry, x):
        parts = carry if isinstance(carry, tuple) else (carry,)
        count = parts[0].a.get_value() if hasattr(parts[0], "a") else parts[0]
        _sow(nnx, module, inner, times, x + count)
        if hasattr(parts[0], "a"):
            parts[0].a.set_value(count + x)
        parts = tuple(part if hasattr(part, "a") else part + x for part in parts)
        return parts if isinstance(carry, tuple) else parts[0]

    lanes, carry = {}, started()
    for i in range(SIZE)[:: -1 if reverse else 1]:
        lanes[i] = nested_model(nnx, tied=False)
        carry = step(lanes[i], carry, X[i])
    model, own = nested_model(nnx, tied=False), transforms.Carry
    prefix = transforms.StateAxes({nnx.Intermediate: axis, ...: None})
    loop = transforms.scan(step, in_axes=(prefix, own, 0), out_axes=own, reverse=reverse)
    found = loop(model, started(), X)
    expected = _stacked([_sown(nnx, lanes[i]) for i in range(SIZE)], axis)
    assert alike(_sown(nnx, model), expected)
    ends = [each[0] if isinstance(each, tuple) else each for each in (found, carry)]
    ends = [each.a.get_value() if hasattr(each, "a") else each for each in ends]
    assert alike(np.asarray(ends[0]), np.asarray(ends[1]))
