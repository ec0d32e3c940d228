"""Modes of lifts and of the functional form, and contexts that set them for the calls inside.

A call that is given a mode overrides the one that is set around it:

    with under_other_modes(nnx, graph=True):
        state = nnx.state(model, graph=True)
"""

import contextlib
from typing import Any

SETTERS = (("graph", "set_graph_mode"), ("graph_updates", "set_graph_updates"))
"""The options that are modes, each with the name of the context that sets it."""


def under_other_modes(nnx: Any, **given: bool) -> contextlib.ExitStack:
    """A context in which other modes are set than those that the calls inside are given.

    Args:
      nnx: The namespace of objects, of the implementation under judgment. What it cannot set is
        left as it is.
      given: The options of the calls: `graph`, `graph_updates`.
    """
    stack = contextlib.ExitStack()
    for option, setter in SETTERS:
        if option in given and hasattr(nnx, setter):
            stack.enter_context(getattr(nnx, setter)(not given[option]))
    return stack
