"""The backends of laws about export, and modules that they have exported.

A *backend* is a way to export: `tensorflow`, which document 003 is about, or `jax`, programs of
`jax.export`. Both answer to the same names, with one difference: on the path without TensorFlow a
module also has `functions`: by key, a function of the variables' values and the input, because no
tape could record the variables. `Served` hides the difference: laws call a module,
differentiate it and read its variables through it.
"""

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from scutch.inputs.exported import is_float, loss, plain
from scutch.lawkit.domain import assume, import_or_leave, is_installed, not_available

JAX, TENSORFLOW = "jax", "tensorflow"
BACKENDS = (JAX, TENSORFLOW)
NO_TENSORFLOW = "TensorFlow is not installed: pip install 'scutch[export]'"
NO_FLATBUFFERS = "JAX writes what it exports with flatbuffers: pip install flatbuffers"


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
