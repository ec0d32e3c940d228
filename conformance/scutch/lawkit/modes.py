"""Modes of lifts and of the functional form, and contexts that set them for the calls inside.

The mode that a call is given overrides the mode that a context sets around it:

    with under_other_modes(nnx, graph=True):
        state = nnx.state(model, graph=True)
"""

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

from scutch.lawkit.domain import not_available
from scutch.lawkit.equality import holds
from scutch.lawkit.marks import reached

SETTERS = (("graph", "set_graph_mode"), ("graph_updates", "set_graph_updates"))
"""The options that are modes, each with the name of the context that sets it."""

CHOICES = ("no mode", "a graph", "a tree")
"""The choices for the option ``graph`` of a call: leave it out, True, or False."""


def takes_modes(function: Callable[..., Any] | None, *modes: str) -> bool:
    """Whether a function has a parameter for each mode.

    Args:
      function: A function, or a class, whose ``__init__`` is asked; None is a function that the
        implementation lacks.
      modes: Names of modes: ``"graph"``, ``"graph_updates"``.
    """
    if function is None:
        return False
    made = function.__init__ if inspect.isclass(function) else function
    return all(holds(inspect.signature(made).parameters, mode) for mode in modes)


def function_and_options(
    nnx: Any, name: str, choice: str
) -> tuple[Callable[..., Any], dict[str, bool]]:
    """A function that takes the option ``graph``, and the options that make a choice of it.

    Args:
      nnx: The namespace of objects, of the implementation under judgment.
      name: The name of the function. A law ends here where the function is not there or has no such
        option.
      choice: One of `CHOICES`, which the law has then reached.

    Returns:
      The function, and its options: none, or ``graph`` alone.
    """
    function: Any = getattr(nnx, name, None)
    if not takes_modes(function, "graph"):
        not_available(f"{name} has no modes")
    reached(choice)
    return function, {} if choice == "no mode" else {"graph": choice == "a graph"}


def under_other_modes(nnx: Any, **given: bool) -> contextlib.ExitStack:
    """A context that sets each mode to the opposite of the option that the calls inside are given.

    Args:
      nnx: The namespace of objects, of the implementation under judgment. A mode that it has no
        context for is left unchanged.
      given: The options of the calls: `graph`, `graph_updates`.
    """
    stack = contextlib.ExitStack()
    for option, setter in SETTERS:
        if option in given and hasattr(nnx, setter):
            stack.enter_context(getattr(nnx, setter)(not given[option]))
    return stack
