"""The inputs of laws about export, which are parameters, functions and two backends.

A *backend* is a way to export: `tensorflow`, which document 003 is about, or `jax`, programs of
`jax.export`. Both answer to the same names, with one difference: on the path without TensorFlow a
module also has `functions`: by key, a function of the variables' values and the input, because no
tape could record the variables. `Served` hides the difference: laws call a module,
differentiate it and read its variables through it.

Functions are small *programs* over the leaves of the parameters and a batch: each step mixes the
batch with a row made of one leaf. Given NumPy arrays, they compute with NumPy. So the expected
result costs no compilation, and takes another route than the exported one.
"""

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.tree_util import GetAttrKey, register_pytree_node, register_pytree_with_keys

from scutch.lawkit.domain import assume, import_or_leave, is_installed, not_available
from scutch.lawkit.equality import alike
from scutch.lawkit.tolerances import MODELS, near

JAX, TENSORFLOW = "jax", "tensorflow"
BACKENDS = (JAX, TENSORFLOW)
NO_TENSORFLOW = "TensorFlow is not installed: pip install 'scutch[export]'"
NO_FLATBUFFERS = "JAX writes what it exports with flatbuffers: pip install flatbuffers"


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


# ---------------------------------------------------------------- backends


def claimed(export: Any) -> tuple[str, ...]:
    """The backends of an implementation: its `BACKENDS`, and TensorFlow alone where it has none."""
    return tuple(getattr(export, "BACKENDS", (TENSORFLOW,)))


@dataclasses.dataclass(frozen=True)
class Backend:
    """One backend of an implementation.

    Args:
      export: The namespace of export.
      name: One of `BACKENDS`.
      tensorflow: TensorFlow, where the backend is its.
    """

    export: Any
    name: str
    tensorflow: Any = None

    def module(self, params: Any, apply_fn: Any, **options: Any) -> "Served":
        """Export functions by the `JaxModule` of the implementation, to this backend.

        Args:
          params: The parameters, a tree of arrays.
          apply_fn: A function `apply_fn(params, x)`, or a mapping of keys to functions.
          **options: Other arguments of `JaxModule`; its `export_version` follows from the backend.

        Returns:
          The exported module, wrapped as the laws use it.
        """
        if self.name == JAX:
            options["export_version"] = self.export.constants.ExportModelType.ORBAX_MODEL
        return Served(self, self.export.JaxModule(params, apply_fn, **options))

    def on(self, mesh: Mesh) -> AbstractContextManager[Any]:
        """The context in which modules are built on a mesh."""
        context: AbstractContextManager[Any] = self.export.maybe_enable_dtensor_export_on(mesh)
        return context

    def tensors(self, x: Any) -> Any:
        """An input as the backend takes it."""
        return x if self.name == JAX else jax.tree.map(self.tensorflow.constant, x)


_started: list[Callable[[], None]] = []
"""Those that started DTensor in this process, which can be done once."""


def on_any(export: Any, name: str) -> Backend:
    """The drawn backend; the input is out of domain if that is not claimed or not installed.

    Args:
      export: The namespace of export, of the implementation under judgment.
      name: The backend that was drawn: one of `BACKENDS`.

    Raises:
      NotAvailable: TensorFlow is not installed, and the implementation has nothing else.
    """
    assume(name in claimed(export))
    if name == TENSORFLOW and not is_installed("tensorflow"):
        if claimed(export) == (TENSORFLOW,):
            not_available(NO_TENSORFLOW)
        assume(False)
    return on_only(export, name)


def on_only(export: Any, name: str) -> Backend:
    """A backend for a law that is about this one alone.

    Args:
      export: The namespace of export, of the implementation under judgment.
      name: The backend that the law is about: one of `BACKENDS`.

    Raises:
      NotAvailable: It is not installed, or the implementation does not claim it.
    """
    if name not in claimed(export):
        not_available(f"the implementation does not export with the backend {name!r}")
    if name == JAX:
        return Backend(export, name)
    tensorflow = import_or_leave("tensorflow", NO_TENSORFLOW)
    if export.initialize_dtensor not in _started:
        export.initialize_dtensor()  # before TensorFlow is used for anything
        _started.append(export.initialize_dtensor)
    return Backend(export, name, tensorflow)


@dataclasses.dataclass(frozen=True)
class Served:
    """An exported module of an implementation, or one that was saved and loaded.

    Args:
      backend: Its backend.
      owner: The `JaxModule`, or the result of `load`.
    """

    backend: Backend
    owner: Any

    @property
    def exported(self) -> Any:
        """The owner of the variables, which is the exported module or the result of `load`."""
        module = getattr(self.owner, "export_module", None)
        return self.owner if module is None else module()

    @property
    def variables(self) -> list[Any]:
        """The variables, in the order of the parameters."""
        return list(self.exported.variables)

    @property
    def names(self) -> list[str]:
        """The names of the variables, without TensorFlow's suffix."""
        return [variable.name.removesuffix(":0") for variable in self.variables]

    @property
    def values(self) -> list[np.ndarray]:
        """The values of the variables, whole, as arrays on the host."""
        return [self._whole(variable) for variable in self.variables]

    def _whole(self, variable: Any) -> np.ndarray:
        layout = getattr(variable, "layout", None)
        if self.backend.name == TENSORFLOW and layout is not None:
            from tensorflow.experimental import dtensor

            whole = dtensor.Layout.replicated(layout.mesh, rank=len(variable.shape))
            return np.asarray(dtensor.relayout(variable.read_value(), whole).numpy())
        return np.asarray(variable.numpy())

    def call(self, key: str, x: Any) -> Any:
        """Call a method, and return its result in plain containers with arrays of NumPy.

        Args:
          key: The key of the method.
          x: The input: an array of NumPy, or a tree of them.
        """
        return plain(self.owner.methods[key](self.backend.tensors(x)))

    def gradients(self, key: str, x: Any) -> list[np.ndarray | None]:
        """The gradients of the `loss` of a method's result, by the variables.

        Args:
          key: The key of the method.
          x: The input: an array of NumPy, or a tree of them.

        Returns:
          For each variable that is trainable and holds floating numbers, in their order, an array
          of the shape of the variable; `None` where the tape of TensorFlow has seen no use of it.
        """
        x = self.backend.tensors(x)
        trainable = [v.trainable and is_float(v) for v in self.variables]
        if self.backend.name == TENSORFLOW:
            return self._taped(
                key, x, [v for v, t in zip(self.variables, trainable, strict=True) if t]
            )
        values = [variable.value for variable in self.variables]
        chosen = [number for number, wanted in enumerate(trainable) if wanted]

        def of_chosen(some: Sequence[Any]) -> Any:
            given = list(values)
            for number, value in zip(chosen, some, strict=True):
                given[number] = value
            return loss(self.exported.functions[key](given, x))

        compiled = jax.jit(jax.grad(of_chosen))
        return [np.asarray(g) for g in compiled([values[n] for n in chosen])]

    def _taped(self, key: str, x: Any, variables: Sequence[Any]) -> list[np.ndarray | None]:
        tf = self.backend.tensorflow
        with tf.GradientTape() as tape:
            leaves = tf.nest.flatten(self.owner.methods[key](x))
            total = tf.add_n(
                [tf.reduce_sum(tf.cast(y, "float32") ** 2) for y in leaves if is_float(y)]
            )
        return [None if g is None else g.numpy() for g in tape.gradient(total, list(variables))]

    def loaded(self, inputs: Any) -> AbstractContextManager["Served"]:
        """The module, saved for inputs and loaded again; its folder lasts as long as the block.

        Args:
          inputs: An input for each key; the input itself for a module of one function.

        Raises:
          NotAvailable: The backend is JAX, and flatbuffers is not installed.
        """
        if self.backend.name == JAX and not is_installed("flatbuffers"):
            not_available(NO_FLATBUFFERS)
        return self._loaded(inputs)

    @contextlib.contextmanager
    def _loaded(self, inputs: Any) -> Iterator["Served"]:
        with tempfile.TemporaryDirectory() as folder:
            self.backend.export.save(self.owner, Path(folder), inputs)
            yield Served(self.backend, self.backend.export.load(Path(folder)))


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
