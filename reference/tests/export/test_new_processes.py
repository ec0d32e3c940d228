"""What was saved is served by a new process that has none of our packages."""

import numpy as np
import pytest
from scutch_reference.export import ExportModelType

EXPORTED = """
import json, os, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from scutch_reference import export

folder, kind, sharded = sys.argv[1], export.ExportModelType[sys.argv[2]], sys.argv[3] == "True"
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
    "export_version": kind,
}
if sharded:
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    if kind is export.ExportModelType.TF_SAVEDMODEL:
        export.initialize_dtensor()
    params = {k: jax.device_put(v, NamedSharding(mesh, specs[k])) for k, v in params.items()}
    with export.maybe_enable_dtensor_export_on(mesh):
        module = export.JaxModule(params, functions, pspecs=specs, **options)
else:
    module = export.JaxModule(params, functions, **options)
module.update_variables({**params, "b": params["b"] * 3})
example = np.ones((4, 8), "float32")
export.save(module, folder, {"predict": {"x": example}, "total": example, "fixed": example[0]})
new = {k: np.asarray(v) for k, v in module.model_params.items()}
x = np.linspace(-1, 1, 48, dtype="float32").reshape(6, 8)
answers = {
    "y": functions["predict"](new, {"x": x})["y"].tolist(),
    "total": float(functions["total"](new, x)),
    "gradients": jax.grad(lambda p: functions["total"](p, x), allow_int=True)(new),
}
layouts = []
if sharded and kind is export.ExportModelType.TF_SAVEDMODEL:
    layouts = [v.layout.sharding_specs for v in module.variables]
elif sharded:
    layouts = [list(v.value.sharding.spec) for v in module.variables]
gradients = [answers["gradients"][k].tolist() for k in ("b", "w")]
print(json.dumps({**answers, "gradients": gradients, "layouts": layouts}))
"""

SERVED = {
    ExportModelType.TF_SAVEDMODEL: """
import json, sys
import numpy as np, tensorflow as tf

loaded = tf.saved_model.load(sys.argv[1])
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
signature = loaded.signatures["predict"](input_0=x)
print(json.dumps({
    "y": loaded.methods["predict"]({"x": x})["y"].numpy().tolist(),
    "signature": signature["output_1"].numpy().tolist(),
    "total": float(total),
    "fixed": loaded.methods["fixed"](x[0]).numpy().tolist(),
    "gradients": [g.numpy().tolist() for g in tape.gradient(total, variables)],
    "refused": len(refused),
    "ours": [name for name in sys.modules if name.startswith("scutch")],
}))
""",
    ExportModelType.ORBAX_MODEL: """
import json, pathlib, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

folder = pathlib.Path(sys.argv[1])
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
for key, ((program,)) in manifest["methods"].items():
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
print(json.dumps({
    "y": y,
    "signature": y,
    "total": float(total(b, w)),
    "fixed": programs["fixed"].call(values, x[0]).tolist(),
    "gradients": [g.tolist() for g in jax.grad(total, (0, 1))(b, w)],
    "refused": len(refused),
    "ours": [name for name in sys.modules if name.startswith("scutch")],
}))
""",
}


@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "sharded"])
def test_a_new_process_without_our_packages_computes_the_same(
    saving, sharded, in_new_process, tmp_path
):
    """Several methods, another batch than that of saving, and gradients of trainable variables."""
    folder = tmp_path / "exported"
    expected = in_new_process(EXPORTED, folder, saving.name, sharded, ours=True)
    found = in_new_process(SERVED[saving], folder, ours=False)
    assert found["ours"] == []
    assert np.allclose(found["y"], expected["y"], atol=1e-5)
    assert np.allclose(found["signature"], expected["y"], atol=1e-5)
    assert np.allclose(found["total"], expected["total"], atol=1e-5)
    for gradient, wanted in zip(found["gradients"], expected["gradients"], strict=True):
        assert np.allclose(gradient, wanted, atol=1e-4)
    assert np.allclose(found["fixed"], np.linspace(-1, 1, 48)[:8] * 2, atol=1e-5)
    assert found["refused"] == 2
    if sharded:
        layouts = [[None if e == "unsharded" else e for e in spec] for spec in expected["layouts"]]
        assert layouts[0] == ["y"]
        assert layouts[2] == ["x", "y"]
