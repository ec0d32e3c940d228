"""Names for the values that JAX accepts and has no class for.

JAX computes on trees: an array is one, and so is a dictionary of them, a box, or an object that is
registered as a node. No class of Python covers all of these, so for a type checker each name below
is `Any`; for a reader it says which values a parameter takes.

>>> def scaled(tree: Tree, axes: Prefix) -> Tree:
...     return jax.tree.map(lambda axis, part: part if axis is None else 2 * part, axes, tree)
>>> import jax
>>> scaled({"w": 1.0, "b": 2.0}, {"w": 0, "b": 1})
{'b': 4.0, 'w': 2.0}
"""

from typing import Any, TypeAlias

Tree: TypeAlias = Any
"""A pytree: a leaf, or a container that JAX flattens into leaves."""
Prefix: TypeAlias = Any
"""A tree like the first levels of another tree: a value in it is for all leaves below its place."""
Leaf: TypeAlias = Any
"""A leaf of a tree: an array, a tracer, a `jax.ShapeDtypeStruct`, a number, or any other object."""
