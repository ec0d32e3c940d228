"""How hard a run tries: the profiles, and the devices that laws are tried on.

A *profile* says on how many inputs each law is tried, for how long, and with which seed:

    PROFILES["quick"].examples     # 15
"""

import os
import random
from dataclasses import dataclass

import jax


@dataclass(frozen=True)
class Profile:
    """How many inputs each law is tried on, and for how long.

    Args:
      examples: Inputs for each property.
      timeout: Seconds that one law may take.
      seed: Of the search; `None` draws one for each run.
      summary: One line for the help text.
      seconds: CPU seconds for which requirements are chosen where none is named, as
        `judging.portfolio` has them; `None` for all requirements.
    """

    examples: int
    timeout: float
    seed: int | None
    summary: str
    seconds: float | None = None


PROFILES = {
    "quick": Profile(
        15, 60, 0, "a first impression, by the requirements that find most for their time", 32.0
    ),
    "ci": Profile(20, 120, 0, "the default; repeatable"),
    "nightly": Profile(600, 600, None, "a new seed each time, many examples"),
    "deep": Profile(3000, 3600, None, "a new seed each time, very many examples"),
}
DEFAULT = "ci"
DEVICES = 8
RELEASE = jax.__version_info__
_OLD_EMITTERS_SINCE, _UNTRIED = (0, 10), (0, 11)
"""The releases of JAX that were tried with the older code generator of XLA's, which compiles small
programs in half the time. XLA ends a process that names a flag it does not know, as that of 0.12
does with this one."""


def fresh_seed() -> int:
    """A seed for a run that names none."""
    return random.SystemRandom().randrange(2**31)


def with_cpu(platforms: str) -> str:
    """Platforms as JAX takes them, with the host's CPU beside any accelerator.

    Many laws put an array on the CPU, which JAX does not know if it is not named.

    Args:
      platforms: Names of JAX's with commas between them, such as `cuda`; the first is judged on.
    """
    return ",".join(dict.fromkeys((*platforms.split(","), "cpu")))


def asked_platform() -> str:
    """The platform that `prepare_devices` has asked JAX for, by its own name: `cuda`, not `gpu`."""
    return str(jax.config.jax_platforms).partition(",")[0]  # type: ignore[attr-defined]


def prepare_devices(platform: str | None = None) -> None:
    """Ask XLA for fake host devices and quick compilation, unless the user has chosen otherwise.

    Works until JAX first looks for devices; importing JAX does not. Accelerators are asked to
    multiply matrices of `float32` at full precision: laws compare with results of the host.

    Args:
      platform: A name of JAX's, such as `cpu`, `cuda` or `tpu`. Where left out, JAX's own setting
        (the environment variable `JAX_PLATFORMS`), and `cpu` without one.
    """
    chosen = with_cpu(platform or jax.config.jax_platforms or "cpu")  # type: ignore[attr-defined]
    os.environ["JAX_PLATFORMS"] = chosen  # for other processes: this one's JAX has read it already
    jax.config.update("jax_platforms", chosen)  # type: ignore[no-untyped-call]
    if chosen != "cpu" and "JAX_DEFAULT_MATMUL_PRECISION" not in os.environ:
        os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
        jax.config.update("jax_default_matmul_precision", "highest")  # type: ignore[no-untyped-call]
    wanted = {
        "xla_force_host_platform_device_count": f"{DEVICES}",
        "xla_backend_optimization_level": "0",
    }
    if _OLD_EMITTERS_SINCE <= RELEASE < _UNTRIED:
        wanted["xla_cpu_use_fusion_emitters"] = "false"
    flags = os.environ.get("XLA_FLAGS", "")
    added = [f"--{name}={value}" for name, value in wanted.items() if name not in flags]
    os.environ["XLA_FLAGS"] = " ".join([flags, *added]).strip()
