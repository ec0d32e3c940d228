"""Every error of the reference: what was tried, with which value, and what was expected.

Each class takes the parts of its message, so that a message is written once. All but
`PartitioningUnspecifiedError` are `ValueError`s as well, which is what user code catches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def _described(box: Any) -> str:
    """A box in one line: its class and names, never the numbers that it holds."""
    return f"{type(box).__qualname__}(names={getattr(box, 'names', '?')!r})"


class ScutchReferenceError(Exception):
    """The base of the errors that the reference raises."""


class _KeyError(ScutchReferenceError, KeyError, ValueError):
    """A `KeyError` whose message is shown as it is, without quotes."""

    __str__ = Exception.__str__


class PartitioningUnspecifiedError(ScutchReferenceError):
    """An axis of a partitioned box comes or goes, and nobody said what it is called (BOX-8)."""

    def __init__(self, box: Any, params: Mapping[Any, Any]):
        super().__init__(
            f"Tried to add or remove an axis of {_described(box)}, but 'partition_name' is not in "
            f"the parameters {dict(params)!r}.\n"
            "  wrong:  scan(Layer, variable_axes={'params': 0})\n"
            "  right:  scan(Layer, variable_axes={'params': 0}, "
            "metadata_params={'partition_name': 'layers'})\n"
            "A partition name of None is a name too: the axis is unsharded."
        )


class AxisNameError(ScutchReferenceError, ValueError):
    """The axis to remove is called something else (BOX-9)."""

    def __init__(self, box: Any, index: int, found: Any, expected: Any):
        super().__init__(
            f"Tried to remove axis {index} of {_described(box)} as {expected!r}, but the axis "
            f"there is named {found!r}. Remove axes in the reverse of the order they were added."
        )


class AxisIndexError(ScutchReferenceError, ValueError, IndexError):
    """A negative index points before the first axis (BOX-11)."""

    def __init__(self, box: Any, index: int, lowest: int):
        super().__init__(
            f"Axis index {index} is out of range for {_described(box)}: "
            f"the lowest possible index is {lowest}."
        )


class NamesError(ScutchReferenceError, ValueError):
    """Axis names that are no sequence with one hashable entry for each axis."""

    def __init__(self, names: Any):
        super().__init__(
            f"Axis names must be a sequence with one entry for each axis, got {names!r}.\n"
            "  wrong:  names='data'\n"
            "  right:  names=('data', None)"
        )


class StructureMismatchError(ScutchReferenceError, ValueError):
    """The updates of `replace_boxed` are shaped differently from its tree (BOX-15)."""

    def __init__(self, path: str, expected: str, found: str):
        super().__init__(
            f"replace_boxed needs updates with the structure of the unboxed tree. "
            f"At {path or 'the root'} the tree has {expected}, the updates have {found}."
        )


class RankMismatchError(ScutchReferenceError, ValueError):
    """A constraint names more or fewer axes than its array has (LOG-8)."""

    def __init__(self, names: Iterable[Any], shape: tuple[int, ...]):
        names = tuple(names)
        super().__init__(
            f"with_logical_constraint got {len(names)} axis names {names!r} for an array with "
            f"{len(shape)} axes, shape {shape}. Name each axis once; None is an unsharded axis."
        )


class RepeatedAxisError(ScutchReferenceError, ValueError):
    """A logical name, or a mesh axis, stands for two axes of one array (LOG-2, LOG-3)."""

    def __init__(self, repeated: Iterable[Any], names: Iterable[Any]):
        super().__init__(
            f"Axis names {tuple(repeated)!r} occur more than once in {tuple(names)!r}; "
            "an axis name may stand for one axis of an array only."
        )


class AxisRulesError(ScutchReferenceError, ValueError):
    """Axis rules that are no sequence of pairs (LOG-3)."""

    def __init__(self, problem: str):
        super().__init__(
            f"{problem}\n"
            "Axis rules are pairs of a logical name and the mesh axes for it "
            "(a name, a tuple of names, or None):\n"
            "  right:  (('batch', 'data'), ('hidden', ('model', 'expert')), ('embed', None))"
        )


class UnmatchedAxisError(ScutchReferenceError, ValueError):
    """No rule takes a name, and the fallback is `RAISE_ERROR` (LOG-8)."""

    def __init__(self, unmatched: Iterable[Any], names: Iterable[Any], rules: Any):
        super().__init__(
            f"Axis names {tuple(unmatched)!r} of {tuple(names)!r} did not match a rule that is "
            f"still free, and the fallback is RAISE_ERROR. The rules are {rules!r}."
        )


# Objects and lifted transformations ---------------------------------------------------------------


def _at(argument: str, path: Sequence[Any]) -> str:
    """One place of a call: the argument, and the path inside it."""
    return f"{argument}, path {tuple(path)!r}" if argument else f"path {tuple(path)!r}"


def _kind(value: Any) -> str:
    """A value in one line, without its numbers."""
    shape = getattr(value, "shape", None)
    return type(value).__qualname__ + (f" of shape {tuple(shape)}" if shape is not None else "")


class TraceLevelError(ScutchReferenceError, ValueError):
    """An object is changed at another trace level than the one that made it (JIT-1)."""

    def __init__(self, tried: str, value: Any, where: str = ""):
        super().__init__(
            f"Tried to {tried} a {_kind(value)}{f' ({where})' if where else ''} from a different "
            "trace level than the one it was created at. A transformed function may change the "
            "objects it is given, or creates, but not those it finds around it.\n"
            "  wrong:  jit(lambda x: counter.set_value(x))(x)\n"
            "  right:  jit(lambda counter, x: counter.set_value(x))(counter, x)"
        )


class LeakedTracerError(ScutchReferenceError, ValueError):
    """A variable holds a tracer whose trace has ended."""

    def __init__(self, argument: str, path: Sequence[Any], value: Any):
        super().__init__(
            f"The variable at {_at(argument, path)} holds a tracer ({value.aval.str_short()}) of a "
            "transformation that is over. It was assigned inside a transformed function that did "
            "not get the variable as an argument; pass it in, or return the value."
        )


class UnhashableStaticError(ScutchReferenceError, TypeError, ValueError):
    """Static data that cannot be part of a compilation key (JIT-4)."""

    def __init__(self, where: str, value: Any):
        super().__init__(
            f"Static data must be hashable, but {where} is {value!r} of the unhashable type "
            f"{type(value).__qualname__}. Use a hashable type (a tuple for a list, a frozen "
            "dataclass), or pass arrays as data: nnx.data(...)."
        )


class AliasingError(ScutchReferenceError, ValueError):
    """One object is reached at two places that ask for different things (JIT-2)."""

    def __init__(self, what: str, value: Any, first: tuple[str, Any], second: tuple[str, Any]):
        super().__init__(
            f"Inconsistent {what} for an aliased {_kind(value)}: it is reached as {first[0]} with "
            f"{first[1]!r}, and as {second[0]} with {second[1]!r}. "
            "One object can have one only; make the two agree, or pass a copy."
        )


class NoFilterMatchError(ScutchReferenceError, ValueError):
    """No filter takes a leaf, and every leaf must go somewhere (OBJ-1, JIT-6)."""

    def __init__(self, where: str, value: Any, filters: Sequence[Any]):
        super().__init__(
            f"Non-exhaustive filters: none of {tuple(filters)!r} takes the {_kind(value)} at "
            f"{where}. Add a filter for it, or `...` as the last filter for all the rest."
        )


class FilterError(ScutchReferenceError, TypeError, ValueError):
    """A filter that is none, or that hides the filters after it (OBJ-3)."""

    def __init__(self, problem: str):
        super().__init__(
            f"{problem} A filter is a type, a tag, a predicate of (path, value), a boolean, "
            "`...`, None, or a sequence of filters; `...` and True come last."
        )


class UnknownPathError(_KeyError):
    """A state names a path that the object does not have, or lacks one that it has (OBJ-2)."""

    def __init__(self, problem: str, paths: Sequence[Any]):
        super().__init__(f"{problem}: {', '.join(map(repr, paths))}.")


class MeshAxisError(ScutchReferenceError, ValueError):
    """A spec names an axis that the mesh does not have (SHM-4)."""

    def __init__(self, where: str, spec: Any, axis: Any, axes: Sequence[Any]):
        super().__init__(
            f"{where}: the spec {spec!r} names the mesh axis {axis!r}, "
            f"but the axes of the mesh are {tuple(axes)!r}."
        )


class IndivisibleSizeError(ScutchReferenceError, ValueError):
    """An axis of an array cannot be cut into as many parts as its spec asks for (SHM-4)."""

    def __init__(self, where: str, shape: Sequence[int], spec: Any, axis: int, parts: int):
        found = f"has size {shape[axis]}" if axis < len(shape) else "does not exist"
        super().__init__(
            f"{where}: the spec {spec!r} cuts axis {axis} of an array of shape {tuple(shape)} "
            f"into {parts} parts, but that axis {found}. "
            "Its size must be a multiple of the number of parts."
        )


class DataError(ScutchReferenceError, ValueError):
    """Arrays or variables where static data is expected, or a marker in the wrong place."""

    def __init__(self, problem: str):
        super().__init__(f"{problem} Mark attributes with nnx.data(...) or nnx.static(...).")


class MetadataError(ScutchReferenceError, ValueError):
    """Metadata that is asked for, or given, in no way that there is (OBJ-5)."""


class StreamError(_KeyError, AttributeError):
    """A seed stream that is not there, or that has no key (OBJ-6)."""


class LiftingError(ScutchReferenceError, ValueError):
    """A lifted transformation was set up, or used, in a way that it cannot follow."""


class ReplicationError(ScutchReferenceError, ValueError):
    """A value differs between devices, and its spec says that it does not (SHM-4)."""

    def __init__(self, where: str, spec: Any, axes: Sequence[Any]):
        super().__init__(
            f"{where}: the value may differ along the mesh axes {tuple(axes)!r}, but its spec "
            f"{spec!r} says that it is replicated there. Reduce it (jax.lax.psum, pmean), name "
            "the axes in the spec, or turn the check off with check_rep=False."
        )


class LayerError(ScutchReferenceError, ValueError):
    """A layer is called in a way that says too little, or with inputs that it cannot take."""


# Linen --------------------------------------------------------------------------------------------


def _module(path: Sequence[str]) -> str:
    """The place of a Linen module, for messages."""
    return f"the module at /{'/'.join(path)}"


class ModuleError(ScutchReferenceError, ValueError):
    """A Linen module is used in a way, or at a time, that it cannot follow."""


class ScopeParamNotFoundError(_KeyError):
    """`apply` got no parameter of that name (LIN-1)."""

    def __init__(self, name: str, path: Sequence[str], present: Iterable[str]):
        super().__init__(
            f"{_module(path)} asks for the parameter {name!r}, but the collection 'params' has "
            f"{sorted(present)!r} there. Pass the variables that `init` returned."
        )


class ScopeParamShapeError(ScutchReferenceError, ValueError):
    """A parameter has another shape than its initializer gives (LIN-1)."""

    def __init__(self, name: str, path: Sequence[str], expected: Any, found: Any):
        super().__init__(
            f"The parameter {name!r} of {_module(path)} has shape {found!r}, "
            f"but its initializer gives {expected!r} for these inputs."
        )


class NameInUseError(ScutchReferenceError, ValueError):
    """One name for two parameters, variables or sub-modules (LIN-1)."""

    def __init__(self, kind: str, name: str, path: Sequence[str], taken: str):
        super().__init__(
            f"Tried to give the name {name!r} to a {kind} of {_module(path)}, "
            f"but a {taken} there has it. Names are unique within a module."
        )


class ModifyScopeVariableError(ScutchReferenceError, ValueError):
    """A variable is written whose collection is not mutable (LIN-8)."""

    def __init__(self, collection: str, name: str, path: Sequence[str]):
        super().__init__(
            f"Tried to write the variable {name!r} of {_module(path)}, but its collection "
            f"{collection!r} is not mutable: apply(..., mutable=[{collection!r}])."
        )


class InvalidRngError(ScutchReferenceError, ValueError):
    """A key is drawn from a stream that has none (LIN-8)."""

    def __init__(self, stream: str, path: Sequence[str], streams: Iterable[str]):
        super().__init__(
            f"{_module(path)} draws a key from the stream {stream!r}, but keys were passed for "
            f"{sorted(streams)!r} only: rngs={{{stream!r}: jax.random.key(0)}}, and under `scan` "
            f"or `vmap` split_rngs={{{stream!r}: True}}."
        )


# The bridge ---------------------------------------------------------------------------------------


class RegistryError(ScutchReferenceError, ValueError):
    """A collection and a variable type cannot be paired, or are not (BRG-1)."""


class CrossingError(ScutchReferenceError, ValueError):
    """Something cannot cross the bridge (BRG-4, BRG-6)."""
