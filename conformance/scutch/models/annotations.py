"""The annotated leaves of a tree: names for the axes of an array, and the rule that decided each.

A *leaf* is a box, a variable, or a bare array. Its names are resolved in one of two ways. Linen's
rules are tried in order, and a mesh axis serves one axis of an array; a name without a rule is
unsharded. NNX replaces each name that has a rule; any other name is taken for a mesh axis.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from scutch.implementation import Implementation

Rules = Sequence[tuple[str, Any]]


@dataclass(frozen=True)
class Decision:
    """Why an axis of an array lies where it does.

    Args:
      name: The name of the axis; None if it has none.
      axis: The mesh axis, several, or None for unsharded.
      rule: The rule that decided, as its number in the list; None if no rule did.
      lost: Rules with the name that were passed over, because their mesh axis was taken.
    """

    name: Any
    axis: Any
    rule: int | None = None
    lost: tuple[int, ...] = ()


@dataclass(frozen=True)
class Leaf:
    """One array of a tree, with its annotation.

    Args:
      path: The keys that lead to it, with slashes between them.
      value: An array, or its abstract form.
      names: One for each axis; None if the array is not annotated.
      rules: Rules that stand at the array itself (`sharding_rules` of a variable).
      variable: Whether it is a variable of NNX, also in a box, whose names need no rule.
    """

    path: str
    value: Any
    names: tuple[Any, ...] | None
    rules: tuple[tuple[str, Any], ...] = ()
    variable: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of its axes."""
        return tuple(self.value.shape)

    @property
    def bytes(self) -> int:
        """The bytes of the whole array."""
        return bytes_of(self.value)


def bytes_of(value: Any) -> int:
    """The bytes of an array, concrete or abstract; a key of random numbers counts as two words."""
    try:
        size = int(np.dtype(value.dtype).itemsize)
    except TypeError:
        size = 8
    return int(np.prod(value.shape, dtype=np.int64)) * size


def is_annotated(implementation: Implementation, value: Any) -> bool:
    """Whether a value is a box or a variable of the implementation.

    Args:
      implementation: Whose boxes and variables are meant.
      value: Any value.
    """
    if is_variable(implementation, value):
        return True
    return implementation.meta is not None and bool(implementation.meta.is_axis_metadata(value))


def is_variable(implementation: Implementation, value: Any) -> bool:
    """Whether a value is a variable of the implementation's NNX.

    Args:
      implementation: Whose variables are meant.
      value: Any value.
    """
    return implementation.nnx is not None and isinstance(value, implementation.nnx.Variable)


def leaves(implementation: Implementation, tree: Any) -> list[Leaf]:
    """The arrays of a tree in the order of JAX, with their annotations.

    Args:
      implementation: Whose boxes and variables are meant.
      tree: Any pytree.
    """
    found = jax.tree_util.tree_flatten_with_path(
        tree, is_leaf=lambda value: is_annotated(implementation, value)
    )[0]
    return [leaf for path, value in found for leaf in _leaf(implementation, path, value)]


def _leaf(implementation: Implementation, path: Any, value: Any) -> Iterator[Leaf]:
    """The leaf or leaves of one annotated or bare value."""
    where = path_text(path)
    arrays = jax.tree_util.tree_leaves(value)
    names: tuple[Any, ...] | None = None
    rules: tuple[tuple[str, Any], ...] = ()
    variable = is_variable(implementation, value)
    if variable:
        metadata = value.get_metadata()
        names = metadata.get("out_sharding", metadata.get("sharding_names"))
        rules = tuple(metadata.get("sharding_rules") or ())
    elif is_annotated(implementation, value):
        names = getattr(value, "names", None)
        if names is None and hasattr(value, "get_partition_spec"):
            names, variable = value.get_partition_spec(), True  # as that of a variable in a box
    names = None if names is None else tuple(getattr(names, "spec", names))
    for number, array in enumerate(arrays):
        if hasattr(array, "shape"):
            at = where if len(arrays) == 1 else f"{where}/{number}"
            yield Leaf(at, array, names, rules, variable)


def path_text(path: Any) -> str:
    """The keys of a path of JAX, with slashes between them."""
    return "/".join(
        str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path
    )


def decide(names: Sequence[Any] | None, rules: Rules, *, variable: bool) -> tuple[Decision, ...]:
    """The mesh axis of each name, and the rule that decided.

    Args:
      names: One for each axis; None for an array without annotation.
      rules: In order; where there are none, names are mesh axes.
      variable: Whether names are resolved as NNX does.

    Returns:
      One decision for each name.
    """
    if names is None:
        return ()
    if not rules:
        return tuple(Decision(name, name) for name in names)
    return _replaced(names, rules) if variable else _in_order(names, rules)


def _replaced(names: Sequence[Any], rules: Rules) -> tuple[Decision, ...]:
    last = {name: number for number, (name, _) in enumerate(rules)}
    return tuple(
        Decision(name, rules[last[name]][1], last[name])
        if isinstance(name, str) and name in last
        else Decision(name, name)
        for name in names
    )


def _in_order(names: Sequence[Any], rules: Rules) -> tuple[Decision, ...]:
    decided: dict[int, Decision] = {
        place: Decision(name, name) for place, name in enumerate(names) if not isinstance(name, str)
    }
    taken = {axis for one in decided.values() for axis in axes_of(one.axis)}
    lost: dict[int, tuple[int, ...]] = {}
    for number, (name, axis) in enumerate(rules):
        if name not in names or (place := list(names).index(name)) in decided:
            continue
        if taken.intersection(axes_of(axis)):
            lost[place] = (*lost.get(place, ()), number)
            continue
        taken.update(axes_of(axis))
        decided[place] = Decision(name, axis, number, lost.get(place, ()))
    return tuple(
        decided.get(place, Decision(name, None, None, lost.get(place, ())))
        for place, name in enumerate(names)
    )


def axes_of(entry: Any) -> tuple[str, ...]:
    """The mesh axes of one entry of a spec."""
    if entry is None or entry is PartitionSpec.UNCONSTRAINED:
        return ()
    return tuple(entry) if isinstance(entry, tuple | list) else (entry,)


def spec_of(decisions: Sequence[Decision]) -> Any:
    """The `PartitionSpec` that decisions amount to."""
    entries = (tuple(one.axis) if isinstance(one.axis, list) else one.axis for one in decisions)
    return PartitionSpec(*entries)  # type: ignore[no-untyped-call]


def spec_text(spec: Sequence[Any]) -> str:
    """A spec as text: its entries in parentheses, without the unsharded ones at the end.

    >>> spec_text(("data", None, ("fsdp", "tensor"), None))
    "('data', None, ('fsdp', 'tensor'))"
    """
    entries = list(spec)
    while entries and entries[-1] is None:
        entries.pop()
    return f"({', '.join(map(repr, entries))}{',' * (len(entries) == 1)})"


def shards(spec: Sequence[Any], mesh: Mapping[str, int]) -> int:
    """Into how many different parts a spec divides an array on a mesh.

    Args:
      spec: A mesh axis, several, or None for each axis of the array.
      mesh: The size of each mesh axis; one that is not there counts as 1.
    """
    product = 1
    for entry in spec:
        for axis in axes_of(entry):
            product *= mesh.get(axis, 1)
    return product
