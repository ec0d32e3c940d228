"""The errors of the reference, which name the attempt, the value at fault and the remedy.

The `text` of an error class is the template of its message. The names in its braces are the *parts*
of the message: whoever raises the error passes each by its name, and a user can read them off the
error as attributes, and find the template by searching for the message. Each docstring says when
the error is raised and shows the code that raises it (`Wrong`) beside the code that does not
(`Right`); the tests run both.

>>> try:
...     raise AxisIndexError(names=("data", None), index=-4, lowest=-3)
... except IndexError as error:
...     print(error)
...     error.lowest
Axis index -4 is out of range for names ('data', None): the lowest possible index is -3.
-3

In the examples `jax`, `jnp` (jax.numpy), `P` (PartitionSpec), `mesh` (eight devices in an axis
`data` of two and an axis `model` of four), `ref` (scutch_reference), `nn` (its `linen`), `nnx` and
`bridge` are there already.
"""

from .base import (
    ScutchReferenceError as ScutchReferenceError,
    UsageError as UsageError,
)
from .boxes import (
    PartitioningUnspecifiedError as PartitioningUnspecifiedError,
    AxisNameError as AxisNameError,
    AxisIndexError as AxisIndexError,
    NamesError as NamesError,
    NoNamesError as NoNamesError,
    RepeatedNameError as RepeatedNameError,
    NameCountError as NameCountError,
    StructureMismatchError as StructureMismatchError,
    AxisRulesError as AxisRulesError,
    AxisRuleFormError as AxisRuleFormError,
    RulesConflictError as RulesConflictError,
    UnmatchedAxisError as UnmatchedAxisError,
    VirtualBoxError as VirtualBoxError,
)
from .objects import (
    TraceLevelError as TraceLevelError,
    TraceContextError as TraceContextError,
    LeakedTracerError as LeakedTracerError,
    UnhashableStaticError as UnhashableStaticError,
    NoFilterMatchError as NoFilterMatchError,
    FilterError as FilterError,
    UnknownPathError as UnknownPathError,
    MissingLeafError as MissingLeafError,
    PathThroughLeafError as PathThroughLeafError,
    StateKeysError as StateKeysError,
    DataError as DataError,
    StreamError as StreamError,
    RegistryError as RegistryError,
    RegisteredError as RegisteredError,
)
from .lifting import (
    AliasingError as AliasingError,
    SpecError as SpecError,
    MeshAxisError as MeshAxisError,
    IndivisibleSizeError as IndivisibleSizeError,
    ReplicationError as ReplicationError,
    LiftingError as LiftingError,
    SignatureError as SignatureError,
    CarryError as CarryError,
    CompiledStructureError as CompiledStructureError,
)
from .modules import (
    ModuleError as ModuleError,
    UnboundModuleError as UnboundModuleError,
    ImmutableModuleError as ImmutableModuleError,
    MisplacedModuleError as MisplacedModuleError,
    BoundModuleHashError as BoundModuleHashError,
    ScopeError as ScopeError,
    ScopeParamNotFoundError as ScopeParamNotFoundError,
    ScopeParamShapeError as ScopeParamShapeError,
    NameInUseError as NameInUseError,
    ModifyScopeVariableError as ModifyScopeVariableError,
    InvalidRngError as InvalidRngError,
)
from .crossing import (
    CrossingError as CrossingError,
    SharedPathError as SharedPathError,
    MissingVariableError as MissingVariableError,
)
