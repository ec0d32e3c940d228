"""What a compiled program sends between devices, read from its text.

A collective in the body of a loop counts once for each turn, so that a scanned and an unrolled
program can be compared: as often as XLA says, or, where it does not, as the loop's condition says
of a counter that begins at zero, as that of `jax.lax.scan` does. Any other loop counts once.
"""

import re
from collections import defaultdict

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
_TURNS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_CONDITION = re.compile(r"condition=%?([\w.-]+)")
_CONSTANT = re.compile(r"^\s+(%?[\w.-]+) = s\d+\[\]\S* constant\((\d+)\)")
_BELOW = re.compile(r"^\s+ROOT .* compare\(\S+, (%?[\w.-]+)\), direction=LT")
_ARRAY = re.compile(r"\b([a-z]+\d*(?:e\d+m\d+\w*)?)\[([\d,]*)\]")


def collectives(text):
    """Collectives of a compiled module.

    Args:
      text: What `jax.stages.Compiled.as_text()` gives.

    Returns:
      For each kind that occurs, sorted: how many run in one call, and how many bytes of results
      they leave on each device.
    """
    found, calls, name, entry = defaultdict(list), defaultdict(list), None, None
    turns = _turns(text)
    for line in text.splitlines():
        if opened := _COMPUTATION.match(line):
            name = opened[1]
            entry = name if line.startswith("ENTRY") else entry
        elif written := _INSTRUCTION.match(line):
            shape, operation, rest = written.groups()
            kind = operation.removesuffix("-start")
            if kind in KINDS:
                found[name].append((kind, _received(shape, operation)))
            known, tested = _TURNS.search(rest), _CONDITION.search(rest)
            times = int(known[1]) if known else turns.get(tested and tested[1], 1)
            for several, one in _CALLED.findall(rest):
                calls[name] += [
                    (called.strip(" %"), times) for called in (several or one).split(",")
                ]
    total = defaultdict(lambda: {"count": 0, "bytes": 0})
    waiting = [(entry, 1)]
    while waiting:
        name, times = waiting.pop()
        for kind, size in found[name]:
            total[kind]["count"] += times
            total[kind]["bytes"] += times * size
        waiting += [(called, times * each) for called, each in calls[name]]
    return dict(sorted(total.items()))


def _turns(text):
    """How often each computation holds that compares a counter with a constant."""
    found, constants, name = {}, {}, None
    for line in text.splitlines():
        if opened := _COMPUTATION.match(line):
            name, constants = opened[1], {}
        elif constant := _CONSTANT.match(line):
            constants[constant[1]] = int(constant[2])
        elif (below := _BELOW.match(line)) and below[1] in constants:
            found[name] = constants[below[1]]
    return found


def _received(shape, operation):
    """Bytes of the result; what starts and does not wait also names its operands."""
    if operation in ("all-gather-start", "collective-permute-start"):
        shape = _parts(shape)[1]
    return sum(_bytes(*array) for array in _ARRAY.findall(shape))


def _parts(shape):
    """The members of a tuple of shapes."""
    parts, depth = [""], 0
    for letter in shape[1:-1]:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _bytes(dtype, lengths):
    count = 1
    for length in filter(None, lengths.split(",")):
        count *= int(length)
    digits = re.search(r"\d+", dtype)
    bits = BITS.get(dtype) or (int(digits[0]) if digits else 0)
    return count * bits // 8
