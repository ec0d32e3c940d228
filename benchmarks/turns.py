"""A process that times benchmarks when told to, so that two of them can take turns.

`python -m benchmarks.turns` answers each line `NUMBER NAME` with the seconds of one call: the least
over several blocks of so many calls. For the number 0 it says how many calls make a block instead.
What cannot be timed here is answered with `absent`.
"""

import sys
import time

from .cases import cases
from .meshes import ask_for_devices

BLOCK = 0.002
BLOCKS = 5


def seconds(call, number, blocks=BLOCKS):
    """Seconds of one call: the least over several blocks of `number` calls."""
    return min(_block(call, number) for _ in range(blocks))


def _block(call, number):
    started = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - started) / number


def calls_in_a_block(call):
    """As many calls as take about two milliseconds, at least one; the first warms up."""
    call()
    return max(1, round(BLOCK / seconds(call, 1)))


def answers(lines):
    """One answer for each line."""
    known = {case.name: case for case in cases("time_")}
    for line in lines:
        number, name = line.strip().split(" ", 1)
        try:
            with known[name].ready() as call:
                many = int(number)
                yield repr(seconds(call, many)) if many else str(calls_in_a_block(call))
        except (NotImplementedError, KeyError):
            yield "absent"


if __name__ == "__main__":
    ask_for_devices(8)
    for answer in answers(sys.stdin):
        print(answer, flush=True)
