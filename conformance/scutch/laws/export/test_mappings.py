"""One exported function or a mapping of functions, with options for each function: EXP-2."""

import jax
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs import exported
from scutch.inputs.backends import TENSORFLOW, on_any
from scutch.lawkit.equality import alike, alike_in_any_order
from scutch.lawkit.marks import at_least, costly, dear, reached, refused, requirement
from scutch.strategies.exported import METHODS, backends, parameter_trees, program_maps, programs

KEY = "jax_module_default_method"
PARAMS = {"w": exported.batch(2, 2)}
ARGUMENTS = {
    "input_polymorphic_shape": "b, 2",
    "jax2tf_kwargs": {},
    "jit_compile": False,
}
"""The arguments that are given for each function, with a value that one may have."""


@st.composite
def other_keys(draw, described):
    """The keys of functions with one more, one less, or another one."""
    keys = list(described)
    if draw(st.booleans()):
        keys.remove(draw(st.sampled_from(keys)))
    if draw(st.booleans()) or set(keys) == set(described):
        keys.append("other")
    return keys


mismatched = program_maps().flatmap(lambda d: st.tuples(st.just(d), other_keys(d)))


def _module(backend, described, **options):
    """A module of several functions, each of which has everything that it needs."""
    functions = exported.functions(described, PARAMS)
    complete = {"input_polymorphic_shape": dict.fromkeys(functions, "b, 2"), "jit_compile": False}
    return backend.module(PARAMS, functions, **{**complete, **options})


@requirement("export/methods/one-function-has-default-key")
@costly
@given(backend=backends(), params=parameter_trees(), steps=programs())
def test_one_function_goes_by_the_default_key(export, backend, params, steps):
    """A module of one function has the default key, and no other, in `methods` and in
    `jax_methods`.
    """
    backend = on_any(export, backend)
    (function,) = exported.functions({KEY: steps}, params).values()
    module = backend.module(params, function).owner
    assert alike(export.constants.DEFAULT_METHOD_KEY, KEY)
    assert alike(list(module.methods), [KEY])
    assert alike(list(module.jax_methods), [KEY])


RESTRICTIONS = {"none": {}, "constraint": {"polymorphic_constraints": ("b >= 2",)}}
"""Conversion options that narrow the inputs of a method; the law adds the platform's option."""


@requirement(
    "export/methods/functions-have-own-options",
    must_reach=("other shapes", "constraint", "platform"),
)
@dear
@at_least(16)
@given(
    backend=backends(),
    described=program_maps(),
    polymorphic=st.fixed_dictionaries(dict.fromkeys(METHODS, st.booleans())),
    restricted=st.fixed_dictionaries(
        dict.fromkeys(METHODS, st.sampled_from([*RESTRICTIONS, "platform"]))
    ),
)
@example(
    backend=TENSORFLOW,
    described={"f": ["add"]},
    polymorphic=dict.fromkeys(METHODS, True),
    restricted=dict.fromkeys(METHODS, "constraint"),
)
def test_each_function_has_its_own_shape_and_options(
    export, backend, described, polymorphic, restricted
):
    """Of two functions with polymorphic shapes and options of their own, the one for rows of two
    numbers refuses other rows, the one for two rows or more refuses one row, the one for another
    platform refuses all, and others take them.
    """
    backend = on_any(export, backend)
    elsewhere = "cpu" if jax.default_backend() == "tpu" else "tpu"
    platform = {"native_serialization_platforms": (elsewhere,)}
    restrictions = {**RESTRICTIONS, "platform": platform}
    kinds = {
        key: kind if polymorphic[key] or kind == "platform" else "none"
        for key, kind in restricted.items()
    }
    functions = exported.functions(described, PARAMS)
    shapes = {key: "b, 2" if polymorphic[key] else None for key in functions}
    if len(set(shapes.values())) == 2:
        reached("other shapes")
    options = {"input_polymorphic_shape": shapes, "jit_compile": dict.fromkeys(functions, False)}
    options["jax2tf_kwargs"] = {
        key: {"with_gradient": False, **restrictions[kinds[key]]} for key in functions
    }
    module = _module(backend, described, **options)
    assert alike_in_any_order(module.owner.methods, functions)
    one, two, three = exported.batch(1, 2), exported.batch(2, 2), exported.batch(2, 3)
    for key, function in functions.items():
        reached(kinds[key])
        if kinds[key] == "platform":
            refused(lambda key=key: module.call(key, two))
            continue
        expected = exported.plain(function(PARAMS, two))
        assert exported.is_close(module.call(key, two), expected)
        if kinds[key] == "constraint":
            refused(lambda key=key: module.call(key, one))
        else:
            expected = exported.plain(function(PARAMS, one))
            assert exported.is_close(module.call(key, one), expected)
        if polymorphic[key]:
            refused(lambda key=key: module.call(key, three))
        else:
            expected = exported.plain(function(PARAMS, three))
            assert exported.is_close(module.call(key, three), expected)


def _refuses_other_keys(export, backend, mismatched, argument, naming):
    backend = on_any(export, backend)
    described, keys = mismatched
    given = dict.fromkeys(keys, ARGUMENTS[argument])
    shown = (*described, *keys) if naming else ()
    refused(lambda: _module(backend, described, **{argument: given}), naming=shown)


@requirement("export/methods/keys-must-match", must_reach=("keys", "no mapping"))
@costly
@given(backend=backends(), mismatched=mismatched, text=st.sampled_from(["", "b, 2", "b, ..."]))
def test_polymorphic_shapes_need_the_keys_of_the_functions(export, backend, mismatched, text):
    """Polymorphic shapes for a mapping of functions that have other keys, or are one text for all,
    are refused.
    """
    reached("no mapping" if text else "keys")
    if not text:
        _refuses_other_keys(export, backend, mismatched, "input_polymorphic_shape", False)
        return
    backend = on_any(export, backend)
    refused(lambda: _module(backend, mismatched[0], input_polymorphic_shape=text))


@requirement("export/methods/keys-must-match")
@costly
@given(backend=backends(), mismatched=mismatched)
def test_conversion_options_need_the_keys_of_the_functions(export, backend, mismatched):
    """Conversion options for a mapping of functions that have other keys are refused; without
    options each function has the defaults.
    """
    _refuses_other_keys(export, backend, mismatched, "jax2tf_kwargs", False)
    backend = on_any(export, backend)
    assert alike_in_any_order(
        _module(backend, mismatched[0], jax2tf_kwargs=None).owner.methods, mismatched[0]
    )


@requirement("export/methods/keys-must-match")
@costly
@given(backend=backends(), mismatched=mismatched, flag=st.booleans())
def test_compile_flags_need_the_keys_of_the_functions(export, backend, mismatched, flag):
    """`jit_compile` as a mapping must have the keys of the functions; one boolean holds for all of
    them.
    """
    _refuses_other_keys(export, backend, mismatched, "jit_compile", False)
    backend = on_any(export, backend)
    assert alike_in_any_order(
        _module(backend, mismatched[0], jit_compile=flag).owner.methods, mismatched[0]
    )


@requirement("export/methods/keys-must-match[message]")
@costly
@given(backend=backends(), mismatched=mismatched, argument=st.sampled_from(list(ARGUMENTS)))
def test_a_refusal_shows_both_sets_of_keys(export, backend, mismatched, argument):
    """The error for keys that do not fit shows the keys of the functions and those that were
    given.
    """
    _refuses_other_keys(export, backend, mismatched, argument, True)


@requirement("export/methods/shapes-are-no-option")
@costly
@given(backend=backends(), described=program_maps(), at=st.integers(0, 2), one=st.booleans())
def test_shapes_among_the_options_are_refused(export, backend, described, at, one):
    """`polymorphic_shapes` among the conversion options of any function is an error that names the
    argument that is for them.
    """
    backend = on_any(export, backend)
    keys = list(described)
    bad = {"polymorphic_shapes": [None, "b, 2"]}
    if one:
        (function, *_) = exported.functions(described, PARAMS).values()
        refused(
            lambda: backend.module(PARAMS, function, jax2tf_kwargs=bad),
            naming=("input_polymorphic_shape",),
        )
        return
    options = {key: bad if key == keys[at % len(keys)] else {} for key in keys}
    refused(
        lambda: _module(backend, described, jax2tf_kwargs=options),
        naming=("input_polymorphic_shape",),
    )


@requirement("export/methods/module-tells-its-parts")
@costly
@given(backend=backends(), params=parameter_trees(), described=program_maps(), one=st.booleans())
def test_a_module_tells_what_it_was_made_of(export, backend, params, described, one):
    """A module has its functions by key, its parameters in the containers that they came in, and
    its backend as attributes.
    """
    backend = on_any(export, backend)
    functions = exported.functions(described, params)
    if one:
        functions = {KEY: next(iter(functions.values()))}
    shapes = None if one else dict.fromkeys(functions)
    given = functions[KEY] if one else functions
    module = backend.module(params, given, input_polymorphic_shape=shapes).owner
    kinds = export.constants.ExportModelType
    assert alike(dict(module.apply_fn_map), functions)
    assert exported.unchanged(module.model_params, params)
    assert module.export_version is (
        kinds.ORBAX_MODEL if alike(backend.name, "jax") else kinds.TF_SAVEDMODEL
    )


@requirement("export/methods/unknown-option-is-refused")
@costly
@given(
    backend=backends(),
    described=program_maps(),
    at=st.integers(0, 2),
    option=st.sampled_from(["polymorphic_shape", "with_gradients", "platforms"]),
)
def test_unknown_options_are_refused(export, backend, described, at, option):
    """A misspelt conversion option of any function is an error that names it."""
    backend = on_any(export, backend)
    keys = list(described)
    given = {key: {} for key in keys} | {keys[at % len(keys)]: {option: None}}
    refused(lambda: _module(backend, described, jax2tf_kwargs=given), naming=(option,))
