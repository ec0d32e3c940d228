"""Callables of users whose fields have the names that a lifted function may use itself.

A class with `__call__` and a function with attributes are functions like any other, also where a
field is called `f`, `graph` or `in_axes`:

    scaled = callable_with(["f", "has_aux"], jnp.square, form="object")
    scaled(3.0)  # f(x) * has_aux + x, with a number of its own as `has_aux`
"""

from collections.abc import Callable, Sequence
from typing import Any

FIELDS = (
    "f",
    "fun",
    "func",
    "function",
    "wrapped",
    "has_aux",
    "argnums",
    "in_axes",
    "out_axes",
    "in_shardings",
    "length",
    "graph",
    "metadata",
    "transform_metadata",
    "ctxtag",
)
"""Names of fields of a user's callable; a lifted function may have fields of the same names."""

FORMS = ("object", "function")
"""The owner of the fields: an instance of a class with `__call__`, or a function."""


def callable_with(fields: Sequence[str], function: Callable[..., Any], form: str) -> Any:
    """Make a callable that computes from its fields.

    Args:
      fields: Two names or more, all different. The first holds the function, others numbers.
      function: Takes the arguments of the call.
      form: One of `FORMS`.

    Returns:
      A callable of one argument or more. It returns the function's result, times the sum of the
      numbers, plus the last argument.
    """
    held, *others = fields
    values = {held: function} | {name: n + 2.0 for n, name in enumerate(others)}

    def computed(own: dict[str, Any], arguments: Sequence[Any]) -> Any:
        return own[held](*arguments) * sum(own[name] for name in others) + arguments[-1]

    class Callable:
        def __call__(self, *arguments: Any) -> Any:
            return computed(vars(self), arguments)

    def called(*arguments: Any) -> Any:
        return computed(vars(called), arguments)

    made = called if form == "function" else Callable()
    vars(made).update(values)
    return made
