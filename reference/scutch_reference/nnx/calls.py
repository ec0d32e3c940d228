"""Calls of objects in functional form: methods of what a definition and a state describe.

`call` merges them, calls a method, and splits again.

>>> import jax.numpy as jnp
>>> from scutch_reference import nnx
>>> class Counter(nnx.Module):
...     def __init__(self):
...         self.count = nnx.Variable(jnp.array(0))
...
...     def add(self, n):
...         self.count[...] += n
...         return "added"
>>> out, parts = call(nnx.split({"clicks": Counter()}))["clicks"].add(3)
>>> out, int(nnx.merge(*parts)["clicks"].count[...])
('added', 3)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .graph import PureState, merge, split
from .graphdef import GraphDef


@dataclass(frozen=True)
class _Method:
    """A method of the object that a definition and states make, and how it is found there."""

    parts_: tuple[Any, ...]
    find_: Callable[[Any], Any] = lambda node: node

    def __getattr__(self, name: str) -> "_Method":
        return _Method(self.parts_, lambda node: getattr(self.find_(node), name))

    def __getitem__(self, key: Any) -> "_Method":
        return _Method(self.parts_, lambda node: self.find_(node)[key])

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, PureState[Any]]:
        """Return what the method returns, and the definition and the state afterwards."""
        node = merge(*self.parts_)
        out = self.find_(node)(*args, **kwargs)
        return out, split(node)


def call(graphdef_state: tuple[Any, ...], /) -> _Method:
    """Return a stand-in for an object, whose methods can be called in functional form (OBJ-1).

    Args:
      graphdef_state: What `split` has returned: the definition, and states.

    Returns:
      A function like the object: it returns what a call of the object returns, and the definition
      and the state afterwards. Its attributes and items stand for those of the object.
    """
    return _Method(tuple(graphdef_state))


def _apply(graphdef: GraphDef[Any], *states: Any, graph: bool | None = None) -> _Method:
    """Return a stand-in for an object; see `call`.

    Args:
      graphdef: The definition.
      *states: The states.
      graph: Accepted and not needed: sharing is always kept.
    """
    return call((graphdef, *states))


GraphDef.apply = _apply  # Here, because to split the object again takes what is above `graphdef`.
