"""When a jitted function is traced again, and that every change between calls is seen: JIT-3.

The oracle is `fingerprint`, which lists everything that a trace depends on: types, attributes,
static data, metadata, shapes, dtypes and sharing. A function that notes the fingerprint of its
arguments while it is traced, and returns the number of the trace, tells which trace answered a
call.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.inputs.described_objects import Graph, Object, Program, Ref, Step, Variable
from scutch.inputs.descriptions import Array
from scutch.inputs.programs import (
    DICT_EDITS,
    LIST_EDITS,
    METADATA,
    MODULE_CHANGES,
    STRUCTURE,
    Interpreter,
    fingerprint,
)
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.marks import costly, reached, requirement
from scutch.strategies import copies, programs, small_graphs


class Watched:
    """A jitted function that notes the fingerprint that each of its traces sees."""

    def __init__(self, transforms, nnx, work=lambda *arguments: None):
        """Jit a function that notes its fingerprint and then does some work.

        Args:
          transforms: The namespace with the `jit` under judgment.
          nnx: The namespace of objects.
          work: Called with the arguments, after the fingerprint was noted; it may change them.
        """
        self.nnx = nnx
        self.seen = []

        def look(*arguments):
            self.seen.append(fingerprint(nnx, arguments))
            work(*arguments)
            return np.int32(len(self.seen) - 1)

        self.jitted = transforms.jit(look)

    def __call__(self, *arguments):
        """Call, and return the fingerprint that was seen by the trace that answered."""
        trace = int(self.jitted(*arguments))
        assert 0 <= trace < len(self.seen), f"trace {trace} answered, of {len(self.seen)} traces"
        return self.seen[trace]


@requirement("transformations/traced-once/jit-of-objects")
@costly
@given(program=programs((), results=(), between=("bump",), calls=3), works=st.booleans())
def test_nothing_is_traced_twice(transforms, nnx, program, works):
    """Calls on the same objects are traced once, though variables are assigned new values between
    the calls, or inside.
    """

    def work(*arguments):
        for variable in Interpreter(nnx, arguments, ()).variables() if works else ():
            variable.set_value(variable.get_value() + 1)

    watched = Watched(transforms, nnx, work)
    for call in range(3):
        watched(*program.arguments)
        if call < 2:
            program.after(call)
    assert len([*watched.seen]) == 1


@dataclass
class Beside:
    """A tree node of the user's own, with two parts."""

    number: Any
    module: Any


jax.tree_util.register_dataclass(Beside, ["number", "module"], [])

PLACES = {
    "list": lambda number, module: [module, number],
    "tuple": lambda number, module: (number, module),
    "dict": lambda number, module: {"x": number, "y": module},
    "below": lambda number, module: {"x": (number,), "y": [module, [number]]},
    "dataclass": Beside,
}
NUMBERS = {
    "bool": st.sampled_from([False, True]),
    "int": st.integers(-3, 3),
    "float": st.sampled_from([-1.5, 0.0, 0.5, 2.0]),
    "NumPy": st.sampled_from([-1.5, 0.0, 0.5, 2.0]),
}


@requirement(
    "transformations/traced-once/jit-of-objects[other-object]", must_reach=(*PLACES, *NUMBERS)
)
@costly
@given(
    place=st.sampled_from(list(PLACES)),
    several=st.sampled_from(list(NUMBERS)).flatmap(
        lambda kind: st.tuples(st.just(kind), st.lists(NUMBERS[kind], min_size=2, max_size=4))
    ),
)
def test_a_number_beside_an_object_is_traced_as_in_jax(transforms, nnx, place, several):
    """Calls with other containers of an object and numbers, which lie beside the object, are
    traced once, whatever the numbers are; the results are those of the eager calls.
    """
    kind, numbers = several
    numbers = [np.float32(each) if kind == "NumPy" else each for each in numbers]
    reached(kind)
    traces = []

    def scaled(given):
        traces.append(1)
        parts = jax.tree.leaves(given, is_leaf=lambda part: isinstance(part, nnx.Module))
        factors = [part for part in parts if not isinstance(part, nnx.Module)]
        (module,) = (part for part in parts if isinstance(part, nnx.Module))
        module.a.set_value(module.a.get_value() * jnp.float32(factors[0]))
        return factors, sum(jnp.float32(each) for each in factors) + module.a.get_value()

    def made():
        module = graphs.classes(nnx)["Node"]()
        module.a = nnx.Param(np.ones(2, "float32"))
        return module

    eager, lifted, jitted = made(), made(), transforms.jit(scaled)
    for number in numbers:
        factors, total = scaled(PLACES[place](number, eager))
        result, sums = jitted(PLACES[place](number, lifted))
        assert alike(result, [jnp.asarray(each) for each in factors])
        assert alike(sums, total)
    assert alike(lifted.a.get_value(), eager.a.get_value())
    assert len([*traces]) == len(numbers) + 1


@requirement("transformations/traced-once/jit-of-objects[other-object]", must_reach=("order",))
@costly
@given(program_copies=copies(programs((), results=())))
def test_another_object_of_the_same_structure_is_not_traced(transforms, nnx, program_copies):
    """A call with other objects of the same structure, whose metadata was set in another order,
    causes no trace, and changes those objects.
    """

    def work(*arguments):
        for variable in Interpreter(nnx, arguments, ()).variables():
            variable.set_value(variable.get_value() + 1)

    watched = Watched(transforms, nnx, work)
    for program, names in zip(program_copies, (("x", "y"), ("y", "x")), strict=True):
        for variable in Interpreter(nnx, program.arguments, ()).variables():
            reached("order")
            for name in names:
                variable.set_metadata(name, 1)
        watched(*program.arguments)
    assert len([*watched.seen]) == 1
    difference = graphs.differences(nnx, program_copies[0].arguments, program_copies[1].arguments)
    assert not difference, f"first and second object: {difference}"


@requirement(
    "transformations/traced-once/jit-of-objects[each-structure]", must_reach=("new", "known")
)
@costly
@given(
    program_copies=copies(
        programs((), results=(), between=(*STRUCTURE, *METADATA, "constant"), calls=3)
    )
)
def test_each_structure_is_traced_once(transforms, nnx, program_copies):
    """Over calls between which the structure changes and finally returns to the first one, there
    are as many traces as different structures.
    """
    program, first = program_copies
    watched = Watched(transforms, nnx)
    structures = []
    for call, each in enumerate((program, program, program, first)):
        structure = fingerprint(nnx, each.arguments)
        known = holds(structures, structure)
        reached("known" if known else "new")
        structures += [] if known else [structure]
        watched(*each.arguments)
        if call < 2:
            program.after(call)
    assert len([*watched.seen]) == len([*structures])


def _sees(transforms, nnx, program):
    """Call, change the objects, and call again.

    The second call must be answered by a trace that has seen the fingerprint of the changed
    objects.
    """
    watched = Watched(transforms, nnx)
    before = watched(*program.arguments)
    program.after(0)
    now = fingerprint(nnx, program.arguments)
    if not alike(now, before):
        reached("changed")
    assert alike(watched(*program.arguments), now)


def _changes(*kinds, graphs=None):
    """Programs of two calls, between which steps of the given kinds are taken."""
    return programs((), results=(), between=kinds, calls=2, graphs=graphs)


lists = small_graphs(kinds=("List", "Param"), plain=("list",), size=3)
dicts = small_graphs(kinds=("Dict", "Param"), plain=("dict",), size=3)


@requirement(
    "transformations/nothing-lost/jit-of-objects[attribute-set-before]", must_reach=("changed",)
)
@costly
@given(program=_changes(*MODULE_CHANGES, "new list", "new dict"))
def test_changed_attributes_are_seen(transforms, nnx, program):
    """The call after an attribute was set, replaced or deleted, static data included, runs with the
    new attributes.
    """
    _sees(transforms, nnx, program)


@requirement(
    "transformations/nothing-lost/jit-of-objects[container-changed-before]", must_reach=("changed",)
)
@costly
@given(program=_changes(*LIST_EDITS, graphs=lists))
def test_changed_lists_are_seen(transforms, nnx, program):
    """The call after a plain or tracked list was changed in place runs with its new content."""
    _sees(transforms, nnx, program)


@requirement(
    "transformations/nothing-lost/jit-of-objects[container-changed-before]", must_reach=("changed",)
)
@costly
@given(program=_changes(*DICT_EDITS, graphs=dicts))
def test_changed_dicts_are_seen(transforms, nnx, program):
    """The call after a plain or tracked dict was changed in place runs with its new content."""
    _sees(transforms, nnx, program)


@requirement(
    "transformations/nothing-lost/jit-of-objects[metadata-set-before]", must_reach=("changed",)
)
@costly
@given(program=_changes(*METADATA))
def test_changed_metadata_is_seen(transforms, nnx, program):
    """The call after metadata of a variable was set, changed or deleted runs with the new
    metadata.
    """
    _sees(transforms, nnx, program)


@requirement("transformations/nothing-lost/jit-of-objects[retyped-before]", must_reach=("changed",))
@costly
@given(program=_changes("retype"))
def test_a_variable_of_another_type_is_seen(transforms, nnx, program):
    """The call after a variable was replaced by one of another type and the same value, in an
    attribute, a list or a dict, runs with the new type.
    """
    _sees(transforms, nnx, program)


WRITTEN = ("replaced", "new", "deleted")
FORMS = {
    "itself": lambda value: value,
    "list": lambda value: [value],
    "dict": lambda value: {value: value},
    "set": lambda value: {value, 1},
    "tuple": lambda value: (frozenset({value, 1}), {value}),
}
"""Static data that a value is written as."""


@requirement(
    "transformations/nothing-lost/jit-of-objects[vars-written-before]",
    must_reach=(*WRITTEN, "early", "not early", *FORMS),
)
@costly
@given(
    changes=st.lists(
        st.tuples(
            st.sampled_from(WRITTEN),
            st.sampled_from(["text", 2, 3.5]),
            st.sampled_from(list(FORMS)),
        ),
        min_size=1,
        max_size=3,
    ),
    start=st.sampled_from(list(FORMS)),
    early=st.booleans(),
    listed=st.booleans(),
)
def test_what_is_written_to_the_dictionary_of_attributes_is_seen(
    transforms, nnx, changes, start, early, listed
):
    """The call after static data, containers of them among it, was set, replaced or deleted in
    `vars(object)`, which was taken before the first call or is taken each time, runs with the new
    attributes.
    """
    module = graphs.classes(nnx)["Node"]()
    module.a, module.b = nnx.Param(np.ones(2, "float32")), FORMS[start](1)
    root = nnx.List([module]) if listed else module
    watched, attributes = Watched(transforms, nnx), vars(module) if early else None
    watched(root)
    for kind, value, form in changes:
        reached(kind)
        taken = attributes if early else vars(module)
        if kind == "deleted":
            taken.pop("b", None)
        else:
            reached(form)
            taken["b" if kind == "replaced" else "c"] = FORMS[form](value)
        now = fingerprint(nnx, (root,))
        assert alike(watched(root), now)


TWICE = Graph((Object("Node", {"a": Ref(1), "b": Ref(1)}), Variable("Param", Array((2,), "int32"))))


@requirement("transformations/nothing-lost/jit-of-objects[shared-before]", must_reach=("changed",))
@costly
@given(program=_changes("unshare", "share"))
@example(program=Program(TWICE, between=((Step("unshare"),),)))
def test_objects_made_shared_or_unshared_are_seen(transforms, nnx, program):
    """The call after two places came to hold one object, or two equal ones, runs with the new
    sharing.
    """
    _sees(transforms, nnx, program)
