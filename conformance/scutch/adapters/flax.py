"""Flax, as installed."""

import flax
from packaging.version import Version

from scutch.implementation import flax_shaped

_OBJECTS = Version("0.12.4")
"""The release since which objects and variables answer to today's names."""

_further = ("linen", "nnx", "transforms", "bridge") if Version(flax.__version__) >= _OBJECTS else ()
_claims = ("meta", "logical", *_further)
implementation = flax_shaped("flax", version=flax.__version__, claims=_claims)
