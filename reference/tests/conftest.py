"""Tests of the reference that are no laws: texts of errors, costs, the examples."""

import os

# Before JAX starts: the tests need meshes of several devices.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
)
