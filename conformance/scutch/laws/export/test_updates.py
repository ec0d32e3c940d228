"""New parameters, taken whole or refused whole: EXP-4."""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs import exported
from scutch.inputs.backends import on_any
from scutch.lawkit.equality import alike, plain_text
from scutch.lawkit.marks import costly, dear, refused, requirement
from scutch.strategies.exported import PLAIN_KEYS, backends, leaves, parameter_trees, program_maps

numbers = leaves(("float32", "int32", "bfloat16"))
trees = parameter_trees(some=True)
small = parameter_trees(leaf=numbers, keys=PLAIN_KEYS, depth=1, some=True)
faults = st.sampled_from(["structure", "shape", "dtype"])


def _module(backend, params, described, **options):
    """A module of functions, and the functions."""
    functions = exported.functions(described, params)
    options = {"input_polymorphic_shape": dict.fromkeys(functions), "jit_compile": False, **options}
    return backend.module(params, functions, **options), functions


def _changed(params):
    """Parameters with other values."""
    return jax.tree.map(lambda leaf: (leaf + np.ones_like(leaf)).astype(leaf.dtype), params)


def _faulty(params, fault, at):
    """New parameters with one fault, and the path of the leaf at fault."""
    pairs, structure = jax.tree_util.tree_flatten_with_path(_changed(params))
    found, at = [leaf for _, leaf in pairs], at % len(pairs)
    path, leaf = pairs[at]
    if fault == "structure":
        return {**jax.tree.unflatten(structure, found), "one more": leaf}, path, leaf, leaf
    other = leaf.astype("int16" if not alike(leaf.dtype, np.dtype("int16")) else "uint8")
    if fault == "shape":
        other = np.zeros((*leaf.shape, 2), leaf.dtype)
    found[at] = other
    return jax.tree.unflatten(structure, found), path, leaf, other


def _names_the_leaf(error, path):
    """Check that an error has the path of a leaf, as JAX prints it or with dots."""
    dotted = exported.joined(path).replace("~", "_")
    whole = jax.tree_util.keystr(path)
    assert whole in plain_text(error) or dotted in plain_text(error), error


@requirement("export/updates/methods-use-new-parameters")
@dear
@given(backend=backends(), params=small, described=program_maps(), early=st.booleans())
def test_methods_compute_with_new_parameters(export, backend, params, described, early):
    """After `update_variables` the methods compute with the new parameters, whether they were
    called before or not.
    """
    module, functions = _module(on_any(export, backend), params, described)
    x, new = exported.batch(2, 2), _changed(params)
    if early:
        for key in functions:
            module.call(key, x)
    module.owner.update_variables(new)
    assert exported.is_close(module.values, jax.tree.leaves(new))
    for key, function in functions.items():
        assert exported.is_close(module.call(key, x), exported.plain(function(new, x)))


@requirement("export/updates/jax-methods-use-new-parameters")
@costly
@given(backend=backends(), params=trees, described=program_maps())
def test_jax_methods_compute_with_new_parameters(export, backend, params, described):
    """`jax_methods` that are asked for after `update_variables` compute with the new parameters."""
    module, functions = _module(on_any(export, backend), params, described)
    x, new = exported.batch(2, 2), _changed(params)
    module.owner.update_variables(new)
    for key, method in module.owner.jax_methods.items():
        assert exported.is_close(exported.plain(method(x)), exported.plain(functions[key](new, x)))


@requirement("export/updates/other-parameters-are-refused")
@costly
@given(backend=backends(), params=trees, other=parameter_trees())
def test_parameters_of_another_structure_are_refused(export, backend, params, other):
    """`update_variables` with parameters of another structure is an error that shows both
    structures.
    """
    one, two = jax.tree.structure(params), jax.tree.structure({"last": 0, "tree": other})
    other = {"last": params["last"], "tree": other}
    if alike(one, two):
        other = {**other, "one more": params["last"]}
    module, _ = _module(on_any(export, backend), params, {"f": ["add"]})
    shown = (one, jax.tree.structure(other))
    refused(lambda: module.owner.update_variables(other), naming=shown)


@requirement("export/updates/other-parameters-are-refused")
@costly
@given(backend=backends(), params=trees, at=st.integers(0, 5))
def test_parameters_of_another_shape_are_refused(export, backend, params, at):
    """`update_variables` with a leaf of another shape is an error that shows the path of the leaf
    and both shapes.
    """
    module, _ = _module(on_any(export, backend), params, {"f": ["add"]})
    new, path, old, other = _faulty(params, "shape", at)
    _names_the_leaf(
        refused(lambda: module.owner.update_variables(new), naming=(old.shape, other.shape)), path
    )


@requirement("export/updates/other-parameters-are-refused")
@costly
@given(backend=backends(), params=trees, at=st.integers(0, 5))
def test_parameters_of_another_dtype_are_refused(export, backend, params, at):
    """`update_variables` with a leaf of another dtype is an error that shows the path of the leaf
    and both dtypes.
    """
    module, _ = _module(on_any(export, backend), params, {"f": ["add"]})
    new, path, old, other = _faulty(params, "dtype", at)
    _names_the_leaf(
        refused(lambda: module.owner.update_variables(new), naming=(old.dtype, other.dtype)), path
    )


@requirement(
    "export/updates/refused-update-changes-nothing", must_reach=("structure", "shape", "dtype")
)
@dear
@given(
    backend=backends(), params=small, described=program_maps(), fault=faults, at=st.integers(0, 5)
)
def test_a_refused_update_changes_nothing(export, backend, params, described, fault, at):
    """After `update_variables` was refused, whichever leaf was at fault, variables, methods and JAX
    methods are as before.
    """
    module, functions = _module(on_any(export, backend), params, described)
    new, *_ = _faulty(params, fault, at)
    refused(lambda: module.owner.update_variables(new))
    x = exported.batch(2, 2)
    assert exported.is_close(module.values, jax.tree.leaves(params))
    for key, function in functions.items():
        expected = exported.plain(function(params, x))
        assert exported.is_close(module.call(key, x), expected)
        assert exported.is_close(exported.plain(module.owner.jax_methods[key](x)), expected)


@requirement("export/updates/update-keeps-variables")
@costly
@given(backend=backends(), params=trees, flag=st.booleans())
def test_an_update_keeps_the_variables_themselves(export, backend, params, flag):
    """After `update_variables` a module has the same variable objects, by the same names, and as
    trainable as before.
    """
    module, _ = _module(on_any(export, backend), params, {"f": ["add"]}, trainable=flag)

    def seen():
        return [(id(v), v.name, bool(v.trainable)) for v in module.variables]

    before = seen()
    module.owner.update_variables(_changed(params))
    assert alike(seen(), before)
