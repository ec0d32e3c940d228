"""Every way to change and to copy a variable, and every way to give it hooks: OBJ-11.

A *way* is one call, such as `v.set_metadata(note=1)` or `v.replace(x)`. The oracle of a program of
such calls is a model of each variable, its value and its metadata in plain dictionaries, on which
each way makes its documented change and no other.
"""

import copy
import operator

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.graphs import classes, differences
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.marks import costly, options, reached, refused, requirement
from scutch.lawkit.states import raw_values

KEYS = ("note", "tag")
"""The metadata that the programs of this module set."""


def _array(number):
    """A vector of two equal numbers."""
    return jnp.full(2, number, "float32")


def _replace_all(variable, number):
    """Set all metadata: those that the implementation keeps there stay, of `KEYS` only `tag`."""
    kept = {key: value for key, value in variable.get_metadata().items() if not holds(KEYS, key)}
    variable.set_metadata({**kept, "tag": number})


def _same_by_keyword(variable, number):
    """Set all metadata to their present values."""
    if kept := variable.get_metadata():
        variable.set_metadata(**kept)


def _same_by_pair(variable, number):
    for key, value in variable.get_metadata().items():
        variable.set_metadata(key, value)


def _by_attribute(variable, number):
    variable.value = _array(number)


def _by_item(variable, number):
    variable[...] = _array(number)


def _by_slice(variable, number):
    variable[:] = number


# Each way to change a variable, with its effect on the value and the metadata of the model.
CHANGES = {
    "set_value": (lambda v, n: v.set_value(_array(n)), lambda value, notes, n: (n, notes)),
    "attribute": (_by_attribute, lambda value, notes, n: (n, notes)),
    "item": (_by_item, lambda value, notes, n: (n, notes)),
    "slice": (_by_slice, lambda value, notes, n: (n, notes)),
    "set_raw_value": (lambda v, n: v.set_raw_value(_array(n)), lambda value, notes, n: (n, notes)),
    "keyword": (
        lambda v, n: v.set_metadata(note=n),
        lambda value, notes, n: (value, {**notes, "note": n}),
    ),
    "pair": (
        lambda v, n: v.set_metadata("tag", n),
        lambda value, notes, n: (value, {**notes, "tag": n}),
    ),
    "mapping": (_replace_all, lambda value, notes, n: (value, {"tag": n})),
    "same by keyword": (_same_by_keyword, lambda value, notes, n: (value, notes)),
    "same by pair": (_same_by_pair, lambda value, notes, n: (value, notes)),
}
# Each way to copy a variable, with the value and the metadata of the copy.
COPIES = {
    "copy": (lambda v, n: v.copy(), lambda value, notes, n: (value, notes)),
    "copy with a value": (lambda v, n: v.copy(_array(n)), lambda value, notes, n: (n, notes)),
    "copy with metadata": (
        lambda v, n: v.copy(note=n),
        lambda value, notes, n: (value, {**notes, "note": n}),
    ),
    "replace": (lambda v, n: v.replace(_array(n)), lambda value, notes, n: (n, notes)),
    "replace metadata": (
        lambda v, n: v.replace(tag=n),
        lambda value, notes, n: (value, {**notes, "tag": n}),
    ),
    "replace both": (
        lambda v, n: v.replace(_array(n), note=n),
        lambda value, notes, n: (n, {**notes, "note": n}),
    ),
}
# Each way to take over the value and metadata of another variable.
TAKEN = {
    "copy_from": lambda v, other: v.copy_from(other),
    "update_from_state": lambda v, other: v.update_from_state(other),
}


# Each way to have another variable of the one that is the attribute `a` of a module.
COPIED = {
    "copy": lambda nnx, module: module.a.copy(),
    "copy with metadata": lambda nnx, module: module.a.copy(note=1),
    "replace": lambda nnx, module: module.a.replace(note=1),
    "clone": lambda nnx, module: nnx.clone(module).a,
    "deepcopy": lambda nnx, module: copy.deepcopy(module).a,
    "copy_from": lambda nnx, module: _updated(nnx, nnx.Param.copy_from, module),
    "update_from_state": lambda nnx, module: _updated(nnx, nnx.Param.update_from_state, module),
}


def _updated(nnx, way, module):
    """A new variable that took over the value and metadata of the variable `a` of a module."""
    other = nnx.Param(np.zeros(1))
    way(other, module.a)
    return other


SHALLOW = {"copy.copy": (lambda v, n: copy.copy(v), lambda value, notes, n: (value, notes))}
KINDS = ("Param", "BatchStat", "Count")
first_notes = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 3))


def steps(*ways):
    """Programs: ways, each with the number of a variable and a new value."""
    each = st.tuples(st.sampled_from(ways), st.integers(0, 5), st.integers(4, 9))
    return st.lists(each, min_size=4, max_size=12)


def _check_program(nnx, notes, program):
    """Fail unless, after each step, each variable has the class, value and metadata of its model.

    The program begins with one variable of each of `KINDS`; one that takes over takes from the
    newest of its class.
    """
    variables = [classes(nnx)[kind](_array(0), **notes) for kind in KINDS]
    models = [(type(variable), 0, notes) for variable in variables]
    for way, number, new in program:
        reached(way)
        at = number % len(variables)
        cls, *before = models[at]
        if way in CHANGES:
            change, modelled = CHANGES[way]
            change(variables[at], new)
            models[at] = (cls, *modelled(*before, new))
        elif way in TAKEN:
            newest = max(n for n, model in enumerate(models) if model[0] is cls)
            TAKEN[way](variables[at], variables[newest])
            models[at] = models[newest]
        else:
            make, modelled = {**COPIES, **SHALLOW}[way]
            variables.append(make(variables[at], new))
            models.append((cls, *modelled(*before, new)))
        for position, (variable, model) in enumerate(zip(variables, models, strict=True)):
            found = _seen(variable)
            assert alike(found, model), f"after {way}, variable {position} is {found}, not {model}"


@requirement("objects/variables/changes-do-what-they-say", must_reach=(*CHANGES, *COPIES, *TAKEN))
@given(notes=first_notes, program=steps(*CHANGES, *COPIES, *TAKEN))
def test_each_way_changes_what_it_says(nnx, notes, program):
    """Every way to change, copy or update a variable changes only its own variable, as documented.

    After each step of a program of such calls, all variables have the class, value and metadata of
    a model in plain dictionaries.
    """
    _check_program(nnx, notes, program)


@requirement("objects/copies/shallow-copy-is-independent", must_reach=("copy.copy",))
@given(notes=first_notes, program=steps("copy.copy", *CHANGES))
def test_a_shallow_copy_is_another_variable(nnx, notes, program):
    """`copy.copy` of a variable is another variable with the same value and metadata.

    A later change of one of the two does not change the other.
    """
    _check_program(nnx, notes, program)


OF_VALUES = ("set_value", "attribute", "item", "slice", "set_raw_value")
"""The ways of `CHANGES` to set a value."""


@requirement("objects/copies/shallow-copy-is-independent", must_reach=("copy.copy", *OF_VALUES))
@given(notes=first_notes, program=steps("copy.copy", *OF_VALUES))
def test_a_shallow_copy_has_a_value_of_its_own(nnx, notes, program):
    """Setting the value of a shallow copy or of the original does not change the other one."""
    _check_program(nnx, notes, program)


BY_PARTS = {"first": 0, "last": -1, "slice": slice(1, None), "all": slice(None), "whole": ...}
"""Parts of a value of three numbers."""


@requirement(
    "objects/copies/index-writes-change-one",
    must_reach=(*COPIED, *BY_PARTS, "original", "not original"),
)
@given(
    how=st.sampled_from(list(COPIED)),
    part=st.sampled_from(list(BY_PARTS)),
    original=st.booleans(),
    dtype=st.sampled_from(["float32", "int32"]),
)
def test_a_part_is_written_to_one_variable_alone(nnx, how, part, original, dtype):
    """Writing to an index of a variable whose value is an array of NumPy, or of a copy of it,
    changes the value of that one, and not the value of the other.
    """
    module = classes(nnx)["Node"]()
    module.a = nnx.Param(np.arange(3).astype(dtype))
    pair = [module.a, COPIED[how](nnx, module)]
    written, other = pair if original else pair[::-1]
    before, expected = (np.array(written.get_raw_value()) for _ in range(2))
    expected[BY_PARTS[part]] = 7
    written[BY_PARTS[part]] = np.full_like(before, 7)[BY_PARTS[part]]
    assert alike(np.asarray(written.get_raw_value()), expected), "what was written to"
    assert alike(np.asarray(other.get_raw_value()), before), "the other one"


def _seen(variable):
    """The class of a variable, its value as one number, and those metadata that a program sets."""
    value = np.asarray(variable.get_raw_value())
    assert alike(value, np.full(2, value.flat[0], "float32")), f"the value is {value!r}"
    notes = {key: variable.get_metadata(key) for key in KEYS if variable.has_metadata(key)}
    return type(variable), int(value.flat[0]), notes


GIVEN = ("class", "constructor", "initializer", "later")
EVENTS = ("on_create_value", "on_get_value", "on_set_value", "on_add_axis", "on_remove_axis")


@requirement("objects/hooks/hooks-run-however-given", must_reach=(*GIVEN, *EVENTS))
@options("nnx.with_metadata")
@given(
    how=st.sampled_from(GIVEN),
    events=st.lists(st.sampled_from(EVENTS), min_size=3, unique=True),
    often=st.integers(1, 3),
    added=st.tuples(st.integers(0, 2), st.sampled_from(["new", "other", None])),
)
def test_hooks_run_whichever_way_they_were_given(nnx, how, events, often, added):
    """A hook runs once for each event, with the value or the axis of the event.

    The class has the hook as a method, the constructor or an initializer of `with_metadata` brings
    it, or it is set later. A hook of values may change the value.
    """
    noted = {event: [] for event in events}

    def hook(event):
        def run(variable, *arguments):
            noted[event].append(arguments)
            return arguments[0] + 1

        return run

    hooks = {event: hook(event) for event in events}
    cls = nnx.Param
    if how == "class":
        cls = type("Noting", (nnx.Param,), hooks)
    brought = hooks if how == "constructor" else {}
    value = _array(0)
    if how == "initializer":
        value = nnx.with_metadata(lambda: _array(0), **hooks)()
    variable = cls(value, **brought)
    if how == "later":
        variable.set_metadata(**hooks)
    created = int("on_create_value" in events and how != "later")
    set_, got = (int(event in events) for event in ("on_set_value", "on_get_value"))
    assert alike(variable.get_raw_value(), _array(created)), "after it was made"
    for _ in range(often):
        variable.set_value(_array(5))
        variable.add_axis(*added)
        variable.remove_axis(*added)
        assert alike(variable.get_raw_value(), _array(5 + set_)), "after it was set"
        assert alike(variable.get_value(), _array(5 + set_ + got)), "when it was read"
    expected = {event: created if event == "on_create_value" else often for event in events}
    assert alike({event: len([*runs]) for event, runs in noted.items()}, expected)
    of_axes = [noted[event] for event in events if event in ("on_add_axis", "on_remove_axis")]
    assert alike(of_axes, [[added] * often for _ in of_axes])
    plain = [nnx.Param(_array(0)), nnx.Param(nnx.with_metadata(lambda: _array(0))())]
    kept = [{*made.get_metadata()} for made in plain]
    assert alike(*kept), f"without hooks the constructor and the initializer keep {kept}"


ANSWERS = ("always", "never", "elementwise", "error")


@requirement("objects/variables/own-equality-is-allowed", must_reach=ANSWERS)
@costly
@given(
    answer=st.sampled_from(ANSWERS),
    numbers=st.lists(st.integers(0, 2), min_size=2, max_size=4),
    shared=st.booleans(),
)
def test_a_variable_class_may_define_equality(nnx, transforms, answer, numbers, shared):
    """Whatever `__eq__` of a variable class answers, and though Python then takes its hash away,
    objects with variables of it split, merge, update and run under `jit` as others do.
    """

    def equals(self, other):
        if answer == "error":
            raise ArithmeticError("asked whether variables are equal")
        return self.get_value() == other if answer == "elementwise" else answer == "always"

    def results(cls):
        module = nnx.Dict(**{f"v{i}": cls(_array(n)) for i, n in enumerate(numbers)})
        if shared:
            module["again"] = module["v0"]
        graphdef, state = nnx.split(module)
        merged = nnx.merge(graphdef, jax.tree.map(lambda x: x + 1, state))
        nnx.update(module, nnx.state(merged))

        @transforms.jit
        def double(module):
            for i, _ in enumerate(numbers):
                variable = module[f"v{i}"]
                variable.set_value(2 * variable.get_value())
            return module["v0"].get_value()

        output = double(module)
        together = not shared or module["again"] is module["v0"]
        return output, together, raw_values(nnx, nnx.state(nnx.clone(module)))

    other = type("Compared", (nnx.Param,), {"__eq__": equals})
    assert alike(results(other), results(nnx.Param))


WRONG = {
    "nothing": ((), {}),
    "a name alone": (("note",), {}),
    "a mapping and keywords": (({"note": 2},), {"tag": 2}),
    "a pair and keywords": (("note", 2), {"tag": 2}),
    "too many": (("note", 2, 3), {}),
}
INPLACE = (
    "iadd",
    "isub",
    "imul",
    "itruediv",
    "ipow",
    "imatmul",
    "ifloordiv",
    "imod",
    "ilshift",
    "irshift",
    "iand",
    "ixor",
    "ior",
)


def _with_each_operator(law):
    """A law that is tried on each of `INPLACE` first, on a variable of a class of the library."""
    for name in INPLACE:
        law = example(how="operator", operator_name=name, notes={}, kind="Param")(law)
    return law


@requirement(
    "objects/variables/undefined-changes-are-refused", must_reach=(*WRONG, "operator", "attribute")
)
@_with_each_operator
@given(
    how=st.sampled_from([*WRONG, "operator", "attribute"]),
    operator_name=st.sampled_from(INPLACE),
    notes=first_notes,
    kind=st.sampled_from(["Param", "Scale"]),
)
@example(how="attribute", operator_name="iadd", notes={}, kind="Scale")
def test_what_is_no_way_to_change_a_variable_is_refused(nnx, how, operator_name, notes, kind):
    """Arguments of `set_metadata` of which one would be passed over, an operator such as `+=` that
    would put an array in the place of the variable, and setting or deleting an attribute that a
    variable does not have, are refused, and the variable is as before, whether its class is the
    library's or the user's.
    """
    variable, before = (classes(nnx)[kind](_array(1), **notes) for _ in range(2))
    if how == "operator":
        refused(lambda: getattr(operator, operator_name)(variable, _array(2)))
    elif how == "attribute":
        refused(lambda: setattr(variable, "unknown", 1))
        refused(lambda: delattr(variable, "unknown"))
    else:
        arguments, keywords = WRONG[how]
        refused(lambda: variable.set_metadata(*arguments, **keywords))
    difference = differences(nnx, before, variable)
    assert not difference, f"before and after: {difference}"
