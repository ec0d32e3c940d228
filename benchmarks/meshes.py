"""Meshes with the axes `data` and `model`, named by their shape.

`2x4` is a mesh of eight devices of the host: two along `data`, four along `model`.
`accelerators 1xN` is one row of all GPUs or TPUs of the machine; where there are none, benchmarks
on it are skipped.
"""

import math
import os

import jax
import numpy as np
from jax.sharding import Mesh

HOST = ["1x1", "1x8", "2x4", "8x1"]
ACCELERATORS = ["accelerators 1xN", "accelerators Nx1"]


def ask_for_devices(count):
    """Have XLA make `count` fake devices of the host, unless `XLA_FLAGS` already names a number.

    It must run before JAX first looks for devices in this process; later it has no effect.
    """
    option = "--xla_force_host_platform_device_count"
    flags = os.environ.get("XLA_FLAGS", "")
    if option not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {option}={count}".strip()


def use_platform(name):
    """Have JAX compute on a platform, with eight fake devices of the host beside its devices.

    It must run before JAX first looks for devices in this process; later it has no effect.

    Args:
      name: A name of JAX's, such as `cpu`, `cuda` or `tpu`.

    Raises:
      RuntimeError: JAX finds no device of it.
    """
    jax.config.update("jax_platforms", ",".join(dict.fromkeys((name, "cpu"))))
    ask_for_devices(8)
    if name != "cpu":
        jax.devices(name)


def accelerators():
    """The GPUs or TPUs of this machine."""
    return [device for device in jax.devices() if device.platform != "cpu"]


def mesh_of(name, devices=None):
    """The mesh of a name.

    Args:
      name: Such as `2x4` or `accelerators 1xN`; `N` stands for the number of devices.
      devices: The mesh takes the first of these; without them, accelerators or devices of the host
        as the name says.

    Returns:
      A mesh with the axes `data` and `model`.

    Raises:
      NotImplementedError: There are too few devices.
    """
    if devices is None:
        devices = accelerators() if name in ACCELERATORS else jax.devices("cpu")
    shape = name.split()[-1].replace("N", str(len(devices)))
    lengths = tuple(map(int, shape.split("x")))
    if not 0 < math.prod(lengths) <= len(devices):
        raise NotImplementedError(f"no mesh {name!r} of the {len(devices)} devices that are there")
    return Mesh(np.array(devices[: math.prod(lengths)]).reshape(lengths), ("data", "model"))
