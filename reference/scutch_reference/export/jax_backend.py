"""Export without TensorFlow, by `jax.export`, to a folder that plain JAX and NumPy can read.

A function is *exported* for one spec of input, which may have symbols for sizes. The exported
function takes the values of the variables, as a list in the order of the parameters, and the input.
So it can be called with other values, be differentiated with respect to them, and be loaded without
this package.

**The folder** that `save` writes is read with plain JAX and NumPy:

- `manifest.json` has `variables`, a list with the `name`, `dtype`, `trainable` and `spec` of each;
  `methods`, for each key a list of `{"file": ..., "input": ...}`, one for each spec of input, with
  the shapes of its leaves; and `mesh`, with `axes` and `shape`, or `null`.
- `variables.npz` has their values under `"0"`, `"1"`, ... Dtypes that NumPy does not know, such as
  `bfloat16`, come back as raw bytes: `array.view(dtype)` restores all alike.
- Each file of a method is `jax.export.Exported.serialize`.

    manifest = json.loads((folder / "manifest.json").read_text())
    arrays = np.load(folder / "variables.npz")
    dtypes = [jnp.dtype(variable["dtype"]) for variable in manifest["variables"]]
    values = [arrays[str(i)].view(dtype) for i, dtype in enumerate(dtypes)]
    (described,) = manifest["methods"]["predict"]
    predict = jax.export.deserialize((folder / described["file"]).read_bytes())
    y = predict.call(values, x)

To write or read it JAX needs the package `flatbuffers`.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.export import Exported, deserialize, export
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..placement import partition_spec
from ..types import Leaf, Tree
from .errors import ExportMeshError, ExportOptionError
from .export_mesh import ExportMesh
from .methods import Method
from .parameters import ParameterTree

OPTIONS = frozenset(
    {
        "polymorphic_constraints",
        "native_serialization_platforms",
        "native_serialization_disabled_checks",
    }
)
"""The conversion options that mean something without TensorFlow."""

MANIFEST, VALUES = "manifest.json", "variables.npz"


@dataclass(eq=False)
class Variable:
    """The value of one parameter, with attributes like those of a TensorFlow variable.

    Args:
      name: The path of the parameter; see `parameters`.
      trainable: Whether the parameter is trained.
      spec: How it is sharded; `None` without an export mesh.
      value: The array, on the export mesh if there is one.
    """

    name: str
    trainable: bool
    spec: PartitionSpec | None
    value: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self.value.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the value."""
        return self.value.dtype

    def numpy(self) -> np.ndarray:
        """The whole value on the host."""
        return np.asarray(self.value)


@dataclass(eq=False)
class ExportedModule:
    """The variables and methods of a module that was exported, or loaded from a folder.

    Args:
      variables: One for each parameter, in order.
      functions: For each key a method as `f(values, x)`, a function of the values of all variables,
        in their order, and of an input. It is this function that can be differentiated:
        `jax.grad(lambda values: loss(served.functions[key](values, x)))`.
    """

    variables: Sequence[Variable]
    functions: Mapping[str, Callable[[Sequence[Any], Any], Any]]

    @property
    def trainable_variables(self) -> list[Variable]:
        """The variables whose `trainable` is true."""
        return [variable for variable in self.variables if variable.trainable]

    @property
    def methods(self) -> dict[str, Callable[[Any], Any]]:
        """For each key a function of one input; a call reads the values of the variables anew."""
        return {key: functools.partial(self._call, key) for key in self.functions}

    def _call(self, key: str, x: Tree) -> Tree:
        return self.functions[key]([variable.value for variable in self.variables], x)


class JaxBackend:
    """A module exported by `jax.export`; `JaxModule` owns it.

    Args:
      tree: The descriptions of the parameters.
      leaves: The parameters, in order.
      methods: The methods to export, by the key under which they are called.
      with_gradient: Whether functions are saved with their derivatives.
      mesh: The export mesh, or `None`.

    Raises:
      ExportOptionError: A conversion option is for TensorFlow only.
    """

    def __init__(
        self,
        tree: ParameterTree,
        leaves: Sequence[Any],
        methods: Mapping[str, Method],
        *,
        with_gradient: bool,
        mesh: ExportMesh | None,
    ) -> None:
        for method in methods.values():
            for option in set(method.options) - OPTIONS:
                remedy = f"Without TensorFlow, the options are {', '.join(sorted(OPTIONS))}."
                raise ExportOptionError(option=option, given=method.options[option], remedy=remedy)
        self._tree, self._methods = tree, methods
        self._with_gradient = with_gradient
        self._mesh = None if mesh is None else mesh.jax_mesh
        self._exported: dict[Any, Exported] = {}
        variables = [Variable(s.name, s.trainable, s.spec, None) for s in tree.parameters]
        functions = {key: functools.partial(self._apply, key) for key in methods}
        self.module = ExportedModule(variables, functions)
        self.assign(leaves)

    @property
    def methods(self) -> dict[str, Callable[[Any], Any]]:
        """For each key, the exported function of one input."""
        return self.module.methods

    def assign(self, leaves: Sequence[Any]) -> None:
        """Give the variables other values, all of them or, with an error, none."""
        variables = self.module.variables
        values = [_placed(x, self._mesh, v.spec) for x, v in zip(leaves, variables, strict=True)]
        for variable, value in zip(variables, values, strict=True):
            variable.value = value

    def _apply(self, key: str, values: Sequence[Any], x: Tree) -> Tree:
        """Call a method, exported for a spec that takes the input."""
        spec = self._methods[key].input_spec(x)
        return _called(self._exported_for(key, spec), values, x)

    def _exported_for(self, key: str, spec: Tree) -> Exported:
        """A method, exported for a spec when it is first asked for."""
        leaves, structure = jax.tree.flatten(spec)
        signature = key, structure, tuple((str(leaf.shape), leaf.dtype) for leaf in leaves)
        if signature not in self._exported:
            self._exported[signature] = self._export(self._methods[key], spec)
        return self._exported[signature]

    def _export(self, method: Method, spec: Tree) -> Exported:
        def function(values: Sequence[Any], x: Tree) -> Tree:
            return method.function(self._tree.unflatten(values), x)

        parameters = self._tree.parameters
        shardings = [_sharding(self._mesh, parameter.spec) for parameter in parameters]
        values = [
            jax.ShapeDtypeStruct(parameter.shape, parameter.dtype, sharding=sharding)  # type: ignore[no-untyped-call]
            for parameter, sharding in zip(parameters, shardings, strict=True)
        ]
        exporting = export(
            jax.jit(function),
            platforms=method.options.get("native_serialization_platforms"),
            disabled_checks=method.options.get("native_serialization_disabled_checks", ()),
        )
        return exporting(values, spec)

    def save(self, folder: Path, inputs: Mapping[str, Any]) -> None:
        """Write the folder that the module's docstring describes.

        Args:
          folder: Where to write; it is made, with its parents, if it is missing. Files of the
            same names are overwritten.
          inputs: For each key of the methods an input, a tree of arrays: a method is saved for its
            dtypes, and for its shapes where the polymorphic shape leaves them open.

        Raises:
          ValueError: The polymorphic shape of a method does not admit the shapes of its input.
        """
        folder.mkdir(parents=True, exist_ok=True)
        methods: dict[str, list[dict[str, Any]]] = {}
        for number, (key, method) in enumerate(self._methods.items()):
            methods[key] = []
            for part, spec in enumerate(method.input_specs(inputs[key])):
                file = f"method-{number}-{part}.jax"
                exported = self._exported_for(key, spec)
                (folder / file).write_bytes(exported.serialize(vjp_order=int(self._with_gradient)))
                methods[key].append(
                    {"file": file, "input": [str(s.shape) for s in jax.tree.leaves(spec)]}
                )
        variables = self.module.variables
        arrays: dict[str, Any] = {str(i): v.numpy() for i, v in enumerate(variables)}
        np.savez(folder / VALUES, **arrays)
        described = [
            {
                "name": v.name,
                "dtype": v.value.dtype.name,
                "trainable": v.trainable,
                "spec": _as_list(v.spec),
            }
            for v in variables
        ]
        mesh = self._mesh and {"axes": self._mesh.axis_names, "shape": self._mesh.devices.shape}
        manifest = {"variables": described, "methods": methods, "mesh": mesh}
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def load(folder: Path) -> ExportedModule:
    """Read a folder that a module without TensorFlow was saved to.

    Raises:
      ExportMeshError: It was saved for a mesh of more devices than there are.
    """
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    mesh = _mesh_of(manifest["mesh"])
    with np.load(folder / VALUES) as arrays:
        variables = [
            _variable(described, arrays[str(i)], mesh)
            for i, described in enumerate(manifest["variables"])
        ]
    functions = {
        key: functools.partial(_first_that_takes, _read(folder, described))
        for key, described in manifest["methods"].items()
    }
    return ExportedModule(variables, functions)


def _mesh_of(described: Mapping[str, Any] | None) -> Mesh | None:
    if described is None:
        return None
    needed, devices = int(np.prod(described["shape"])), jax.devices()
    if needed > len(devices):
        raise ExportMeshError(
            place="the number of devices",
            given=len(devices),
            expected=f"{needed} or more, for a mesh of shape {described['shape']}",
        )
    return Mesh(np.array(devices[:needed]).reshape(described["shape"]), described["axes"])


def _variable(described: Mapping[str, Any], array: np.ndarray, mesh: Mesh | None) -> Variable:
    entries = described["spec"]
    spec = None
    if entries is not None:
        spec = partition_spec(tuple(tuple(e) if isinstance(e, list) else e for e in entries))
    value = _placed(array.view(jax.numpy.dtype(described["dtype"])), mesh, spec)
    return Variable(described["name"], described["trainable"], spec, value)


def _read(folder: Path, described: Sequence[Mapping[str, Any]]) -> list[Exported]:
    return [deserialize(bytearray((folder / each["file"]).read_bytes())) for each in described]


def _first_that_takes(several: Sequence[Exported], values: Sequence[Any], x: Tree) -> Tree:
    """Call the first exported function whose input has the shapes of `x`, else the last one."""
    *others, last = several
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(x)]
    count = len(values)
    for exported in others:
        if [aval.shape for aval in exported.in_avals[count:]] == shapes:
            return _called(exported, values, x)
    return _called(last, values, x)


def _called(exported: Exported, values: Sequence[Any], x: Tree) -> Tree:
    result: Any = exported.call(list(values), x)  # type: ignore[no-untyped-call]
    return result


def _sharding(mesh: Mesh | None, spec: PartitionSpec | None) -> NamedSharding | None:
    return None if mesh is None or spec is None else NamedSharding(mesh, spec)


def _placed(leaf: Leaf, mesh: Mesh | None, spec: PartitionSpec | None) -> jax.Array:
    placed: jax.Array = jax.device_put(leaf, _sharding(mesh, spec))
    return placed


def _as_list(spec: PartitionSpec | None) -> list[Any] | None:
    return None if spec is None else list(spec)
