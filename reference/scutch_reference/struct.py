"""Immutable dataclasses that are pytrees: boxes and train states are made of them.

A *node* is a frozen dataclass that JAX flattens. Some of its fields are *data*: their values are
subtrees, so that transformations see the arrays in them. The others are *static*: they are part of
the tree's structure, so that they must be hashable, and another value is another structure. Derive
from `Node` (which Flax calls `PyTreeNode`), or decorate a class with `dataclass`. A field is data
unless `field(pytree_node=False)` declares it static.

>>> import jax
>>> class Line(Node):
...     slope: float
...     unit: str = field(pytree_node=False, default="m")
>>> jax.tree.map(lambda x: 2 * x, Line(3.0))
Line(slope=6.0, unit='m')
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform, overload

from jax.tree_util import GetAttrKey, register_pytree_with_keys, tree_flatten

from .comparison import equal, kind
from .types import Tree

C = TypeVar("C", bound=type)


def field(
    *, pytree_node: bool = True, metadata: Mapping[str, Any] | None = None, **options: Any
) -> Any:
    """Declare a field of a node.

    Args:
      pytree_node: Whether the field is data. A static field (`False`) holds a hashable value.
      metadata: A mapping of further metadata for `dataclasses.fields`.
      options: Keywords for `dataclasses.field`, such as `default`.

    Returns:
      The result of `dataclasses.field`; assign it to the field in the body of the class.
    """
    return dataclasses.field(metadata={**(metadata or {}), "pytree_node": pytree_node}, **options)


def _register(cls: type, data_by_default: bool) -> None:
    """Tell JAX how to flatten a frozen dataclass, and how to build it again.

    `jax.tree_util.register_dataclass` would take two classes with equal static fields for one. To
    build does not run `__init__`: JAX puts all kinds of objects into trees, and the fields of the
    node that was flattened have been checked already.

    Trees of boxes are flattened again and again. To look the fields up in the node's dictionary by
    `map` makes no Python call for a field, and a node has no slots.
    """
    fields = dataclasses.fields(cls)
    data = [f.name for f in fields if f.metadata.get("pytree_node", data_by_default)]
    names = [*data, *(f.name for f in fields if f.name not in data)]
    keys, count = [*map(GetAttrKey, data)], len(data)

    def flatten(node: Tree) -> tuple[Any, Any]:
        values = (*map(node.__dict__.__getitem__, names),)
        return values[:count], values[count:]

    def flatten_with_keys(node: Tree) -> tuple[Any, Any]:
        values = (*map(node.__dict__.__getitem__, names),)
        return zip(keys, values[:count], strict=True), values[count:]

    def build(static: Any, children: Tree) -> Tree:
        node: Any = object.__new__(cls)
        node.__dict__.update(zip(names, (*children, *static), strict=True))
        return node

    register_pytree_with_keys(cls, flatten_with_keys, build, flatten)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """The base of nodes: a subclass is a frozen dataclass and a pytree (BOX-2).

    Keywords in the class statement, such as `kw_only=True`, are those of `dataclasses.dataclass`.
    """

    fields_are_data: ClassVar[bool] = True
    """Whether a field that was not made by `field` is data; a subclass may change it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(frozen=True, eq=False, **options)(cls)
        _register(cls, cls.fields_are_data)

    def replace(self, **changes: Any) -> Self:
        """Return the node with other values in the fields named, checked as by the constructor."""
        return dataclasses.replace(self, **changes)

    def __eq__(self, other: object) -> bool:
        """Compare class and content; traced values are equal to themselves only (BOX-20d)."""
        return equal(vars(self), vars(other)) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        """Hash class, structure, shapes and dtypes, never the numbers (BOX-20e)."""
        leaves, structure = tree_flatten(vars(self))
        return hash((type(self), structure, *map(kind, leaves)))


PyTreeNode = Node


@overload
def dataclass(cls: C, /, **options: Any) -> C:
    """With a class: the class as a pytree."""


@overload
def dataclass(cls: None = None, /, **options: Any) -> Callable[[C], C]:
    """Without one: a decorator of classes."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def dataclass(cls: Any = None, /, **options: Any) -> Any:
    """Make a class a frozen dataclass and a pytree, with a method `replace`.

    Args:
      cls: The class. Without it, a decorator is returned: `@dataclass(kw_only=True)`.
      options: Keywords for `dataclasses.dataclass`; `frozen` is always `True`. Unlike a `Node`, the
        class compares as other dataclasses do, by `==` on its fields.

    Returns:
      The same class, registered with JAX.

    >>> @dataclass
    ... class Point:
    ...     x: float
    ...     y: float
    >>> Point(1.0, 2.0).replace(y=3.0)
    Point(x=1.0, y=3.0)
    """
    if cls is None:
        return lambda decorated: dataclass(decorated, **options)
    made = dataclasses.dataclass(**{**options, "frozen": True})(cls)
    made.replace = dataclasses.replace
    _register(made, data_by_default=True)
    return made
