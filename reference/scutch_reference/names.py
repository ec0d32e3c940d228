"""The names of the axes of one array, as a tuple, and the tuples with one name more or less.

An entry is the name of an axis, `None` for an unsharded axis, or a tuple of mesh axes.

>>> names_with(("data",), 2, "layers")
('data', None, 'layers')
>>> names_without(("data", None, "layers"), -1, "layers")
('data', None)
"""

import functools
from collections.abc import Hashable, Iterable
from typing import Any

from .errors import AxisIndexError, AxisNameError, NoNamesError

PLAIN_NAMES = frozenset((str, type(None)))
"""Names of these types are kept as they are."""


def axis_names(names: Iterable[Any]) -> tuple[Any, ...]:
    """Return axis names as boxes keep them: a hashable tuple.

    Args:
      names: A sequence with an entry for each axis: a name, `None`, or several mesh axes in a tuple
        or list. A string is no sequence of names.

    Raises:
      NoNamesError: `names` is no such sequence.
    """
    try:
        kept = tuple([tuple(name) if type(name) is list else name for name in names])
        hash(kept)
    except TypeError as error:
        raise NoNamesError(names=names) from error
    if isinstance(names, str):
        raise NoNamesError(names=names)
    return kept


def _from_the_front(names: tuple[Any, ...], index: int, rank: int) -> int:
    """The index of an axis of an array of that rank, with a negative one counted from the end."""
    if index < -rank:
        raise AxisIndexError(names=names, index=index, lowest=-rank)
    return index + rank if index < 0 else index


@functools.lru_cache(maxsize=4096)
def names_with(names: tuple[Any, ...], index: int, name: Hashable) -> tuple[Any, ...]:
    """Return the names with a new axis; a gap in front of it is unsharded (BOX-7).

    Args:
      names: The names, as `axis_names` returns them.
      index: The place of the new axis in the result; a negative one counts from its end.
      name: The name of the new axis, or `None`.

    Returns:
      A tuple with the name at `index`. If `index` is beyond the names, `None` fills the gap.

    Raises:
      AxisIndexError: `index` is below `-rank - 1` of as many axes as names.
    """
    at = _from_the_front(names, index, len(names) + 1)
    return (*names[:at], *(None,) * (at - len(names)), name, *names[at:])


@functools.lru_cache(maxsize=4096)
def names_without(names: tuple[Any, ...], index: int, name: Hashable) -> tuple[Any, ...]:
    """Return the names without an axis, which must have the given name (BOX-9).

    Args:
      names: The names, as `axis_names` returns them.
      index: The place of the axis in `names`; a negative one counts from the end.
      name: The name of the axis; beyond the names it is `None`.

    Returns:
      A tuple without the entry at `index`; the same names, if `index` is beyond them.

    Raises:
      AxisIndexError: `index` is below `-rank` of as many axes as names.
      AxisNameError: The axis has another name.
    """
    at = _from_the_front(names, index, len(names))
    found = names[at] if at < len(names) else None
    if found != name:
        raise AxisNameError(names=names, index=index, found=found, name=name)
    return names[:at] + names[at + 1 :]
