"""Every error of the reference: what was tried, with which value, and what was expected.

A class has the template of its message, which tells what it is for, and is given the parts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVarTuple

Parts = TypeVarTuple("Parts")
Path = Sequence[Any]


class ScutchReferenceError(ValueError, Generic[*Parts]):
    """The base of the errors that the reference raises."""

    text: ClassVar[str] = "{0}"
    __str__ = Exception.__str__  # That of `KeyError` would put the message in quotes.

    def __init__(self, *parts: *Parts):
        super().__init__(" ".join(self.text.split()).format(*parts))


class PartitioningUnspecifiedError(ScutchReferenceError[Any, Mapping[Any, Any]]):  # BOX-8
    text = """Tried to add or remove an axis of {0.__class__.__qualname__}(names={0.names!r}), but
    'partition_name' is not in the parameters {1!r}. Pass it, as in
    scan(..., metadata_params={{'partition_name': 'layers'}}); None is a name: unsharded."""


class AxisNameError(ScutchReferenceError[Any, int, Any, Any]):  # BOX-9
    text = """Tried to remove axis {1} of names {0!r} as {3!r}, but the axis there is named {2!r}.
    Remove axes in the reverse of the order they were added."""


class AxisIndexError(ScutchReferenceError[Any, int, int], IndexError):  # BOX-11
    text = "Axis index {1} is out of range for names {0!r}: the lowest possible index is {2}."


class NamesError(ScutchReferenceError[str]):  # LOG-2, LOG-3, LOG-8
    text = """Axis names are a sequence with one entry for each axis, {0}. A name may stand for one
    axis only; None is an unsharded axis."""


class StructureMismatchError(ScutchReferenceError[str, str, str]):  # BOX-15
    text = """replace_boxed needs updates with the structure of the unboxed tree. At {0} the tree
    has {1}, the updates have {2}."""


class AxisRulesError(ScutchReferenceError[str, Any]):  # LOG-3
    text = """{0}, got {1!r}. Axis rules are pairs of a logical name and the mesh axes for it, which
    are a name, a tuple of names, or None: (('batch', 'data'), ('hidden', ('model', 'expert')))."""


class UnmatchedAxisError(ScutchReferenceError[Sequence[Any], Sequence[Any], Any]):  # LOG-8
    text = """Axis names {0!r} of {1!r} did not match a rule that is still free, and the fallback is
    RAISE_ERROR. The rules are {2!r}."""


class TraceLevelError(ScutchReferenceError[str, Any, str]):  # JIT-1
    text = """Tried to {0} {2}, a {1.__class__.__qualname__}, from a different trace level than the
    one it was created at. Pass it to the transformed function, or create it in there."""


class LeakedTracerError(ScutchReferenceError[str, Any]):
    text = """The variable at {0} holds a tracer, {1.aval}, of a transformation that is over. It was
    assigned inside a transformed function that did not get the variable as an argument; pass it in,
    or return the value."""


class UnhashableStaticError(ScutchReferenceError[str, Any], TypeError):  # JIT-4
    text = """Static data must be hashable, but {0} is {1!r}, a {1.__class__.__qualname__}. Use a
    hashable type (a tuple for a list, a frozen dataclass), or arrays as data: nnx.data(...)."""


class AliasingError(ScutchReferenceError[str, Any, tuple[str, Any], tuple[str, Any]]):  # JIT-2
    text = """Inconsistent {0} for an aliased {1.__class__.__qualname__}: it is {2[1]!r} at {2[0]},
    and {3[1]!r} at {3[0]}. One object can have one only; make the two agree, or pass a copy."""


class NoFilterMatchError(ScutchReferenceError[str, Any, Sequence[Any]]):  # OBJ-1, JIT-6
    text = """Non-exhaustive filters: none of {2!r} takes the {1.__class__.__qualname__} at {0}. Add
    a filter for it, or `...` as the last filter for all the rest."""


class FilterError(ScutchReferenceError[str], TypeError):  # OBJ-3
    text = """{0} A filter is a type, a tag, a predicate of (path, value), a boolean, `...`, None,
    or a sequence of filters; `...` and True come last."""


class UnknownPathError(ScutchReferenceError[str, Sequence[Path]], KeyError):  # OBJ-2
    text = "{0}: {1!r}."


class MeshAxisError(ScutchReferenceError[str, Any, Any, Sequence[Any]]):  # SHM-4
    text = "{0}: the spec {1!r} names the mesh axis {2!r}, but the axes of the mesh are {3!r}."


class IndivisibleSizeError(ScutchReferenceError[str, Sequence[int], Any, int, int]):  # SHM-4
    text = """{0}: the spec {2!r} cuts axis {3} of an array of shape {1!r} into {4} parts, but the
    size of that axis is no multiple of {4}, or it does not exist."""


class ReplicationError(ScutchReferenceError[str, Any, Sequence[Any]]):  # SHM-4
    text = """{0}: the value may differ along the mesh axes {2!r}, but not by its spec {1!r}. Reduce
    it (jax.lax.psum, pmean), name the axes in the spec, or do not check: check_rep=False."""


class DataError(ScutchReferenceError[str]):
    """Attributes or metadata are asked for, or given, in a way that there is not (OBJ-5)."""


class StreamError(ScutchReferenceError[str], KeyError, AttributeError):
    """A seed stream that is not there, or that has no key (OBJ-6)."""


class LiftingError(ScutchReferenceError[str]):
    """A lifted transformation was set up, or used, in a way that it cannot follow."""


class ModuleError(ScutchReferenceError[str]):
    """A module or layer is used in a way, or at a time, that it cannot follow."""


class ScopeParamNotFoundError(ScutchReferenceError[str, Path, Sequence[str]], KeyError):  # LIN-1
    text = """The module at {1!r} asks for the parameter {0!r}, but the collection 'params' has
    {2!r} there. Pass the variables that `init` returned."""


class ScopeParamShapeError(ScutchReferenceError[str, Path, Any, Any]):  # LIN-1
    text = (
        "Parameter {0!r} of the module at {1!r} has shape {3!r}, but its initializer gives {2!r}."
    )


class NameInUseError(ScutchReferenceError[str, str, Path, str]):  # LIN-1
    text = "Tried to give the name {1!r} to a {0} of the module at {2!r}, but a {3} there has it."


class ModifyScopeVariableError(ScutchReferenceError[str, str, Path]):  # LIN-8
    text = """Tried to write the variable {1!r} of the module at {2!r}, but its collection {0!r} is
    not mutable: apply(..., mutable=[{0!r}])."""


class InvalidRngError(ScutchReferenceError[str, Path, Sequence[str]]):  # LIN-8
    text = """The module at {1!r} draws a key from the stream {0!r}, but keys were passed for {2!r}
    only: rngs={{{0!r}: jax.random.key(0)}}; under `scan` or `vmap`, split_rngs={{{0!r}: True}}."""


class RegistryError(ScutchReferenceError[str]):
    """A collection and a variable type cannot be paired, or are not (BRG-1)."""


class CrossingError(ScutchReferenceError[str]):
    """Something cannot cross the bridge (BRG-4, BRG-6)."""
