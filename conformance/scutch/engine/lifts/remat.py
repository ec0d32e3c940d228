"""`remat`: a function whose intermediate values are computed again for its gradient.

    Transformation('remat', options={'prevent_cse': False})

changes no value, which is all that is judged.
"""

from typing import Any

import jax
from hypothesis import strategies as st

from scutch.engine.carriers.objects import BuiltObjectCall, Transformation
from scutch.engine.lifts.cells import OnArrays, OnObjects, filtered, with_options


def _lifted(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    return transforms.remat(function, **each.plain, **each.modes)


ARRAYS = OnArrays(jax.checkpoint, lambda transforms: transforms.remat)
OBJECTS = OnObjects(
    lambda call, each, function: jax.checkpoint(function, **each.plain),
    _lifted,
    with_options("remat", st.sampled_from(({}, {"prevent_cse": False}))),
)
LINEN = filtered("remat", jax.checkpoint)
