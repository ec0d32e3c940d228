"""Filters: which leaves of a state are meant, as predicates of (path, value).

Words: a *path* is a tuple of the attribute names, keys and indices that lead from an object to one
of its leaves. A *predicate* is a function of (path, value) that says whether the leaf is meant. A
*filter* is anything that `to_predicate` turns into a predicate: a type, which takes variables of
it; a string, which takes values with this `tag`; True or `...`, which takes every leaf; False or
None, which takes no leaf; a list or tuple of filters, which takes a leaf if any of them does; or a
predicate.

>>> takes = to_predicate([int, PathContains("bias")])
>>> takes(("layer", "kernel"), 1.0), takes(("layer", "bias"), 1.0), takes((), 1)
(False, True, True)
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
    """Takes values of a type, and variables by their own type (OBJ-3).

    Args:
      type: The class.
    """

    type: builtins.type[Anything]

    def __call__(self, path: Path, value: Anything) -> bool:
        """Return whether the value is an instance of the type."""
        return isinstance(value, self.type)


@dataclass(frozen=True)
class WithTag:
    """Takes values with this tag (OBJ-3).

    Args:
      tag: The string that the attribute, or metadata entry, `tag` of a value must equal.
    """

    tag: str

    def __call__(self, path: Path, value: Anything) -> bool:
        """Return whether the attribute `tag` of the value is the tag."""
        return getattr(value, "tag", None) == self.tag


@dataclass(frozen=True)
class PathContains:
    """Takes paths that contain a key (OBJ-3).

    Args:
      key: An entry of the path.
      exact: If False, the text of the key may also be a part of the text of an entry.
    """

    key: Anything
    exact: bool = True

    def __call__(self, path: Path, value: Anything) -> bool:
        """Return whether the path contains the key."""
        return self.key in path if self.exact else any(str(self.key) in str(p) for p in path)


@dataclass(frozen=True)
class PathIn:
    """Takes exactly these paths (OBJ-3).

    Args:
      *paths: The paths, tuples or other sequences.
    """

    paths: frozenset[Path]

    def __init__(self, *paths: Path):
        object.__setattr__(self, "paths", frozenset(map(tuple, paths)))

    def __call__(self, path: Path, value: Anything) -> bool:
        """Return whether the path is one of these."""
        return tuple(path) in self.paths


@dataclass(frozen=True)
class Any:
    """Takes a leaf if at least one of its filters takes it; without filters, no leaf (OBJ-3).

    Args:
      *filters: The filters.
    """

    predicates: tuple[Predicate, ...]

    def __init__(self, *filters: Filter):
        object.__setattr__(self, "predicates", tuple(map(to_predicate, filters)))

    def __call__(self, path: Path, value: Anything) -> bool:
        """Return whether one of the filters takes the leaf."""
        return any(predicate(path, value) for predicate in self.predicates)


class All(Any):
    """Takes a leaf if all of its filters take it; without filters, every leaf (OBJ-3).

    Args:
      *filters: The filters.
    """

    def __call__(self, path: Path, value: Anything) -> bool:
        """Return whether all of the filters take the leaf."""
        return all(predicate(path, value) for predicate in self.predicates)


class Not(Any):
    """Takes a leaf if its filter does not take it (OBJ-3).

    Args:
      *filters: The filter; if there are several, none of them may take the leaf.
    """

    def __call__(self, path: Path, value: Anything) -> bool:
        """Return whether no filter takes the leaf."""
        return not super().__call__(path, value)


Everything = All
Nothing = Any


def to_predicate(filter: Filter) -> Predicate:
    """Return the predicate that a filter means (OBJ-3).

    Args:
      filter: See the module.

    Raises:
      FilterError: It is no filter.
    """
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
    raise FilterError(place="a filter", given=filter)


def to_predicates(filters: Sequence[Filter]) -> tuple[Predicate, ...]:
    """Return the predicates of a partition, where the first that takes a leaf gets it (OBJ-1).

    Args:
      filters: The filters in their order.

    Raises:
      FilterError: One is no filter, or `...` or True hides the filters after it.
    """
    takes_all = [each is ... or each is True for each in filters]
    if sorted(takes_all) != takes_all:  # They do not all come last.
        raise FilterError(place="filters, where one hides later filters", given=tuple(filters))
    return tuple(map(to_predicate, filters))
