"""States of objects as plain dictionaries, and their leaves as plain values.

A *state* holds the leaves of an object by path. A leaf is a `Variable` in one release of Flax and
the value of one in another; a law that asks for the value takes it by `raw_value`.
"""

from typing import Any


def flat_state(nnx: Any, state: Any) -> dict[tuple[Any, ...], Any]:
    """The leaves of a state by their paths.

    Args:
      nnx: The namespace of objects, of the implementation under judgment.
      state: A `State` of that implementation.
    """
    return dict(nnx.to_flat_state(state))


def raw_value(nnx: Any, leaf: Any) -> Any:
    """The value of a leaf that is a `Variable`, as no hook sees it; any other leaf itself.

    Args:
      nnx: The namespace of objects, of the implementation under judgment.
      leaf: A leaf of a state.
    """
    return leaf.get_raw_value() if isinstance(leaf, nnx.Variable) else leaf


def raw_values(nnx: Any, state: Any) -> dict[tuple[Any, ...], Any]:
    """The values of a state's leaves by path, as no hook sees them.

    Args:
      nnx: The namespace of objects, of the implementation under judgment.
      state: A `State` of that implementation.
    """
    return {path: raw_value(nnx, leaf) for path, leaf in flat_state(nnx, state).items()}
