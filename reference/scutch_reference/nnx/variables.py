"""Variables: the cells of a model that change, each with a type and metadata.

A `Variable` holds one value (an array, or a tree of arrays) and metadata (names of mesh axes,
hooks, whatever the user adds). Its *type* says what the value is for; filters select by it. The
raw value is what is stored, the value is what the hooks make of it.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

import jax
import numpy as np

from ..errors import MetadataError
from .annotations import constrained
from .arithmetic import Arithmetic
from .epochs import note_change
from .statics import Static, copied
from .tracing import check_level, current_level

A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])

HOOKS = ("on_get_value", "on_set_value", "on_create_value", "on_add_axis", "on_remove_axis")
_UNSET: Any = object()
# Arguments of a variable that say how Flax stores it; they are no metadata here.
_STORAGE = ("hijax", "ref", "eager_sharding")


@dataclass(frozen=True)
class VariableMetadata(Generic[A], abc.ABC):
    """A raw value with the metadata that its variable will get: what initializers may return.

    A class with these two attributes that is something else besides is registered.
    """

    raw_value: A
    metadata: Mapping[str, Any] = field(default_factory=dict)


def _tidied(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata under its names of today: the names of mesh axes are the `out_sharding`."""
    tidy = {k: copied(v) for k, v in metadata.items() if k not in _STORAGE}
    for old in ("sharding", "sharding_names"):
        if old in tidy:
            tidy["out_sharding"] = tidy.pop(old)
    return tidy


def _copied_tree(value: Any) -> Any:
    """The value, in containers of its own."""
    return value if isinstance(value, jax.Array | np.ndarray) else jax.tree.map(lambda x: x, value)


class Variable(Arithmetic, Generic[A]):
    """One value with a type and metadata (OBJ-5).

    Args:
      value: An array or a tree of arrays; or a `VariableMetadata`, as `with_metadata` makes it.
      **metadata: Kept with the value; `out_sharding` names the mesh axes (`sharding` and
        `sharding_names` are its old names). With a mesh, in `mesh` or in context, the value is
        sharded accordingly. The `HOOKS` may be functions or tuples of functions.
    """

    __slots__ = ("__weakref__", "_cell", "_level", "_metadata", "_plans")
    required_metadata: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, value: A | VariableMetadata[A], **metadata: Any):
        eager = metadata.get("eager_sharding", True)
        if isinstance(value, VariableMetadata):
            metadata = {**value.metadata, **metadata}
            value = value.raw_value
        metadata = _tidied(metadata)
        for hook in HOOKS:
            if hook not in metadata and hasattr(type(self), hook):
                metadata[hook] = getattr(type(self), hook)
        self._begin(value, metadata)
        value = self._hooked("on_create_value", value)
        value = self.create_value(value)  # type: ignore[arg-type]
        names = metadata.get("out_sharding")
        if eager and names:
            value = constrained(value, names, metadata.get("sharding_rules"), metadata.get("mesh"))
        self._cell[0] = value

    def _begin(self, value: Any, metadata: dict[str, Any]) -> None:
        put = object.__setattr__
        put(self, "_cell", [value, 0])
        put(self, "_metadata", metadata)
        put(self, "_level", current_level())
        put(self, "_plans", None)

    @classmethod
    def from_metadata(cls, value: A, attributes: Mapping[str, Any]) -> Self:
        """A variable with exactly this raw value and metadata; no hook runs."""
        variable = object.__new__(cls)
        variable._begin(value, _tidied(attributes))
        return variable

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        _register(cls)

    # ---- values -------------------------------------------------------------------------------

    def _hooked(self, name: str, value: Any) -> Any:
        hooks = self._metadata.get(name)
        if hooks:
            for hook in hooks if isinstance(hooks, tuple | list) else (hooks,):
                value = hook(self, value)
        return value

    def create_value(self, value: A) -> A:
        """Override to change the value that a new variable starts with."""
        return value

    def get_value(self, *, index: Any = _UNSET) -> Any:
        """The value, or the part of it at `index`, after the hooks of getting."""
        value = _copied_tree(self._cell[0])
        whole = index is _UNSET or (index is ... and not isinstance(value, np.ndarray))
        return self._hooked("on_get_value", value if whole else value[index])

    def set_value(self, value: Any, *, index: Any = _UNSET) -> None:
        """Store a value, or the part of it at `index`, after the hooks of setting.

        Raises:
          TraceLevelError: The variable was made at another trace level.
        """
        self._check("change the value of")
        if isinstance(value, Variable):
            value = value.get_value()
        value = self._hooked("on_set_value", _copied_tree(value))
        old = self._cell[0]
        if index is not _UNSET and not (index is ... and _interchangeable(value, old)):
            if isinstance(old, jax.Array):
                value = old.at[index].set(value)
            elif index is not ... or isinstance(old, np.ndarray):
                part, value = value, old.copy()
                value[index] = part
        self._cell[0] = value

    def get_raw_value(self) -> A:
        """What is stored; no hook runs."""
        return self._cell[0]  # type: ignore[no-any-return]

    def set_raw_value(self, value: A, **_: Any) -> None:
        """Store a value; no hook runs."""
        self._check("change the value of")
        self._cell[0] = value

    @property
    def value(self) -> Any:
        """The value, as the documents write it; today's spelling is `variable[...]`."""
        return self.get_value()

    @value.setter
    def value(self, value: Any) -> None:
        self.set_value(value)

    raw_value = property(get_raw_value, set_raw_value, doc="The stored value.")

    def __getitem__(self, index: Any) -> Any:
        """`variable[...]` is the value, other indices are parts of it."""
        return self.get_value(index=index)

    def __setitem__(self, index: Any, value: Any) -> None:
        """`variable[...] = x` sets the value, broadcast to its shape."""
        self.set_value(value, index=index)

    def __delitem__(self, index: Any) -> None:
        value = self.get_value()
        del value[index]
        self.set_value(value)

    # ---- metadata -----------------------------------------------------------------------------

    def get_metadata(self, name: str = _UNSET, default: Any = _UNSET, **_: Any) -> Any:
        """All metadata in a new dictionary, or the entry `name`; containers are copies (OBJ-5)."""
        if name is _UNSET:
            if default is not _UNSET:
                raise MetadataError(f"get_metadata got a default, {default!r}, but no name.")
            return copied(self._metadata)
        if name not in self._metadata and default is not _UNSET:
            return default
        return copied(self._metadata[name])

    def set_metadata(self, *args: Any, **kwargs: Any) -> None:
        """Replace all metadata by a dictionary, or set `name, value`, or set keywords (OBJ-5)."""
        self._check("change the metadata of")
        if len(args) == 1 and not kwargs:
            metadata = _tidied(args[0])
        elif len(args) == 2 and not kwargs:
            metadata = self._metadata | _tidied({args[0]: args[1]})
        elif kwargs and not args:
            metadata = self._metadata | _tidied(kwargs)
        else:
            raise MetadataError(
                "set_metadata takes a dictionary, or a name and a value, or keywords; "
                f"got {args!r} and {kwargs!r}."
            )
        self._replace_metadata(metadata)

    def has_metadata(self, name: str) -> bool:
        """Whether there is a metadata entry of this name."""
        return name in self._metadata

    def del_metadata(self, name: str) -> None:
        """Delete a metadata entry."""
        self._check("change the metadata of")
        self._replace_metadata({k: v for k, v in self._metadata.items() if k != name})

    def _replace_metadata(self, metadata: dict[str, Any]) -> None:
        object.__setattr__(self, "_metadata", metadata)
        note_change(self._cell)

    @property
    def sharding_names(self) -> Any:
        """The old name of `out_sharding`."""
        return self._metadata.get("out_sharding")

    @property
    def type(self) -> type[Self]:
        """The type of the variable, as `VariableState` had it."""
        return type(self)

    var_type = type
    hijax = ref = False

    def add_axis(self, index: int, name: Any) -> None:
        """A transformation adds an axis to the value: run the hooks."""
        self._axis_hooks("on_add_axis", index, name)

    def remove_axis(self, index: int, name: Any) -> None:
        """A transformation takes an axis off the value: run the hooks."""
        self._axis_hooks("on_remove_axis", index, name)

    def _axis_hooks(self, event: str, index: int, name: Any) -> None:
        hooks = self._metadata.get(event, ())
        for hook in hooks if isinstance(hooks, tuple | list) else (hooks,):
            hook(self, index, name)

    # ---- copies -------------------------------------------------------------------------------

    def copy(self, value: Any = _UNSET, **updates: Any) -> Self:
        """A new variable of the same type, with another raw value or metadata where given."""
        value = updates.pop("value", self._cell[0]) if value is _UNSET else value
        return type(self).from_metadata(_copied_tree(value), {**self._metadata, **updates})

    replace = to_state = copy

    def copy_from(self, other: Variable[A]) -> None:
        """Take over raw value and metadata of a variable of the same type."""
        if type(self) is not type(other):
            raise MetadataError(
                f"A {type(self).__name__} cannot copy from a {type(other).__name__}; "
                "the types must be the same."
            )
        self.update_from_state(other)

    def update_from_state(self, state: Variable[A]) -> None:
        """Take over raw value and metadata."""
        self._check("update")
        self._cell[0] = state._cell[0]
        if Static(self._metadata) != Static(state._metadata):
            self._replace_metadata(copied(state._metadata))

    def __copy__(self) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._cell[0], self._metadata)

    # ---- attributes ---------------------------------------------------------------------------

    def _check(self, tried: str) -> None:
        check_level(self._level, tried, self)

    def __getattr__(self, name: str) -> Any:
        # A half-made copy must not look for its own cell; protocols are not the value's to answer.
        if name in Variable.__slots__ or name.startswith("__"):
            raise AttributeError(name)
        if name in self._metadata:
            return copied(self._metadata[name])
        return getattr(self._cell[0], name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._check(f"set {name!r} of")
        if name in ("_cell", "_metadata", "_level") or not hasattr(type(self), name):
            raise AttributeError(
                f"Cannot set {name!r} of a variable. For metadata write "
                f"variable.set_metadata({name}=...), for the value variable[...] = ..."
            )
        object.__setattr__(self, name, value)
        if name == "__class__":
            note_change(self._cell)

    def __repr__(self) -> str:
        metadata = "".join(f", {k}={v!r}" for k, v in self._metadata.items())
        return f"{type(self).__name__}(value={self._cell[0]!r}{metadata})"


def _restored(cls: type[Variable[Any]], value: Any, metadata: dict[str, Any]) -> Variable[Any]:
    return cls.from_metadata(value, metadata)


def _interchangeable(new: Any, old: Any) -> bool:
    """Whether `new` can take the place of all of `old`, with nothing to broadcast or convert."""
    if not isinstance(old, jax.Array | np.ndarray):
        return True
    return (
        isinstance(new, jax.Array | np.ndarray)
        and new.shape == old.shape
        and new.dtype == old.dtype
        and getattr(new, "sharding", None) == getattr(old, "sharding", None)
    )


def _register(cls: type[Variable[Any]]) -> None:
    """A variable is a pytree node: its raw value is the child, its metadata is static."""
    value_key = jax.tree_util.GetAttrKey("value")
    jax.tree_util.register_pytree_with_keys(
        cls,
        lambda x: (((value_key, x._cell[0]),), Static(x._metadata)),
        lambda metadata, children: cls.from_metadata(next(iter(children)), metadata.value),
        lambda x: ((x._cell[0],), Static(x._metadata)),
    )


_register(Variable)
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
    metadata = {k: v for k, v in metadata.items() if k not in HOOKS or v}

    @functools.wraps(initializer)
    def boxed(*args: Any, **kwargs: Any) -> VariableMetadata[Any]:
        return VariableMetadata(initializer(*args, **kwargs), metadata)

    return boxed  # type: ignore[return-value]
