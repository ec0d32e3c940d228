"""The reference implementation that ships with the suite."""

import scutch_reference
from scutch_reference import bridge, logical, meta, nnx

from scutch.implementation import Implementation

implementation = Implementation(
    "reference",
    scutch_reference.__version__,
    meta=meta,
    logical=logical,
    nnx=nnx,
    transforms=nnx,
    bridge=bridge,
)
