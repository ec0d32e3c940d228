"""Which module of each implementation holds the names of the documents.

A library that is not installed, or lacks a feature at the commit that is measured, is skipped:
`loaded` raises `NotImplementedError`, and asv skips a benchmark whose `setup` raises it. All other
programs that run these benchmarks do the same.

The environment variable `SCUTCH_IMPLEMENTATION` adds one implementation to all benchmarks: an
adapter, as `scutch run --implementation` takes it. It is called by the name of its file.
"""

import importlib
import os
from pathlib import Path

METADATA = {"reference": "scutch_reference.meta", "flax": "flax.core.meta"}
NNX = {"reference": "scutch_reference.nnx", "flax": "flax.nnx"}
LINEN = {"reference": "scutch_reference.linen", "flax": "flax.linen"}
STATES = {"reference": "scutch_reference.linen", "flax": "flax.training.train_state"}
BRIDGE = {"reference": "scutch_reference.bridge", "flax": "flax.nnx.bridge"}

VARIABLE = "SCUTCH_IMPLEMENTATION"
_ADAPTED = "adapter:"
"""Begins the name of a capability of the implementation that `VARIABLE` names."""

if ADDED := os.environ.get(VARIABLE, ""):
    _NAME = Path(ADDED).stem
    METADATA[_NAME] = f"{_ADAPTED}meta"
    NNX[_NAME] = f"{_ADAPTED}nnx transforms"
    LINEN[_NAME] = STATES[_NAME] = f"{_ADAPTED}linen"
    BRIDGE[_NAME] = f"{_ADAPTED}bridge"


class _Claims:
    """Capabilities of an adapter, seen as one module; a name that it lacks is not implemented."""

    def __init__(self, capabilities):
        """Import the adapter, and keep the namespaces of these capabilities."""
        from scutch.loading import load
        from scutch.namespaces import Unclaimed

        self._unclaimed = Unclaimed
        found = load(ADDED)
        self._namespaces = [getattr(found, name) for name in capabilities.split()]

    def __getattr__(self, name):
        for namespace in self._namespaces:
            try:
                return getattr(namespace, name)
            except (AttributeError, self._unclaimed):
                continue
        raise NotImplementedError(f"{ADDED} has no {name}")


def loaded(name, *needed):
    """Import a module and check that it has the names that a benchmark needs.

    Args:
      name: The full name of the module.
      *needed: Names that must be in it.

    Returns:
      The module.

    Raises:
      NotImplementedError: It is not installed, lies outside the package that is measured, or lacks
        a name.
    """
    if name.startswith(_ADAPTED):
        claims = _Claims(name.removeprefix(_ADAPTED))
        for each in needed:
            getattr(claims, each)
        return claims
    try:
        package = importlib.import_module(name.partition(".")[0])
        module = importlib.import_module(name)
    except ImportError as error:
        raise NotImplementedError(f"{name} is not installed") from error
    # A module that an older tree lacks is found in the installed checkout: that is another version.
    if not Path(module.__file__).is_relative_to(Path(package.__file__).parent):
        raise NotImplementedError(f"{name} is not in the folder of {package.__name__}")
    for each in needed:
        if not hasattr(module, each):
            raise NotImplementedError(f"{name} has no {each}")
    return module
