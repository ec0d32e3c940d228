"""Devices that are not present, for which a step is compiled and not run.

devices = tpu_devices("v5e:16x16")
"""

import importlib.util
import os
from typing import Any

from scutch.implementation import SetupError
from scutch.judging.readable import summary

_SETTINGS = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-16",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_MIN_LOG_LEVEL": "3",
    "TPU_STDERR_LOG_LEVEL": "3",
}
"""libtpu then looks for no TPU, does not refuse while another process compiles, and is quiet. The
kind of TPU is that of a host; the topology decides for which kind libtpu compiles."""


def tpu_devices(name: str) -> list[Any]:
    """The devices of a TPU topology, which only compile.

    Args:
      name: A kind of TPU and a shape of chips, such as `v5e:16x16`.

    Returns:
      One device for each core that JAX sees, in the order of the topology.

    Raises:
      SetupError: libtpu is not installed, or knows no such topology.
    """
    if importlib.util.find_spec("libtpu") is None:
        raise SetupError(
            f"--tpu {name}", 'libtpu compiles for TPUs, and is missing; pip install "scutch[tpu]"'
        )
    os.environ.update({**_SETTINGS, **os.environ})
    from jax.experimental import topologies

    try:
        found = topologies.get_topology_desc(platform="tpu", topology_name=name)
    except Exception as error:
        problem = f"{summary(error)}; expected such as v5e:16x16"
        raise SetupError(f"--tpu {name}", problem) from error
    return list(found.devices)
