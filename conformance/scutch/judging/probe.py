"""What a run must know of an implementation, found out in a process of its own.

The collecting process must not import an implementation: that may start threads, or end it.
"""

import contextlib
import tempfile
from typing import Any

import jax

from scutch.implementation import SetupError
from scutch.judging import compiled, hypothesis_parts, isolation, profiles
from scutch.judging.readable import label, line
from scutch.judging.settings import check_devices, check_settings, devices_asked_for
from scutch.loading import load

_PROBE_TIMEOUT = 300.0

_NO_DEVICE = "JAX finds no device of it; expected one of this machine's, or cpu"
_LAST_WORDS = 500
"""Characters that are shown of the last output of a process that ended."""


def probe(where: str, *, isolate: bool) -> dict[str, Any]:
    """Name, version, claims, platform and devices, found out in a process of its own.

    The collecting process must not import an implementation: that may start threads, or end it.

    Args:
      where: How the implementation is found, as `loading.load` takes it.
      isolate: Whether it is imported in a process of its own.

    Raises:
      SetupError: The import fails, ends its process or is refused.
    """
    if not isolate:
        answer = _inspect(where)
    else:
        with (
            tempfile.TemporaryDirectory(prefix="scutch-", ignore_cleanup_errors=True) as folder,
            contextlib.closing(isolation.Runner(_inspect, folder=folder)) as runner,
        ):
            answer = runner.ask(where, _PROBE_TIMEOUT)
    if isinstance(answer, isolation.Lost):
        words = line(answer.output.strip())[-_LAST_WORDS:]
        said = f"; its last words: {words}" if words else ""
        raise SetupError(f"implementation {where!r}", f"importing it failed: {answer.reason}{said}")
    if "refused" in answer:
        raise SetupError(*answer["refused"])
    return answer


def _inspect(where: str) -> dict[str, Any]:
    setter, asked_for = f"implementation {where!r}", devices_asked_for()
    try:
        found = load(where)
        check_settings(setter)
        check_devices(setter, asked_for)
    except SetupError as error:
        return {"refused": [error.subject, error.problem]}
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raised = hypothesis_parts.describe(error)
        return {"refused": [setter, f"importing it raised {raised}"]}
    asked = profiles.asked_platform()
    try:
        devices = jax.devices()
    except (RuntimeError, AssertionError) as error:  # JAX asserts that it found a device
        return {"refused": [f"--platform {asked}", str(error) or _NO_DEVICE]}
    if devices[0].platform == "cpu" != asked:  # JAX leaves out `cuda` where it sees no NVIDIA GPU
        return {"refused": [f"--platform {asked}", _NO_DEVICE]}
    return {
        "name": label(found.name),
        "version": label(found.version),
        "upstream": found.upstream,
        "claims": found.claims,
        "offers": found.offers,
        "platform": devices[0].platform,
        "devices": len(devices),
        "kind": devices[0].device_kind,
        "code": compiled.content(),
    }
