"""Meshes `data` by `model`, named by their shape: `2x4` are eight devices of the host.

`accelerators 1xN` are all GPUs or TPUs of the machine in one row; where there are none, what is
measured on them is skipped.
"""

import math
import os

import jax
import numpy as np
from jax.sharding import Mesh

HOST = ["1x1", "1x8", "2x4", "8x1"]
ACCELERATORS = ["accelerators 1xN", "accelerators Nx1"]


def ask_for_devices(count):
    """Have so many fake devices of the host, unless JAX has begun in this process with fewer."""
    option = "--xla_force_host_platform_device_count"
    flags = os.environ.get("XLA_FLAGS", "")
    if option not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {option}={count}".strip()


def accelerators():
    """All GPUs or TPUs of this machine."""
    return [device for device in jax.devices() if device.platform != "cpu"]


def mesh_of(name, devices=None):
    """The mesh of that name, of the first of these devices, or else of this machine's."""
    if devices is None:
        devices = accelerators() if name in ACCELERATORS else jax.devices("cpu")
    shape = name.split()[-1].replace("N", str(len(devices)))
    lengths = tuple(map(int, shape.split("x")))
    if not 0 < math.prod(lengths) <= len(devices):
        raise NotImplementedError(f"no mesh {name!r} of the {len(devices)} devices that are there")
    return Mesh(np.array(devices[: math.prod(lengths)]).reshape(lengths), ("data", "model"))
