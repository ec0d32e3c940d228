"""The installed release of `orbax-export`, the library of document 003.

The adapter claims only `export`, and only its path through TensorFlow, because the other path
always raises. `_module` takes one option by the document's spelling, which the library has changed.
`JaxModule` has no method `save`. So `_save` saves, as users of the document do, a `tf.Module` with
the variables and a function for each method.
"""

from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import orbax.export
import tensorflow as tf
from jax.export import symbolic_args_specs

from scutch.implementation import Implementation
from scutch.namespaces import Namespace

_DOCUMENTED = "allow_multi_axis_sharding_conslidation"
_TODAY = "allow_multi_axis_sharding_consolidation"


def _module(*arguments: Any, **options: Any) -> Any:
    """A `JaxModule`, made with the document's spelling of its options."""
    if _DOCUMENTED in options:
        options[_TODAY] = options.pop(_DOCUMENTED)
    return orbax.export.JaxModule(*arguments, **options)


_module.DEFAULT_METHOD_KEY = orbax.export.constants.DEFAULT_METHOD_KEY  # type: ignore[attr-defined]


def _save(module: Any, folder: Path, inputs: Any) -> None:
    """Save the methods with input signatures, and the variables that they use."""
    if list(module.methods) == [orbax.export.constants.DEFAULT_METHOD_KEY]:
        inputs = {orbax.export.constants.DEFAULT_METHOD_KEY: inputs}
    saved = tf.Module()
    saved.model_variables = list(module.export_module().variables)
    saved.methods = {}
    for key, method in module.methods.items():
        specs = jax.eval_shape(lambda leaf: leaf, inputs[key])
        shape = module.input_polymorphic_shape_map[key]
        if shape is not None:
            specs = symbolic_args_specs(specs, shape)
        tensors = jax.tree.map(_tensor_spec, specs)
        saved.methods[key] = tf.function(_of_input(method), [tensors], autograph=False)
    gradients = tf.saved_model.SaveOptions(experimental_custom_gradients=module.with_gradient)
    tf.saved_model.save(saved, str(folder), options=gradients)


def _of_input(method: Any) -> Any:
    """A Python function of the input alone, for TensorFlow to trace with a signature."""
    return lambda x: method(x)


def _tensor_spec(spec: Any) -> Any:
    sizes = [size if isinstance(size, int) else None for size in spec.shape]
    return tf.TensorSpec(sizes, spec.dtype)


class _Loaded:
    """A module that TensorFlow loaded, with the attributes `variables` and `methods`."""

    def __init__(self, saved: Any) -> None:
        self._saved = saved  # which owns the variables
        self.variables, self.methods = list(saved.model_variables), saved.methods


def _load(folder: Path) -> _Loaded:
    return _Loaded(tf.saved_model.load(str(folder)))


implementation = Implementation(
    "orbax",
    version("orbax-export"),
    export=Namespace(
        "orbax.export",
        SimpleNamespace(JaxModule=_module, save=_save, load=_load, BACKENDS=("tensorflow",)),
        orbax.export,
    ),
)
