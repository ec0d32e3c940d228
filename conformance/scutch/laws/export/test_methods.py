"""Exported methods compute the same values as their JAX functions: EXP-1.

The oracle is the JAX function itself, called with the parameters and the input.
"""

import jax
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs import exported
from scutch.inputs.backends import JAX, TENSORFLOW, on_any, on_only
from scutch.inputs.descriptions import Array
from scutch.lawkit.equality import alike, alike_in_any_order
from scutch.lawkit.marks import costly, dear, refused, requirement
from scutch.strategies.exported import (
    PLAIN_KEYS,
    backends,
    forms,
    leaves,
    parameter_trees,
    program_maps,
    programs,
    shape_texts,
)
from scutch.strategies.trees import copies

KEY = "jax_module_default_method"
sizes = st.integers(1, 4)
widths = st.integers(1, 3)
numbers = leaves(("float32", "int32", "bfloat16"))
small = parameter_trees(leaf=numbers, keys=PLAIN_KEYS, depth=1, some=True)
odd = parameter_trees(leaf=numbers, depth=1)


@requirement("export/methods/method-equals-jax-function", must_reach=("one", "not one"))
@dear
@given(
    backend=backends(),
    params=parameter_trees(),
    described=program_maps(),
    one=st.booleans(),
    rows=sizes,
    width=widths,
    form=forms(),
)
def test_a_method_gives_what_its_function_gives(
    export, backend, params, described, one, rows, width, form
):
    """A method of an exported module returns the same values as its JAX function.

    The function is called with the parameters. Structure, shapes and dtypes agree, too.
    """
    backend = on_any(export, backend)
    functions = exported.functions(described, params)
    if one:
        functions = {KEY: next(iter(functions.values()))}
    given = functions[KEY] if one else functions
    shapes = None if one else dict.fromkeys(functions)
    module = backend.module(params, given, input_polymorphic_shape=shapes, jit_compile=False)
    x = exported.batch(rows, width, form)
    for key, function in functions.items():
        assert exported.is_close(module.call(key, x), exported.plain(function(params, x)))


@requirement(
    "export/methods/loaded-method-computes-same", must_reach=("polymorphic", "not polymorphic")
)
@dear
@given(
    backend=backends(),
    params=odd,
    described=program_maps(),
    rows=sizes,
    width=widths,
    form=forms(),
    polymorphic=st.booleans(),
)
@example(
    backend=TENSORFLOW,
    params={"~": Array((2,)), "a b": Array((2,))},
    described={"f": ["add"]},
    rows=1,
    width=1,
    form="array",
    polymorphic=False,
)
def test_a_loaded_method_gives_what_the_saved_one_gave(
    export, backend, params, described, rows, width, form, polymorphic
):
    """A loaded method gives the outputs of the one that was saved, whatever the keys of the
    parameters are, and the loaded variables have the values of the saved ones.
    """
    backend = on_any(export, backend)
    functions = exported.functions(described, params)
    shapes = dict.fromkeys(functions, "b, ..." if polymorphic else None)
    module = backend.module(params, functions, input_polymorphic_shape=shapes, jit_compile=False)
    x = exported.batch(rows, width, form)
    with module.loaded(dict.fromkeys(functions, x)) as loaded:
        assert exported.is_close(loaded.values, module.values)
        for key, function in functions.items():
            assert exported.is_close(loaded.call(key, x), exported.plain(function(params, x)))


@requirement("export/shapes/every-size-is-accepted")
@dear
@given(
    backend=backends(),
    params=small,
    steps=programs(),
    form=forms(),
    text=shape_texts(),
    several=st.lists(sizes, min_size=1, max_size=2),
)
def test_every_size_that_the_polymorphic_shape_admits_is_taken(
    export, backend, params, steps, form, text, several
):
    """A module takes inputs of every size that its polymorphic shape admits, and so does a loaded
    method, whatever size it was saved for.
    """
    backend = on_any(export, backend)
    (function,) = exported.functions({KEY: steps}, params).values()
    shape = {"x": text} if form == "dict" else text
    module = backend.module(params, function, input_polymorphic_shape=shape, jit_compile=False)
    step = 2 if text.startswith("2*") else 1
    with module.loaded(exported.batch(5 * step, 2, form)) as loaded:
        for size in several:
            x = exported.batch(size * step, 2, form)
            expected = exported.plain(function(params, x))
            assert exported.is_close(module.call(KEY, x), expected)
            assert exported.is_close(loaded.call(KEY, x), expected)


def _misshapen(rows, width, step):
    """Inputs that a batch of rows of that width, a multiple of `step` of them, does not admit."""
    wrong = [
        exported.batch(rows, width + 1),
        exported.batch(rows, width)[0],
        np.zeros((rows, width, 1), "float32"),
    ]
    return wrong if step == 1 else [*wrong, exported.batch(3, width)]


@requirement("export/shapes/other-shapes-are-refused")
@dear
@given(
    backend=backends(),
    params=small,
    steps=programs(),
    text=st.sampled_from(["b, 2", "(rows, 2)", "2*b, 2"]),
    rows=st.sampled_from([2, 4]),
    chosen=st.integers(0, 3),
)
def test_other_shapes_are_refused(export, backend, params, steps, text, rows, chosen):
    """An exported module refuses inputs of a shape that its polymorphic shape does not admit.

    It does so before and after a save and a load.
    """
    backend = on_any(export, backend)
    (function,) = exported.functions({KEY: steps}, params).values()
    module = backend.module(params, function, input_polymorphic_shape=text, jit_compile=False)
    wrong = _misshapen(rows, 2, 2 if text.startswith("2*") else 1)
    bad = wrong[chosen % len(wrong)]
    refused(lambda: module.call(KEY, bad))
    with module.loaded(exported.batch(rows, 2)) as loaded:
        refused(lambda: loaded.call(KEY, bad))


@requirement("export/methods/jax-methods-are-bound-functions")
@costly
@given(backend=backends(), params=parameter_trees(), described=program_maps(), form=forms())
def test_jax_methods_are_the_functions_bound_to_the_parameters(
    export, backend, params, described, form
):
    """`jax_methods` has the keys of `methods`, and each of its functions computes with the
    parameters of the module.
    """
    backend = on_any(export, backend)
    functions = exported.functions(described, params)
    shapes = dict.fromkeys(functions)
    module = backend.module(params, functions, input_polymorphic_shape=shapes)
    bound, x = module.owner.jax_methods, exported.batch(2, 2, form)
    assert alike_in_any_order(bound, functions)
    assert alike_in_any_order(module.owner.methods, functions)
    for key, function in functions.items():
        assert exported.is_close(exported.plain(bound[key](x)), exported.plain(function(params, x)))


@requirement("export/methods/compiled-method-computes-same")
@dear
@given(params=small, described=program_maps(), rows=sizes, each=st.booleans())
def test_methods_that_are_compiled_give_the_same(export, params, described, rows, each):
    """With `jit_compile`, one flag for all methods or one for each, the methods give the outputs of
    the functions.
    """
    backend = on_only(export, TENSORFLOW)
    functions = exported.functions(described, params)
    x = exported.batch(rows, 2)
    flag = dict.fromkeys(functions, True) if each else True
    shapes = dict.fromkeys(functions)
    module = backend.module(params, functions, input_polymorphic_shape=shapes, jit_compile=flag)
    for key, function in functions.items():
        assert exported.is_close(module.call(key, x), exported.plain(function(params, x)))


@requirement("export/methods/inputs-stay-unchanged")
@costly
@given(
    backend=backends(), both=copies(parameter_trees()), described=program_maps(), flag=st.booleans()
)
def test_what_the_caller_gave_stays_as_it_was(export, backend, both, described, flag):
    """To make a module, and to call it, leaves the parameters of the caller as they were: the
    classes of containers and the values of arrays.
    """
    params, before = both
    backend = on_any(export, backend)
    functions = exported.functions(described, params)
    keys = list(functions)

    def arguments():
        """Mappings that the caller owns."""
        return {
            "input_polymorphic_shape": dict.fromkeys(keys),
            "jax2tf_kwargs": {key: {} for key in keys},
            "jit_compile": dict.fromkeys(keys, False),
            "trainable": jax.tree.map(lambda leaf: flag, before),
        }

    given = arguments()
    module = backend.module(params, functions, **given)
    module.owner.update_variables(params)
    assert exported.unchanged(params, before)
    assert exported.unchanged(given, arguments())
    assert type(functions) is dict
    assert alike(list(functions), keys)


@requirement("export/shapes/listed-sizes-only")
@dear
@given(
    params=small,
    steps=programs(),
    form=forms(),
    taken=st.lists(sizes, min_size=1, max_size=2, unique=True),
    size=sizes,
)
def test_listed_sizes_are_taken_and_others_are_refused(export, params, steps, form, taken, size):
    """If sizes are listed for a symbol, the module takes these sizes and refuses others.

    It does so before and after a save and a load.
    """
    backend = on_only(export, JAX)
    (function,) = exported.functions({KEY: steps}, params).values()
    module = backend.module(
        params,
        function,
        input_polymorphic_shape={"x": "b, 2"} if form == "dict" else "b, 2",
        input_polymorphic_shape_symbol_values={"b": tuple(taken)},
    )
    x = exported.batch(size, 2, form)
    with module.loaded(exported.batch(taken[0], 2, form)) as loaded:
        for served in (module, loaded):
            if size not in taken:
                refused(lambda served=served: served.call(KEY, x))
            else:
                expected = exported.plain(function(params, x))
                assert exported.is_close(served.call(KEY, x), expected)
