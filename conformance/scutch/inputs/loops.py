"""Arguments of loops, which the steps slice, carry or share.

>>> Looped("array", 0, changed=False).start(1).tolist()
[[1, 2], [3, 4], [5, 6]]
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from scutch.inputs import graphs
from scutch.inputs.descriptions import Builder, Description

CARRIED = "carried"
STEPS = 3
HELD = ("object", "container", "array")
"""Forms of an argument: a module, a dictionary with one, or an array alone."""


@dataclasses.dataclass(frozen=True, repr=False)
class Looped(Description):
    """An argument of a loop.

    Args:
      form: One of `HELD`.
      axis: The axis along which it is sliced; `None` where all steps share it, `CARRIED` where each
        step hands it to the next.
      changed: Whether each step changes it.
    """

    form: str
    axis: int | str | None
    changed: bool

    def build(self, builder: Builder) -> "Looped":
        """The description itself: a law makes the argument from its own values, with `built`."""
        return self

    @property
    def sliced(self) -> bool:
        """Whether each step gets its own slice of the argument."""
        return self.axis not in (None, CARRIED)

    @property
    def is_array(self) -> bool:
        """Whether the argument is an array alone."""
        return self.form == "array"

    def start(self, number: int) -> Any:
        """The values before the loop, as an array of NumPy: two of them for each step."""
        if not self.sliced:
            return np.arange(2) + number
        steps = np.arange(2 * STEPS).reshape(STEPS, 2) + number
        return np.moveaxis(steps, 0, self.axis)  # type: ignore[arg-type]

    def built(self, nnx: Any, values: Any) -> Any:
        """The argument with these values.

        Args:
          nnx: The ``nnx`` of the library, whose ``Module`` and ``Param`` hold them.
          values: An array of NumPy with the shape that `start` gives it.

        Returns:
          A JAX array, a module whose variable ``a`` has the values, or a dictionary with such a
          module under ``"in"``.
        """
        if self.is_array:
            return jnp.asarray(values)
        module = graphs.classes(nnx)["Node"]()
        module.a = nnx.Param(jnp.asarray(values))
        return {"in": module} if self.form == "container" else module

    def variable(self, given: Any) -> Any:
        """The variable of an argument that is no array."""
        return given["in"].a if self.form == "container" else given.a

    def read(self, given: Any) -> Any:
        """The values of an argument."""
        return given if self.is_array else self.variable(given).get_value()
