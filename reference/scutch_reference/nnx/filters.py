"""Filters: which leaves of a state are meant, as predicates of (path, value).

It may be written as a type, a tag, a boolean, `...`, None, or a sequence that means any of them.
"""

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any as Anything

from ..errors import FilterError

Filter = Anything
Path = tuple[Anything, ...]
Predicate = Callable[[Path, Anything], bool]


@dataclass(frozen=True)
class OfType:
    """Takes values of a type, and variables by their own type."""

    type: builtins.type[Anything]

    def __call__(self, path: Path, value: Anything) -> bool:
        return isinstance(value, self.type)


@dataclass(frozen=True)
class WithTag:
    """Takes values that have this `tag`."""

    tag: str

    def __call__(self, path: Path, value: Anything) -> bool:
        return getattr(value, "tag", None) == self.tag


@dataclass(frozen=True)
class PathContains:
    """Takes paths with `key` in them, or, if not `exact`, with it as part of an entry."""

    key: Anything
    exact: bool = True

    def __call__(self, path: Path, value: Anything) -> bool:
        return self.key in path if self.exact else any(str(self.key) in str(p) for p in path)


@dataclass(frozen=True, init=False)
class PathIn:
    """Takes exactly these paths."""

    paths: frozenset[Path]

    def __init__(self, *paths: Path):
        object.__setattr__(self, "paths", frozenset(map(tuple, paths)))

    def __call__(self, path: Path, value: Anything) -> bool:
        return tuple(path) in self.paths


@dataclass(frozen=True, init=False)
class Any:
    """Takes what at least one of its filters takes."""

    predicates: tuple[Predicate, ...]

    def __init__(self, *filters: Filter):
        object.__setattr__(self, "predicates", tuple(map(to_predicate, filters)))

    def __call__(self, path: Path, value: Anything) -> bool:
        return any(predicate(path, value) for predicate in self.predicates)


class All(Any):
    """Takes what all of its filters take."""

    def __call__(self, path: Path, value: Anything) -> bool:
        return all(predicate(path, value) for predicate in self.predicates)


class Not(Any):
    """Takes what its filter does not take."""

    def __call__(self, path: Path, value: Anything) -> bool:
        return not super().__call__(path, value)


# All of no filters take everything, and any of them nothing.
Everything, Nothing = All, Any


def to_predicate(filter: Filter) -> Predicate:
    """The one form of a filter, a predicate; `FilterError` if there is none (OBJ-3)."""
    if isinstance(filter, str | type):
        return WithTag(filter) if isinstance(filter, str) else OfType(filter)
    if filter is ... or filter is True:
        return Everything()
    if filter is None or filter is False:
        return Nothing()
    if isinstance(filter, list | tuple):
        return Any(*filter)
    if callable(filter):
        return filter  # type: ignore[no-any-return]
    raise FilterError(f"{filter!r} is not a filter.")


def to_predicates(filters: Sequence[Filter]) -> tuple[Predicate, ...]:
    """The predicates of a partition; `FilterError` if one hides those after it (OBJ-1)."""
    whole = [each is ... or each is True for each in filters]
    if sorted(whole) != whole:  # They do not all come last.
        raise FilterError(f"`...` or True in {tuple(filters)!r} hides later filters.")
    return tuple(map(to_predicate, filters))
