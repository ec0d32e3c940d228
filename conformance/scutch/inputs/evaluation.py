"""The output of a described Linen model, computed in plain JAX.

This is an oracle for lifted transformations: `scan` is a Python loop, `vmap` is a loop over the
copies, and no module of any implementation takes part:

    output, _ = evaluate(model, variables, x)
    assert_close(module.apply(variables, x), output, **GRADIENTS)
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from scutch.inputs import model_variables

MOMENTUM = 0.5
"""The share of its old statistics that batch normalization keeps in one training call."""

EPSILON = 0.1
"""The constant that normalization adds to the variance. It is large: with a smaller one, the
gradient through a few features is the rounding error of numbers that cancel."""


def evaluate(
    model: Any, variables: Mapping[str, Any], x: Any, *, train: bool = False
) -> tuple[jax.Array, dict[str, Any]]:
    """The output of a model, and the variables that it changes.

    Args:
      model: A `Model`; in training without dropout.
      variables: Collections of unboxed arrays, at the paths of `declared_variables`.
      x: The batch, of shape `(model.batch, model.width)`.
      train: Whether batch normalization uses and updates the statistics of the batch, and counters
        count the call.

    Returns:
      The output, of the shape of `x`, and the collections `batch_stats` and `counts` as they are
      afterwards; the latter are empty unless `train`.
    """
    changed: dict[model_variables.Path, Any] = {}
    x = _layers(model.layers, variables, x, train, changed, by_position=model.form != "compact")
    return x, model_variables.tree(changed)


def _layers(
    layers: Any, variables: Any, x: Any, train: bool, changed: Any, *, by_position: bool = False
) -> Any:
    """Compute the output of a stack of layers, and put updated variables in `changed` by path."""
    names = model_variables.part_names(layers, by_position=by_position)
    for name, layer in zip(names, layers, strict=True):
        own = {c: tree[name] for c, tree in variables.items() if name in tree}
        below: dict[model_variables.Path, Any] = {}
        evaluated = _lift if hasattr(layer, "layers") else _layer
        x = evaluated(layer, own, x, train, below)
        changed.update({(c, name, *path): value for (c, *path), value in below.items()})
    return x


def _lift(lift: Any, variables: Any, x: Any, train: bool, changed: Any) -> Any:
    """A loop over the layers of a `scan`, or over the copies of a `vmap`, whose mean is taken."""
    outputs, changes = [], []
    for index in range(lift.length):
        own = {c: _taken(tree["lifted"], c, lift, index) for c, tree in variables.items()}
        below: dict[model_variables.Path, Any] = {}
        result = _layers(lift.layers, own, x, train, below)
        changes.append(below)
        outputs.append(result)
        x = result if lift.kind == "scan" else x
    for collection, *path in changes[0]:
        values = [below[(collection, *path)] for below in changes]
        changed[(collection, "lifted", *path)] = jnp.stack(values)
    return x if lift.kind == "scan" else jnp.stack(outputs).mean(0)


def _taken(tree: Any, collection: str, lift: Any, index: int) -> Any:
    """The variables of one layer or copy, out of the stacked ones of a collection."""
    axis = lift.axis if collection == "params" else 0
    return jax.tree.map(lambda value: jnp.take(value, index, axis), tree)


def _layer(layer: Any, variables: Any, x: Any, train: bool, changed: Any) -> Any:
    """Compute the output of one layer, and put updated variables in `changed` by path."""
    own = variables.get("params", {})
    match layer.kind:
        case "Dense":
            return x @ own["kernel"] + own["bias"]
        case "Scale":
            return x * own["scale"]
        case "Mix":
            return jnp.tanh(x @ own["mix"])
        case "Shift":
            return x + own["shift"]
        case "Place":
            return x + own["Embed_0"]["embedding"][jnp.arange(len(x)) % model_variables.ROWS]
        case "LayerNorm":
            return _normalized(x, x.mean(1, keepdims=True), x.var(1, keepdims=True), own)
        case "BatchNorm":
            return _batch_norm(variables["batch_stats"], x, own, train, changed)
        case "Counter":
            calls = variables["counts"]["calls"]
            if train:
                calls = changed[("counts", "calls")] = calls + 1
            return x + calls
        case "Dropout" if train:
            raise NotImplementedError("a model with dropout in training follows its keys")
    return x


def _batch_norm(stats: Any, x: Any, own: Any, train: bool, changed: Any) -> Any:
    """Normalize a batch; in training by its own statistics, which update the kept ones."""
    if not train:
        return _normalized(x, stats["mean"], stats["var"], own)
    batch = {"mean": x.mean(0), "var": x.var(0)}
    for name, value in batch.items():
        mixed = MOMENTUM * stats[name] + (1 - MOMENTUM) * value
        changed[("batch_stats", name)] = mixed
    return _normalized(x, batch["mean"], batch["var"], own)


def _normalized(x: Any, mean: Any, var: Any, own: Any) -> Any:
    """Normalize by a mean and a variance; then scale and shift by the layer's own parameters."""
    return (x - mean) / jnp.sqrt(var + EPSILON) * own["scale"] + own["bias"]
