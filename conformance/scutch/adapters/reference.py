"""The reference implementation that ships with the suite."""

from types import SimpleNamespace

import scutch_reference
from scutch_reference import bridge, export, linen, logical, meta, nnx

from scutch.implementation import Implementation
from scutch.namespaces import Namespace

implementation = Implementation(
    "reference",
    scutch_reference.__version__,
    meta=meta,
    logical=logical,
    linen=linen,
    nnx=nnx,
    transforms=nnx,
    bridge=bridge,
    export=Namespace("reference: export", SimpleNamespace(BACKENDS=("jax", "tensorflow")), export),
)
