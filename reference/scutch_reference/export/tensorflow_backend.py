"""The path through TensorFlow: variables, converted functions, and a SavedModel.

This is the only module of the reference that needs TensorFlow, and it is imported when the first
`JaxModule` for TensorFlow is made.

Each parameter becomes a `tf.Variable` of its name, or, within an export mesh, a DTensor variable
sharded as its spec says. `jax2tf` converts a function of the flat list of values, so that no
container and no box of the user's meets TensorFlow, which would replace containers by its own.

TensorFlow 2.22 cannot run a converted function on DTensor variables in the process that exports it
("XlaCallModule does not implement layout propagation"). Save such a module and load it: the loaded
one has whole variables and computes.

>>> from .jax_module import JaxModule
>>> module = JaxModule({"w": np.full(1, 2.0)}, lambda params, x: x * params["w"])
>>> served = module.methods[JaxModule.DEFAULT_METHOD_KEY](np.full(1, 3.0))
>>> served.numpy().tolist()
[6.0]
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tensorflow as tf
from jax.experimental import jax2tf
from jax.sharding import NamedSharding
from tensorflow.experimental import dtensor

from ..placement import partition_spec
from ..types import Leaf, Tree
from .export_mesh import ExportMesh
from .methods import Method
from .parameters import Parameter, ParameterTree

_SAVED_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
"""The names of variables that TensorFlow takes in a SavedModel."""


class TensorFlowBackend:
    """A module of TensorFlow's variables and functions; `JaxModule` owns it.

    Args:
      tree: The description of each parameter: name, shape, dtype, sharding.
      leaves: The arrays of the parameters, in the order of `tree`.
      methods: The methods to convert, by the key under which they are called.
      with_gradient: Whether functions are converted with their derivatives.
      mesh: The export mesh, or `None`.
      consolidate: Whether an axis that is sharded over several mesh axes may keep one of them.
      name: The name of the `tf.Module`.

    Raises:
      ExportMeshError: A parameter on the mesh is no JAX array, or its spec is not for DTensor.
    """

    def __init__(
        self,
        tree: ParameterTree,
        leaves: Sequence[Any],
        methods: Mapping[str, Method],
        *,
        with_gradient: bool,
        mesh: ExportMesh | None,
        consolidate: bool,
        name: str | None,
    ) -> None:
        self._tree, self._specified = tree, methods
        self._with_gradient, self._mesh, self._consolidate = with_gradient, mesh, consolidate
        self._variables = [
            self._variable(parameter, value)
            for parameter, value in zip(tree.parameters, self._values(leaves), strict=True)
        ]
        self.methods = {key: self._converted(m, self._variables) for key, m in methods.items()}
        self.module = tf.Module(name=name)
        self.module.model_variables = list(self._variables)
        self.module.methods = dict(self.methods)

    def _values(self, leaves: Sequence[Any]) -> list[Any]:
        """The leaves as TensorFlow's tensors, on the mesh where there is one."""
        if self._mesh is None:
            return [np.asarray(leaf) for leaf in leaves]
        parameters = zip(self._tree.parameters, leaves, strict=True)
        return [self._on_mesh(self._mesh, parameter, leaf) for parameter, leaf in parameters]

    def _on_mesh(self, mesh: ExportMesh, parameter: Parameter, leaf: jax.Array) -> Any:
        """The leaf as a DTensor, sharded by the spec of its parameter."""
        spec = mesh.consolidated(parameter.spec or partition_spec(()), allowed=self._consolidate)
        placed = jax.device_put(leaf, NamedSharding(mesh.jax_mesh, spec))
        shards = {shard.device: shard.data for shard in placed.addressable_shards}
        parts = [np.asarray(shards[d]) for d in mesh.jax_mesh.devices.flat if d in shards]
        gaps = [None] * (len(parameter.shape) - len(spec))
        entries = [entry or dtensor.UNSHARDED for entry in (*spec, *gaps)]
        return dtensor.pack(parts, dtensor.Layout(entries, mesh.dtensor_mesh))

    def _variable(self, parameter: Parameter, value: Leaf, name: str | None = None) -> Tree:
        kind = tf.Variable if self._mesh is None else dtensor.DVariable
        with tf.device(None if self._mesh is not None else "CPU:0"):
            return kind(
                value,
                trainable=parameter.trainable,
                shape=parameter.shape,
                dtype=parameter.dtype,
                name=parameter.name if name is None else name,
            )

    def _converted(self, method: Method, variables: Sequence[Any]) -> Any:
        """A method as a TensorFlow function of its input; a call reads the variables anew."""

        def function(values: Sequence[Any], x: Tree) -> Tree:
            return method.function(self._tree.unflatten(values), x)

        converted = jax2tf.convert(
            function,
            polymorphic_shapes=[None, method.polymorphic_shape],
            with_gradient=self._with_gradient,
            **method.options,
        )

        def predict(x: Tree) -> Tree:
            return converted(list(variables), x)

        return tf.function(predict, jit_compile=method.jit_compile, autograph=False)

    def assign(self, leaves: Sequence[Any]) -> None:
        """Assign new values to all variables; after an error none has changed."""
        for variable, value in zip(self._variables, self._values(leaves), strict=True):
            variable.assign(value)

    def save(self, folder: Path, inputs: Mapping[str, Any]) -> None:
        """Write a SavedModel with `model_variables`, `methods` and a signature for each method.

        A signature takes the leaves of the input as `input_0`, `input_1`, ... and returns those of
        the result as `output_0`, `output_1`, ... A method is compiled by XLA if its `jit_compile`
        says so. Gradients are saved if the backend was made with them.

        Args:
          folder: Where to write; TensorFlow makes it if it is not there.
          inputs: For each key of the methods an input, a tree of arrays: a method is saved for its
            dtypes, and for its shapes where the polymorphic shape leaves them open.
        """
        saved = tf.Module(name=self.module.name)
        saved.model_variables = self._saved_variables()
        saved.methods, signatures = {}, {}
        for key, method in self._specified.items():
            (spec,) = method.input_specs(inputs[key])
            converted = self._converted(method, saved.model_variables)
            tensors = jax.tree.map(_tensor_spec, spec)
            saved.methods[key] = tf.function(
                converted.python_function,
                [tensors],
                jit_compile=method.jit_compile,
                autograph=False,
            )
            signatures[key] = _signature(saved.methods[key], spec)
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=self._with_gradient)
        tf.saved_model.save(saved, str(folder), signatures, options)

    def _saved_variables(self) -> list[Any]:
        """The variables; where a SavedModel cannot have their names, copies with other names.

        A character that TensorFlow does not take in a saved name becomes `_`, and a name must not
        begin with one: `.` comes before it.
        """
        if all(_SAVED_NAME.fullmatch(parameter.name) for parameter in self._tree.parameters):
            return list(self._variables)
        return [
            self._variable(parameter, variable.read_value(), _saved_name(parameter.name))
            for parameter, variable in zip(self._tree.parameters, self._variables, strict=True)
        ]


def _saved_name(name: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", name)
    return name if _SAVED_NAME.fullmatch(name) else f".{name}"


def _tensor_spec(spec: jax.ShapeDtypeStruct) -> Any:
    """A spec for TensorFlow, with `None` for sizes that may vary."""
    sizes = [size if isinstance(size, int) else None for size in spec.shape]
    return tf.TensorSpec(sizes, spec.dtype)


def _signature(function: Callable[[Any], Any], spec: Tree) -> Tree:
    """A function as TensorFlow Serving calls it: flat named tensors in, flat named tensors out."""
    leaves, structure = jax.tree.flatten(spec)

    def flat(**inputs: Leaf) -> dict[str, Any]:
        x = jax.tree.unflatten(structure, [inputs[f"input_{i}"] for i in range(len(leaves))])
        return {f"output_{i}": y for i, y in enumerate(tf.nest.flatten(function(x)))}

    named = {
        f"input_{i}": tf.TensorSpec(_tensor_spec(leaf).shape, leaf.dtype, f"input_{i}")
        for i, leaf in enumerate(leaves)
    }
    return tf.function(flat, autograph=False).get_concrete_function(**named)


class Loaded:
    """The parts of a SavedModel that `save` wrote, read back.

    Args:
      variables: A `tf.Variable` for each parameter, in the order of the parameters.
      methods: For each key a function of one input: it takes and returns a tree of tensors.
    """

    def __init__(
        self, variables: Sequence[Any], methods: Mapping[str, Callable[[Any], Any]]
    ) -> None:
        self.variables = variables
        self.methods = methods

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables whose `trainable` is true."""
        return [variable for variable in self.variables if variable.trainable]


def load(folder: Path) -> Loaded:
    """Read a SavedModel that `save` wrote; `tf.saved_model.load` alone gives the same parts."""
    saved = tf.saved_model.load(str(folder))
    methods = {key: functools.partial(_called, saved, key) for key in saved.methods}
    return Loaded(list(saved.model_variables), methods)


def _called(saved: Tree, key: str, x: Tree) -> Tree:
    """Call a method of a loaded module; it is passed, so that its variables live until then."""
    return saved.methods[key](x)
