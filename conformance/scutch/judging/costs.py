"""The cost of a trial, and the memory of a process that tries many laws.

JAX keeps every program that a runner has traced or compiled: after some hundred laws the runner
would hold gigabytes. So it clears JAX's caches between two laws, once it has grown (`Memory`).
"""

import ctypes
import gc
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import jax

from scutch.judging import compiled
from scutch.judging.trials import Cost

MUCH = 600 << 20
"""Bytes of memory beyond which a process clears JAX's caches."""

_WORTH = 200 << 20
"""Bytes by which a process must have grown since it last cleared them, to clear them again."""

MOST = 800 << 20
"""A runner whose peak is above these bytes ends: cleared caches do not give back all memory."""

LEAST_TRIED = 20
"""Laws that a runner tries at least, however much memory the implementation takes."""

_REUSED, _COMPILED = (f"/jax/compilation_cache/cache_{word}" for word in ("hits", "misses"))
_READING = "/jax/compilation_cache/cache_retrieval_time_sec"
_COMPILING = "/jax/core/compile/backend_compile_duration"
"""Seconds of both: of reading a program, and of compiling it where it cannot be read."""

_counted: dict[str, float] = {}
"""By event of JAX, how often it has come up in this process, or its seconds; empty until `Meter`
listens. Owned by `Meter`."""


class Meter:
    """Measures one trial, from when it is made until `cost` is called."""

    def __init__(self) -> None:
        """Begin, and listen to JAX where this process does not yet."""
        if not _counted:
            _counted.update(dict.fromkeys((_REUSED, _COMPILED, _READING, _COMPILING), 0.0))
            jax.monitoring.register_event_listener(lambda event, **_: _note(event, 1.0))
            jax.monitoring.register_event_duration_secs_listener(
                lambda event, duration_secs, **_: _note(event, duration_secs)
            )
        self._before, self._cpu = dict(_counted), time.process_time()

    def cost(self) -> Cost:
        """The time, programs and memory used since this meter was made.

        Call it once: it notes the time of the programs in the folder that they are kept in.
        """
        used = {name: _counted[name] - before for name, before in self._before.items()}
        made, reused = int(used[_COMPILED]), int(used[_REUSED])
        compiled.note(made, used[_COMPILING] - used[_READING])
        saved = reused * compiled.typical() - used[_READING] if reused else 0.0
        return Cost(
            round(time.process_time() - self._cpu, 3), made, reused, round(saved, 3), peak()
        )


def _note(event: str, much: float) -> None:
    if event in _counted:
        _counted[event] += much


def peak() -> int:
    """The most bytes of memory that this process has had."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


def resident() -> int:
    """The bytes of memory that this process has; its peak where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return peak()


@dataclass
class Memory:
    """The memory of a process that tries many laws.

    Args:
      left: Its bytes right after it last cleared JAX's caches; 0 if it never did.
    """

    left: int = 0

    def slim(self) -> None:
        """Clear JAX's caches of traced and compiled programs, if this process is above `MUCH`.

        After that it must grow by `_WORTH` before they are cleared again. JAX reads compiled
        programs from their folder when it needs them.
        """
        if resident() <= max(MUCH, self.left + _WORTH):
            return
        jax.clear_caches()  # type: ignore[no-untyped-call]
        gc.collect()
        if sys.platform == "linux":
            trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # which musl has not
            if trim is not None:  # else the allocator keeps most of it
                trim(0)
        self.left = resident()
