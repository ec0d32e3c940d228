"""Tracking: how a compiled call learns, without looking at them, that no object has changed.

A call of a lifted function must know whether its objects have the structure that they had in the
call before. To walk over them each time would cost more than the call. So every object counts its
own changes of structure, and reports each to one counter of the process.

Words: the *level* of an object is the trace that was running when the object was made. Only code of
the same level may change it, else a tracer would outlive its trace. The *version* of an object is
the number of changes of its structure, or 0 while no call has ever flattened it: then its changes
concern nobody. The *epoch* is the number of all such changes in the process: while it stays, no
flattened object has another structure. The *cell* of an object is the list that holds its version
as the last item; the cell of a variable also holds the variable's value, as the first item, where
calls read and write it without a Python call.

A value is not structure, an attribute is:

>>> from scutch_reference import nnx
>>> model = nnx.Dict(a=nnx.Param(1.0))
>>> nnx.jit(lambda model: None)(model)
>>> epoch = EPOCH[0]
>>> model["a"].value = 2.0
>>> EPOCH[0] - epoch
0
>>> model["b"] = nnx.Param(3.0)
>>> EPOCH[0] - epoch
1
"""

from typing import Any

import jax

from ..errors import TraceLevelError
from ..jax_versions import trace_level
from ..types import Tree

# The one owner of the epoch. A lost update of two threads is harmless: each moves a version, too.
EPOCH = [1]


class Tracked:
    """The base of objects and variables, which have a cell and a level.

    A subclass is registered as a tree of JAX through its `_flatten` and `_unflatten`, unless it is
    declared with `pytree=False`.
    """

    __slots__ = ("__weakref__", "_cell", "_level", "_plans")
    _cell: list[Any]
    _level: Any
    _plans: dict[Any, Any] | None  # Plans of the calls whose first object this is.

    def __init_subclass__(cls: Any, *, pytree: bool = True, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if pytree:
            jax.tree_util.register_pytree_with_keys(cls, cls._flatten, cls._unflatten)

    def _begin(self, level: object, *cell: Tree) -> None:
        """Set the slots of a new object, with no plans; a subclass sets slots of its own."""
        _set_cell(self, [*cell, 0])
        _set_level(self, level)
        _set_plans(self, None)

    def _check(self, tried: str) -> None:
        """Raise a `TraceLevelError` if this was made at another trace level (JIT-1)."""
        if self._level != trace_level():
            raise TraceLevelError(tried=tried, node=self, what="an object")

    def _changed(self) -> None:
        """Report that the structure has changed."""
        if self._cell[-1]:
            self._cell[-1] += 1
            EPOCH[0] += 1


# They set a slot past the `__setattr__` of a subclass and without looking up its name: a tree that
# crosses the bridge makes many variables (`benchmarks/bridge.py` measures it).
_set_cell, _set_level, _set_plans = (
    vars(Tracked)[slot].__set__ for slot in ("_cell", "_level", "_plans")
)
