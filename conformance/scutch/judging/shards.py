"""Runs that divide the requirements among them, on one machine or on many: `--shard 3/8`.

The division follows from the requirements and from their costs in the portfolio: so every machine
divides alike, and no machine asks another. The most expensive requirement goes first, and each to
the shard with the lowest cost so far. Requirements that are tried in a job of several processes
stay together, because the start of a job costs more than most of them.

    division(["a/b/c", "a/b/d", "a/b/e"], 2)     # ({'a/b/c', 'a/b/e'}, {'a/b/d'})
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from scutch.implementation import SetupError
from scutch.judging import portfolio

MOST = 256
_JOBS = "processes/"
"""The part of the requirements that stay together."""


@dataclass(frozen=True)
class Shard:
    """One part of a run that is divided.

    Args:
      number: Which part; from 1.
      of: How many parts there are.
    """

    number: int
    of: int

    def __str__(self) -> str:
        """As `--shard` takes it."""
        return f"{self.number}/{self.of}"

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """The shard that a text such as `3/8` names.

        Raises:
          SetupError: It names none.
        """
        found = re.fullmatch(r"([0-9]{1,3})/([0-9]{1,3})", text)
        number, of = map(int, found.groups()) if found else (0, 0)
        if not 1 <= number <= of <= MOST:
            expected = f"expected NUMBER/OF, such as 3/8, with 1 <= NUMBER <= OF <= {MOST}"
            raise SetupError(f"--shard {text!r}", expected)
        return cls(number, of)

    def part_of(self, identifiers: Iterable[str]) -> frozenset[str]:
        """Those of some requirements that this shard judges.

        Args:
          identifiers: Of all requirements that the shards judge together.
        """
        return division(identifiers, self.of)[self.number - 1]


def division(identifiers: Iterable[str], shards: int) -> tuple[frozenset[str], ...]:
    """Requirements in as many groups as there are shards, each with about the same cost.

    Args:
      identifiers: Of the requirements; in any order.
      shards: How many; at least 1.
    """
    blocks: dict[str, list[str]] = {}
    for one in sorted(identifiers):
        blocks.setdefault(_JOBS if one.startswith(_JOBS) else one, []).append(one)
    costs = {name: sum(map(portfolio.seconds, block)) for name, block in blocks.items()}
    loads, parts = [0.0] * shards, [frozenset[str]()] * shards
    for name in sorted(blocks, key=lambda name: (-costs[name], name)):
        least = loads.index(min(loads))
        loads[least] += costs[name]
        parts[least] = parts[least].union(blocks[name])
    return tuple(parts)
