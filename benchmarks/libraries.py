"""Where each implementation has the names of the documents.

What is not installed, or not there yet at the commit at hand, is skipped: asv skips a benchmark
whose `setup` raises `NotImplementedError`, and so does whatever else runs benchmarks here.
"""

import importlib
from pathlib import Path

METADATA = {"reference": "scutch_reference.meta", "flax": "flax.core.meta"}
NNX = {"reference": "scutch_reference.nnx", "flax": "flax.nnx"}
LINEN = {"reference": "scutch_reference.linen", "flax": "flax.linen"}
STATES = {"reference": "scutch_reference.linen", "flax": "flax.training.train_state"}
BRIDGE = {"reference": "scutch_reference.bridge", "flax": "flax.nnx.bridge"}


def loaded(name, *needed):
    """A module that has the names needed, or the exception by which it is skipped."""
    try:
        package = importlib.import_module(name.partition(".")[0])
        module = importlib.import_module(name)
    except ImportError as error:
        raise NotImplementedError(f"{name} is not installed") from error
    # What an older tree lacks, Python finds in the checkout that is installed: that is another.
    if not Path(module.__file__).is_relative_to(Path(package.__file__).parent):
        raise NotImplementedError(f"{name} is not where {package.__name__} is")
    for each in needed:
        if not hasattr(module, each):
            raise NotImplementedError(f"{name} has no {each}")
    return module
