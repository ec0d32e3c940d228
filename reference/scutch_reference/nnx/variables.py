"""Variables: the cells of a model that change, each with a type and metadata.

A `Variable` holds one value (an array, or a tree of arrays) and metadata (names of mesh axes,
hooks, whatever the user adds). Its *type* says what the value is for; filters select by it. The
raw value is what is stored, the value is what the hooks make of it.
"""

from __future__ import annotations

import abc
import builtins
import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from ..errors import DataError
from ..logical import get_logical_axis_rules, logical_to_mesh_axes
from ..meta import boxing
from ..placement import constrain, partition_spec
from .epochs import note_change
from .statics import Static, copied
from .tracing import check_level, current_level

A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])

HOOKS = ("on_get_value", "on_set_value", "on_create_value", "on_add_axis", "on_remove_axis")
_UNSET: Any = object()
# Arguments of a variable that say how Flax stores it; they are no metadata here.
_STORAGE = ("hijax", "ref", "eager_sharding")
_ARRAYS = (jax.Array, np.ndarray)


class Tracked:
    """What has a cell (see `epochs`) and a level; a tree of JAX, unless it says `pytree=False`."""

    __slots__ = ("__weakref__", "_cell", "_level", "_plans")
    _cell: list[Any]
    _level: Any
    _plans: dict[Any, Any] | None

    def __init_subclass__(cls, *, pytree: bool = True, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        node: Any = cls
        if pytree:
            jax.tree_util.register_pytree_with_keys(node, node._flatten, node._unflatten)

    def _begin(self, *cell: Any) -> None:
        put = object.__setattr__
        put(self, "_cell", [*cell, 0])
        put(self, "_level", current_level())
        put(self, "_plans", None)

    def _check(self, tried: str) -> None:
        """Raise `TraceLevelError` if this was made at another trace level."""
        check_level(self._level, tried, self)

    def _changed(self) -> None:
        """Say that the structure is another one now."""
        note_change(self._cell)


@dataclass(frozen=True)
class VariableMetadata(Generic[A], abc.ABC):
    """What initializers may return. Other classes with these attributes may be registered."""

    raw_value: A
    metadata: Mapping[str, Any] = field(default_factory=dict)


def _tidied(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A copy, under the names of today: the names of mesh axes are the `out_sharding`."""
    tidy = {k: copied(v) for k, v in metadata.items() if k not in _STORAGE}
    for old in ("sharding", "sharding_names"):
        if old in tidy:
            tidy["out_sharding"] = tidy.pop(old)
    return tidy


def _copied_tree(value: Any) -> Any:
    """The value, in containers of its own."""
    return value if isinstance(value, _ARRAYS) else jax.tree.map(lambda x: x, value)


class Variable(Tracked, Generic[A]):
    """One value with a type and metadata (OBJ-5). In expressions it stands for the value.

    Args:
      value: An array or a tree of arrays; or a `VariableMetadata`, as `with_metadata` makes it.
      **metadata: Among it the `HOOKS`, functions or tuples of functions; and `out_sharding` (of
        old: `sharding`, `sharding_names`), names of axes, by which the value is sharded if there
        is a mesh, in `mesh` or in context.
    """

    __slots__ = ("_metadata",)
    _metadata: dict[str, Any]
    hijax = ref = False

    def __init__(self, value: A | VariableMetadata[A], **metadata: Any):
        if isinstance(value, VariableMetadata):
            metadata = {**value.metadata, **metadata}
            value = value.raw_value
        methods = {hook: getattr(type(self), hook) for hook in HOOKS if hasattr(type(self), hook)}
        self._begin(value)
        self._replace_metadata(methods | metadata)
        made: Any = self.create_value(self._hooked("on_create_value", value))
        spec = spec_of(self)
        if spec is not None and metadata.get("eager_sharding", True):
            mesh = getattr(self._metadata["out_sharding"], "mesh", self._metadata.get("mesh"))
            made = jax.tree.map(lambda leaf: constrain(leaf, spec, mesh), made)
        self._cell[0] = made

    @classmethod
    def from_metadata(cls, value: A, attributes: Mapping[str, Any]) -> Self:
        """A variable with exactly this raw value and metadata; no hook runs."""
        variable = object.__new__(cls)
        variable._begin(value)
        object.__setattr__(variable, "_metadata", _tidied(attributes))
        return variable

    def _flatten(self) -> tuple[Any, Static]:
        return ((jax.tree_util.GetAttrKey("value"), self._cell[0]),), Static(self._metadata)

    @classmethod
    def _unflatten(cls, static: Static, children: Iterable[Any]) -> Self:
        return cls.from_metadata(next(iter(children)), static.value)

    def _hooks(self, event: str) -> Iterable[Callable[..., Any]]:
        hooks = self._metadata.get(event) or ()
        return hooks if isinstance(hooks, tuple | list) else (hooks,)

    def _hooked(self, event: str, value: Any) -> Any:
        for hook in self._hooks(event):
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
        """Store a value, or the part of it at `index`, after the hooks of setting."""
        self._check("change the value of")
        value = self._hooked("on_set_value", _copied_tree(value_of(value)))
        old = self._cell[0]
        # What fits takes the place of the whole, with nothing to broadcast or convert.
        fits = index is ... and (not isinstance(old, _ARRAYS) or _kind(value) == _kind(old))
        if index is not _UNSET and not fits:
            if isinstance(old, jax.Array):
                value = old.at[index].set(value)
            else:
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

    value = property(lambda self: self.get_value(), lambda self, value: self.set_value(value))
    raw_value = property(get_raw_value, set_raw_value)

    def __getitem__(self, index: Any) -> Any:
        return self.get_value(index=index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.set_value(value, index=index)

    def __delitem__(self, index: Any) -> None:
        value = self.get_value()
        del value[index]
        self.set_value(value)

    def get_metadata(self, name: str = _UNSET, default: Any = _UNSET, **_: Any) -> Any:
        """All metadata in a new dictionary, or the entry `name`; containers are copies (OBJ-5)."""
        if name is _UNSET and default is not _UNSET:
            raise DataError(f"get_metadata got a default, {default!r}, but no name.")
        if default is not _UNSET and name not in self._metadata:
            return default
        return copied(self._metadata if name is _UNSET else self._metadata[name])

    def set_metadata(self, *args: Any, **kwargs: Any) -> None:
        """Replace all metadata by a dictionary, or set `name, value`, or set keywords (OBJ-5)."""
        self._check("change the metadata of")
        match args:
            case [metadata] if not kwargs:
                self._replace_metadata(metadata)
            case [name, value] if not kwargs:
                self._replace_metadata(self._metadata | _tidied({name: value}))
            case [] if kwargs:
                self._replace_metadata(self._metadata | _tidied(kwargs))
            case _:
                raise DataError(
                    "set_metadata takes a dictionary, or a name and a value, or keywords; "
                    f"got {args!r} and {kwargs!r}."
                )

    def has_metadata(self, name: str) -> bool:
        """Whether there is a metadata entry of this name."""
        return name in self._metadata

    def del_metadata(self, name: str) -> None:
        """Delete a metadata entry."""
        self.set_metadata({k: v for k, v in self._metadata.items() if k != name})

    def _replace_metadata(self, metadata: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_metadata", _tidied(metadata))
        self._changed()

    # The old name of the `out_sharding`, and the type as `VariableState` had it.
    sharding_names = property(lambda self: self._metadata.get("out_sharding"))
    type = var_type = property(lambda self: type(self))

    def add_axis(self, index: int, name: Any) -> None:
        """A transformation adds an axis to the value: run the hooks."""
        for hook in self._hooks("on_add_axis"):
            hook(self, index, name)

    def remove_axis(self, index: int, name: Any) -> None:
        """A transformation takes an axis off the value: run the hooks."""
        for hook in self._hooks("on_remove_axis"):
            hook(self, index, name)

    def copy(self, value: Any = _UNSET, **updates: Any) -> Self:
        """A new variable of the same type, with another raw value or metadata where given."""
        value = self._cell[0] if value is _UNSET else value
        return self.from_metadata(_copied_tree(value), self._metadata | updates)

    __copy__ = replace = to_state = copy

    def copy_from(self, other: Variable[A]) -> None:
        """Take over raw value and metadata of a variable of the same type."""
        if self.type is not other.type:
            mine, theirs = self.type.__name__, other.type.__name__
            raise DataError(f"A {mine} cannot copy from a {theirs}: the types differ.")
        self.update_from_state(other)

    def update_from_state(self, state: Variable[A]) -> None:
        """Take over raw value and metadata."""
        self.set_raw_value(state._cell[0])
        if Static(self._metadata) != Static(state._metadata):
            self._replace_metadata(state._metadata)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.from_metadata, (self._cell[0], self._metadata)

    def __getattr__(self, name: str) -> Any:
        # A half-made copy must not look for its own cell; protocols are not the value's to answer.
        if name in ("_cell", "_metadata") or name.startswith("__"):
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
            self._changed()

    def __repr__(self) -> str:
        metadata = "".join(f", {k}={v!r}" for k, v in self._metadata.items())
        return f"{type(self).__name__}(value={self._cell[0]!r}{metadata})"

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.asarray(self.get_value()).__array__(*args, **kwargs)

    def __jax_array__(self) -> Any:
        return self.get_value()


def value_of(value: Any) -> Any:
    """The value of a variable, or the value itself."""
    return value.get_value() if isinstance(value, Variable) else value


def _kind(value: Any) -> list[Any]:
    return [getattr(value, name, None) for name in ("shape", "dtype", "sharding")]


def spec_of(variable: Variable[Any]) -> PartitionSpec | None:
    """The partition spec that the `out_sharding` stands for, or None without one (LOG-7).

    Its names are mesh axes where there are no rules, and logical names where there are: those of
    the variable, or those in context. So it is sharded as a Linen box with the same names.
    """
    names = variable._metadata.get("out_sharding")
    if not names or isinstance(names, NamedSharding):
        return names.spec if names else None
    rules = variable._metadata.get("sharding_rules") or get_logical_axis_rules()
    spec = logical_to_mesh_axes(tuple(names), tuple(rules)) if rules else tuple(names)
    return partition_spec(tuple(spec or ()))


# What Python asks of a variable, by an operator or a function, its value answers. A binary operator
# has a reflected form, and one that would assign to the variable.
_ASKED = "neg pos abs invert eq ne lt le gt ge contains index call int float complex bool len iter"
_BINARY = "add + sub - mul * matmul @ truediv / floordiv // mod % pow ** lshift << rshift >> and &"
_BINARY += " xor ^ or |"


def _answer(function: Callable[..., Any], order: int) -> Callable[..., Any]:
    return lambda *operands, **named: function(*[*map(value_of, operands)][::order], **named)


def _refusal(symbol: str) -> Callable[..., Any]:
    def refuse(self: Any, other: Any) -> Any:
        raise NotImplementedError(
            f"In-place operations would rebind the attribute to an array. Instead of "
            f"`variable {symbol}= x`, write `variable[...] {symbol}= x`."
        )

    return refuse


for _name in (*_ASKED.split(), "round", *_BINARY.split()[::2]):
    _function = getattr(operator, f"__{_name}__", None) or getattr(builtins, _name)
    setattr(Variable, f"__{_name}__", _answer(_function, 1))
for _name, _symbol in zip(_BINARY.split()[::2], _BINARY.split()[1::2], strict=True):
    setattr(Variable, f"__r{_name}__", _answer(getattr(operator, f"__{_name}__"), -1))
    setattr(Variable, f"__i{_name}__", _refusal(_symbol))


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
    boxed: Any = boxing(initializer, functools.partial(VariableMetadata, metadata=metadata))
    return boxed  # type: ignore[no-any-return]
