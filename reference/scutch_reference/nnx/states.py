"""States: the leaves of an object by path, in nested mappings, apart from its structure.

`flat` and `nested` are inverse forms of the same content: pairs of (path, leaf), and mappings in
mappings. A pure dictionary is a state whose variables are replaced by their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Generic, Self, TypeVar, overload

import jax

from ..errors import NoFilterMatchError, UnknownPathError
from . import filters as filterlib
from .variables import Variable

K = TypeVar("K")
V = TypeVar("V")
Path = tuple[Any, ...]
_MISSING: Any = object()


def key_order(key: Any) -> tuple[int, Any]:
    """Sort integers before strings, and keys of other types by their text."""
    return (0, key) if isinstance(key, int) else (1, key if isinstance(key, str) else repr(key))


class State(MutableMapping[K, V]):
    """A mutable mapping of keys to leaves or to mappings; a pytree; `state.key` is `state['key']`.

    Args:
      mapping: A mapping, or pairs. It is copied, mappings inside it included.
    """

    _mapping: dict[Any, Any]

    def __init__(self, mapping: Mapping[K, Any] | Iterable[tuple[K, Any]] = (), /, **_: Any):
        items = dict(mapping).items()
        object.__setattr__(self, "_mapping", {k: _bare(v, copy=True) for k, v in items})

    @classmethod
    def _around(cls, mapping: dict[Any, Any]) -> Self:
        """A state that is a view of `mapping`."""
        state = object.__new__(cls)
        object.__setattr__(state, "_mapping", mapping)
        return state

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        _register(cls)

    @property
    def raw_mapping(self) -> dict[K, Any]:
        """The mapping itself, with plain dictionaries inside."""
        return self._mapping

    def __getitem__(self, key: K) -> Any:
        value = self._mapping[key]
        return self._around(value) if isinstance(value, dict) else value

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__") or key == "_mapping":
            raise AttributeError(key)
        if key not in self._mapping:
            raise AttributeError(f"The state has no {key!r}; it has {tuple(self._mapping)!r}.")
        return self[key]  # type: ignore[index]

    def __setitem__(self, key: K, value: Any) -> None:
        self._mapping[key] = _bare(value)

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value  # type: ignore[index]

    def __delitem__(self, key: K) -> None:
        del self._mapping[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._mapping)

    def __len__(self) -> int:
        return len(self._mapping)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._mapping!r})"

    def __or__(self, other: Mapping[Any, Any]) -> State[Any, Any]:
        return merge_state(self, other)

    def __sub__(self, other: Mapping[Any, Any]) -> State[Any, Any]:
        paths = {path for path, _ in to_flat_state(other)}
        return from_flat_state((p, v) for p, v in to_flat_state(self) if p not in paths)

    # The methods of the documents; today's functions have the same names with `_state`.

    def map(self, function: Callable[[Path, Any], Any]) -> State[Any, Any]:
        """See `map_state`."""
        return map_state(function, self)

    def flat_state(self) -> FlatState[Any]:
        """See `to_flat_state`."""
        return to_flat_state(self)

    @classmethod
    def from_flat_path(cls, flat: Any, /) -> State[Any, Any]:
        """See `from_flat_state`."""
        return from_flat_state(flat)

    def to_pure_dict(self, extract_fn: Any = None) -> dict[Any, Any]:
        """See `to_pure_dict`."""
        return to_pure_dict(self, extract_fn)

    def replace_by_pure_dict(self, pure: Mapping[Any, Any], replace_fn: Any = None) -> None:
        """See `replace_by_pure_dict`."""
        replace_by_pure_dict(self, pure, replace_fn)

    def split(self, first: Any, /, *filters: Any) -> Any:
        """See `split_state`."""
        return split_state(self, first, *filters)

    def filter(self, first: Any, /, *filters: Any) -> Any:
        """See `filter_state`."""
        return filter_state(self, first, *filters)

    @staticmethod
    def merge(state: Mapping[Any, Any], /, *states: Mapping[Any, Any]) -> State[Any, Any]:
        """See `merge_state`."""
        return merge_state(state, *states)


def _bare(value: Any, copy: bool = False) -> Any:
    """Mappings as plain dictionaries, so that one kind of mapping is inside a state."""
    if isinstance(value, State):
        value = value._mapping
        return {k: _bare(v, copy) for k, v in value.items()} if copy else value
    if isinstance(value, Mapping):
        return {k: _bare(v, copy) for k, v in value.items()}
    return value


def _register(cls: type[State[Any, Any]]) -> None:
    def children(state: State[Any, Any]) -> tuple[list[Any], tuple[Any, ...]]:
        keys = tuple(sorted(state._mapping, key=key_order))
        return [state._mapping[key] for key in keys], keys

    def with_keys(state: State[Any, Any]) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        values, keys = children(state)
        return [(jax.tree_util.DictKey(k), v) for k, v in zip(keys, values, strict=True)], keys

    jax.tree_util.register_pytree_with_keys(
        cls,
        with_keys,
        lambda keys, values: cls._around(dict(zip(keys, values, strict=True))),
        children,
    )


_register(State)


class FlatState(Sequence[tuple[Path, V]], Generic[V]):
    """Pairs of (path, leaf), sorted by path."""

    def __init__(self, items: Iterable[tuple[Path, V]], /, *, sort: bool = True):
        pairs = ((tuple(path), leaf) for path, leaf in items)
        self._items = tuple(
            sorted(pairs, key=lambda item: tuple(map(key_order, item[0]))) if sort else pairs
        )

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths, in order."""
        return tuple(path for path, _ in self._items)

    @property
    def leaves(self) -> list[V]:
        """The leaves, in order."""
        return [leaf for _, leaf in self._items]

    @overload
    def __getitem__(self, index: int) -> tuple[Path, V]: ...
    @overload
    def __getitem__(self, index: slice) -> FlatState[V]: ...
    def __getitem__(self, index: int | slice) -> Any:
        found = self._items[index]
        return FlatState(found, sort=False) if isinstance(index, slice) else found  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"FlatState({list(self._items)!r})"

    def to_nested_state(self) -> State[Any, V]:
        """See `from_flat_state`."""
        return from_flat_state(self)

    def split(self, first: Any, /, *filters: Any) -> Any:
        """Partition by filters; every leaf must be taken."""
        parts = partition(self, (first, *filters))
        return parts if filters else parts[0]

    def filter(self, first: Any, /, *filters: Any) -> Any:
        """Partition by filters; leaves that none takes are left out."""
        parts = partition(self, (first, *filters), exhaustive=False)
        return parts if filters else parts[0]

    @staticmethod
    def merge(*flats: Iterable[tuple[Path, Any]]) -> FlatState[Any]:
        """All pairs, where later ones win."""
        return FlatState({tuple(path): leaf for flat in flats for path, leaf in flat}.items())


jax.tree_util.register_pytree_node(
    FlatState,
    lambda flat: (flat.leaves, flat.paths),
    lambda paths, leaves: FlatState(zip(paths, leaves, strict=True), sort=False),
)


def _walk(mapping: Mapping[Any, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    for key in sorted(mapping, key=key_order):
        value = mapping[key]
        if isinstance(value, Mapping):
            yield from _walk(value, (*path, key))
        else:
            yield (*path, key), value


def to_flat_state(state: Mapping[Any, Any]) -> FlatState[Any]:
    """The leaves of a nested state with their paths; `from_flat_state` is the inverse (OBJ-4)."""
    return FlatState(_walk(state), sort=False)


def from_flat_state(flat: Any, *, cls: type[State[Any, Any]] = State) -> State[Any, Any]:
    """The nested state with these paths and leaves; `to_flat_state` is the inverse (OBJ-4).

    Raises:
      UnknownPathError: A path goes through another path's leaf.
    """
    nested: dict[Any, Any] = {}
    for path, leaf in dict(flat).items():
        inner = nested
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise UnknownPathError("A path leads through a leaf", [path])
        if isinstance(inner.get(path[-1]), dict):
            raise UnknownPathError("A leaf is in the way of longer paths", [path])
        inner[path[-1]] = leaf
    return cls._around(nested)


def map_state(function: Callable[[Path, Any], Any], state: Mapping[Any, Any]) -> State[Any, Any]:
    """`function(path, leaf)` in place of each leaf."""
    return from_flat_state((path, function(path, leaf)) for path, leaf in to_flat_state(state))


def partition(
    flat: Iterable[tuple[Path, V]], filters: Sequence[Any], *, exhaustive: bool = True
) -> tuple[FlatState[V], ...]:
    """Each leaf in the part of the first filter that takes it (OBJ-1).

    Raises:
      NoFilterMatchError: The partition is to be `exhaustive`, and no filter takes a leaf.
    """
    predicates = filterlib.to_predicates(filters)
    parts: list[list[tuple[Path, V]]] = [[] for _ in filters]
    for path, leaf in flat:
        for predicate, part in zip(predicates, parts, strict=True):
            if predicate(path, leaf):
                part.append((path, leaf))
                break
        else:
            if exhaustive:
                raise NoFilterMatchError(f"path {path!r}", leaf, filters)
    return tuple(FlatState(part, sort=False) for part in parts)


def split_state(state: Mapping[Any, Any], first: Any, /, *filters: Any) -> Any:
    """Partition a state; every leaf must be taken. One filter gives one state, more a tuple."""
    parts = partition(to_flat_state(state), (first, *filters))
    return tuple(map(from_flat_state, parts)) if filters else from_flat_state(parts[0])


def filter_state(state: Mapping[Any, Any], first: Any, /, *filters: Any) -> Any:
    """Partition a state; leaves that no filter takes are left out."""
    parts = partition(to_flat_state(state), (first, *filters), exhaustive=False)
    return tuple(map(from_flat_state, parts)) if filters else from_flat_state(parts[0])


def merge_state(
    state: Mapping[Any, Any], /, *states: Mapping[Any, Any], cls: type[State[Any, Any]] = State
) -> State[Any, Any]:
    """All leaves of all states, where later ones win (OBJ-4)."""
    return from_flat_state(FlatState.merge(*map(to_flat_state, (state, *states))), cls=cls)


def _value(leaf: Any) -> Any:
    return leaf.get_value() if isinstance(leaf, Variable) else leaf


def to_pure_dict(state: Mapping[Any, Any], extract_fn: Any = None) -> dict[Any, Any]:
    """Nested dictionaries of values; `replace_by_pure_dict` is the inverse (OBJ-4)."""
    extract = _value if extract_fn is None else extract_fn
    return {
        key: to_pure_dict(value, extract) if isinstance(value, Mapping) else extract(value)
        for key, value in state.items()
    }


def replace_by_pure_dict(state: Any, pure_dict: Mapping[Any, Any], replace_fn: Any = None) -> None:
    """Put the values of a pure dictionary in the leaves of a state, in place (OBJ-4).

    Args:
      state: A state; leaves without a value in `pure_dict` stay.
      pure_dict: Nested dictionaries; a checkpoint may have made strings of integer keys.
      replace_fn: Makes the new leaf from the old leaf and the value.

    Raises:
      UnknownPathError: A value has no leaf.
    """
    replace = replace_fn or (lambda x, v: x.replace(v) if hasattr(x, "replace") else v)

    def fill(mapping: dict[Any, Any], values: Mapping[Any, Any], path: Path) -> None:
        for key, value in values.items():
            found = key if key in mapping else _as_int(key)
            if found not in mapping:
                raise UnknownPathError("The state has no leaf for the path", [(*path, key)])
            if isinstance(mapping[found], dict):
                fill(mapping[found], value, (*path, found))
            else:
                mapping[found] = replace(mapping[found], value)

    fill(state.raw_mapping if isinstance(state, State) else state, pure_dict, ())


def _as_int(key: Any) -> Any:
    return int(key) if isinstance(key, str) and key.lstrip("-").isdigit() else key


def restore_int_paths(pure_dict: Mapping[Any, Any]) -> dict[Any, Any]:
    """Integer keys, where a checkpoint made strings of them."""
    return {
        _as_int(key): restore_int_paths(value) if isinstance(value, Mapping) else value
        for key, value in pure_dict.items()
    }
