"""From training to serving, with TensorFlow and without: a guide that runs.

A model is trained a little. Then its parameters and two functions of them are exported by
`JaxModule`, saved to a folder, and served by another process, which has neither this package nor
the model's code. Read this file from top to bottom, or run it and read what it shows:

    python reference/examples/export_guide.py

It needs `flatbuffers`, with which JAX writes programs. Where TensorFlow is installed too
(`pip install 'scutch[export]'`), the same module is exported as a SavedModel as well.

What the guide claims it also checks; the exit code is 1 if a claim does not hold.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scutch_reference import export
from scutch_reference.export import ExportModelType

# 1. A model ---------------------------------------------------------------------------------------
#
# Parameters are a tree of arrays, and a function takes them and an input. That is all that is asked
# of a model: it may come from Linen, from NNX (as `nnx.split` gives it), or be written like this.

WIDTH = 4


def initial(seed: int) -> Any:
    """The parameters of two layers."""
    first, second = jax.random.split(jax.random.key(seed))
    return {
        "hidden": {"kernel": jax.random.normal(first, (WIDTH, 16)) / 2, "bias": jnp.zeros(16)},
        "out": {"kernel": jax.random.normal(second, (16, 1)) / 4, "bias": jnp.zeros(1)},
    }


def predict(params: Any, x: jax.Array) -> jax.Array:
    """One number for each row of `x`, which has `WIDTH` columns."""
    hidden, out = params["hidden"], params["out"]
    y = jnp.tanh(x @ hidden["kernel"] + hidden["bias"])
    return (y @ out["kernel"] + out["bias"])[:, 0]


def error(params: Any, batch: Any) -> jax.Array:
    """The mean square error of a batch, which has rows `x` and numbers `y`."""
    return jnp.mean((predict(params, batch["x"]) - batch["y"]) ** 2)


# 2. Training --------------------------------------------------------------------------------------
#
# A few steps of gradient descent, on the sum of each row.


def examples(rows: int, seed: int) -> Any:
    """A batch of rows, and of each the sum."""
    x = np.random.default_rng(seed).uniform(-1, 1, (rows, WIDTH)).astype("float32")
    return {"x": x, "y": x.sum(1)}


@jax.jit
def step(params: Any, batch: Any) -> tuple[Any, jax.Array]:
    """The parameters after one step, and the error before it."""
    loss, gradients = jax.value_and_grad(error)(params, batch)
    return jax.tree.map(lambda p, g: p - 0.2 * g, params, gradients), loss


def train(steps: int) -> tuple[Any, list[float]]:
    """The last parameters, and the errors."""
    params, losses = initial(0), []
    for number in range(steps):
        params, loss = step(params, examples(32, number))
        losses.append(float(loss))
    return params, losses


# 3. A module --------------------------------------------------------------------------------------
#
# Each function has a key, and under the same key the shape of its input. `b` is a symbol: the
# program is exported once, for every number of rows. The hidden layer is trainable, so gradients
# for it are exported too; the last layer is not.


def module_of(params: Any, kind: ExportModelType) -> export.JaxModule:
    """The module, for one of the two ways to export."""
    return export.JaxModule(
        params,
        {"predict": predict, "error": error},
        trainable={
            "hidden": {"kernel": True, "bias": True},
            "out": {"kernel": False, "bias": False},
        },
        input_polymorphic_shape={"predict": f"b, {WIDTH}", "error": {"x": f"b, {WIDTH}", "y": "b"}},
        export_version=kind,
    )


# 4. Serving ---------------------------------------------------------------------------------------
#
# These programs run in a new process. The first knows only TensorFlow, the second only JAX and
# NumPy. Both answer for a batch of another size than the one that the module was saved with.

SERVERS = {
    ExportModelType.TF_SAVEDMODEL: """
import json, sys
import numpy as np, tensorflow as tf

model = tf.saved_model.load(sys.argv[1])
x, y = (tf.constant(np.array(part, "float32")) for part in json.load(sys.stdin))
trainable = [variable for variable in model.model_variables if variable.trainable]
with tf.GradientTape() as tape:
    error = model.methods["error"]({"x": x, "y": y})
print(json.dumps({
    "predictions": model.methods["predict"](x).numpy().tolist(),
    "gradients": [g.numpy().tolist() for g in tape.gradient(error, trainable)],
    "names": [variable.name.removesuffix(":0") for variable in model.model_variables],
    "packages": [name for name in sys.modules if name.startswith("scutch")],
}))
""",
    ExportModelType.ORBAX_MODEL: """
import json, pathlib, sys
import jax, numpy as np
from jax.export import deserialize

folder = pathlib.Path(sys.argv[1])
manifest = json.loads((folder / "manifest.json").read_text())
arrays = np.load(folder / "variables.npz")
values = [arrays[str(i)].view(v["dtype"]) for i, v in enumerate(manifest["variables"])]
programs = {key: deserialize((folder / some[0]["file"]).read_bytes())
            for key, some in manifest["methods"].items()}
x, y = (np.array(part, "float32") for part in json.load(sys.stdin))
gradients = jax.grad(lambda values: programs["error"].call(values, {"x": x, "y": y}))(values)
trainable = [variable["trainable"] for variable in manifest["variables"]]
print(json.dumps({
    "predictions": programs["predict"].call(values, x).tolist(),
    "gradients": [g.tolist() for g, t in zip(gradients, trainable) if t],
    "names": [variable["name"] for variable in manifest["variables"]],
    "packages": [name for name in sys.modules if name.startswith(("tensorflow", "scutch"))],
}))
""",
}


def served(kind: ExportModelType, folder: Path, batch: Any) -> Any:
    """What a new process answers for a batch, without this package on its path.

    Raises:
      RuntimeError: The process failed.
    """
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", SERVERS[kind], str(folder)],
        input=json.dumps([batch["x"].tolist(), batch["y"].tolist()]),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the server of {folder} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


# 5. All of it -------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Run the guide; return an exit code."""
    parser = argparse.ArgumentParser(
        description="From training to serving, with TensorFlow and without.",
        epilog="Exit code 1 means that something the guide claims does not hold.",
    )
    parser.add_argument("--steps", type=int, default=200, help="training steps (200)")
    parser.add_argument("--rows", type=int, default=5, help="rows of the batch to serve (5)")
    parser.add_argument(
        "--without-tensorflow",
        action="store_true",
        help="leave TensorFlow out, if it is there",
    )
    options = parser.parse_args(arguments)
    if options.steps < 1 or options.rows < 1:
        parser.error("--steps and --rows must be positive")
    kinds = [ExportModelType.ORBAX_MODEL]
    if options.without_tensorflow or importlib.util.find_spec("tensorflow") is None:
        print("without TensorFlow: a SavedModel is not made")
    else:
        kinds.append(ExportModelType.TF_SAVEDMODEL)
    failed = []

    def claim(text: str, holds: bool) -> None:
        print(f"  {'holds' if holds else 'FAILS'}: {text}")
        if not holds:
            failed.append(text)

    params, losses = train(options.steps)
    print(f"trained for {options.steps} steps: error {losses[0]:.4f} to {losses[-1]:.4f}")
    example, batch = examples(2, 1), examples(options.rows, 2)
    predictions, gradients = predict(params, batch["x"]), jax.grad(error)(params, batch)
    for kind in kinds:
        print(f"\n{kind.name}")
        module = module_of(initial(1), kind)
        module.update_variables(params)
        own = np.asarray(module.methods["predict"](batch["x"]))
        claim("the exported method computes with the new parameters", close(own, predictions))
        with tempfile.TemporaryDirectory() as folder:
            export.save(module, folder, {"predict": example["x"], "error": example})
            answer = served(kind, Path(folder), batch)
        claim(
            f"a new process computes the same for {options.rows} rows, saved with 2",
            close(answer["predictions"], predictions),
        )
        hidden = jax.tree.leaves(gradients["hidden"])
        claim(
            "and the gradients of the trainable variables",
            len(answer["gradients"]) == len(hidden)
            and all(map(close, map(np.array, answer["gradients"]), hidden)),
        )
        names = ["hidden.bias", "hidden.kernel", "out.bias", "out.kernel"]
        claim("variables are named by the paths of the parameters", answer["names"] == names)
        claim("the new process does without this package", answer["packages"] == [])
    print(f"\n{len(failed)} claims fail" if failed else "\nall claims hold")
    return int(bool(failed))


def close(found: Any, expected: Any) -> bool:
    """Whether two arrays are the same but for rounding."""
    return bool(np.allclose(found, expected, rtol=1e-4, atol=1e-5))


if __name__ == "__main__":
    sys.exit(main())
