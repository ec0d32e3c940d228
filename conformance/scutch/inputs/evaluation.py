"""What a described Linen model computes, in plain JAX: loops are loops, and nothing is lifted."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from scutch.inputs import model_variables

MOMENTUM = 0.5
# Large: with less, gradients through a few features are the rounding of numbers that cancel.
EPSILON = 0.1


def evaluate(
    model: Any, variables: Mapping[str, Any], x: Any, *, train: bool = False
) -> tuple[jax.Array, dict[str, Any]]:
    """The output of a model, and the variables that it changes.

    Args:
      model: The description.
      variables: Collections of unboxed arrays, as `slots` has them.
      x: The batch.
      train: Whether batches are normalized by themselves, and calls counted.

    Returns:
      The output, and the collections `batch_stats` and `counts` as they are afterwards; empty
      unless `train`.
    """
    changed: dict[model_variables.Path, Any] = {}
    x = _layers(model.layers, variables, x, train, changed, places=model.form != "compact")
    return x, model_variables.tree(changed)


def _layers(
    layers: Any, variables: Any, x: Any, train: bool, changed: Any, *, places: bool = False
) -> Any:
    for name, layer in zip(model_variables.part_names(layers, places=places), layers, strict=True):
        own = {c: tree[name] for c, tree in variables.items() if name in tree}
        below: dict[model_variables.Path, Any] = {}
        step = _lift if hasattr(layer, "layers") else _layer
        x = step(layer, own, x, train, below)
        changed.update({(c, name, *path): value for (c, *path), value in below.items()})
    return x


def _lift(lift: Any, variables: Any, x: Any, train: bool, changed: Any) -> Any:
    """A loop over the layers of a scan, or over the lanes of a map, whose mean is taken."""
    lanes, rounds = [], []
    for turn in range(lift.length):
        own = {c: _taken(tree["lifted"], c, lift, turn) for c, tree in variables.items()}
        below: dict[model_variables.Path, Any] = {}
        result = _layers(lift.layers, own, x, train, below)
        rounds.append(below)
        lanes.append(result)
        x = result if lift.kind == "scan" else x
    for collection, *path in rounds[0]:
        values = [below[(collection, *path)] for below in rounds]
        changed[(collection, "lifted", *path)] = jnp.stack(values)
    return x if lift.kind == "scan" else jnp.stack(lanes).mean(0)


def _taken(tree: Any, collection: str, lift: Any, turn: int) -> Any:
    axis = lift.axis if collection == "params" else 0
    return jax.tree.map(lambda value: jnp.take(value, turn, axis), tree)


def _layer(layer: Any, variables: Any, x: Any, train: bool, changed: Any) -> Any:
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
    if not train:
        return _normalized(x, stats["mean"], stats["var"], own)
    batch = {"mean": x.mean(0), "var": x.var(0)}
    for name, value in batch.items():
        mixed = MOMENTUM * stats[name] + (1 - MOMENTUM) * value
        changed[("batch_stats", name)] = mixed
    return _normalized(x, batch["mean"], batch["var"], own)


def _normalized(x: Any, mean: Any, var: Any, own: Any) -> Any:
    return (x - mean) / jnp.sqrt(var + EPSILON) * own["scale"] + own["bias"]
