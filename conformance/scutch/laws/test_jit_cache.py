"""What is traced, and when: JIT-3."""

import gc
import weakref

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.inputs.descriptions import Array, Graph, Object, Program, Ref, Step, Variable
from scutch.inputs.programs import (
    ATTRIBUTES,
    DICTS,
    LISTS,
    METADATA,
    STRUCTURE,
    Interpreter,
    fingerprint,
    inputs,
)
from scutch.lawkit.marks import costly, reached, requirement
from scutch.strategies import copies, programs, small_graphs


class Watched:
    """A jitted function that notes what each of its traces sees, and tells which trace ran."""

    def __init__(self, transforms, nnx, work=lambda *arguments: None):
        """Args: the namespaces, and what the function does beside noting."""
        self.nnx = nnx
        self.seen = []

        def look(*arguments):
            self.seen.append(fingerprint(nnx, arguments))
            work(*arguments)
            return np.int32(len(self.seen) - 1)

        self.jitted = transforms.jit(look)

    def __call__(self, *arguments):
        """What the trace saw that answered this call."""
        return self.seen[int(self.jitted(*arguments))]


@requirement("JIT-3a")
@costly
@given(program=programs((), results=(), between=("bump",), calls=3), works=st.booleans())
def test_nothing_is_traced_twice(transforms, nnx, program, works):
    """Values may change, between calls and inside."""

    def work(*arguments):
        for variable in Interpreter(nnx, arguments, ()).variables() if works else ():
            variable.set_value(variable.get_value() + 1)

    watched = Watched(transforms, nnx, work)
    for call in range(3):
        watched(*program.arguments)
        if call < 2:
            program.after(call)
    assert len(watched.seen) == 1


@requirement("JIT-3b", must_reach=("order",))
@costly
@given(program_copies=copies(programs((), results=())))
def test_another_object_of_the_same_structure_is_not_traced(transforms, nnx, program_copies):
    """Other objects, whose metadata was set in another order, are served, and changed."""

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
    assert len(watched.seen) == 1
    difference = graphs.differences(nnx, program_copies[0].arguments, program_copies[1].arguments)
    assert not difference, f"first and second object: {difference}"


@requirement("JIT-3c", must_reach=("new", "known"))
@costly
@given(
    program_copies=copies(
        programs((), results=(), between=(*STRUCTURE, *METADATA, "constant"), calls=3)
    )
)
def test_each_structure_is_traced_once(transforms, nnx, program_copies):
    """As many traces as there are different structures; in the end the first one is back."""
    program, first = program_copies
    watched = Watched(transforms, nnx)
    structures = []
    for call, each in enumerate((program, program, program, first)):
        structure = fingerprint(nnx, each.arguments)
        reached("known" if structure in structures else "new")
        structures.append(structure)
        watched(*each.arguments)
        if call < 2:
            program.after(call)
    assert len(watched.seen) == len(set(structures))


def _sees(transforms, nnx, program):
    """Call, change, and call again: the second call runs with what there is then."""
    watched = Watched(transforms, nnx)
    before = watched(*program.arguments)
    program.after(0)
    now = fingerprint(nnx, program.arguments)
    if now != before:
        reached("changed")
    assert watched(*program.arguments) == now


def _changes(*kinds, graphs=None):
    return programs((), results=(), between=kinds, calls=2, graphs=graphs)


lists = small_graphs(kinds=("List", "Param"), plain=("list",), size=3)
dicts = small_graphs(kinds=("Dict", "Param"), plain=("dict",), size=3)


@requirement("JIT-3d", must_reach=("changed",))
@costly
@given(program=_changes(*ATTRIBUTES[:4], "new list", "new dict"))
def test_changed_attributes_are_seen(transforms, nnx, program):
    """Set, replaced and deleted ones, static data among them."""
    _sees(transforms, nnx, program)


@requirement("JIT-3e", must_reach=("changed",))
@costly
@given(program=_changes(*LISTS[:5], graphs=lists))
def test_changed_lists_are_seen(transforms, nnx, program):
    """Plain and tracked ones, changed in place."""
    _sees(transforms, nnx, program)


@requirement("JIT-3f", must_reach=("changed",))
@costly
@given(program=_changes(*DICTS[:3], graphs=dicts))
def test_changed_dicts_are_seen(transforms, nnx, program):
    """Plain and tracked ones, changed in place."""
    _sees(transforms, nnx, program)


@requirement("JIT-3g", must_reach=("changed",))
@costly
@given(program=_changes(*METADATA))
def test_changed_metadata_is_seen(transforms, nnx, program):
    """Set, changed and deleted entries."""
    _sees(transforms, nnx, program)


@requirement("JIT-3h", must_reach=("changed",))
@costly
@given(program=_changes("retype"))
def test_a_variable_of_another_type_is_seen(transforms, nnx, program):
    """In an attribute, a list or a dict, with the same value."""
    _sees(transforms, nnx, program)


TWICE = Graph((Object("Node", {"a": Ref(1), "b": Ref(1)}), Variable("Param", Array((2,), "int32"))))


@requirement("JIT-3i", must_reach=("changed",))
@costly
@given(program=_changes("unshare", "share"))
@example(program=Program(TWICE, between=((Step("unshare"),),)))
def test_objects_made_shared_or_unshared_are_seen(transforms, nnx, program):
    """One object in two places, or two that are equal."""
    _sees(transforms, nnx, program)


@requirement("JIT-3j")
def test_calls_keep_no_object_alive(transforms, nnx):
    """Objects that nobody holds are gone after a call, though the jitted function is not."""

    def work(module, arrays):
        module.a.set_value(module.a.get_value() + arrays[1])
        module.b = graphs.classes(nnx)["Count"](arrays[0])
        return module

    jitted = transforms.jit(work)
    alive = []
    for call in range(20):
        module = graphs.classes(nnx)["Node"]()
        module.a = nnx.Param(inputs(call)[0])
        jitted(module, inputs(call))
        alive.append(weakref.ref(module))
    del module
    gc.collect()
    kept = sum(reference() is not None for reference in alive)
    assert kept == 0, f"{kept} of {len(alive)} objects are kept alive"
