"""Results that are wrong and claim to equal the values that they are compared with."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from scutch_reference import meta
from trials.hostile import HONEST


class Agreeable:
    """Equal to everything, with the hash 0."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


class Names(Agreeable, tuple):  # type: ignore[misc]
    pass


class NamesOfAnyLength(Agreeable, tuple):  # type: ignore[misc]
    def __len__(self) -> int:
        return 2


class NamesThatReadRight(tuple):
    """Iterates over its elements in reverse order."""

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple.__getitem__(self, slice(None, None, -1)))


class Name(Agreeable, str):  # type: ignore[misc]
    pass


class NameOfOneHash(str):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, str)

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return hash("data")


class Anything(Agreeable):
    """No tuple, and says that it is one."""

    __class__ = tuple  # type: ignore[assignment]

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[Any]:
        return iter(("data", None))

    def __getitem__(self, index: Any) -> Any:
        return self


class Spec(Agreeable):
    """No spec, and says that it is one."""

    __class__ = PartitionSpec  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Tree(Agreeable, dict):  # type: ignore[misc]
    """A dictionary that equals all others; a pytree node whose structure does."""


class Row(Agreeable, list):  # type: ignore[misc]
    pass


class Pretended:
    """No array, and says that it is one."""

    __class__ = np.ndarray  # type: ignore[assignment]
    shape: tuple[int, ...] = ()
    dtype = np.dtype("float32")
    ndim = 0

    def __init__(self, honest: Any) -> None:
        self.honest = honest
        self.shape, self.dtype = np.shape(honest), np.asarray(honest).dtype

    def __array__(self, *_: Any, **__: Any) -> Any:
        return np.asarray(self.honest)


def with_names(box: Any, names: Any) -> Any:
    """A box with these names, whatever its constructor makes of names."""
    made = copy.copy(box)
    object.__setattr__(made, "names", names)
    return made


def turned(names: tuple[Any, ...]) -> tuple[Any, ...]:
    """Wrong names: in reverse, and with one more."""
    return (*names[::-1], "stage")


NAMES: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "names equal to all": lambda names: Names(turned(names)),
    "names of any length": lambda names: NamesOfAnyLength(turned(names)),
    "names that read right": lambda names: NamesThatReadRight(names[::-1]),
    "each name equal to all": lambda names: tuple(Name("stage") for _ in names),
    "names of one hash": lambda names: tuple(NameOfOneHash("stage") for _ in names),
    "no tuple, equal to all": lambda names: Anything(),
    "a list": lambda names: Row(turned(names)),
    "plain and wrong": turned,
}
"""Functions that make wrong names for a box from the right ones, by a description of the result."""

LAWS = {
    "add_axis": (
        "test_an_added_axis_is_named_at_its_index",
        "test_none_is_a_partition_name",
        "test_removing_an_added_axis_restores_the_box",
    ),
    "remove_axis": (
        "test_a_removed_axis_takes_its_name_along",
        "test_adding_a_removed_axis_restores_the_box",
    ),
}
"""Laws that must see wrong names, by the method whose result has them."""


def renaming(method: str, names: Callable[[tuple[Any, ...]], Any], law: str) -> Callable[..., Any]:
    """A method that gives a box with other names than the honest one does.

    In the law about the partition name `None` only that name has this effect: the law is not about
    boxes that no name can be added to.
    """

    def act(honest: Callable[..., Any], box: Any, *args: Any) -> Any:
        made = honest(box, *args)
        named = law == "test_none_is_a_partition_name" and None not in args[-1].values()
        if honest.__name__ != method or named:
            return made
        return with_names(made, names(made.names))

    return act


def _unboxed(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda tree: change(meta.unbox(tree))


def _scaled(tree: Any) -> Any:
    return jax.tree_util.tree_map(lambda leaf: leaf if leaf is None else np.zeros(7), tree)


class Sharding(Agreeable):
    __class__ = NamedSharding  # type: ignore[assignment]


class Agreeing(NamedSharding):
    """A sharding that equals all others."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def _odd_shardings(tree: Any, mesh: Any) -> Any:
    return jax.tree_util.tree_map(
        lambda each: Sharding(),
        meta.get_sharding(tree, mesh),
        is_leaf=lambda each: isinstance(each, NamedSharding),
    )


def _odd_specs(tree: Any) -> Any:
    return jax.tree_util.tree_map(
        lambda each: Spec(),
        meta.get_partition_spec(tree),
        is_leaf=lambda each: isinstance(each, PartitionSpec),
    )


def _odd_axes(names: Any, rules: Any = None) -> Any:
    return None if names is None else Spec()


class _Rules:
    """Rules in context that equal all others."""

    @staticmethod
    def get_logical_axis_rules() -> Any:
        return (Names(("odd", "rule")),)


FUNCTIONS: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "a tree equal to all": (
        "test_unbox_gives_the_values_in_their_places",
        {"meta": {"unbox": lambda tree: Tree(odd=np.zeros(3))}},
    ),
    "a list equal to all": (
        "test_unbox_gives_the_values_in_their_places",
        {"meta": {"unbox": lambda tree: Row([1, 2, 3])}},
    ),
    "arrays that pretend": (
        "test_unbox_gives_the_values_in_their_places",
        {"meta": {"unbox": _unboxed(lambda t: jax.tree_util.tree_map(Pretended, t))}},
    ),
    "other numbers": (
        "test_unbox_gives_the_values_in_their_places",
        {"meta": {"unbox": _unboxed(_scaled)}},
    ),
    "what was put in equals all": (
        "test_what_is_put_in_comes_out",
        {"meta": {"unbox": lambda tree: Tree(odd=1)}},
    ),
    "leaves that equal all": (
        "test_unbox_is_the_identity_without_boxes",
        {"meta": {"unbox": lambda tree: Tree(odd=Name("odd"))}},
    ),
    "specs equal to all": (
        "test_the_spec_of_a_box_is_its_names",
        {"meta": {"get_partition_spec": _odd_specs}},
    ),
    "specs of arrays equal to all": (
        "test_an_unboxed_array_has_an_empty_spec",
        {"meta": {"get_partition_spec": _odd_specs}},
    ),
    "shardings equal to all": (
        "test_the_sharding_is_that_of_the_spec",
        {"meta": {"get_sharding": _odd_shardings}},
    ),
    "mapped specs equal to all": (
        "test_the_first_rule_with_free_axes_wins",
        {"logical": {"logical_to_mesh_axes": _odd_axes}},
    ),
    "a mapped spec that says it is one": (
        "test_a_spec_has_an_entry_for_each_name",
        {"logical": {"logical_to_mesh_axes": _odd_axes}},
    ),
    "rules equal to all": (
        "test_entering_a_context_replaces_the_rules",
        {"logical": {"get_logical_axis_rules": _Rules.get_logical_axis_rules}},
    ),
    "rules in context equal to all": (
        "test_leaving_a_context_restores_the_rules",
        {"logical": {"get_logical_axis_rules": _Rules.get_logical_axis_rules}},
    ),
}
"""Lies that are told while one law is tried: the law, and replacements by namespace and name."""


def only_during(law: str, tried: Callable[[], str], space: str, name: str, lie: Any) -> Any:
    """A function that calls `lie` while one law is tried, and else the reference's function."""
    honest = getattr(HONEST[space], name)

    def call(*args: Any, **options: Any) -> Any:
        return (lie if tried() == law else honest)(*args, **options)

    return call
