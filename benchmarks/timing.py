"""A process that times benchmarks on demand, so that two such processes can alternate.

The gate starts one `python -m benchmarks.timing` for each of two trees. The process answers each
line `NUMBER NAME` with the seconds of one call of the benchmark, the least over several blocks of
NUMBER calls. For the number 0 it answers how many calls make a block. It answers `absent` if its
tree lacks the benchmark, or the measured implementation lacks the feature or is not installed.
"""

import sys
import time

from .configurations import configurations
from .meshes import ask_for_devices

BLOCK_SECONDS = 0.002
BLOCKS = 5


def seconds(call, number, blocks=BLOCKS):
    """Seconds of one call, the least over several blocks of `number` calls."""
    return min(_block(call, number) for _ in range(blocks))


def _block(call, number):
    """Seconds of one call, as the mean of `number` calls."""
    started = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - started) / number


def calls_in_a_block(call):
    """As many calls as take about two milliseconds, at least one; makes one call to warm up."""
    call()
    return max(1, round(BLOCK_SECONDS / seconds(call, 1)))


def answers(lines):
    """The answer to each line `NUMBER NAME`, as text."""
    known = {each.name: each for each in configurations("time_")}
    for line in lines:
        number, name = line.strip().split(" ", 1)
        try:
            with known[name].ready() as call:
                calls = int(number)
                yield repr(seconds(call, calls)) if calls else str(calls_in_a_block(call))
        except (NotImplementedError, KeyError):
            yield "absent"


if __name__ == "__main__":
    ask_for_devices(8)
    for answer in answers(sys.stdin):
        print(answer, flush=True)
