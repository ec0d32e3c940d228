"""The export mesh, on which the variables of a module are placed (EXP-6).

A `JaxModule` with `pspecs` is built within `with maybe_enable_dtensor_export_on(mesh):`. The
TensorFlow backend turns the JAX mesh into a DTensor mesh of the same shape, and needs
`initialize_dtensor()` first: TensorFlow then has as many CPU devices as JAX has devices. The JAX
backend takes the mesh as it is and needs nothing first.
"""

import contextlib
import functools
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from ..placement import partition_spec
from .errors import ExportMeshError

_meshes: ContextVar[tuple["ExportMesh", ...]] = ContextVar("_meshes", default=())
_dtensor: dict[str, bool] = {"initialized": False}
"""Whether TensorFlow's DTensor was started by `initialize_dtensor`; the functions here own it."""


@dataclass(frozen=True)
class ExportMesh:
    """A mesh on which modules are exported."""

    jax_mesh: Mesh

    @functools.cached_property
    def dtensor_mesh(self) -> Any:
        """The DTensor mesh of the same shape and axis names, on TensorFlow's CPU devices."""
        from tensorflow.experimental import dtensor

        devices = self.jax_mesh.devices
        mine = [i for i, d in enumerate(devices.flat) if d.process_index == jax.process_index()]
        return dtensor.Mesh(
            list(self.jax_mesh.axis_names),
            global_device_ids=np.arange(devices.size).reshape(devices.shape),
            local_device_ids=mine,
            local_devices=dtensor.local_devices("CPU")[: len(mine)],
        )

    def consolidated(self, spec: PartitionSpec, *, allowed: bool) -> PartitionSpec:
        """The spec with one mesh axis for each array axis, as DTensor needs it (EXP-6d).

        An axis that is sharded over several mesh axes keeps the largest of them, the first where
        there are several; mesh axes of size 1 never count.

        Args:
          spec: One entry for each axis: `None`, a mesh axis, or a tuple of mesh axes.
          allowed: Whether an axis may lose mesh axes of more than one device.

        Raises:
          ExportMeshError: An axis would lose one, and that is not allowed.
        """
        entries: list[str | None] = []
        for entry in spec:
            axes = (entry,) if isinstance(entry, str) else tuple(entry or ())
            real = [axis for axis in axes if self.jax_mesh.shape[axis] > 1]
            if len(real) > 1 and not allowed:
                raise ExportMeshError(
                    place=f"the mesh axes of one axis in {spec}",
                    given=axes,
                    expected="one mesh axis, as DTensor needs it, or "
                    "allow_multi_axis_sharding_conslidation=True to keep the largest of them alone",
                )
            real.sort(key=lambda axis: -self.jax_mesh.shape[axis])
            entries.append(real[0] if real else None)
        return partition_spec(tuple(entries))


@contextlib.contextmanager
def maybe_enable_dtensor_export_on(mesh: Mesh | None) -> Iterator[None]:
    """Build modules on an export mesh within the block; `None` changes nothing (EXP-6).

    Args:
      mesh: A mesh of JAX devices. For TensorFlow it counts only after `initialize_dtensor()`.
    """
    within = _meshes.get() if mesh is None else (*_meshes.get(), ExportMesh(mesh))
    token = _meshes.set(within)
    try:
        yield
    finally:
        _meshes.reset(token)


def get_current_mesh() -> ExportMesh | None:
    """The mesh of the innermost `maybe_enable_dtensor_export_on`, `None` outside."""
    return _meshes.get()[-1] if _meshes.get() else None


def initialize_dtensor(reset_context: bool = False) -> None:
    """Give TensorFlow a CPU device for each local JAX device, and start DTensor on them.

    Args:
      reset_context: Whether to reset TensorFlow's context, after which no older tensor is valid.
        If `False`, call this before TensorFlow is first used.

    Raises:
      ImportError: TensorFlow is not installed: `pip install 'scutch[export]'`.
    """
    from tensorflow.experimental import dtensor

    dtensor.initialize_accelerator_system(
        device_type="CPU",
        num_logical_cpu_devices=jax.local_device_count(),
        experimental_reset_context=reset_context,
    )
    _dtensor["initialized"] = True


def dtensor_initialized() -> bool:
    """Whether `initialize_dtensor` was called, and `shutdown_dtensor` was not called since."""
    return _dtensor["initialized"]


def shutdown_dtensor() -> None:
    """Shut down DTensor after `initialize_dtensor` has started it.

    Raises:
      ExportMeshError: DTensor is not running.
    """
    if not dtensor_initialized():
        raise ExportMeshError(
            place="the state of DTensor", given=_dtensor, expected="initialize_dtensor() first"
        )
    from tensorflow.experimental import dtensor

    dtensor.shutdown_accelerator_system()
    _dtensor["initialized"] = False
