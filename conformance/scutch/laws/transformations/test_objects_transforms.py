"""Lifted `grad`, `vmap` and `scan` over objects, and the optimizer: OBJ-7, OBJ-5p.

The oracles are JAX's own transformation of the pure function of the object's states, a Python loop
over the slices of an object, and `optax`. A *lane* is the slice of an object that one step of a map
or loop works on. A type of variables has an *axis* along which it is sliced, or `None` if all lanes
share it, or it is *carried* from one step to the next.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec

from scutch.inputs.graphs import classes, differences, nodes
from scutch.lawkit.domain import import_or_leave
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.marks import options, reached, requirement
from scutch.lawkit.states import raw_values

KINDS = ("Param", "BatchStat", "Count")
"""The types of variables in the model, for each of which an axis is drawn."""

PLACES = (("a",), ("b",), ("c", "a"), ("c", "b"))
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


def _model(nnx, axes=None, tied=False):
    """A module that holds another, with variables of whole numbers.

    Args:
      nnx: The namespace of objects.
      axes: For each type the axis along which its variables are stacked, `SIZE` times.
      tied: Whether the inner module holds the parameter of the outer one.
    """
    own = classes(nnx)

    def variable(kind, first):
        value = np.arange(first, first + 2, dtype="float32")
        made = own[kind](value)
        axis = (axes or {}).get(_kind(nnx, made))
        if _is_axis(axis):
            made.set_value(np.stack([value + i for i in range(SIZE)], axis))
        return made

    root, root.c = own["Node"](), own["Branch"]()
    root.a, root.b = variable("Param", 1), variable("BatchStat", 2)
    root.c.a, root.c.b = root.a if tied else variable("Scale", 3), variable("Count", 0)
    return root


def _at(root, place):
    """The attribute of an attribute that a path leads to."""
    return functools.reduce(getattr, place, root)


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
            total = total + weight * jnp.sum(_at(module, place).get_value())
        for variable in (_at(module, place) for place in PLACES):
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


def _pairs(nnx, one, other):
    """The nodes of two isomorphic objects, in pairs."""
    return list(zip(nodes(nnx, one), nodes(nnx, other), strict=True))


def _loss(module, x):
    """A scalar and an array of a model and a number; the statistics are changed."""
    values = [_at(module, place).get_value() for place in PLACES]
    module.b.set_value(module.b.get_value() + x)
    return sum(jnp.sum(weight * x * v**2) for weight, v in enumerate(values, 1)), values[0] * x


def _value(module, x):
    """The scalar alone."""
    return _loss(module, x)[0]


def _of_two(loss):
    """The function `loss` of one model or of two: the product of the scalars, and the arrays."""

    def of_two(model, x, other):
        first = loss(model, x)
        if other is None:
            return first
        second = loss(other, x)
        if loss is _value:
            return first * second
        return first[0] * second[0], first[1] + second[1]

    return of_two


FILTERS = {
    "default": lambda nnx: nnx.Param,
    "type": lambda nnx: nnx.BatchStat,
    "path": lambda nnx: nnx.PathContains("c"),
    "either": lambda nnx: nnx.Any(classes(nnx)["Scale"], nnx.BatchStat),
    "neither": lambda nnx: nnx.Not(nnx.Param),
}


@requirement(
    "transformations/equals-jax/grad-of-objects",
    must_reach=(*FILTERS, "several", "shared", "two objects"),
)
@given(
    wanted=st.sampled_from(list(FILTERS)),
    several=st.booleans(),
    tied=st.booleans(),
    with_value=st.booleans(),
    has_aux=st.booleans(),
    two=st.booleans(),
)
def test_gradients_are_those_of_the_pure_function(
    transforms, nnx, wanted, several, tied, with_value, has_aux, two
):
    """Lifted `grad` and `value_and_grad` give the gradients, values and further results that JAX
    gives for the pure function of the object's states, with any filter for the differentiated
    variables and with the gradient of an array beside. Of `two` objects, a variable of both has its
    whole gradient in the state of the first.
    """
    reached(wanted)
    if tied:
        reached("shared")
    loss = _of_two(_loss if has_aux else _value)
    x, model = np.float32(3), _model(nnx, tied=tied)
    other = _model(nnx) if two else None
    if two:
        other.a, other.b = model.a, model.b
    chosen = FILTERS[wanted](nnx)
    definition, variables, rest = nnx.split(nnx.clone([model, other]), chosen, ...)

    def pure(variables, x, rest):
        model, other = nnx.clone(nnx.merge(definition, variables, rest))
        return loss(model, x, other)

    options = {"has_aux": has_aux}
    value, (state, slope) = jax.value_and_grad(pure, (0, 1), **options)(variables, x, rest)
    argnums = 0 if wanted == "default" else transforms.DiffState(0, chosen)
    if several:
        reached("several")
        argnums = (argnums, 1)
    if two:
        reached("two objects")
        further = 2 if wanted == "default" else transforms.DiffState(2, chosen)
        argnums = (*argnums, further) if several else (argnums, further)
    lift = transforms.value_and_grad if with_value else transforms.grad
    found = lift(loss, argnums=argnums, **options)(model, x, other)
    if with_value:
        result, found = found
        assert alike(result, value)
    elif has_aux:
        found, aux = found
        assert alike(aux, value[1])
    states = [*found] if several or two else [found]
    if several:
        assert alike(states.pop(1), slope)
    assert all(isinstance(each, nnx.State) for each in states)
    flat = {(n, *p): v for n, each in enumerate(states) for p, v in _flat(nnx, each).items()}
    expected = _flat(nnx, state)
    assert alike(flat, expected)
    assert expected


def _flat(nnx, state):
    """Types and values of a state's leaves, by path."""
    return {p: (type(v).__name__, v.get_value()) for p, v in nnx.to_flat_state(state)}


map_axes = st.fixed_dictionaries(dict.fromkeys(KINDS, st.sampled_from([0, 1, None])))


@requirement(
    "transformations/equals-jax/vmap-of-objects",
    must_reach=("whole", "by type", "several axes", "shared", "changed"),
)
@given(axes=map_axes, whole=st.booleans(), tied=st.booleans(), changed=changes, out=ends)
def test_a_lifted_map_equals_the_loop_over_the_lanes(
    transforms, nnx, axes, whole, tied, changed, out
):
    """Lifted `vmap` gives the results and updates of a Python loop over the slices of an object;
    variables without an axis are the same for all lanes.
    """
    reached("whole" if whole else "by type")
    axes = dict.fromkeys(KINDS, axes["Param"]) if whole else axes
    for name, is_so in (("several axes", len(set(axes.values())) > 1), ("shared", tied)):
        if is_so:
            reached(name)
    changed = frozenset(kind for kind in changed if axes[kind] is not None)
    if changed:
        reached("changed")
    body = _body(nnx, changed)
    looped, model = _model(nnx, axes, tied), _model(nnx, axes, tied)
    pairs = _pairs(nnx, looped, model)
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
    must_reach=("whole", "by type", "carried", "sliced", "shared by all", "reverse", "renewed"),
)
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
    reached("whole" if whole else "by type")
    axes = dict.fromkeys(KINDS, axes["Param"]) if whole else axes
    for axis in axes.values():
        reached({CARRIED: CARRIED, None: "shared by all"}.get(axis, "sliced"))
    if reverse:
        reached("reverse")
    changed = frozenset(kind for kind in changed if axes[kind] is not None)
    body = stepped = _body(nnx, changed)
    looped, model = _model(nnx, axes, tied), _model(nnx, axes, tied)
    pairs = _pairs(nnx, looped, model)
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
    for variable, last in _pairs(nnx, looped, before):
        if isinstance(variable, nnx.Variable) and axes[_kind(nnx, variable)] == CARRIED:
            variable.set_value(last.get_value())
    assert alike(_scanned(transforms, nnx, axes, whole, stepped, model, out, reverse), stacked)
    difference = differences(nnx, looped, model, pairs or _pairs(nnx, looped, model))
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


NAMES = ((None,), ("data",), ("data", None), (None, "data"), ("model", "data"))
LAYERS = "layers"


def _named(nnx, names, shape):
    """A module with a variable that has names for its axes, and one that has none."""
    module = classes(nnx)["Node"]()
    module.a = nnx.Param(jnp.zeros(shape), out_sharding=names, eager_sharding=False)
    module.b = nnx.BatchStat(jnp.zeros(shape))
    return module


def _specs(nnx, module):
    """The partition specs of both variables."""
    return [*raw_values(nnx, nnx.get_partition_spec(nnx.state(module))).values()]


@requirement(
    "objects/metadata/lifts-name-their-axis",
    must_reach=("vmap given", "vmap made", "scan given", "scan made", "by type"),
)
@options("nnx.Variable.out_sharding")
@given(
    how=st.sampled_from(["vmap", "scan"]),
    made=st.booleans(),
    by_type=st.booleans(),
    names=st.sampled_from(NAMES),
    axis=st.integers(0, 2),
)
@example(how="vmap", made=True, by_type=True, names=("data", None), axis=1)
@example(how="scan", made=True, by_type=True, names=("data", None), axis=1)
def test_lifted_maps_and_loops_name_the_axis_that_they_add(
    transforms, nnx, how, made, by_type, names, axis
):
    """Under lifted `vmap` or `scan` with a partition name, an annotated variable has that name at
    the new axis outside and not inside, whether it is made inside or given, and whether the axis is
    that of the object or of types of variables; a variable without names gets none.
    """
    reached(f"{how} {'made' if made else 'given'}")
    axis = min(axis, len(names))
    prefix = axis
    if by_type:
        reached("by type")
        prefix = transforms.StateAxes({nnx.Param: axis, ...: axis})
    shape = tuple(range(2, 2 + len(names)))
    longer = (*names[:axis], LAYERS, *names[axis:])
    inside = []

    def make(x):
        module = _named(nnx, names, shape)
        inside.append(_specs(nnx, module))
        return module

    def use(module, x):
        inside.append(_specs(nnx, module))
        module.a.set_value(module.a.get_value() + x)
        return x

    def call():
        lift = functools.partial(
            getattr(transforms, how),
            in_axes=(0,) if made else (prefix, 0),
            out_axes=prefix if made else 0,
            transform_metadata={nnx.PARTITION_NAME: LAYERS},
        )
        if made:
            return _specs(nnx, lift(make)(X))
        module = _named(nnx, longer, (*shape[:axis], SIZE, *shape[axis:]))
        lift(use)(module, X)
        return _specs(nnx, module)

    found = []
    jax.eval_shape(lambda: found.extend(call()))
    assert inside, "the function was not called"
    shorter = [PartitionSpec(*names), PartitionSpec()]
    assert all(alike(specs, shorter) for specs in inside), f"{inside}, expected {shorter}"
    assert alike(found, [PartitionSpec(*longer), PartitionSpec()])


def _scaled(optax):
    """A transformation whose `update` takes a further argument."""

    def update(updates, state, params=None, *, scale, **_):
        return jax.tree.map(lambda update: -scale * update, updates), state

    return optax.GradientTransformationExtraArgs(lambda _: optax.EmptyState(), update)


TRANSFORMATIONS = {
    "sgd": lambda optax: optax.sgd(0.5),
    "momentum": lambda optax: optax.sgd(0.5, momentum=0.5),
    "adam": lambda optax: optax.adam(0.5),
    "scaled": lambda optax: _scaled(optax),
}
OPTIMIZED = {
    "Param": lambda nnx: nnx.Param,
    "BatchStat": lambda nnx: nnx.BatchStat,
    "either": lambda nnx: nnx.Any(nnx.Param, nnx.BatchStat),
}


@requirement(
    "objects/optimizer/update-equals-optax", must_reach=(*TRANSFORMATIONS, *OPTIMIZED, "keywords")
)
@options("nnx.Variable.out_sharding")
@given(
    name=st.sampled_from(list(TRANSFORMATIONS)),
    wanted=st.sampled_from(list(OPTIMIZED)),
    steps=st.lists(st.sampled_from([1.0, -2.0]), max_size=2),
    tied=st.booleans(), keywords=st.booleans(),
)  # fmt: skip
def test_the_optimizer_computes_what_optax_computes(
    transforms, nnx, name, wanted, steps, tied, keywords
):
    """After any number of updates the model's parameters and the optimizer's state are those that
    `optax` computes, in the same variables; these have the names of the parameters. Further
    arguments of an update reach the transformation.
    """
    optax = import_or_leave("optax", "optax, which the optimizer wraps, is not there")
    reached(name)
    reached(wanted)
    chosen, transformation = OPTIMIZED[wanted](nnx), TRANSFORMATIONS[name](optax)
    expected, model = _model(nnx, tied=tied), _model(nnx, tied=tied)
    for root in (expected, model):
        for i, variable in enumerate(v for v in nodes(nnx, root) if isinstance(v, nnx.Variable)):
            variable.set_metadata(out_sharding=(f"axis_{i}",), eager_sharding=False)
    pairs = _pairs(nnx, expected, model)
    if keywords:
        reached("keywords")
        optimizer = transforms.Optimizer(model=model, tx=transformation, wrt=chosen)
    else:
        optimizer = transforms.Optimizer(model, transformation, wrt=chosen)
    kept = _kept(nnx, optimizer.opt_state)
    values = nnx.to_pure_dict(nnx.state(expected, chosen))
    state = transformation.init(values)
    for step in steps:
        further = {"scale": 1.5 + step} if name == "scaled" else {}
        slopes = jax.tree.map(lambda x: x * step, values)  # noqa: B023  used at once
        gradients = jax.tree.map(lambda x: x * step, nnx.state(model, chosen))  # noqa: B023
        updates, state = transformation.update(slopes, state, values, **further)
        values = optax.apply_updates(values, updates)
        optimizer.update(model, gradients, **further)
    nnx.update(expected, values)
    difference = differences(nnx, expected, model, pairs)
    assert not difference, f"optax and the optimizer: {difference}"
    assert alike(jax.tree.leaves(optimizer.opt_state), jax.tree.leaves(state))
    assert int(optimizer.step.get_value()) == len(steps)
    after = _kept(nnx, optimizer.opt_state)
    assert [*map(id, after)] == [*map(id, kept)], f"{kept} before and {after} after"
    names = [v.get_metadata("out_sharding") for v in _kept(nnx, nnx.state(model, chosen))]
    found = [v.get_metadata("out_sharding", None) for v in kept]
    copies = {"sgd": 0, "momentum": 1, "adam": 2, "scaled": 0}[name]
    assert alike([each for each in found if each is not None], names * copies)


def _kept(nnx, tree):
    """The variables in a tree."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, nnx.Variable))
    return [each for each in leaves if isinstance(each, nnx.Variable)]
