"""In which order requirements are judged, and which of them a short run judges at all.

`portfolio.json` has every requirement, with a number of inputs and the CPU seconds that they took
on the reference. `ci/portfolio` has put them in this order: faults were planted in the reference
and in Flax, and the next requirement always finds the most further faults per second. A short run
judges the first requirements that its seconds suffice for:

    chosen = within(20, ["objects/graphs/merge-undoes-split", ...])
    chosen[0].examples     # 6
"""

import functools
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

FILE = "portfolio.json"
LAST = ("processes/", "export/")
"""Parts that are judged after all others: one job serves all laws of `processes`, and one import of
TensorFlow all laws of `export`."""

UNMEASURED = 0.2
"""CPU seconds that a requirement is taken to cost that the portfolio does not have yet."""


@dataclass(frozen=True)
class Choice:
    """A requirement in the portfolio.

    Args:
      requirement: Its id.
      examples: Inputs for each of its laws, at least 1.
      seconds: CPU seconds that its laws took on the reference, with nothing compiled before.
    """

    requirement: str
    examples: int
    seconds: float


@functools.cache
def choices() -> tuple[Choice, ...]:
    """All choices, the one that finds the most faults per second first."""
    text = resources.files("scutch.judging").joinpath(FILE).read_text("utf-8")
    return tuple(Choice(*each) for each in json.loads(text)["choices"])


def within(seconds: float, identifiers: Iterable[str]) -> tuple[Choice, ...]:
    """The first choices, among the given requirements, that together cost at most some seconds.

    A choice that costs more than the remaining seconds is passed over. A requirement that the
    portfolio does not have yet, because it was added later, is never chosen.

    Args:
      seconds: CPU seconds, as the choices have them.
      identifiers: The ids of the requirements that are asked for.
    """
    asked, found = set(identifiers), list[Choice]()
    for choice in choices():
        total = math.fsum(one.seconds for one in (*found, choice))
        if choice.requirement in asked and total <= seconds:
            found.append(choice)
    return tuple(found)


def rank(identifier: str) -> tuple[bool, float]:
    """Sorts requirements in the order in which a run judges them."""
    place, _ = _listed().get(identifier, (math.inf, UNMEASURED))
    return identifier.startswith(LAST), place


def seconds(identifier: str) -> float:
    """CPU seconds that the laws of a requirement take, on few inputs."""
    return _listed().get(identifier, (math.inf, UNMEASURED))[1]


@functools.cache
def _listed() -> dict[str, tuple[float, float]]:
    """The place and the seconds of each requirement."""
    return {one.requirement: (place, one.seconds) for place, one in enumerate(choices())}
