"""The reference implementation that ships with the suite."""

import scutch_reference
from scutch_reference import bridge, linen, logical, meta, nnx

from scutch.implementation import Implementation

implementation = Implementation(
    "reference",
    scutch_reference.__version__,
    meta=meta,
    logical=logical,
    linen=linen,
    nnx=nnx,
    transforms=nnx,
    bridge=bridge,
)
