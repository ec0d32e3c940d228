"""A new process that has none of our packages serves the saved models."""

import importlib.util

import numpy as np
import pytest
from scutch_reference.export import ExportModelType

EXPORTED = """
import json, os, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from scutch_reference import export

answers = {}
if "TF_SAVEDMODEL" in sys.argv[2:]:
    export.initialize_dtensor()
params = {"w": jnp.arange(16.0).reshape(8, 2) / 9, "b": jnp.ones(2), "n": jnp.arange(4)}
specs = {"w": P("x", "y"), "b": P("y"), "n": P()}
functions = {
    "predict": lambda p, x: {"y": jnp.tanh(x["x"] @ p["w"]) + p["b"], "n": [p["n"]]},
    "total": lambda p, x: jnp.sum(jnp.sin(x @ p["w"]) * p["b"]),
    "fixed": lambda p, x: x * 2,
}
options = {
    "trainable": {"w": True, "b": True, "n": False},
    "input_polymorphic_shape": {"predict": {"x": "b, 8"}, "total": "2*b, _", "fixed": None},
}
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
x = np.linspace(-1, 1, 48, dtype="float32").reshape(6, 8)
example = np.ones((4, 8), "float32")


def made(kind, sharded):
    options["export_version"] = export.ExportModelType[kind]
    if not sharded:
        return export.JaxModule(params, functions, **options)
    placed = {k: jax.device_put(v, NamedSharding(mesh, specs[k])) for k, v in params.items()}
    with export.maybe_enable_dtensor_export_on(mesh):
        return export.JaxModule(placed, functions, pspecs=specs, **options)


def layout(variable):
    found = getattr(variable, "layout", None)
    return list(variable.value.sharding.spec) if found is None else found.sharding_specs


for kind in sys.argv[2:]:
    for sharded in (False, True):
        module = made(kind, sharded)
        module.update_variables({**module.model_params, "b": module.model_params["b"] * 3})
        inputs = {"predict": {"x": example}, "total": example, "fixed": example[0]}
        export.save(module, f"{sys.argv[1]}/{kind}-{sharded}", inputs)
        layouts = [layout(v) for v in module.variables] if sharded else []
        answers[f"{kind}-{sharded}"] = layouts
new = {**params, "b": params["b"] * 3}
gradients = jax.grad(lambda p: functions["total"](p, x), allow_int=True)(new)
answers["y"] = functions["predict"](new, {"x": x})["y"].tolist()
answers["total"] = float(functions["total"](new, x))
answers["gradients"] = [gradients[k].tolist() for k in ("b", "w")]
print(json.dumps(answers))
"""

SERVED = {
    ExportModelType.TF_SAVEDMODEL: """
import json, sys
import numpy as np, tensorflow as tf


def serve(folder):
    loaded = tf.saved_model.load(folder)
    x = tf.constant(np.linspace(-1, 1, 48, dtype="float32").reshape(6, 8))
    variables = [v for v in loaded.model_variables if v.trainable]
    with tf.GradientTape() as tape:
        total = loaded.methods["total"](x)
    refused = []
    for bad in (tf.ones((6, 7)), tf.ones((3, 8))):
        try:
            loaded.methods["total"](bad)
        except Exception as error:
            refused.append(type(error).__name__)
    return {
        "y": loaded.methods["predict"]({"x": x})["y"].numpy().tolist(),
        "signature": loaded.signatures["predict"](input_0=x)["output_1"].numpy().tolist(),
        "total": float(total),
        "fixed": loaded.methods["fixed"](x[0]).numpy().tolist(),
        "gradients": [g.numpy().tolist() for g in tape.gradient(total, variables)],
        "refused": len(refused),
        "ours": [name for name in sys.modules if name.startswith("scutch")],
    }


print(json.dumps([serve(folder) for folder in sys.argv[1:]]))
""",
    ExportModelType.ORBAX_MODEL: """
import json, pathlib, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def serve(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    arrays = np.load(folder / "variables.npz")
    dtypes = [jnp.dtype(variable["dtype"]) for variable in manifest["variables"]]
    values = [arrays[str(i)].view(dtype) for i, dtype in enumerate(dtypes)]
    if manifest["mesh"]:
        shape, axes = manifest["mesh"]["shape"], manifest["mesh"]["axes"]
        mesh = Mesh(np.array(jax.devices()).reshape(shape), axes)
        specs = [P(*variable["spec"]) for variable in manifest["variables"]]
        values = [jax.device_put(v, NamedSharding(mesh, s)) for v, s in zip(values, specs)]
    programs = {}
    for key, (program,) in manifest["methods"].items():
        programs[key] = jax.export.deserialize((folder / program["file"]).read_bytes())
    x = np.linspace(-1, 1, 48, dtype="float32").reshape(6, 8)
    b, n, w = values
    total = lambda b, w: programs["total"].call([b, n, w], x)
    refused = []
    for bad in (np.ones((6, 7), "float32"), np.ones((3, 8), "float32")):
        try:
            programs["total"].call(values, bad)
        except Exception as error:
            refused.append(type(error).__name__)
    y = programs["predict"].call(values, {"x": x})["y"].tolist()
    return {
        "y": y,
        "signature": y,
        "total": float(total(b, w)),
        "fixed": programs["fixed"].call(values, x[0]).tolist(),
        "gradients": [g.tolist() for g in jax.grad(total, (0, 1))(b, w)],
        "refused": len(refused),
        "ours": [name for name in sys.modules if name.startswith("scutch")],
    }


print(json.dumps([serve(pathlib.Path(folder)) for folder in sys.argv[1:]]))
""",
}


KINDS = [
    kind
    for kind, package in (
        (ExportModelType.TF_SAVEDMODEL, "tensorflow"),
        (ExportModelType.ORBAX_MODEL, "flatbuffers"),
    )
    if importlib.util.find_spec(package) is not None
]
"""The backends whose modules can be saved here."""


@pytest.fixture(scope="module")
def exported(in_new_process, tmp_path_factory):
    """A folder of models that one process exported, and the results that they should give."""
    folder = tmp_path_factory.mktemp("exported")
    names = [kind.name for kind in KINDS]
    return folder, in_new_process(EXPORTED, folder, *names, ours=True)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_new_process_without_our_packages_computes_the_same(exported, kind, in_new_process):
    """Methods, a batch of another size, and gradients of trainable variables are computed alike.

    The variables are whole, or were sharded on a mesh of four by two devices.
    """
    folder, expected = exported
    folders = [folder / f"{kind.name}-{sharded}" for sharded in (False, True)]
    for found in in_new_process(SERVED[kind], *folders, ours=False):
        assert found["ours"] == []
        assert np.allclose(found["y"], expected["y"], atol=1e-5)
        assert np.allclose(found["signature"], expected["y"], atol=1e-5)
        assert np.allclose(found["total"], expected["total"], atol=1e-5)
        for gradient, wanted in zip(found["gradients"], expected["gradients"], strict=True):
            assert np.allclose(gradient, wanted, atol=1e-4)
        assert np.allclose(found["fixed"], np.linspace(-1, 1, 48)[:8] * 2, atol=1e-5)
        assert found["refused"] == 2
    layouts = [[None if e == "unsharded" else e for e in s] for s in expected[f"{kind.name}-True"]]
    assert layouts[0] == ["y"]
    assert layouts[2] == ["x", "y"]
