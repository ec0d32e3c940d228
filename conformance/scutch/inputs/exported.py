"""Trees of parameters, and functions of them, that laws about export export.

Functions are small *programs* over the leaves of the parameters and a batch: each step mixes the
batch with a row made of one leaf. Given NumPy arrays, they compute with NumPy. So the expected
result costs no compilation, and takes another route than the exported one.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import GetAttrKey, register_pytree_node, register_pytree_with_keys

from scutch.lawkit.equality import alike
from scutch.lawkit.tolerances import MODELS, near

# ---------------------------------------------------------------- nodes of parameter trees


class Layer(NamedTuple):
    """A node of two children by name."""

    kernel: Any
    bias: Any = None


@dataclasses.dataclass
class Boxed:
    """A box: a child with an attribute path, and static names of its axes.

    Args:
      value: The child: an array, or a tree of arrays.
      names: The names of its axes; they are static, so that boxes with other names have another
        structure.
    """

    value: Any
    names: tuple[Any, ...] = ("model",)


@dataclasses.dataclass
class Unkeyed:
    """A node that is registered without keys: JAX counts its children."""

    value: Any


@dataclasses.dataclass
class Lossy:
    """A node that loses a text that it is given for an array."""

    value: Any


def _lossy(_: None, children: Any) -> Any:
    """The node around its child, or `None` in its place where the child is a text."""
    return Lossy(*children) if not isinstance(children[0], str) else None


register_pytree_with_keys(
    Boxed,
    lambda node: (((GetAttrKey("value"), node.value),), node.names),
    lambda names, children: Boxed(next(iter(children)), names),
)
register_pytree_node(
    Unkeyed, lambda node: ((node.value,), None), lambda _, children: Unkeyed(*children)
)
register_pytree_with_keys(
    Lossy,
    lambda node: (((GetAttrKey("value"), node.value),), None),
    _lossy,
)

NODES: Mapping[str, Callable[[Any], Any]] = {
    "layer": Layer,
    "boxed": Boxed,
    "unkeyed": Unkeyed,
    "lossy": Lossy,
}
"""Classes of nodes by the names that descriptions have for them."""


# ---------------------------------------------------------------- functions


def _library(*arrays: Any) -> Any:
    """NumPy for arrays of NumPy alone, else JAX's."""
    return np if all(isinstance(array, np.ndarray | np.generic) for array in arrays) else jnp


def _row(leaf: Any, width: int) -> Any:
    """A row of numbers made of a leaf, whatever its shape and dtype."""
    lib = _library(leaf)
    flat = lib.ravel(lib.real(leaf)).astype("float32") / np.float32(8)
    return lib.resize(flat, (width,)) if flat.size else lib.zeros(width, "float32")


STEPS: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda lib, y, row: y + row,
    "multiply": lambda lib, y, row: y * row,
    "wave": lambda lib, y, row: lib.sin(y + row),
    "squash": lambda lib, y, row: lib.tanh(y) - row,
    "turn": lambda lib, y, row: lib.flip(y, -1) + row,
    "centre": lambda lib, y, row: (y - lib.mean(y, -1, keepdims=True)) * row,
}
"""The steps of programs: each takes NumPy or JAX, the batch and a row, and returns a new batch."""


def function(steps: Sequence[str], structure: Any) -> Callable[[Any, Any], Any]:
    """A JAX function `apply_fn(params, x)`.

    Args:
      steps: Names in `STEPS`; the step of number i takes a row of the leaf of number i, counted
        round. `"tree"` among them: the result is a tree, which has a parameter in it unchanged.
      structure: Of the parameters; the function refuses others, in other containers.
    """

    def apply_fn(params: Any, x: Any) -> Any:
        leaves, found = jax.tree.flatten(params)
        if found != structure:
            raise AssertionError(f"the function got parameters {found}; expected {structure}")
        y = x["x"] if isinstance(x, Mapping) else x
        for number, step in enumerate(each for each in steps if each != "tree"):
            leaf = leaves[number % len(leaves)] if leaves else np.float32(1)
            row = _row(leaf, y.shape[-1])
            y = STEPS[step](_library(y, row), y, row)
        if "tree" not in steps:
            return y
        return {"y": y, "more": (_library(y).sum(y, -1), [leaves[-1] if leaves else y])}

    return apply_fn


def functions(
    described: Mapping[str, Sequence[str]], params: Any
) -> dict[str, Callable[[Any, Any], Any]]:
    """The functions of a module by their keys, each made by `function` of its steps.

    Args:
      described: For each key the steps of its function: names in `STEPS`, or `"tree"`.
      params: A tree of arrays; the functions refuse parameters of another structure.

    Returns:
      For each key a function `apply_fn(params, x)`.
    """
    structure = jax.tree.structure(params)
    return {key: function(steps, structure) for key, steps in described.items()}


def batch(rows: int, width: int, form: str = "array") -> Any:
    """An input for the functions: a batch of rows, whose numbers are sines of 0, 1, 2 and so on.

    Args:
      rows: The number of rows, at least 0.
      width: The number of entries of each row, at least 0.
      form: `'array'`, or `'dict'` for the array in a dictionary under the key `'x'`.

    Returns:
      An array of NumPy of shape `(rows, width)` and dtype `float32`, or the dictionary with it.
    """
    x = np.sin(np.arange(rows * width, dtype="float32")).reshape(rows, width)
    return {"x": x} if form == "dict" else x


def loss(result: Any) -> Any:
    """The sum of the squares of all floating numbers in a result of JAX."""
    floats = [y for y in jax.tree.leaves(result) if jnp.issubdtype(y.dtype, jnp.floating)]
    return sum(jnp.sum(y.astype("float32") ** 2) for y in floats)


def is_float(array: Any) -> bool:
    """Whether an array, variable or tensor has real floating numbers."""
    dtype = getattr(array.dtype, "as_numpy_dtype", array.dtype)
    return bool(jnp.issubdtype(dtype, jnp.floating))


def plain(result: Any) -> Any:
    """A result in plain dictionaries, lists and tuples, with arrays of NumPy."""
    if isinstance(result, Mapping):
        return {str(key): plain(value) for key, value in result.items()}
    if isinstance(result, tuple):
        return tuple(map(plain, result))
    if isinstance(result, Sequence):
        return list(map(plain, result))
    return np.asarray(result.numpy() if hasattr(result, "numpy") else result)


def joined(path: Sequence[Any]) -> str:
    """The keys of a path, joined by dots."""
    parts = [getattr(k, "key", getattr(k, "name", getattr(k, "idx", None))) for k in path]
    return ".".join(map(str, parts))


def unchanged(value: Any, copy: Any) -> bool:
    """Whether a value is as it was when it was copied: its containers, by class, and its leaves.

    Args:
      value: A tree of arrays, scalars and strings.
      copy: The copy.
    """
    structures: list[Any] = [jax.tree.structure(tree) for tree in (value, copy)]
    return alike(*structures) and alike(jax.tree.leaves(value), jax.tree.leaves(copy))


def is_close(found: Any, expected: Any) -> bool:
    """Whether two plain results have the same structure, shapes and dtypes, and close values.

    Args:
      found: A result as `plain` gives it: a tree of arrays of NumPy.
      expected: The result that it should be; floating numbers may differ by the tolerance `MODELS`,
        all others not at all.
    """
    structures: list[Any] = [jax.tree.structure(tree) for tree in (found, expected)]
    if structures[0] != structures[1]:
        return False
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(_close_arrays(np.asarray(a), np.asarray(b)) for a, b in pairs)


def _close_arrays(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not is_float(one):
        return bool(np.array_equal(one, other))
    return near(one, other, **MODELS)
