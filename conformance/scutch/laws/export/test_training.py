"""Trainable variables and their gradients: EXP-3."""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs import exported
from scutch.inputs.backends import on_any
from scutch.lawkit.equality import alike, holds
from scutch.lawkit.marks import costly, dear, reached, refused, requirement
from scutch.lawkit.tolerances import TRAINING, near
from scutch.strategies.exported import (
    PLAIN_KEYS,
    backends,
    forms,
    leaves,
    parameter_trees,
    programs,
)

KEY = "jax_module_default_method"
flags = st.lists(st.booleans(), min_size=1, max_size=4)
floats = parameter_trees(
    leaf=leaves(("float32", "float32", "int32")), keys=PLAIN_KEYS, depth=2, some=True
)


def _flagged(params, flags):
    """A tree of booleans for the parameters, which takes the flags in turn."""
    found, structure = jax.tree.flatten(params)
    wanted = [flags[number % len(flags)] for number in range(len(found))]
    return jax.tree.unflatten(structure, wanted), wanted


def _module(backend, params, trainable, steps=("add",), **options):
    (function,) = exported.functions({KEY: steps}, params).values()
    return backend.module(params, function, trainable=trainable, jit_compile=False, **options)


@requirement("export/training/boolean-holds-for-all", must_reach=("True", "False", "None"))
@costly
@given(backend=backends(), params=parameter_trees(), trainable=st.sampled_from([True, False, None]))
def test_one_boolean_is_for_all_variables(export, backend, params, trainable):
    """`trainable=True` makes every variable of a module trainable, `trainable=False` none; without
    the option none is.
    """
    reached(str(trainable))
    module = _module(on_any(export, backend), params, trainable)
    count = len(jax.tree.leaves(params))
    assert alike([bool(v.trainable) for v in module.variables], [bool(trainable)] * count)


@requirement("export/training/tree-holds-leaf-by-leaf", must_reach=("some", "of NumPy"))
@costly
@given(backend=backends(), params=parameter_trees(), flags=flags, of_numpy=st.booleans())
def test_a_tree_of_booleans_is_for_each_variable(export, backend, params, flags, of_numpy):
    """`trainable` as a tree with the structure of the parameters says for each variable whether it
    is trainable; its leaves are booleans of Python or of NumPy.
    """
    tree, wanted = _flagged(params, flags)
    if of_numpy and wanted:
        reached("of NumPy")
        tree = jax.tree.map(np.bool_, tree)
    if holds(wanted, True) and holds(wanted, False):
        reached("some")
    module = _module(on_any(export, backend), params, tree)
    assert alike([bool(v.trainable) for v in module.variables], wanted)
    assert len([*module.exported.trainable_variables]) == sum(map(int, wanted))


@requirement("export/training/gradients-equal-jax", must_reach=("some", "load", "not load"))
@dear
@given(
    backend=backends(),
    params=floats,
    flags=flags,
    steps=programs(),
    form=forms(),
    text=st.sampled_from([None, "b, 2"]),
    load=st.booleans(),
)
def test_gradients_of_trainable_variables_are_those_of_jax(
    export, backend, params, flags, steps, form, text, load
):
    """Gradients with respect to the trainable variables equal the gradients of `jax.grad`.

    This holds for the exported module, and for the module after a save and a load.
    """
    tree, wanted = _flagged(params, [True, *flags])
    found, structure = jax.tree.flatten(params)
    numbers = [n for n, leaf in enumerate(found) if wanted[n] and exported.is_float(leaf)]
    if 0 < len(numbers) < len(found):
        reached("some")
    shape = {"x": text} if form == "dict" and text else text
    module = _module(on_any(export, backend), params, tree, steps, input_polymorphic_shape=shape)
    x = exported.batch(2, 2, form)
    function = exported.function(steps, structure)

    def of_trainable(some):
        given = list(found)
        for number, value in zip(numbers, some, strict=True):
            given[number] = value
        return exported.loss(function(jax.tree.unflatten(structure, given), x))

    compiled = jax.jit(jax.grad(of_trainable))
    expected = [np.asarray(g) for g in compiled([found[n] for n in numbers])]

    def agree(gradients):
        """A variable that does not matter may have no gradient in the place of zeros."""
        return len([*gradients]) == len([*expected]) and all(
            not np.any(wanted) if got is None else near(got, wanted, **TRAINING)
            for got, wanted in zip(gradients, expected, strict=True)
        )

    if not load:
        assert agree(module.gradients(KEY, x))
        return
    with module.loaded(x) as loaded:
        assert alike([bool(v.trainable) for v in loaded.variables], wanted)
        assert agree(loaded.gradients(KEY, x))


@requirement("export/training/gradients-must-fit-trainables")
@costly
@given(backend=backends(), params=parameter_trees(), trainable=st.sampled_from([False, None]))
def test_gradients_without_trainable_variables_are_refused(export, backend, params, trainable):
    """`with_gradient=True` for a module without trainable variables is an error that names the
    option.
    """
    options = {"jax2tf_kwargs": {"with_gradient": True}}
    backend = on_any(export, backend)
    refused(lambda: _module(backend, params, trainable, **options), naming=("with_gradient",))


@requirement("export/training/gradients-must-fit-trainables")
@costly
@given(backend=backends(), params=parameter_trees(some=True), flags=flags)
def test_trainable_variables_without_gradients_are_refused(export, backend, params, flags):
    """`with_gradient=False` for a module with one trainable variable or more is an error that names
    the option.
    """
    tree, _ = _flagged(params, [True, *flags])
    options = {"jax2tf_kwargs": {"with_gradient": False}}
    backend = on_any(export, backend)
    refused(lambda: _module(backend, params, tree, **options), naming=("with_gradient",))


@requirement("export/training/module-knows-its-gradients", must_reach=("with", "without"))
@costly
@given(backend=backends(), params=parameter_trees(), flags=flags)
def test_a_module_knows_whether_it_has_gradients(export, backend, params, flags):
    """`with_gradient` of a module is true when one of its variables is trainable, with the option
    or without it.
    """
    tree, wanted = _flagged(params, flags)
    reached("with" if any(wanted) else "without")
    backend = on_any(export, backend)
    for options in ({}, {"jax2tf_kwargs": {"with_gradient": any(wanted)}}):
        assert _module(backend, params, tree, **options).owner.with_gradient is any(wanted)
