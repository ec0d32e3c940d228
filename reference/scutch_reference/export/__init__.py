"""Export of trained functions, with TensorFlow and without (contract EXP, document 003).

TensorFlow is imported when it is first needed: by a `JaxModule` of the default `export_version`, by
`initialize_dtensor`, or by `load` of a SavedModel.
"""

from . import constants as constants
from .constants import DEFAULT_METHOD_KEY as DEFAULT_METHOD_KEY
from .constants import ExportModelType as ExportModelType
from .export_mesh import dtensor_initialized as dtensor_initialized
from .export_mesh import get_current_mesh as get_current_mesh
from .export_mesh import initialize_dtensor as initialize_dtensor
from .export_mesh import maybe_enable_dtensor_export_on as maybe_enable_dtensor_export_on
from .export_mesh import shutdown_dtensor as shutdown_dtensor
from .jax_module import JaxModule as JaxModule, load as load, save as save
