"""Where a variable lies when it is made with names of axes: OBJ-9.

A variable may be made with `out_sharding` in its metadata: names of axes, a `PartitionSpec`, a
`NamedSharding`, or JAX's `Format` of one. The mesh comes from the sharding, from the metadata
`mesh`, or from the context. *Eager sharding* lays the value out at once; it can be switched off.

The oracle is the `NamedSharding` of the spec that the names have, on that mesh.
"""

from typing import Any

import jax
import jax.experimental.layout
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from scutch.lawkit.domain import assume, not_available
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import costly, options, raised, reached, refused, requirement
from scutch.lawkit.placement import assert_placed, has_sharding, in_context
from scutch.strategies import logical_placements

AxisType: Any = getattr(jax.sharding, "AxisType", None)
_layout: Any = jax.experimental.layout
_Format = getattr(_layout, "Format", _layout.Layout)  # as JAX called it before 0.7
FORMS = {
    "names": lambda sharding: tuple(sharding.spec),
    "spec": lambda sharding: sharding.spec,
    "sharding": lambda sharding: sharding,
    "format": lambda sharding: _Format(None, sharding),
}
forms = st.sampled_from(list(FORMS))
anywhere = st.one_of(logical_placements(), logical_placements(explicit=True))


def _sharding(placed):
    """The sharding that a placement asks for: one mesh axis, or none, for each logical name."""
    rules = dict(placed.rules)
    return NamedSharding(placed.mesh, PartitionSpec(*[rules.get(name) for name in placed.names]))


def _on_devices(placed):
    """The array of a placement, on one device."""
    return jax.device_put(placed.array, jax.devices()[0])


def _check_placed(nnx, placed, form, where, traced):
    """Fail unless a variable that is made with a sharding in some form lies by it; one that is made
    with names of no axis must hold its value, wherever that lies.
    """
    explicit = bool(getattr(placed.mesh, "are_all_axes_explicit", False))
    assume(placed.names or form in ("names", "spec"))
    assume(where == "context" or not explicit)
    reached(form, where, *["traced"] * traced, *["explicit"] * explicit)
    sharding = _sharding(placed)
    notes = {"out_sharding": FORMS[form](sharding)}
    if where == "own":
        notes["mesh"] = placed.mesh

    devices = placed.mesh.devices.reshape(-1)

    def made(array):
        if where == "own":  # Before it, a variable on another mesh of the same devices.
            beside = np.zeros(devices.size, "float32")
            nnx.Param(beside, out_sharding=("beside",), mesh=Mesh(devices, ("beside",)))
        return nnx.Param(array, **notes).get_value()

    with in_context(placed.mesh if where == "context" else None), nnx.use_eager_sharding(True):
        result = (jax.jit(made) if traced else made)(placed.array)
    if placed.names:
        assert_placed(result, placed.array, sharding)
    else:
        assert alike(result, placed.array)


@requirement(
    "objects/placement/names-place-the-variable",
    must_reach=("names", "spec", "context", "own", "traced", "explicit"),
)
@options("nnx.Variable.out_sharding")
@costly
@given(
    placed=anywhere,
    form=st.sampled_from(["names", "spec"]),
    where=st.sampled_from(["context", "own"]),
    traced=st.booleans(),
)
def test_a_variable_with_names_lies_as_they_say(nnx, placed, form, where, traced):
    """A variable made with names of mesh axes, in a tuple or a spec, lies by that spec on its mesh
    or the mesh in context; inside `jax.jit` it is constrained to it.
    """
    _check_placed(nnx, placed, form, where, traced)


@requirement("objects/placement/names-place-the-variable")
@options("nnx.Variable.out_sharding")
@given(placed=logical_placements(), where=st.sampled_from(["context", "own"]))
def test_a_variable_lies_as_its_names_say_while_jit_is_disabled(nnx, placed, where):
    """Under `jax.disable_jit()`, as one debugs, a variable made with names lies by them, too."""
    with jax.disable_jit():
        _check_placed(nnx, placed, "names", where, False)


@requirement(
    "objects/placement/sharding-agrees-with-context",
    must_reach=("sharding", "format", "context", "own", "traced", "explicit"),
)
@options("nnx.Variable.out_sharding")
@costly
@given(
    placed=anywhere,
    form=st.sampled_from(["sharding", "format"]),
    where=st.sampled_from(["context", "own"]),
    traced=st.booleans(),
)
def test_a_variable_with_a_sharding_lies_by_it(nnx, placed, form, where, traced):
    """A variable made with a sharding that has its mesh lies by it, where the metadata or the
    context have the same mesh too.
    """
    _check_placed(nnx, placed, form, where, traced)


@requirement(
    "objects/placement/named-sharding-places-variable", must_reach=("own", "alone", "traced")
)
@options("nnx.Variable.out_sharding")
@given(placed=logical_placements(), where=st.sampled_from(["own", "alone"]), traced=st.booleans())
def test_a_variable_with_a_sharding_alone_lies_by_it(nnx, placed, where, traced):
    """A variable made with a `NamedSharding` lies by it where no mesh is in context, and none or
    the same one in its metadata; inside `jax.jit` it is constrained to it.
    """
    _check_placed(nnx, placed, "sharding", where, traced)


@requirement("objects/placement/rules-place-the-variable", must_reach=("own", "context", "both"))
@options("nnx.Variable.out_sharding")
@given(placed=logical_placements(), whose=st.sampled_from(["own", "context", "both"]))
def test_rules_are_applied_before_a_variable_is_placed(logical, nnx, placed, whose):
    """A variable made with logical names lies by the mesh axes that the rules give them: its own
    rules, those in context, or some of each.
    """
    assume(placed.names)
    own = {"own": placed.rules, "context": (), "both": placed.rules[::2]}[whose]
    around = {"own": (), "context": placed.rules, "both": placed.rules[1::2]}[whose]
    notes = {"out_sharding": placed.names} | ({"sharding_rules": own} if own else {})
    ruled = logical.logical_axis_rules(around)
    with ruled, in_context(placed.mesh), nnx.use_eager_sharding(True):
        result = nnx.Param(placed.array, **notes).get_value()
    assert_placed(result, placed.array, _sharding(placed))


@requirement("objects/placement/switched-off-stays-put", must_reach=("metadata", "context"))
@options("nnx.Variable.out_sharding")
@given(
    placed=logical_placements(),
    form=forms,
    off=st.sampled_from(["metadata", "context"]),
    meshed=st.booleans(),
)
def test_a_variable_stays_where_eager_sharding_is_off(nnx, placed, form, off, meshed):
    """With eager sharding switched off, by the variable's metadata or in context, its value stays
    where it lies, with a mesh in context or none, and its metadata keep the sharding.
    """
    array, given_sharding = _on_devices(placed), FORMS[form](_sharding(placed))
    notes = {"out_sharding": given_sharding}
    if off == "metadata":
        notes["eager_sharding"] = False
    with in_context(placed.mesh if meshed else None), nnx.use_eager_sharding(off == "metadata"):
        variable = nnx.Param(array, **notes)
    result = variable.get_raw_value()
    assert has_sharding(result, array.sharding), f"it lies by {result.sharding}"
    assert alike(result, array)
    assert alike(variable.get_metadata("out_sharding"), given_sharding)


@requirement("objects/placement/eager-sharding-is-switched", must_reach=("left by an error",))
@given(switches=st.lists(st.booleans(), min_size=1, max_size=4), failing=st.booleans())
def test_eager_sharding_is_switched_for_a_block(nnx, switches, failing):
    """`use_eager_sharding(x)` switches eager sharding inside its `with` block, where
    `using_eager_sharding()` is x, and leaves it as it was before, after an error too.
    """
    before = nnx.using_eager_sharding()

    def enter(remaining):
        if not remaining:
            if failing:
                reached("left by an error")
                raise ArithmeticError
            return
        around = nnx.using_eager_sharding()
        try:
            with nnx.use_eager_sharding(remaining[0]):
                assert nnx.using_eager_sharding() is remaining[0]
                enter(remaining[1:])
        finally:
            assert nnx.using_eager_sharding() is around

    try:
        enter(switches)
    except ArithmeticError:
        assert failing
    assert nnx.using_eager_sharding() is before


two_meshes = {
    "placed": logical_placements(),
    "other": logical_placements().map(lambda placed: placed.mesh),
    "form": st.sampled_from(["sharding", "format"]),
}


def _refuse_two_meshes(nnx, placed, other, form, naming=()):
    """Fail unless a variable on two meshes is refused, with an error that names some words."""
    assume(placed.names and not alike(other, placed.mesh))
    reached(form)
    notes = {"out_sharding": FORMS[form](_sharding(placed)), "mesh": other}
    with nnx.use_eager_sharding(True):
        refused(lambda: nnx.Param(placed.array, **notes), naming=naming)


@requirement("objects/placement/two-meshes-are-refused", must_reach=("sharding", "format"))
@options("nnx.Variable.out_sharding")
@given(**two_meshes)
def test_two_meshes_of_a_variable_are_refused(nnx, placed, other, form):
    """A variable with a sharding on one mesh and another `mesh` in its metadata is refused."""
    _refuse_two_meshes(nnx, placed, other, form)


@requirement("objects/placement/two-meshes-are-refused[message]", must_reach=("sharding", "format"))
@options("nnx.Variable.out_sharding")
@given(**two_meshes)
def test_the_refusal_of_two_meshes_shows_both(nnx, placed, other, form):
    """The message of the error of OBJ-9e has the axes of both meshes, with their sizes."""
    axes = [part for mesh in (placed.mesh, other) for pair in mesh.shape.items() for part in pair]
    _refuse_two_meshes(nnx, placed, other, form, naming=tuple(axes))


@requirement(
    "objects/placement/abstract-model-has-shardings", must_reach=("names", "rules", "none")
)
@options("nnx.Variable.out_sharding")
@costly
@given(placed=logical_placements(), how=st.sampled_from(["names", "rules", "none"]))
def test_an_abstract_model_has_the_shardings_that_the_model_has(nnx, placed, how):
    """`get_abstract_model` gives the shapes, dtypes and shardings of a model made under the mesh.

    They are in the state of abstract values, which it returns with the definition of the model.
    """
    assume(placed.names)
    notes = {}
    if how != "none":
        names = placed.names if how == "rules" else tuple(_sharding(placed).spec)
        notes = {"out_sharding": names} | (
            {"sharding_rules": placed.rules} if how == "rules" else {}
        )
    expected = NamedSharding(placed.mesh, PartitionSpec()) if how == "none" else _sharding(placed)

    class Model(nnx.Module):
        def __init__(self):
            self.inner = nnx.Dict(a=nnx.Param(jax.numpy.asarray(placed.array), **notes))

    with nnx.use_eager_sharding(True):
        definition, state = nnx.get_abstract_model(Model, placed.mesh)
        with in_context(placed.mesh):
            made = Model()
    abstract = nnx.merge(definition, state).inner["a"].get_raw_value()
    assert isinstance(abstract, jax.ShapeDtypeStruct)
    concrete = made.inner["a"].get_raw_value()
    assert alike((abstract.shape, abstract.dtype), (concrete.shape, concrete.dtype))
    assert abstract.sharding.is_equivalent_to(expected, concrete.ndim), f"{abstract.sharding}"
    if how != "none":
        assert abstract.sharding.is_equivalent_to(concrete.sharding, concrete.ndim)


AROUND = ("mesh", "abstract mesh", "trace", "nothing")
"""The context in which a variable is made; `trace` is an outer trace under the mesh."""


def _under(mesh, around, call):
    """The result of a call under a mesh, an abstract mesh, or a trace under the mesh."""
    if around == "nothing":
        return call()
    if around == "abstract mesh":
        if not hasattr(jax.sharding, "use_abstract_mesh"):
            not_available("an abstract mesh in context")
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            return call()
    found = []
    with in_context(mesh):
        if around == "mesh":
            return call()
        jax.eval_shape(lambda: found.append(call()))
    return found[0]


def _axes_of(spec, rank):
    """The mesh axes along which each axis of an array is cut."""
    entries = [*spec, *[None] * (rank - len([*spec]))]
    return [() if e is None else (e,) if isinstance(e, str) else tuple(e) for e in entries]


HOW = ("names", "rules", "array")
"""The source of a sharding: names of mesh axes, logical names with rules, or the array's own."""


@requirement(
    "objects/placement/eval-shape-knows-shardings", must_reach=(*AROUND, *HOW, "auto", "explicit")
)
@options("nnx.Variable.out_sharding")
@given(
    placed=anywhere,
    how=st.sampled_from(HOW),
    around=st.sampled_from(AROUND),
    form=st.sampled_from(["names", "spec"]),
    eager=st.booleans(),
    again=st.booleans(),
)
def test_eval_shape_foresees_where_variables_lie(nnx, placed, how, around, form, eager, again):
    """A variable that `eval_shape` gives has the sharding of its names, on its own mesh or the mesh
    in context, also where eager sharding is switched off and the mesh has automatic axes; one whose
    array has a sharding in its type has that. `as_abstract`, where there is one, leaves it so.
    """
    explicit = bool(getattr(placed.mesh, "are_all_axes_explicit", False))
    assume(placed.names)
    if how == "array":
        assume(explicit)
    else:
        assume(not explicit or (eager and around != "nothing"))
    reached("explicit" if explicit else "auto")
    sharding = _sharding(placed)
    notes = {} if around != "nothing" else {"mesh": placed.mesh}
    if how == "rules":
        notes |= {"out_sharding": placed.names, "sharding_rules": placed.rules}
    elif how == "names":
        notes |= {"out_sharding": FORMS[form](sharding)}

    def make():
        array = jax.numpy.asarray(placed.array)
        if how == "array":
            array = jax.sharding.reshard(array, sharding)
        return nnx.Dict(inner=nnx.Dict(a=nnx.Param(array, **notes)))

    with nnx.use_eager_sharding(eager):
        model = _under(placed.mesh, around, lambda: nnx.eval_shape(make))
    if again and hasattr(nnx, "as_abstract"):
        model = nnx.as_abstract(model)
    abstract = model.inner["a"].get_raw_value()
    assert isinstance(abstract, jax.ShapeDtypeStruct)
    assert alike((abstract.shape, abstract.dtype), (placed.array.shape, placed.array.dtype))
    assert abstract.sharding is not None, "it has no sharding"
    assert alike(dict(abstract.sharding.mesh.shape), dict(placed.mesh.shape))
    found, expected = (_axes_of(s.spec, abstract.ndim) for s in (abstract.sharding, sharding))
    assert alike(found, expected), f"it is sharded by {found}, expected {expected}"


@requirement(
    "objects/placement/mixed-axes-place-or-refuse",
    must_reach=("context", "own", "traced", "explicit first"),
)
@options("nnx.Variable.out_sharding")
@given(
    placed=logical_placements(),
    form=st.sampled_from(["names", "spec"]),
    bits=st.integers(1, 6),
    where=st.sampled_from(["context", "own"]),
    traced=st.booleans(),
)
def test_a_variable_on_axes_of_two_types_lies_as_it_says_or_is_refused(
    nnx, placed, form, bits, where, traced
):
    """A variable made with names on a mesh that has automatic and explicit axes lies by them, or is
    refused; it is not left where it was.
    """
    axis_names = placed.mesh.axis_names
    explicit = [bits >> n & 1 for n in range(len(axis_names))]
    assume(placed.names and 0 < sum(explicit) < len(explicit))
    is_explicit = dict(zip(axis_names, explicit, strict=True))
    cuts = [[is_explicit[a] for a in axes] for axes in _axes_of(_sharding(placed).spec, 0)]
    assume(not any(0 < sum(cut) < len(cut) for cut in cuts))
    if AxisType is None:
        not_available("types of mesh axes")
    reached(*["explicit first"] * explicit[0])
    types = [(AxisType.Auto, AxisType.Explicit)[each] for each in explicit]
    mesh = Mesh(placed.mesh.devices, axis_names, axis_types=tuple(types))
    sharding = NamedSharding(mesh, _sharding(placed).spec)
    notes = {"out_sharding": FORMS[form](sharding)} | ({"mesh": mesh} if where == "own" else {})
    results = []

    def make():
        def made(array):
            return nnx.Param(array, **notes).get_value()

        results.append((jax.jit(made) if traced else made)(placed.array))

    with in_context(mesh if where == "context" else None), nnx.use_eager_sharding(True):
        error = raised(make)
    if error is None:
        assert_placed(results[0], placed.array, sharding)
