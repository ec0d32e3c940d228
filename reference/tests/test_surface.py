"""User code for Flax 0.12 runs with only its imports changed: names, methods, arguments.

What is left out on purpose is written down here, so that nothing is lost unseen.
"""

import inspect
import warnings

import pytest
import scutch_reference
from scutch_reference import bridge, linen, meta, nnx

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    flax = pytest.importorskip("flax", reason="Flax, whose names are compared, is not installed")
    import flax.linen
    import flax.nnx
    import flax.nnx.bridge

ROOMS = {
    "": (scutch_reference, flax.linen),
    "linen": (linen, flax.linen),
    "meta": (meta, flax.core.meta),
    "nnx": (nnx, flax.nnx),
    "bridge": (bridge, flax.nnx.bridge),
}
# Of Flax, but for what it does inside, for storage that it has and we have not, or for display.
INSIDE = set(
    "parent promote_dtype dot_general_cls force_float32_reductions concrete device backend "
    "data_transform check_constancy_invariants hijax ref set_view exclude_required "
    "required_metadata shape _unsafe_bypass_check _copy arrays recreate_variables".split()
)


def public(room):
    """Classes and functions of a room that Flax has under the same name."""
    ours, theirs = ROOMS[room]
    for name, found in sorted(vars(ours).items()):
        own = getattr(found, "__module__", "").startswith("scutch_reference")
        if not name.startswith("_") and own and callable(found) and hasattr(theirs, name):
            yield name, found, getattr(theirs, name)


def refused(ours, theirs):
    """The keyword arguments that Flax's takes, and ours does not."""
    signatures = [inspect.signature(f.__init__ if isinstance(f, type) else f) for f in (ours, theirs)]
    taken, asked = [signature.parameters for signature in signatures]
    if any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        return set()
    return {n for n, p in asked.items() if p.kind is p.KEYWORD_ONLY or p.default is not p.empty} - taken.keys()
