"""`JaxModule`: JAX parameters and functions of them, ready to be exported (document 003).

A module has *parameters*, which are a tree of arrays, and *functions* `apply_fn(params, x)`, each
under a key. It exports them through a *backend*: TensorFlow, or plain `jax.export`. Both keep the
parameters in *variables*, one for each leaf, and give a *method* `f(x)` for each function.

>>> import numpy as np
>>> params = {"w": np.array([[1.0, 2.0]]), "b": np.zeros(2)}
>>> module = JaxModule(
...     params,
...     lambda params, x: x @ params["w"] + params["b"],
...     trainable={"w": True, "b": False},
...     input_polymorphic_shape="batch, 1",
...     export_version=ExportModelType.ORBAX_MODEL,
... )
>>> module.methods[JaxModule.DEFAULT_METHOD_KEY](np.array([[3.0], [4.0]]))
Array([[3., 6.],
       [4., 8.]], dtype=float32)
>>> [(variable.name, variable.trainable) for variable in module.variables]
[('b', False), ('w', True)]
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import jax

from ..types import Prefix, Tree
from . import constants, jax_backend
from .constants import ExportModelType
from .errors import ExportMeshError, ExportOptionError, MethodKeysError
from .export_mesh import ExportMesh, dtensor_initialized, get_current_mesh
from .methods import ApplyFn, methods
from .parameters import ParameterTree


class JaxModule:
    """Functions of JAX parameters, exported (EXP)."""

    DEFAULT_METHOD_KEY: ClassVar[str] = constants.DEFAULT_METHOD_KEY

    def __init__(
        self,
        params: Tree,
        apply_fn: ApplyFn | Mapping[str, ApplyFn],
        trainable: Tree = None,
        input_polymorphic_shape: Prefix = None,
        jax2tf_kwargs: Mapping[str, Any] | None = None,
        jit_compile: bool | Mapping[str, bool] = True,
        name: str | None = None,
        pspecs: Tree = None,
        allow_multi_axis_sharding_conslidation: bool | None = None,
        *,
        input_polymorphic_shape_symbol_values: Any = None,
        allow_multi_axis_sharding_consolidation: bool | None = None,
        export_version: ExportModelType = ExportModelType.TF_SAVEDMODEL,
    ) -> None:
        """Export functions of parameters.

        Args:
          params: A tree of arrays of numbers, of JAX or NumPy. Arrays of NumPy are copied.
          apply_fn: `apply_fn(params, x)`, which has the key `DEFAULT_METHOD_KEY`; or a mapping of
            keys to such functions (EXP-2).
          trainable: A boolean for all parameters, or a tree of booleans with their structure;
            `None` is false (EXP-3).
          input_polymorphic_shape: The shape of `x` as JAX reads it, with symbols for sizes that
            vary: `"b, 4"`; a tree of such where `x` is a tree; `None` for shapes without symbols.
          jax2tf_kwargs: Options of the conversion, as of `jax2tf.convert`. `with_gradient` must
            agree with `trainable`. Without TensorFlow see `jax_backend.OPTIONS`.
          jit_compile: Whether TensorFlow compiles with XLA. `jax.export` always does.
          name: The name of the `tf.Module`, a Python identifier.
          pspecs: A tree of partition specs with the structure of `params`, whose leaves must be
            JAX arrays. Goes with `maybe_enable_dtensor_export_on(mesh)` (EXP-6).
          allow_multi_axis_sharding_conslidation: Whether an axis that is sharded over several mesh
            axes may keep one of them, for DTensor knows no other way. The document spells it so.
          input_polymorphic_shape_symbol_values: For each symbol the sizes that it may have, such as
            `{"b": (1, 8)}`: the function is exported for each combination. Without TensorFlow only.
          allow_multi_axis_sharding_consolidation: The same as the other, in today's spelling.
          export_version: The backend.

        With a mapping of functions, `input_polymorphic_shape`, its symbol values, `jax2tf_kwargs`
        and `jit_compile` are mappings with the same keys, but `None` or a boolean stands for all.

        Raises:
          MethodKeysError: Such a mapping has other keys than `apply_fn` (EXP-2).
          ExportOptionError: An option cannot be followed (EXP-2g, EXP-3d, EXP-3e).
          ParameterError: A leaf of `params` is no array of numbers.
          ParameterStructureError: `trainable` or `pspecs` has another structure than `params`.
          ExportMeshError: Specs without an export mesh, or the reverse; or parameters on it that
            are no JAX arrays (EXP-6).
          ImportError: TensorFlow is asked for and not installed: `pip install 'scutch[export]'`.
        """
        if not isinstance(export_version, ExportModelType):
            remedy = f"Expected one of {', '.join(map(str, ExportModelType))}."
            raise ExportOptionError(option="export_version", given=export_version, remedy=remedy)
        with_tensorflow = export_version is ExportModelType.TF_SAVEDMODEL
        if with_tensorflow and input_polymorphic_shape_symbol_values is not None:
            option = "input_polymorphic_shape_symbol_values"
            remedy = "It is for ExportModelType.ORBAX_MODEL only."
            raise ExportOptionError(
                option=option, given=input_polymorphic_shape_symbol_values, remedy=remedy
            )
        self._tree = ParameterTree.of(params, False if trainable is None else trainable, pspecs)
        self._leaves = self._tree.leaves(params)
        self._with_gradient = any(parameter.trainable for parameter in self._tree.parameters)
        self._export_version, self._name = export_version, name
        self._methods = methods(
            apply_fn,
            input_polymorphic_shape=input_polymorphic_shape,
            symbol_values=input_polymorphic_shape_symbol_values,
            jax2tf_kwargs=jax2tf_kwargs,
            jit_compile=jit_compile,
            with_gradient=self._with_gradient,
        )
        self._has_one_function = callable(apply_fn)
        mesh = get_current_mesh() if dtensor_initialized() or not with_tensorflow else None
        _check_mesh(mesh, pspecs, self._leaves, with_tensorflow)
        shared: dict[str, Any] = {"with_gradient": self._with_gradient, "mesh": mesh}
        if not with_tensorflow:
            backend: Any = jax_backend.JaxBackend
        else:
            from .tensorflow_backend import TensorFlowBackend as backend

            shared["name"] = name
            shared["consolidate"] = bool(
                allow_multi_axis_sharding_conslidation or allow_multi_axis_sharding_consolidation
            )
        self._backend = backend(self._tree, self._leaves, self._methods, **shared)

    @property
    def methods(self) -> dict[str, Callable[[Any], Any]]:
        """For each key, the exported function of one input; with TensorFlow a `tf.function`."""
        return dict(self._backend.methods)

    @property
    def jax_methods(self) -> dict[str, Callable[[Any], Any]]:
        """For each key, the JAX function with the parameters bound, to compare with (EXP-1e)."""
        return {key: self._bound(method.function) for key, method in self._methods.items()}

    def _bound(self, function: ApplyFn) -> Callable[[Any], Any]:
        params = self.model_params
        return lambda x: function(params, x)

    @property
    def model_params(self) -> Any:
        """The parameters, in containers of their own."""
        return self._tree.unflatten(self._leaves)

    @property
    def apply_fn_map(self) -> dict[str, ApplyFn]:
        """The functions by key."""
        return {key: method.function for key, method in self._methods.items()}

    @property
    def export_version(self) -> ExportModelType:
        """The backend."""
        return self._export_version

    @property
    def with_gradient(self) -> bool:
        """Whether any variable is trainable (EXP-3f)."""
        return self._with_gradient

    @property
    def name(self) -> str | None:
        """The name that the module was given; with TensorFlow and without one, TensorFlow's."""
        return getattr(self._backend.module, "name", self._name)

    def export_module(self) -> Any:
        """The module that the backend made of the parameters when this module was made.

        It is a `tf.Module`, or without TensorFlow a `jax_backend.ExportedModule`. Both have the
        parameters as `variables`.
        """
        return self._backend.module

    @property
    def variables(self) -> list[Any]:
        """The variables, in the order of the leaves of the parameters."""
        return list(self.export_module().variables)

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables whose `trainable` is true."""
        return list(self.export_module().trainable_variables)

    def update_variables(self, params: Tree) -> None:
        """Let every method compute with other parameters; with an error nothing changes (EXP-4).

        Args:
          params: A tree of arrays with the structure, shapes and dtypes of the first parameters.

        Raises:
          ParameterStructureError: The structure is another.
          ParameterUpdateError: A shape or dtype is another.
          ParameterError: A leaf is no array of numbers.
          ExportMeshError: The variables are on an export mesh, and a leaf is no JAX array.
        """
        leaves = self._tree.leaves(params)
        if self._tree.sharded:
            _check_arrays(leaves)
        self._backend.assign(leaves)
        self._leaves = leaves

    def inputs_by_key(self, inputs: Tree) -> Mapping[str, Any]:
        """Return the inputs that `save` saves a module for, by the key of the method.

        Args:
          inputs: The argument of `save`: an input if the module has one function, else a mapping
            with an input for each key.

        Returns:
          A mapping with an input for each key.

        Raises:
          MethodKeysError: The module was given a mapping of functions, and `inputs` is no mapping,
            or has other keys (EXP-2).
        """
        if self._has_one_function:
            return {self.DEFAULT_METHOD_KEY: inputs}
        if not isinstance(inputs, Mapping) or set(inputs) != set(self._methods):
            raise MethodKeysError(argument="inputs", keys=[*self._methods], given=inputs)
        return inputs

    def write(self, folder: Path, inputs: Mapping[str, Any]) -> None:
        """Write the folder that `save` describes.

        Args:
          folder: Where to write.
          inputs: For each key of the methods an input, as `inputs_by_key` returns them.
        """
        self._backend.save(folder, inputs)


def _check_mesh(mesh: ExportMesh | None, pspecs: Tree, leaves: list[Any], tensorflow: bool) -> None:
    """Refuse an export mesh without specs, specs without one, and arrays that are not JAX's."""
    if mesh is not None and pspecs is None:
        raise ExportMeshError(
            place="`pspecs` within an export mesh",
            given=None,
            expected="a tree of partition specs with the structure of `params`",
        )
    if mesh is None and pspecs is not None:
        first = "initialize_dtensor(), then " if tensorflow else ""
        raise ExportMeshError(
            place="`pspecs` of a module that is not built within an export mesh",
            given=pspecs,
            expected=f"{first}`with maybe_enable_dtensor_export_on(mesh):`",
        )
    if mesh is not None:
        _check_arrays(leaves)


def _check_arrays(leaves: list[Any]) -> None:
    for leaf in leaves:
        if not isinstance(leaf, jax.Array):
            raise ExportMeshError(
                place="a parameter on an export mesh",
                given=leaf,
                expected="an array that must be of type jax.Array: jax.numpy.asarray converts it",
            )


def save(module: JaxModule, folder: str | Path, inputs: Tree) -> None:
    """Write a module to a folder, which needs no package of ours; `load` is the inverse (EXP-1b).

    With TensorFlow the folder is a SavedModel with the attributes `methods` and `model_variables`,
    and a signature for each method. Without, `jax_backend` describes the folder.

    Args:
      module: The module.
      folder: Where to write; it is made if it is missing.
      inputs: For each key an input of the method; the input itself if the module has one function.
        Its dtypes are used, and its sizes where the polymorphic shape leaves them open.

    Raises:
      MethodKeysError: `inputs` has other keys than the functions.
      ImportError: Without TensorFlow, JAX needs `flatbuffers` to write files.
    """
    module.write(Path(folder), module.inputs_by_key(inputs))


def load(folder: str | Path) -> Any:
    """Load a module from a folder that `save` wrote.

    Returns:
      An object with `methods`, by key, `variables` and `trainable_variables`; without TensorFlow
      also with `functions`, to differentiate: see `jax_backend.ExportedModule`.
    """
    if (Path(folder) / jax_backend.MANIFEST).exists():
        return jax_backend.load(Path(folder))
    from . import tensorflow_backend

    return tensorflow_backend.load(Path(folder))
