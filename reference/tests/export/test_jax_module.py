"""Tests of `JaxModule` on both backends, beside the laws of EXP."""

import logging
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec as P
from scutch_reference import export
from scutch_reference.export import ExportModelType, JaxModule, constants, errors

KEY = constants.DEFAULT_METHOD_KEY
X = np.ones((4, 2), "float32")


def params():
    """Two layers, one of them with a name of dm-haiku's."""
    return {"a": [np.ones((2, 3), "float32")], "mlp/~/b": np.zeros(3, "float32")}


def apply(params, x):
    """A layer, and the parameters that it used."""
    return {"y": jnp.tanh(x @ params["a"][0]) + params["mlp/~/b"], "b": (params["mlp/~/b"],)}


def double(params, x):
    """Twice the first parameter."""
    return 2 * params["a"][0] + jnp.sum(x)


def alike(one, other):
    """Whether two results have the same values in the same containers."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.allclose(a, b, atol=1e-6) for a, b in pairs)


def test_the_module_tells_what_it_was_made_of(backend):
    """Functions, parameters, backend, name and gradients can be asked for."""
    made = params()
    module = JaxModule(made, {"f": apply}, name="served", export_version=backend)
    assert module.apply_fn_map == {"f": apply}
    assert module.export_version is backend
    assert module.name == "served"
    assert module.with_gradient is False
    assert alike(module.model_params, made)
    assert module.model_params is not made


def test_parameters_that_are_changed_in_place_afterwards_change_nothing(backend):
    """Neither a container nor an array of the caller's is shared."""
    made = params()
    module = JaxModule(made, apply, export_version=backend)
    expected = apply(params(), X)
    made["a"][0][:] = 7
    made["a"] = []
    assert alike(module.jax_methods[KEY](X), expected)
    assert alike(module.model_params, params())


def test_a_refused_update_of_the_last_leaf_changes_nothing(backend):
    """The first leaf fits, and is not taken all the same."""
    module = JaxModule(params(), apply, export_version=backend)
    new = {"a": [np.zeros((2, 3), "float32")], "mlp/~/b": np.zeros(3, "int32")}
    with pytest.raises(errors.ParameterUpdateError, match=r"dtype int32.*dtype float32") as caught:
        module.update_variables(new)
    assert caught.value.path == "['mlp/~/b']"
    assert alike(module.jax_methods[KEY](X), apply(params(), X))
    assert [v.numpy().sum() for v in module.variables] == [6, 0]


@pytest.mark.parametrize("leaf", [2.0, object(), "text", jax.ShapeDtypeStruct((2,), "float32")])
def test_what_is_no_array_is_no_parameter(backend, leaf):
    """A Python number would compute in other dtypes than its variable."""
    with pytest.raises(errors.ParameterError, match=r"parameter at \"\['w'\]\[0\]\""):
        JaxModule({"w": [leaf]}, lambda params, x: x, export_version=backend)


def test_keys_and_tracers_are_no_parameters(backend):
    """They have dtypes and values that no variable can hold."""

    def make(leaf):
        return JaxModule({"w": leaf}, lambda params, x: x, export_version=backend)

    with pytest.raises(errors.ParameterError, match="PRNG keys"):
        make(jax.random.key(0))
    with pytest.raises(errors.ParameterError, match="neither a tracer"):
        jax.eval_shape(lambda w: make(w) and w, X)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"trainable": {"a": True}}, errors.ParameterStructureError, "`trainable` must have"),
        ({"trainable": {"a": [1], "mlp/~/b": True}}, errors.ParameterError, "True or False"),
        ({"pspecs": {"a": P()}}, errors.ParameterStructureError, "`pspecs` must have"),
        ({"export_version": "saved"}, errors.ExportOptionError, "ExportModelType.TF_SAVEDMODEL"),
    ],
)
def test_arguments_that_do_not_fit_are_shown(backend, options, error, text):
    """The message has the wrong argument and the expectation."""
    with pytest.raises(error, match=text):
        JaxModule(params(), apply, **{"export_version": backend, **options})


@pytest.mark.parametrize("functions", [{}, {"f": 3}, 3])
def test_functions_are_one_or_a_mapping_of_some(backend, functions):
    """An empty mapping would be a module without methods."""
    with pytest.raises(errors.ExportOptionError, match="at least one function"):
        JaxModule(params(), functions, export_version=backend)


def test_inputs_to_save_for_need_the_keys_of_the_functions(backend, tmp_path):
    """The refusal shows both."""
    module = JaxModule(params(), {"f": apply, "g": double}, export_version=backend)
    with pytest.raises(errors.MethodKeysError, match=r"\['f', 'g'\].*\{'f'"):
        export.save(module, tmp_path, {"f": X})


def test_a_polymorphic_shape_is_exported_once_for_all_sizes():
    """Without TensorFlow, the function is traced once."""
    traced = []

    def counted(params, x):
        traced.append(x.shape)
        return apply(params, x)

    module = JaxModule(
        params(),
        counted,
        input_polymorphic_shape="b, _",
        export_version=ExportModelType.ORBAX_MODEL,
    )
    for size in (1, 3, 5):
        assert module.methods[KEY](X[:1].repeat(size, 0))["y"].shape == (size, 3)
    assert len(traced) == 1


def test_symbol_values_are_the_sizes_that_are_taken(tmp_path):
    """A program is written for each combination, and no other size is taken."""
    pytest.importorskip("flatbuffers", reason="JAX writes programs with flatbuffers")
    module = JaxModule(
        params(),
        apply,
        input_polymorphic_shape="2*b, _",
        input_polymorphic_shape_symbol_values={"b": (1, 2)},
        export_version=ExportModelType.ORBAX_MODEL,
    )
    export.save(module, tmp_path, X)
    assert len(list(tmp_path.glob("*.jax"))) == 2
    loaded = export.load(tmp_path)
    for served in (module, loaded):
        for size in (2, 4):
            assert served.methods[KEY](X[:size])["y"].shape == (size, 3)
        with pytest.raises(ValueError, match=r"\(6, 2\)"):
            served.methods[KEY](np.ones((6, 2), "float32"))


def test_symbol_values_are_for_the_path_without_tensorflow():
    """TensorFlow's functions take every size."""
    with pytest.raises(errors.ExportOptionError, match=r"ExportModelType.ORBAX_MODEL only"):
        JaxModule(params(), apply, input_polymorphic_shape_symbol_values={"b": (1, 2)})


def test_options_of_tensorflow_are_refused_without_it():
    """The message has those that there are."""
    with pytest.raises(errors.ExportOptionError, match="native_serialization_platforms"):
        JaxModule(
            params(),
            apply,
            jax2tf_kwargs={"enable_xla": True},
            export_version=ExportModelType.ORBAX_MODEL,
        )


def test_dtypes_of_every_size_are_saved(saving, tmp_path):
    """Dtypes that NumPy lacks come back too, and so do shapes without elements.

    Saving makes the folder, and the folder above it.
    """
    made = {
        "half": jnp.arange(3, dtype="bfloat16"),
        "none": jnp.zeros((0, 2), "float16"),
        "bool": np.array([True, False]),
        "complex": np.array(1j, "complex64"),
    }
    module = JaxModule(made, lambda params, x: params, export_version=saving)
    folder = tmp_path / "made" / "too"
    export.save(module, folder, X)
    found = export.load(folder).methods[KEY](X)
    assert set(found) == set(made)
    for name, value in made.items():
        assert np.asarray(found[name]).dtype == value.dtype
        assert np.array_equal(np.asarray(found[name]), np.asarray(value))


def test_names_that_tensorflow_does_not_save_are_changed_in_the_saved_copy(tensorflow, tmp_path):
    """In this process they are as the parameters have them."""
    made = {"~": np.ones(2, "float32"), "a b": np.ones(2, "float32"), "w": np.ones(2, "float32")}
    module = JaxModule(
        made,
        lambda params, x: params["a b"] * x,
        export_version=constants.ExportModelType.TF_SAVEDMODEL,
    )
    assert [v.name for v in module.variables] == ["a b:0", "w:0", "_:0"]
    export.save(module, tmp_path, np.ones(2, "float32"))
    loaded = export.load(tmp_path)
    assert [v.name for v in loaded.variables] == ["a_b:0", "w:0", "._:0"]
    assert np.array_equal(loaded.methods[KEY](np.ones(2, "float32")), [1, 1])


class Sealed:
    """A node that is given strings where arrays were, and loses them."""

    def __init__(self, value):
        self.value = value


jax.tree_util.register_pytree_node(
    Sealed,
    lambda node: ((node.value,), None),
    lambda _, children: Sealed(*children) if not isinstance(children[0], str) else None,
)


def test_variables_are_numbered_where_names_cannot_be_laid_out(backend, caplog):
    """A warning says why."""
    made = [Sealed(np.ones(2, "float32")), {"w": np.ones(2, "float32")}]
    with caplog.at_level(logging.WARNING):
        module = JaxModule(made, lambda params, x: x, export_version=backend)
    names = [variable.name.removesuffix(":0") for variable in module.variables]
    assert names == ["jax_param_0", "jax_param_1"]
    assert "has not the structure of the parameters" in caplog.text


def test_on_a_mesh_parameters_must_be_arrays_of_jax():
    """A refused update leaves them where they were, too."""
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))
    made = jax.tree.map(jnp.asarray, params())
    specs = {"a": [P("y")], "mlp/~/b": None}
    kind = {"pspecs": specs, "export_version": ExportModelType.ORBAX_MODEL}
    with export.maybe_enable_dtensor_export_on(mesh):
        with pytest.raises(errors.ExportMeshError, match="must be of type jax"):
            JaxModule(params(), apply, **kind)
        module = JaxModule(made, apply, **kind)
    with pytest.raises(errors.ExportMeshError, match="must be of type jax"):
        module.update_variables(params())
    assert [v.value.sharding.spec for v in module.variables] == [P("y"), P()]
    # An input on one device, and an update outside the mesh's context.
    module.update_variables(made)
    assert alike(module.methods[KEY](jnp.asarray(X)), apply(params(), X))


def test_a_mesh_that_is_none_changes_nothing():
    """So that a program may have a mesh or not."""
    with export.maybe_enable_dtensor_export_on(None):
        assert export.get_current_mesh() is None
        JaxModule(params(), apply, export_version=ExportModelType.ORBAX_MODEL)


def shown(error, title):
    """The code of a docstring under `Wrong::` or `Right::`."""
    code = error.__doc__.split(f"{title}::")[1].split("Right::")[0]
    return "\n".join(line.removeprefix("        ") for line in code.splitlines())


@pytest.mark.parametrize("error", errors.ExportError.__subclasses__(), ids=lambda e: e.__name__)
def test_the_wrong_code_of_an_error_raises_it_and_the_right_code_runs(error):
    """The docstring of each error shows both."""
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("data", "model"))
    with pytest.raises(error):
        exec(shown(error, "Wrong"), {"jnp": jnp, "P": P, "mesh": mesh})
    exec(shown(error, "Right"), {"jnp": jnp, "P": P, "mesh": mesh})


def test_an_error_keeps_its_parts():
    """They come back from a pickle."""
    error = errors.MethodKeysError(argument="jit_compile", keys=["f"], given={"g": True})
    again = pickle.loads(pickle.dumps(error))
    assert again.given == {"g": True}
    assert str(again) == str(error)


def test_importing_the_reference_imports_no_tensorflow(in_new_process):
    """Nor does a module without it."""
    program = """
import json, sys
import scutch_reference
from scutch_reference import export
kind = export.ExportModelType.ORBAX_MODEL
export.JaxModule({}, lambda params, x: x, export_version=kind).methods
print(json.dumps([name for name in sys.modules if name.startswith("tensorflow")]))
"""
    assert in_new_process(program, ours=True) == []


def test_the_docstrings_hold():
    """Their examples run."""
    import doctest

    from scutch_reference.export import jax_module, methods, parameters

    for module in (constants, jax_module, methods, parameters):
        results = doctest.testmod(module, extraglobs={"np": np})
        assert results.attempted > 0
        assert results.failed == 0
