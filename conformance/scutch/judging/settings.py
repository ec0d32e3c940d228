"""Options of JAX under which programs mean something else.

With one of them, laws would blame an implementation for the settings of its user.

    check_settings()                       # raises where the environment has set one
    check_settings("implementation 'm'")   # where the import of `m` has set one
"""

import enum
import os
import re
from collections.abc import Mapping
from typing import Any

import jax

from scutch.implementation import SetupError

_OFF = ("false",)
_GUARDS = ("none", "allow", "log")

SETTINGS: Mapping[str, tuple[str, ...]] = {
    # Other programs: no compilation, no execution, other types, other keys.
    "jax_disable_jit": _OFF,
    "jax_no_execution": _OFF,
    "jax_no_tracing": _OFF,
    "eager_constant_folding": _OFF,
    "jax_dynamic_shapes": _OFF,
    "jax_enable_x64": _OFF,
    "jax_default_dtype_bits": ("64", "_default"),
    "jax_explicit_x64_dtypes": ("warn", "allow"),
    "jax_numpy_dtype_promotion": ("standard",),
    "jax_default_prng_impl": ("threefry2x32",),
    "jax_enable_custom_prng": _OFF,
    # Other meshes and devices.
    "jax_default_device": ("none",),
    "jax_disallow_mesh_context_manager": _OFF,
    "jax_remove_size_one_mesh_axis_from_type": _OFF,
    "jax_sharding_in_types": _OFF,
    "jax_auto_pcast": ("true",),
    "jax_spmd_mode": ("allow_jit", "allow_all"),
    # Errors where programs are right.
    "jax_array_garbage_collection_guard": _GUARDS,
    "jax_check_static_indices": _OFF,
    "jax_check_tracer_leaks": _OFF,
    "jax_debug_infs": _OFF,
    "jax_debug_key_reuse": _OFF,
    "jax_debug_nans": _OFF,
    "jax_error_checking_behavior_divide": ("ignore",),
    "jax_error_checking_behavior_nan": ("ignore",),
    "jax_error_checking_behavior_oob": ("ignore",),
    "jax_legacy_prng_key": ("allow", "warn"),
    "jax_numpy_rank_promotion": ("allow", "warn"),
    "jax_thread_guard": _OFF,
    "jax_transfer_guard": _GUARDS,
    "jax_transfer_guard_device_to_device": _GUARDS,
    "jax_transfer_guard_device_to_host": _GUARDS,
    "jax_transfer_guard_host_to_device": _GUARDS,
    # No errors where programs are wrong.
    "jax_custom_vjp_disable_shape_check": _OFF,
    "jax_disable_bwd_checks": _OFF,
    "jax_disable_vmap_shmap_error": _OFF,
}
"""The values of JAX's options with which laws are tried, in small letters, JAX's own first."""


def check_settings(setter: str = "") -> None:
    """Refuse options of JAX under which laws mean something else.

    Args:
      setter: Who has set them; empty for the environment.

    Raises:
      SetupError: One of `SETTINGS` has another value.
    """
    for name, accepted in SETTINGS.items():
        value = getattr(jax.config, name, accepted[0])
        if _text(value) in accepted:
            continue
        problem = f"laws are written for {accepted[0]}; expected"
        if setter:
            raise SetupError(f"{setter} sets {name} = {value!r}", f"{problem} the option as it was")
        raise SetupError(
            f"JAX has {name} = {value!r}",
            f"{problem} the environment variable {name.upper()} to be left out",
        )


def devices_asked_for() -> Mapping[str, str]:
    """The settings that decide which devices JAX has, and how many, by name."""
    count = re.search(
        r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", "")
    )
    names = ("jax_platforms", "jax_num_cpu_devices")
    options = {name: _text(getattr(jax.config, name, None)) for name in names}
    return {"xla_force_host_platform_device_count": count[1] if count else "none", **options}


def check_devices(setter: str, before: Mapping[str, str]) -> None:
    """Refuse an implementation that decides with which devices it is judged.

    Args:
      setter: Who may have set something.
      before: The settings that `devices_asked_for` returned before.

    Raises:
      SetupError: A setting is another one now.
    """
    for name, value in devices_asked_for().items():
        if value != before[name]:
            raise SetupError(
                f"{setter} sets {name} = {value}",
                f"laws that need devices would not be tried; expected {before[name]}, as it was",
            )


def _text(value: Any) -> str:
    return str(value.name if isinstance(value, enum.Enum) else value).lower()
