"""The handle on a variable of a bound module, through which a method reads and assigns its value.

A variable may lie in a box. The handle reads the value without the box, and puts an assigned value
into the same box, so that a method need not know of boxes (LIN-8n).

>>> from scutch_reference import Partitioned, linen
>>> class Count(linen.Module):
...     @linen.compact
...     def __call__(self):
...         count = self.variable("counts", "calls", lambda: Partitioned(0, names=()))
...         count.value += 1
...         return count.value
>>> Count().init_with_output(jax.random.key(0))
(1, {'counts': {'calls': Partitioned(value=1, names=(), mesh=None)}})
"""

from dataclasses import dataclass
from typing import Any

import jax

from .. import meta
from ..types import Tree


@dataclass(eq=False)
class Variable:
    """A handle on one variable of a bound module, as `Module.variable` returns.

    Args:
      module: The module, which reads and writes the variables of its scope.
      collection, name: The collection of the variable, and its name in the module.
      unbox: Whether `value` reads the variable without its box.
    """

    module: Any
    collection: str
    name: str
    unbox: bool = True

    @property
    def value(self) -> Any:
        """The value without its boxes; an assigned value of its structure gets them (LIN-8n).

        Raises:
          ModifyScopeVariableError: A value is assigned, and the collection is not mutable.
        """
        value = self.module.get_variable(self.collection, self.name)
        return meta.unbox(value) if self.unbox else value

    @value.setter
    def value(self, value: Tree) -> None:
        held = self.module.get_variable(self.collection, self.name)
        unboxed = meta.unbox(held, apply_constraint=False)
        structures: list[Any] = [*map(jax.tree.structure, (unboxed, value))]
        fits = self.unbox and structures[0] == structures[1]
        value = meta.replace_boxed(held, value) if fits else value
        self.module.put_variable(self.collection, self.name, value)

    def is_mutable(self) -> bool:
        """Return whether the value may be assigned."""
        return bool(self.module.is_mutable_collection(self.collection))
