"""A process that times benchmarks when told to, so that two of them can take turns.

`python -m benchmarks.turns` answers each line `NUMBER NAME` with the seconds of one call: the least
over several blocks of so many calls. For the number 0 it says how many calls make a block instead.
What cannot be timed here is answered with `absent`.
"""

import functools
import sys
import time

from .counts import benchmarks
from .guide import ask_for_devices

BLOCK = 0.002
BLOCKS = 5


def seconds(call, number):
    """Seconds of one call in a block of `number` calls."""
    started = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - started) / number


def answers(lines):
    """One answer for each line."""
    known = {name: rest for name, *rest in benchmarks("time_")}
    ready = {}
    for line in lines:
        number, name = line.strip().split(" ", 1)
        try:
            if name not in ready:
                kind, method, choice = known[name]
                benchmark = kind()
                getattr(benchmark, "setup", lambda *_: None)(*choice)
                ready[name] = functools.partial(getattr(benchmark, method), *choice)
                seconds(ready[name], 1)
        except (NotImplementedError, KeyError):
            yield "absent"
            continue
        call = ready[name]
        if number == "0":
            once = min(seconds(call, 1) for _ in range(BLOCKS))
            yield str(max(1, round(BLOCK / once)))
        else:
            yield repr(min(seconds(call, int(number)) for _ in range(BLOCKS)))


if __name__ == "__main__":
    ask_for_devices(8)
    for answer in answers(sys.stdin):
        print(answer, flush=True)
