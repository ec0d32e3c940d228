"""Linen modules that are repeated by `scan`, or mapped by `vmap`, in one call for both.

Both stack the variables of a *body*. `scan` runs it `length` times, and each run takes the output
of the run before; `vmap` runs `length` copies of it on the same input. A body takes `(x, *_)`, and
returns `(x, y)` for `scan` and `y` for `vmap`:

    lifted, rest = stacked(linen, kind, Body, 3, variable_axes={"params": 0})
    result = lifted().apply(variables, x, *rest)
"""

from typing import Any


def stacked(
    linen: Any, kind: str, body: type, length: int, **options: Any
) -> tuple[Any, tuple[Any, ...]]:
    """Lift a class of modules by `scan` or by `vmap`, without inputs to be sliced.

    Args:
      linen: The namespace of modules, of the implementation under judgment.
      kind: `scan` or `vmap`.
      body: The class of modules that is lifted.
      length: How many runs, or copies, there are; at least 1.
      options: Options of `linen.scan` and `linen.vmap`, such as `variable_axes`.

    Returns:
      The lifted class, and the arguments that its call takes after `x`.
    """
    if kind == "scan":
        return linen.scan(body, length=length, **options), (None,)
    return linen.vmap(body, in_axes=None, axis_size=length, **options), ()
