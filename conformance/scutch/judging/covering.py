"""A few inputs that cover the pairs of features of many.

An input has *features*: the choices from which it was drawn, such as a lift's kind, the sign of an
axis, a dtype, or whether there is a mesh. A fault often needs two of them together. So a law whose
every input is compiled is tried on inputs that have as many pairs of features as can be:

    chosen, pairs = covering(drawn, 12)
    pairs     # Pairs(covered=310, drawn=325): pairs of the chosen inputs, and of all

Features are read from the inputs themselves, which are plain data: what a law draws tomorrow counts
without being listed here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import combinations
from typing import Any

from scutch.inputs.descriptions import Description
from scutch.judging.trials import Pairs

Inputs = Mapping[str, Any]
SMALL = 2
"""Numbers up to this one are features each; of larger ones only the sign is."""
LONGEST_TEXT = 40


def features(inputs: Inputs) -> frozenset[str]:
    """The features of an input: for each choice, where it stands and what was chosen.

    Args:
      inputs: Descriptions and plain values by name.
    """
    return frozenset(each for name, value in inputs.items() for each in _features(name, value))


def _features(place: str, value: Any) -> Iterator[str]:
    """The features of one value. Inside a description, places begin with its class."""
    kind = type(value)
    if issubclass(kind, Description):
        yield f"{place}: {kind.__name__}"
        for each in fields(value):
            yield from _features(f"{kind.__name__}.{each.name}", getattr(value, each.name))
    elif kind in (list, tuple):
        yield f"{place}: {kind.__name__} of {_size(len(value))}"
        for part in value:
            yield from _features(f"{place}[]", part)
    elif kind is dict:
        yield f"{place}: dict of {_size(len(value))}"
        for part in value.values():
            yield from _features(f"{place}[]", part)
    elif kind in (int, float):
        small = value == value and abs(value) <= SMALL
        yield f"{place}: {kind.__name__} {value if small else 'below 0' if value < 0 else 'large'}"
    else:
        yield f"{place}: {repr(value)[:LONGEST_TEXT]}"


def _size(length: int) -> str:
    return str(length) if length <= SMALL else "several"


def covering(drawn: Sequence[Inputs], count: int) -> tuple[list[Inputs], Pairs]:
    """Inputs that together have as many pairs of features as can be.

    Each next one has the most pairs that those before it lack; of equals, the first that was drawn.

    Args:
      drawn: All inputs; an input may be there twice.
      count: How many are chosen at most, at least 1.

    Returns:
      The chosen inputs, the most telling first, and how many pairs they cover.
    """
    numbers: dict[str, int] = {}
    left: list[tuple[Inputs, set[tuple[int, int]]]] = []
    for inputs in drawn:
        own = sorted(numbers.setdefault(each, len(numbers)) for each in features(inputs))
        left.append((inputs, set(combinations(own, 2))))
    every = set[tuple[int, int]]().union(*(pairs for _, pairs in left))
    covered: set[tuple[int, int]] = set()
    chosen: list[Inputs] = []
    while left and len(chosen) < count:
        best = max(range(len(left)), key=lambda n: (len(left[n][1] - covered), -n))
        inputs, pairs = left.pop(best)
        if inputs not in chosen:
            covered |= pairs
            chosen.append(inputs)
    return chosen, Pairs(len(covered), len(every))
