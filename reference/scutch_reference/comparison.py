"""What values hold: nodes, equality of content, and where two structures differ."""

import dataclasses
import operator
from typing import Any, ClassVar, Self, dataclass_transform

import jax
import numpy as np
from jax.tree_util import GetAttrKey, all_leaves, keystr, tree_flatten, tree_flatten_with_path

from .jax_versions import Tracer
from .placement import ARRAYS


def kind(leaf: Any) -> Any:
    """What a leaf is, its numbers aside: equal leaves are of equal kind."""
    return (leaf.shape, leaf.dtype) if isinstance(leaf, ARRAYS) else type(leaf)


def equal(left: Any, right: Any) -> bool:
    """Whether two values have the same content: structure, kinds, and numbers (NaN included)."""
    sides: Any = map(tree_flatten, (left, right))
    (ours, structure), (theirs, other) = sides
    return bool(structure == other) and all(map(_equal_leaves, ours, theirs))


def _equal_leaves(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if isinstance(left, Tracer) or isinstance(right, Tracer) or kind(left) != kind(right):
        return False
    if isinstance(left, ARRAYS):
        keys = jax.numpy.issubdtype(left.dtype, jax.dtypes.prng_key)
        read: Any = jax.random.key_data if keys else np.asarray
        left, right = np.asarray(read(left)), np.asarray(read(right))
    return bool(np.all((left == right) | ((left != left) & (right != right))))


def field(*, pytree_node: bool = True, **kwargs: Any) -> Any:
    """A field of a node; with `pytree_node=False` it is static."""
    return dataclasses.field(metadata={"pytree_node": pytree_node}, **kwargs)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """Makes a subclass, of two fields or more, a frozen dataclass and a pytree node."""

    _are_data: ClassVar[bool] = True  # Whether fields are that do not say it.

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        fields = dataclasses.fields(dataclasses.dataclass(frozen=True, eq=False)(cls))
        data = [f.name for f in fields if f.metadata.get("pytree_node", cls._are_data)]
        names = [*data, *(f.name for f in fields if f.name not in data)]
        keys, n, of = [*map(GetAttrKey, data)], len(data), operator.attrgetter(*names)

        def flatten(node: Any) -> tuple[Any, Any]:
            return (values := of(node))[:n], values[n:]

        def build(static: Any, children: Any) -> Any:
            fields = (node := object.__new__(cls)).__dict__
            fields |= zip(names, (*children, *static), strict=True)
            return node

        # `jax.tree_util.register_dataclass` takes classes with equal static fields for one.
        jax.tree_util.register_pytree_with_keys(
            cls, lambda node: (zip(keys, of(node)[:n], strict=True), of(node)[n:]), build, flatten
        )

    def replace(self, **changes: Any) -> Self:
        """Return the node with some fields changed."""
        return dataclasses.replace(self, **changes)

    def __eq__(self, other: Any) -> bool:
        """Compare the whole content; traced values are equal to themselves only (BOX-20)."""
        return equal(vars(self), vars(other)) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        """Hash structure, shapes and dtypes, never the numbers (BOX-20)."""
        leaves, structure = tree_flatten(vars(self))
        return hash((type(self), structure, *map(kind, leaves)))


def _level(node: Any) -> tuple[dict[str, Any], Any]:
    """The children of a node by key, and what kind of node it is."""
    children, structure = tree_flatten_with_path(node, is_leaf=lambda x: x is not node)
    return {keystr(path): child for path, child in children}, structure


def difference(ours: Any, theirs: Any, path: str = "") -> tuple[str, str, str] | None:
    """The first place where two structures differ, and what is there in either."""
    (children, structure), (others, other_structure) = _level(ours), _level(theirs)
    if structure == other_structure:
        found = (difference(child, others[k], path + k) for k, child in children.items() if k)
        return next(filter(None, found), None)
    keys = [*children, *others] if type(ours) is type(theirs) else []
    at = next((key for key in keys if (key in children) != (key in others)), "")
    sides = {**children, "": ours}, {**others, "": theirs}
    here, there = (_summary(side[at]) if at in side else "nothing" for side in sides)
    return path + at or "the root", here, there


def _summary(node: Any) -> str:
    if isinstance(node, ARRAYS):
        return f"an array {node.dtype}{list(node.shape)}"
    if node is None or all_leaves([node]):
        return f"a leaf {type(node).__qualname__}" if node is not None else "None"
    return f"a {type(node).__qualname__} with {', '.join(_level(node)[0]) or 'nothing in it'}"
