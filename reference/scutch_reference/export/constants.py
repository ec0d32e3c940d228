"""The constants that callers of `JaxModule` use (document 003).

>>> from scutch_reference.export import constants
>>> constants.ExportModelType.ORBAX_MODEL.name
'ORBAX_MODEL'
"""

import enum

DEFAULT_METHOD_KEY = "jax_module_default_method"
"""The key of the only method, where `apply_fn` is one function and no mapping (EXP-2a)."""


class ExportModelType(enum.Enum):
    """The *backend* that exports a `JaxModule`.

    `TF_SAVEDMODEL`: TensorFlow variables and functions, saved as a SavedModel.
    `ORBAX_MODEL`: functions exported by `jax.export`, without TensorFlow, saved in a folder that
    plain JAX and NumPy can read; `scutch_reference.export.jax_backend` describes its format.
    """

    TF_SAVEDMODEL = "TF_SAVEDMODEL"
    ORBAX_MODEL = "ORBAX_MODEL"
