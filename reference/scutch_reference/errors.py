"""Every error of the reference: what was tried, with which value, and what was expected.

A class is a template for its message, which tells what it is for, and is given the parts. In it,
`!k` is a value without the numbers that it holds, `!n` a length, `!t` a tuple, `!p` a module. All
but `PartitioningUnspecifiedError` are `ValueError`s as well, which is what user code catches.
"""

import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVarTuple

Parts = TypeVarTuple("Parts")
Path = Sequence[Any]


class _Formatter(string.Formatter):
    def convert_field(self, value: Any, conversion: Any) -> Any:
        match conversion:
            case "k" if hasattr(value, "names"):
                return f"{type(value).__qualname__}(names={value.names!r})"
            case "k":
                shape = f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else ""
                return type(value).__qualname__ + shape
            case "n":
                return len(value)
            case "t":
                return repr(tuple(value))
            case "p":
                return f"the module at /{'/'.join(value)}"
        return super().convert_field(value, conversion)


class ScutchReferenceError(Exception, Generic[*Parts]):
    """The base of the errors that the reference raises."""

    text: ClassVar[str] = "{0}"
    __str__ = Exception.__str__  # That of `KeyError` would put the message in quotes.

    def __init__(self, *parts: *Parts):
        super().__init__(_Formatter().format(" ".join(self.text.split()), *parts))


class _Refusal(ScutchReferenceError[*Parts], ValueError):
    pass


class PartitioningUnspecifiedError(ScutchReferenceError[Any, Mapping[Any, Any]]):  # BOX-8
    text = """Tried to add or remove an axis of {0!k}, but 'partition_name' is not in the parameters
    {1!r}. Pass it, as in scan(..., metadata_params={{'partition_name': 'layers'}}); a partition
    name of None is a name too: the axis is unsharded."""


class AxisNameError(_Refusal[Any, int, Any, Any]):  # BOX-9
    text = """Tried to remove axis {1} of {0!k} as {3!r}, but the axis there is named {2!r}. Remove
    axes in the reverse of the order they were added."""


class AxisIndexError(_Refusal[Any, int, int], IndexError):  # BOX-11
    text = "Axis index {1} is out of range for {0!k}: the lowest possible index is {2}."


class NamesError(_Refusal[Any]):
    text = "Axis names must be a sequence with one entry for each axis, got {0!r}."


class StructureMismatchError(_Refusal[str, str, str]):  # BOX-15
    text = """replace_boxed needs updates with the structure of the unboxed tree. At {0} the tree
    has {1}, the updates have {2}."""


class RankMismatchError(_Refusal[Sequence[Any], Sequence[int]]):  # LOG-8
    text = """with_logical_constraint got {0!n} axis names {0!t} for an array with {1!n} axes, shape
    {1!t}. Name each axis once; None is an unsharded axis."""


class RepeatedAxisError(_Refusal[Iterable[Any], Iterable[Any]]):  # LOG-2, LOG-3
    text = "Axis names {0!t} occur more than once in {1!t}; a name may stand for one axis only."


class AxisRulesError(_Refusal[str]):  # LOG-3
    text = """{0} Axis rules are pairs of a logical name and the mesh axes for it, which are a name,
    a tuple of names, or None: (('batch', 'data'), ('hidden', ('model', 'expert')))."""


class UnmatchedAxisError(_Refusal[Iterable[Any], Iterable[Any], Any]):  # LOG-8
    text = """Axis names {0!t} of {1!t} did not match a rule that is still free, and the fallback is
    RAISE_ERROR. The rules are {2!r}."""


class TraceLevelError(_Refusal[str, Any, str]):  # JIT-1
    text = """Tried to {0} a {1!k}{2} from a different trace level than the one it was created at. A
    transformed function may change the objects it is given, or creates, but not those it finds
    around it: jit(lambda counter, x: counter.set_value(x))(counter, x)."""

    def __init__(self, tried: str, value: Any, where: str = ""):
        super().__init__(tried, value, f" ({where})" if where else "")


class LeakedTracerError(_Refusal[str, Path, Any]):
    text = """The variable at {0}, path {1!t} holds a tracer, {2.aval}, of a transformation that is
    over. It was assigned inside a transformed function that did not get the variable as an
    argument; pass it in, or return the value."""


class UnhashableStaticError(_Refusal[str, Any], TypeError):  # JIT-4
    text = """Static data must be hashable, but {0} is {1!r} of the unhashable type
    {1.__class__.__qualname__}. Use a hashable type (a tuple for a list, a frozen dataclass), or
    pass arrays as data: nnx.data(...)."""


class AliasingError(_Refusal[str, Any, tuple[str, Any], tuple[str, Any]]):  # JIT-2
    text = """Inconsistent {0} for an aliased {1!k}: it is reached as {2[0]} with {2[1]!r}, and as
    {3[0]} with {3[1]!r}. One object can have one only; make the two agree, or pass a copy."""


class NoFilterMatchError(_Refusal[str, Any, Sequence[Any]]):  # OBJ-1, JIT-6
    text = """Non-exhaustive filters: none of {2!t} takes the {1!k} at {0}. Add a filter for it, or
    `...` as the last filter for all the rest."""


class FilterError(_Refusal[str], TypeError):  # OBJ-3
    text = """{0} A filter is a type, a tag, a predicate of (path, value), a boolean, `...`, None,
    or a sequence of filters; `...` and True come last."""


class UnknownPathError(_Refusal[str, Iterable[Path]], KeyError):  # OBJ-2
    text = "{0}: {1!t}."


class MeshAxisError(_Refusal[str, Any, Any, Sequence[Any]]):  # SHM-4
    text = "{0}: the spec {1!r} names the mesh axis {2!r}, but the axes of the mesh are {3!t}."


class IndivisibleSizeError(_Refusal[str, Sequence[int], Any, int, int]):  # SHM-4
    text = """{0}: the spec {2!r} cuts axis {3} of an array of shape {1!t} into {4} parts, but the
    size of that axis is no multiple of {4}, or it does not exist."""


class ReplicationError(_Refusal[str, Any, Sequence[Any]]):  # SHM-4
    text = """{0}: the value may differ along the mesh axes {2!t}, but its spec {1!r} says that it
    is replicated there. Reduce it (jax.lax.psum, pmean), name the axes in the spec, or turn the
    check off with check_rep=False."""


class DataError(_Refusal[str]):
    text = "{0} Mark attributes with nnx.data(...) or nnx.static(...)."


class MetadataError(_Refusal[str]):
    """Metadata that is asked for, or given, in no way that there is (OBJ-5)."""


class StreamError(_Refusal[str], KeyError, AttributeError):
    """A seed stream that is not there, or that has no key (OBJ-6)."""


class LiftingError(_Refusal[str]):
    """A lifted transformation was set up, or used, in a way that it cannot follow."""


class LayerError(_Refusal[str]):
    """A layer is called in a way that says too little, or with inputs that it cannot take."""


class ModuleError(_Refusal[str]):
    """A Linen module is used in a way, or at a time, that it cannot follow."""


class ScopeParamNotFoundError(_Refusal[str, Path, Iterable[str]], KeyError):  # LIN-1
    text = """{1!p} asks for the parameter {0!r}, but the collection 'params' has {2!t} there. Pass
    the variables that `init` returned."""


class ScopeParamShapeError(_Refusal[str, Path, Any, Any]):  # LIN-1
    text = "The parameter {0!r} of {1!p} has shape {3!r}, but its initializer gives {2!r}."


class NameInUseError(_Refusal[str, str, Path, str]):  # LIN-1
    text = "Tried to give the name {1!r} to a {0} of {2!p}, but a {3} there has it."


class ModifyScopeVariableError(_Refusal[str, str, Path]):  # LIN-8
    text = """Tried to write the variable {1!r} of {2!p}, but its collection {0!r} is not mutable:
    apply(..., mutable=[{0!r}])."""


class InvalidRngError(_Refusal[str, Path, Iterable[str]]):  # LIN-8
    text = """{1!p} draws a key from the stream {0!r}, but keys were passed for {2!t} only:
    rngs={{{0!r}: jax.random.key(0)}}, and under `scan` or `vmap` split_rngs={{{0!r}: True}}."""


class RegistryError(_Refusal[str]):
    """A collection and a variable type cannot be paired, or are not (BRG-1)."""


class CrossingError(_Refusal[str]):
    """Something cannot cross the bridge (BRG-4, BRG-6)."""
