"""The collectives of a compiled program, read from its HLO text.

A collective in the body of a loop counts once for each iteration, so that a scanned and an unrolled
program can be compared. The number of iterations, the *trip count*, is the one that XLA writes
beside the loop. Where it writes none, it is the constant that the loop's condition compares its
counter with; the counter of `jax.lax.scan` begins at zero. A loop with neither counts once.
"""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

KINDS = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "ragged-all-to-all",
    "reduce-scatter",
)
BITS = {"pred": 8, "c64": 64, "c128": 128}
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.-]+ = (.*?) ([a-z][\w-]*)\((.*)$")
_CALLED = re.compile(
    r"(?:calls|body|condition|to_apply|branch_computations)=(?:\{([^}]*)\}|(%?[\w.-]+))"
)
_TRIP_COUNT = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_CONDITION = re.compile(r"condition=%?([\w.-]+)")
_CONSTANT = re.compile(r"^\s+(%?[\w.-]+) = s\d+\[\]\S* constant\((\d+)\)")
_BELOW = re.compile(r"^\s+ROOT .* compare\(\S+, (%?[\w.-]+)\), direction=LT")
_OPERATION = re.compile(r'op_name="([^"]*)"')
_TRANSFORMED = re.compile(r"(?:transpose\()?jvp\((\w*)\)\)?")
_STEPS = frozenset({"", "while", "body", "cond", "closed_call", "checkpoint"})
_ARRAY = re.compile(r"\b([a-z]+\d*(?:e\d+m\d+\w*)?)\[([\d,]*)\]")


@dataclasses.dataclass(frozen=True)
class _Computations:
    """The collectives and calls in a compiled program, by the name of each computation.

    Args:
      entry: The name of the first computation that the program runs.
      sent: The collectives in each computation: their kind, bytes of the result, and place.
      calls: The computations that each one calls, and how often.
    """

    entry: str | None
    sent: Mapping[str | None, list[tuple[str, int, str]]]
    calls: Mapping[str | None, list[tuple[str, int]]]


def collectives(text: str) -> dict[str, dict[str, int]]:
    """The collectives that one call of a compiled program runs.

    Args:
      text: HLO, as `jax.stages.Compiled.as_text()` gives it.

    Returns:
      A dictionary with an entry for each kind of collective that occurs, sorted by kind: its
      `count`, and the `bytes` of its results on each device.
    """
    total: dict[str, dict[str, int]] = defaultdict(lambda: {"count": 0, "bytes": 0})
    for kind, size, _, times in _run(text):
        total[kind]["count"] += times
        total[kind]["bytes"] += times * size
    return dict(sorted(total.items()))


def places(text: str) -> dict[str, dict[str, int]]:
    """The collectives that one call runs, by their place in the model.

    Args:
      text: HLO, as `jax.stages.Compiled.as_text()` gives it.

    Returns:
      The count of each kind, by the path of modules that JAX keeps beside each operation.
    """
    total: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for kind, _, place, times in _run(text):
        total[place][kind] += times
    return {place: dict(sorted(total[place].items())) for place in sorted(total)}


def _run(text: str) -> Iterator[tuple[str, int, str, int]]:
    """Kind, bytes and place of each collective, and how often it runs in one call."""
    read = _computations(text, _trip_counts(text))
    waiting: list[tuple[str | None, int]] = [(read.entry, 1)]
    while waiting:
        name, times = waiting.pop()
        yield from ((kind, size, place, times) for kind, size, place in read.sent[name])
        waiting += [(called, times * each) for called, each in read.calls[name]]


def _place(attributes: str) -> str:
    """The path of modules of an operation: calls, loops and the primitive are left out."""
    named = _OPERATION.search(attributes)
    parts = _TRANSFORMED.sub(r"\1", named[1]).split("/")[:-1] if named else []
    return "/".join(part for part in parts if part not in _STEPS and not set(part) & set("(:"))


def _computations(text: str, trip_counts: Mapping[str | None, int]) -> _Computations:
    """Read the collectives and the calls of every computation in the text."""
    sent: dict[str | None, list[tuple[str, int, str]]] = defaultdict(list)
    calls: dict[str | None, list[tuple[str, int]]] = defaultdict(list)
    name: str | None = None
    entry: str | None = None
    for line in text.splitlines():
        if opened := _COMPUTATION.match(line):
            name = opened[1]
            entry = name if line.startswith("ENTRY") else entry
        elif instruction := _INSTRUCTION.match(line):
            shape, operation, rest = instruction.groups()
            kind = operation.removesuffix("-start")
            if kind in KINDS:
                sent[name].append((kind, _received(shape, operation), _place(rest)))
            times = _iterations(rest, trip_counts)
            for several, one in _CALLED.findall(rest):
                names = (several or one).split(",")
                calls[name] += [(called.strip(" %"), times) for called in names]
    return _Computations(entry, sent, calls)


def _iterations(attributes: str, trip_counts: Mapping[str | None, int]) -> int:
    """How often an instruction runs a computation; a loop its trip count, any other once."""
    if known := _TRIP_COUNT.search(attributes):
        return int(known[1])
    condition = _CONDITION.search(attributes)
    return trip_counts.get(condition[1], 1) if condition else 1


def _trip_counts(text: str) -> dict[str | None, int]:
    """The constant that each loop condition compares its counter with, by the condition's name."""
    found: dict[str | None, int] = {}
    constants: dict[str, int] = {}
    name: str | None = None
    for line in text.splitlines():
        if opened := _COMPUTATION.match(line):
            name = opened[1]
            constants = {}
        elif constant := _CONSTANT.match(line):
            constants[constant[1]] = int(constant[2])
        elif (below := _BELOW.match(line)) and below[1] in constants:
            found[name] = constants[below[1]]
    return found


def _received(shape: str, operation: str) -> int:
    """Bytes of a collective's result; some `-start` operations also list operands in `shape`."""
    if operation in ("all-gather-start", "collective-permute-start"):
        shape = _parts(shape)[1]
    return sum(_bytes(*array) for array in _ARRAY.findall(shape))


def _parts(shape: str) -> list[str]:
    """The members of a tuple of shapes."""
    parts = [""]
    depth = 0
    for letter in shape[1:-1]:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _bytes(dtype: str, lengths: str) -> int:
    """Bytes of an array, from its dtype and its dimensions as HLO writes them."""
    count = 1
    for length in filter(None, lengths.split(",")):
        count *= int(length)
    digits = re.search(r"\d+", dtype)
    bits = BITS.get(dtype) or (int(digits[0]) if digits else 0)
    return count * bits // 8
