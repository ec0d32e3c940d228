"""The path without TensorFlow: programs of `jax.export`, and a folder to keep them in.

A *program* is one function, exported for one shape of input, which may have symbols for sizes. It
takes the values of the variables, as a list in the order of the parameters, and the input. So it
can be called with other values, be differentiated by them, and be read back without this package.

**The folder** that `save` writes is read with plain JAX and NumPy:

- `manifest.json` has `variables`, a list with the `name`, `dtype`, `trainable` and `spec` of each;
  `methods`, for each key a list of `{"file": ..., "input": ...}`, one for each program, with the
  shapes of the leaves of the input that it takes; and `mesh`, with `axes` and `shape`, or `null`.
- `variables.npz` has their values under `"0"`, `"1"`, ... Dtypes that NumPy does not know, such as
  `bfloat16`, come back as raw bytes: `array.view(dtype)` restores all alike.
- Each program is a file of `jax.export.Exported.serialize`.

    manifest = json.loads((folder / "manifest.json").read_text())
    arrays = np.load(folder / "variables.npz")
    dtypes = [jnp.dtype(variable["dtype"]) for variable in manifest["variables"]]
    values = [arrays[str(i)].view(dtype) for i, dtype in enumerate(dtypes)]
    (program,) = manifest["methods"]["predict"]
    predict = jax.export.deserialize((folder / program["file"]).read_bytes())
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

from .errors import ExportMeshError, ExportOptionError
from .export_mesh import ExportMesh
from .methods import Method
from .parameters import Layout

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
    """The value of one parameter, with what TensorFlow's variables tell of theirs.

    Args:
      name: The path of the parameter; see `parameters`.
      trainable: Whether gradients are for it.
      spec: How it is sharded; `None` without an export mesh.
      value: The array, on the export mesh if there is one.
    """

    name: str
    trainable: bool
    spec: PartitionSpec | None
    value: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the value."""
        return tuple(self.value.shape)

    @property
    def dtype(self) -> Any:
        """Of the value."""
        return self.value.dtype

    def numpy(self) -> np.ndarray:
        """The whole value on the host."""
        return np.asarray(self.value)


@dataclass(eq=False)
class Served:
    """Variables and methods on them: the exported module, or what was read back from a folder.

    Args:
      variables: One for each parameter, in order.
      functions: By key, `f(values, x)`: a method as a function of the values of the variables too,
        in order, which is what to differentiate:
        `jax.grad(lambda values: loss(served.functions[key](values, x)))`.
    """

    variables: Sequence[Variable]
    functions: Mapping[str, Callable[[Sequence[Any], Any], Any]]

    @property
    def trainable_variables(self) -> list[Variable]:
        """Those of the variables that are trainable."""
        return [variable for variable in self.variables if variable.trainable]

    @property
    def methods(self) -> dict[str, Callable[[Any], Any]]:
        """By key, `f(x)`, with the values that the variables have when it is called."""
        return {key: functools.partial(self._call, key) for key in self.functions}

    def _call(self, key: str, x: Any) -> Any:
        return self.functions[key]([variable.value for variable in self.variables], x)


class JaxBackend:
    """A module exported by `jax.export`; `JaxModule` owns it.

    Args:
      layout: Of the parameters.
      leaves: The parameters, in order.
      methods: By key.
      with_gradient: Whether programs are saved with their derivatives.
      mesh: The export mesh, or `None`.

    Raises:
      ExportOptionError: A conversion option is for TensorFlow only.
    """

    def __init__(
        self,
        layout: Layout,
        leaves: Sequence[Any],
        methods: Mapping[str, Method],
        *,
        with_gradient: bool,
        mesh: ExportMesh | None,
    ) -> None:
        for method in methods.values():
            for option in set(method.options) - OPTIONS:
                remedy = f"Without TensorFlow, the options are {', '.join(sorted(OPTIONS))}."
                raise ExportOptionError(option, method.options[option], remedy)
        self._layout, self._methods = layout, methods
        self._with_gradient = with_gradient
        self._mesh = None if mesh is None else mesh.jax_mesh
        self._programs: dict[Any, Exported] = {}
        variables = [Variable(s.name, s.trainable, s.spec, None) for s in layout.slots]
        functions = {key: functools.partial(self._apply, key) for key in methods}
        self.module = Served(variables, functions)
        self.assign(leaves)

    @property
    def methods(self) -> dict[str, Callable[[Any], Any]]:
        """By key, the exported function of the input."""
        return self.module.methods

    def assign(self, leaves: Sequence[Any]) -> None:
        """Give the variables other values, all of them or, with an error, none."""
        variables = self.module.variables
        values = [_placed(x, self._mesh, v.spec) for x, v in zip(leaves, variables, strict=True)]
        for variable, value in zip(variables, values, strict=True):
            variable.value = value

    def _apply(self, key: str, values: Sequence[Any], x: Any) -> Any:
        """Call the exported program of a method that takes an input."""
        spec = self._methods[key].program(x)
        return _called(self._exported(key, spec), self._mesh, values, x)

    def _exported(self, key: str, spec: Any) -> Exported:
        """The program of a method for a spec, which is exported when it is first asked for."""
        leaves, structure = jax.tree.flatten(spec)
        signature = key, structure, tuple((str(leaf.shape), leaf.dtype) for leaf in leaves)
        if signature not in self._programs:
            self._programs[signature] = self._export(self._methods[key], spec)
        return self._programs[signature]

    def _export(self, method: Method, spec: Any) -> Exported:
        def function(values: Sequence[Any], x: Any) -> Any:
            return method.function(self._layout.tree(values), x)

        slots = self._layout.slots
        shardings = [_sharding(self._mesh, slot.spec) for slot in slots]
        values = [
            jax.ShapeDtypeStruct(slot.shape, slot.dtype, sharding=sharding)  # type: ignore[no-untyped-call]
            for slot, sharding in zip(slots, shardings, strict=True)
        ]
        exporting = export(
            jax.jit(function),
            platforms=method.options.get("native_serialization_platforms"),
            disabled_checks=method.options.get("native_serialization_disabled_checks", ()),
        )
        return exporting(values, spec)

    def save(self, folder: Path, inputs: Mapping[str, Any]) -> None:
        """Write the folder that the module's docstring describes."""
        folder.mkdir(parents=True, exist_ok=True)
        methods: dict[str, list[dict[str, Any]]] = {}
        for number, (key, method) in enumerate(self._methods.items()):
            methods[key] = []
            for part, spec in enumerate(method.programs(inputs[key])):
                file = f"method-{number}-{part}.jax"
                program = self._exported(key, spec)
                (folder / file).write_bytes(program.serialize(vjp_order=int(self._with_gradient)))
                methods[key].append(
                    {"file": file, "input": [str(s.shape) for s in jax.tree.leaves(spec)]}
                )
        variables = self.module.variables
        np.savez(folder / VALUES, **{str(i): v.numpy() for i, v in enumerate(variables)})
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


def load(folder: Path) -> Served:
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
        key: functools.partial(_first_that_takes, _programs(folder, programs), mesh)
        for key, programs in manifest["methods"].items()
    }
    return Served(variables, functions)


def _mesh_of(described: Mapping[str, Any] | None) -> Mesh | None:
    if described is None:
        return None
    needed, devices = int(np.prod(described["shape"])), jax.devices()
    if needed > len(devices):
        raise ExportMeshError(
            f"The module was saved for a mesh of shape {described['shape']}, and there are "
            f"{len(devices)} devices only."
        )
    return Mesh(np.array(devices[:needed]).reshape(described["shape"]), described["axes"])


def _variable(described: Mapping[str, Any], array: np.ndarray, mesh: Mesh | None) -> Variable:
    entries = described["spec"]
    spec = None
    if entries is not None:
        spec = PartitionSpec(*(tuple(e) if isinstance(e, list) else e for e in entries))  # type: ignore[no-untyped-call]
    value = _placed(array.view(jax.numpy.dtype(described["dtype"])), mesh, spec)
    return Variable(described["name"], described["trainable"], spec, value)


def _programs(folder: Path, described: Sequence[Mapping[str, Any]]) -> list[Exported]:
    return [deserialize(bytearray((folder / each["file"]).read_bytes())) for each in described]


def _first_that_takes(
    programs: Sequence[Exported], mesh: Mesh | None, values: Sequence[Any], x: Any
) -> Any:
    """Call the first program that takes the input; if there is none, the last one refuses it."""
    *others, last = programs
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(x)]
    count = len(values)
    for program in others:
        if [aval.shape for aval in program.in_avals[count:]] == shapes:
            return _called(program, mesh, values, x)
    return _called(last, mesh, values, x)


def _called(program: Exported, mesh: Mesh | None, values: Sequence[Any], x: Any) -> Any:
    """Call a program, with an input that may lie on one device and then goes to the mesh."""
    if mesh is not None:
        x = jax.tree.map(lambda leaf: _on_mesh(leaf, mesh), x)
    return program.call(list(values), x)


def _on_mesh(leaf: Any, mesh: Mesh) -> Any:
    """An input on the devices of a mesh, whole on each, unless it lies on them already."""
    concrete = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    if concrete and leaf.sharding.device_set != set(mesh.devices.flat):
        return jax.device_put(leaf, NamedSharding(mesh, PartitionSpec()))  # type: ignore[no-untyped-call]
    return leaf


def _sharding(mesh: Mesh | None, spec: PartitionSpec | None) -> NamedSharding | None:
    return None if mesh is None or spec is None else NamedSharding(mesh, spec)


def _placed(leaf: Any, mesh: Mesh | None, spec: PartitionSpec | None) -> jax.Array:
    return jax.device_put(leaf, _sharding(mesh, spec))


def _as_list(spec: PartitionSpec | None) -> list[Any] | None:
    return None if spec is None else list(spec)
