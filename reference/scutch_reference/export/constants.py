"""The names that calls of `JaxModule` are written with (document 003).

>>> from scutch_reference.export import constants
>>> constants.ExportModelType.ORBAX_MODEL.name
'ORBAX_MODEL'
"""

import enum

DEFAULT_METHOD_KEY = "jax_module_default_method"
"""The key of the only method, where `apply_fn` is one function and no mapping (EXP-2a)."""


class ExportModelType(enum.Enum):
    """What a `JaxModule` is exported as: the *backend*.

    `TF_SAVEDMODEL`: TensorFlow variables and functions, saved as a SavedModel.
    `ORBAX_MODEL`: the path without TensorFlow: what `jax.export` makes, saved in a folder that
    plain JAX and NumPy can read; its format stands in `scutch_reference.export.jax_backend`.
    """

    TF_SAVEDMODEL = "TF_SAVEDMODEL"
    ORBAX_MODEL = "ORBAX_MODEL"
