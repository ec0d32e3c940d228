"""A few inputs that cover the pairs of features of many.

An input has *features*: the choices from which it was drawn, such as a lift's kind, the sign of an
axis, a dtype, or whether there is a mesh. A fault often needs two of them together. So a law whose
every input is compiled is tried on inputs that have as many pairs of features as can be:

    cover = Cover(drawn)
    cover.try_on(call, 12)
    cover.pairs     # Pairs(covered=310, drawn=325): of the inputs that were tried, and of all

Features are read from the inputs themselves, which are plain data: what a law draws tomorrow counts
without being listed here.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
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


class Cover:
    """Inputs that were drawn, of which the most telling ones are tried."""

    def __init__(self, drawn: Iterable[Inputs]) -> None:
        """Number the features of all inputs.

        Args:
          drawn: The inputs; one may be there twice.
        """
        self._numbers: dict[str, int] = {}
        self._drawn: list[Inputs] = []
        for inputs in drawn:
            if inputs not in self._drawn:
                self._drawn.append(inputs)
        self._legal = {number: self._pairs_of(each) for number, each in enumerate(self._drawn)}
        self._covered: set[tuple[int, int]] = set()

    def _pairs_of(self, inputs: Inputs) -> set[tuple[int, int]]:
        numbers = self._numbers
        own = sorted(numbers.setdefault(each, len(numbers)) for each in features(inputs))
        return set(combinations(own, 2))

    def try_on(self, call: Callable[[Inputs], bool], count: int) -> None:
        """Call a law on the most telling inputs.

        Each next one has the most pairs of features that those before it lack; of equals, the first
        that was drawn. An input that is out of the law's domain covers nothing.

        Args:
          call: The law; it says whether the input was in its domain.
          count: On how many inputs in its domain it is called at most.
        """
        # What an input would add gets less with each that is tried, never more.
        most = [(-len(pairs), number) for number, pairs in self._legal.items()]
        heapq.heapify(most)
        while most and count > 0:
            _, number = heapq.heappop(most)
            pairs = self._legal[number]
            now = -len(pairs - self._covered), number
            if most and now > most[0]:
                heapq.heappush(most, now)
            elif call(self._drawn[number]):
                self._covered |= pairs
                count -= 1
            else:
                del self._legal[number]

    @property
    def pairs(self) -> Pairs:
        """How many pairs were covered, of those of inputs in the law's domain."""
        legal = set[tuple[int, int]]().union(*self._legal.values())
        return Pairs(len(self._covered), len(legal))
