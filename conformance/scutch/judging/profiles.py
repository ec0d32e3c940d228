"""How hard a run tries: the profiles, and the devices that laws are tried on.

A *profile* says on how many inputs each law is tried, for how long, and with which seed:

    PROFILES["quick"].examples     # 15
"""

import os
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """How many inputs each law is tried on, and for how long.

    Args:
      examples: Inputs for each property.
      timeout: Seconds that one law may take.
      seed: Of the search; `None` draws one for each run.
      summary: One line for the help text.
    """

    examples: int
    timeout: float
    seed: int | None
    summary: str


PROFILES = {
    "quick": Profile(15, 60, 0, "seconds; a first impression"),
    "ci": Profile(100, 120, 0, "the default; repeatable"),
    "nightly": Profile(600, 600, None, "a new seed each time, many examples"),
    "deep": Profile(3000, 3600, None, "a new seed each time, very many examples"),
}
DEFAULT = "ci"
DEVICES = 8


def fresh_seed() -> int:
    """A seed for a run that names none."""
    return random.SystemRandom().randrange(2**31)


def prepare_devices(platform: str | None = None) -> None:
    """Ask XLA for fake host devices and quick compilation, unless the user has chosen otherwise.

    Works until JAX first looks for devices; importing JAX does not.

    Args:
      platform: A name of JAX's, such as `cpu`, `cuda` or `tpu`. Where left out, that of the
        environment variable `JAX_PLATFORMS`, and `cpu` without it.
    """
    if platform is not None:
        os.environ["JAX_PLATFORMS"] = platform
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_force_host_platform_device_count" not in flags:
        flags = f"{flags} --xla_force_host_platform_device_count={DEVICES}"
    if "xla_backend_optimization_level" not in flags:
        flags = f"{flags} --xla_backend_optimization_level=0"
    os.environ["XLA_FLAGS"] = flags.strip()
