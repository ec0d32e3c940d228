"""Variables: the cells of a model that change; and the shardings that they ask for.

The *type* of a variable says what it is for, and filters select by it. Its metadata are names of
mesh axes, hooks, and what the user adds. The *raw* value is stored, the value is what hooks make.
"""

import abc
import builtins
import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar, cast

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..errors import DataError
from ..logical import get_logical_axis_rules, logical_to_mesh_axes
from ..meta import PARTITION_NAME, Partitioned, boxing
from ..placement import constrain, partition_spec
from .tracking import Static, Tracked, copied

A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])

HOOKS = ("on_get_value", "on_set_value", "on_create_value", "on_add_axis", "on_remove_axis")
_UNSET: Any = object()
# Arguments of a variable that say how Flax stores it; they are no metadata here.
_STORAGE = ("hijax", "ref", "eager_sharding")
# Old names of metadata.
_TODAY = {"sharding": "out_sharding", "sharding_names": "out_sharding"}
_ARRAYS = (np.ndarray, jax.Array)


@dataclass(frozen=True)
class VariableMetadata(Generic[A], abc.ABC):
    """What initializers may return. Other classes with these attributes may be registered."""

    raw_value: A
    metadata: Mapping[str, Any] = field(default_factory=dict)


def _tidied(metadata: Mapping[str, Any]) -> Static:
    kept = {_TODAY.get(k, k): copied(v) for k, v in metadata.items() if k not in _STORAGE}
    return Static(kept, "metadata")


def copied_tree(value: Any) -> Any:
    """The same leaves, in containers of their own."""
    return value if isinstance(value, _ARRAYS) else jax.tree.map(lambda x: x, value)


class Variable(Tracked, Generic[A]):
    """One value with a type and metadata (OBJ-5). In expressions it stands for the value.

    `value` is an array, a tree of arrays, or what `with_metadata` makes. In the metadata may be
    `HOOKS`, functions or tuples of functions; and in `out_sharding` names of axes, by which the
    value is sharded on `mesh`, or on the mesh in context.
    """

    __slots__ = ("_static",)
    _static: Static  # The metadata; variables of the same origin share it.

    def __init__(self, value: A | VariableMetadata[A], **metadata: Any):
        if isinstance(value, VariableMetadata):
            metadata = {**value.metadata, **metadata}
            value = value.raw_value
        methods = {hook: getattr(type(self), hook) for hook in HOOKS if hasattr(type(self), hook)}
        self._begin(value, _static=_tidied(methods | metadata))
        made: Any = self.create_value(self._hooked("on_create_value", value))
        spec = spec_of(self)
        if spec is not None and metadata.get("eager_sharding", True):
            mesh = getattr(
                self._static.value["out_sharding"], "mesh", self._static.value.get("mesh")
            )
            made = jax.tree.map(lambda leaf: constrain(leaf, spec, mesh), made)
        self._cell[0] = made

    @classmethod
    def from_metadata(cls, value: A, attributes: Mapping[str, Any]) -> Self:
        """A variable with exactly this raw value and metadata; no hook runs."""
        return cls._unflatten(_tidied(attributes), (value,))

    def _flatten(self) -> tuple[Any, Static]:
        return ((jax.tree_util.GetAttrKey("value"), self._cell[0]),), self._static

    @classmethod
    def _unflatten(cls, static: Static, children: Iterable[Any]) -> Self:
        variable = object.__new__(cls)
        variable._begin(next(iter(children)), _static=static)
        return variable

    def _hooks(self, event: str) -> Iterable[Callable[..., Any]]:
        hooks = self._static.value.get(event) or ()
        return hooks if isinstance(hooks, tuple | list) else (hooks,)

    def _hooked(self, event: str, value: Any) -> Any:
        for hook in self._hooks(event):
            value = hook(self, value)
        return value

    def create_value(self, value: A) -> A:
        """Override to change the value that a new variable starts with."""
        return value

    def _announce(self, event: str, index: int, name: Any) -> None:
        """A transformation adds an axis to the value, or takes it off: run the hooks."""
        for hook in self._hooks(event):
            hook(self, index, name)

    add_axis = functools.partialmethod(_announce, "on_add_axis")
    remove_axis = functools.partialmethod(_announce, "on_remove_axis")

    def get_value(self, *, index: Any = ...) -> Any:
        """The value, or the part of it at `index`, after the hooks of getting."""
        value = copied_tree(self._cell[0])
        return self._hooked("on_get_value", value if index is ... else value[index])

    def set_value(self, value: Any, *, index: Any = _UNSET) -> None:
        """Store a value, or the part of it at `index`, after the hooks of setting."""
        self._check("change the value of")
        value = self._hooked("on_set_value", copied_tree(value_of(value)))
        old = self._cell[0]
        # What fits takes the place of the whole, with nothing to broadcast or convert.
        fits = index is ... and (not isinstance(old, _ARRAYS) or _kind(value) == _kind(old))
        if index is _UNSET or fits:
            self._cell[0] = value
        elif isinstance(old, jax.Array):
            self._cell[0] = old.at[index].set(value)
        else:
            self._cell[0] = old.copy()
            self._cell[0][index] = value

    def get_raw_value(self) -> A:
        """What is stored; no hook runs."""
        return self._cell[0]  # type: ignore[no-any-return]

    def set_raw_value(self, value: A) -> None:
        """Store a value; no hook runs."""
        self._check("change the value of")
        self._cell[0] = value

    value = property(lambda self: self.get_value(), lambda self, value: self.set_value(value))
    raw_value = property(get_raw_value, set_raw_value)

    def __getitem__(self, index: Any) -> Any:
        return self.get_value(index=index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.set_value(value, index=index)

    def get_metadata(self, name: str = _UNSET, default: Any = _UNSET) -> Any:
        """All metadata in a new dictionary, or the entry `name`; containers are copies (OBJ-5)."""
        if default is not _UNSET and name not in self._static.value:
            return default
        return copied(self._static.value if name is _UNSET else self._static.value[name])

    def set_metadata(self, *args: Any, **kwargs: Any) -> None:
        """Replace all metadata by a dictionary, or set `name, value`, or set keywords (OBJ-5)."""
        self._check("change the metadata of")
        if len(args) > 2 or bool(args) == bool(kwargs):
            raise DataError(f"Pass a dictionary, or a name and a value, or keywords, not {args!r}.")
        whole = len(args) == 1
        new = args[0] if whole else self._static.value | (kwargs or dict([args]))
        self._become(_tidied(new))

    def has_metadata(self, name: str) -> bool:
        """Whether there is a metadata entry of this name."""
        return name in self._static.value

    def del_metadata(self, name: str) -> None:
        """Delete a metadata entry."""
        self.set_metadata({k: v for k, v in self._static.value.items() if k != name})

    def _become(self, static: Static) -> None:
        object.__setattr__(self, "_static", static)
        self._changed()

    sharding_names = property(lambda self: self._static.value.get("out_sharding"))
    type = var_type = property(lambda self: type(self))  # As `VariableState` had it.

    def copy(self, value: Any = _UNSET, **updates: Any) -> Self:
        """A new variable of the same type, with another raw value or metadata where given."""
        value = copied_tree(self._cell[0] if value is _UNSET else value)
        static = _tidied(self._static.value | updates) if updates else self._static
        return self._unflatten(static, (value,))

    __copy__ = replace = to_state = copy

    def copy_from(self, other: "Variable[A]") -> None:
        """Take over raw value and metadata of a variable of the same type."""
        if self.type is not other.type:
            raise DataError(f"A {self.type!r} cannot copy from a {other.type!r}.")
        self.update_from_state(other)

    def update_from_state(self, state: "Variable[A]") -> None:
        """Take over raw value and metadata."""
        self.set_raw_value(state._cell[0])
        if self._static != state._static:
            self._become(state._static)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.from_metadata, (self._cell[0], self._static.value)

    def __getattr__(self, name: str) -> Any:
        # A half-made copy must not look for its own cell; protocols are not the value's to answer.
        if name in ("_cell", "_static") or name.startswith("__"):
            raise AttributeError(name)
        if name in self._static.value:
            return copied(self._static.value[name])
        return getattr(self._cell[0], name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._check(f"set {name!r} of")
        if name in (*Tracked.__slots__, *Variable.__slots__) or not hasattr(type(self), name):
            raise AttributeError(f"To set {name!r}, use set_metadata({name}=...), or v[...] = x.")
        object.__setattr__(self, name, value)
        if name == "__class__":
            self._changed()

    def __repr__(self) -> str:
        metadata = "".join(f", {k}={v!r}" for k, v in self._static.value.items())
        return f"{type(self).__name__}(value={self._cell[0]!r}{metadata})"


def is_variable(value: Any) -> bool:
    """Whether a value is a variable."""
    return isinstance(value, Variable)


def value_of(value: Any) -> Any:
    """The value of a variable, or the value itself."""
    return value.get_value() if isinstance(value, Variable) else value


def _kind(value: Any) -> list[Any]:
    return [getattr(value, name, None) for name in ("shape", "dtype", "sharding")]


# What is asked of a variable, by an operator or a function, its value answers. A binary operator
# has a reflected form, and one that would assign to the variable.
_ARRAY = {"array": np.asarray, "jax_array": value_of}
_ASKED = "neg pos abs invert eq ne lt le gt ge contains index call int float complex bool len iter"
_BINARY = "add sub mul matmul truediv floordiv mod pow lshift rshift and xor or"


def _answer(function: Callable[..., Any], order: int) -> Callable[..., Any]:
    return lambda *operands, **named: function(*[*map(value_of, operands)][::order], **named)


def _refuse(self: Any, other: Any) -> Any:
    raise NotImplementedError("`v += x` would make `v` an array. Write `v[...] += x`.")


for _name in [*_ARRAY, *f"{_ASKED} round {_BINARY}".split()]:
    _function = getattr(operator, f"__{_name}__", None) or (_ARRAY | vars(builtins))[_name]
    setattr(Variable, f"__{_name}__", _answer(_function, 1))
    if _name in _BINARY.split():
        setattr(Variable, f"__r{_name}__", _answer(_function, -1))
        setattr(Variable, f"__i{_name}__", _refuse)


VariableState = Variable  # The name in the documents: states hold copies of variables.


class Param(Variable[A]):
    """A parameter that is learned."""


class BatchStat(Variable[A]):
    """A running statistic of a normalization."""


class Cache(Variable[A]):
    """What decoding remembers from step to step."""


class Intermediate(Variable[A]):
    """A value that was sown on the way."""


class Perturbation(Intermediate[A]):
    """A zero whose gradient is the gradient of an intermediate value."""


def with_metadata(initializer: F, **metadata: Any) -> F:
    """An initializer whose results bring this metadata to the variable that they start."""
    return cast(F, boxing(initializer, functools.partial(VariableMetadata[Any], metadata=metadata)))


def with_partitioning(initializer: F, sharding: Any, mesh: Mesh | None = None, **more: Any) -> F:
    """An initializer whose variables know the names of their axes."""
    more |= {"mesh": mesh} if mesh is not None else {}
    return with_metadata(initializer, out_sharding=sharding, **more)


def spec_of(variable: Variable[Any]) -> PartitionSpec | None:
    """The spec of the `out_sharding`, by rules if the variable or the context has any (LOG-7)."""
    names = variable._static.value.get("out_sharding")
    if not names or isinstance(names, NamedSharding):
        return names.spec if names else None
    rules = variable._static.value.get("sharding_rules") or get_logical_axis_rules()
    spec = logical_to_mesh_axes(tuple(names), tuple(rules)) if rules else tuple(names)
    return partition_spec(tuple(spec or ()))


def get_partition_spec(tree: Any) -> Any:
    """The partition spec of each variable, in its place; of unnamed arrays, `PartitionSpec()`."""

    def spec(value: Any) -> Any:
        if isinstance(value, Variable):
            return value.replace(spec_of(value) or spec(value.get_raw_value()))
        return partition_spec(()) if hasattr(value, "shape") else None

    return jax.tree.map(spec, tree, is_leaf=is_variable)


def get_named_sharding(tree: Any, mesh: Mesh) -> Any:
    """The sharding of each variable on a mesh, in its place."""
    on_mesh, specs = functools.partial(NamedSharding, mesh), get_partition_spec(tree)
    return jax.tree.map(on_mesh, specs, is_leaf=lambda x: isinstance(x, PartitionSpec))


def _change(how: str, variable: Variable[Any], index: int, params: Mapping[Any, Any]) -> None:
    names = variable.get_metadata("out_sharding", None)
    if names and not isinstance(names, NamedSharding):
        box = getattr(Partitioned(None, tuple(names)), how)(index, params)
        variable.set_metadata(out_sharding=box.names)
    getattr(variable, how)(index, params.get(PARTITION_NAME))


# A variable in place of a box: its names change as those of `Partitioned` do, and its hooks run.
add_axis = functools.partial(_change, "add_axis")
remove_axis = functools.partial(_change, "remove_axis")
