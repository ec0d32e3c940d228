"""Boxes: values that know what their axes are called (document 000).

A *box* wraps any tree of arrays and holds metadata for each axis. What adds an axis to every array,
as `scan` over layers does, tells the boxes with `add_axis`; `remove_axis` is the inverse.
"""

import abc
import copy
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar, cast

from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.tree_util import all_leaves, tree_flatten, tree_map

from . import errors
from .comparison import difference
from .placement import constrain, context_mesh, partition_spec
from .struct import Node, field

A = TypeVar("A")
Fn = Callable[..., A]
PARTITION_NAME = "partition_name"  # The key of a new axis' name, in the parameters of its maker.
_PLAIN = frozenset((str, type(None)))  # Names of these types are kept as they are.
_NNX_NAMES = {"names": "out_sharding", "rules": "sharding_rules"}  # In the metadata of variables.


class AxisMetadata(Generic[A], abc.ABC):
    """A box: one value, and metadata for its axes; derive from it for metadata of your own.

    A subclass defines the four methods (BOX-21), and is a pytree node with the leaves of its value.
    """

    @classmethod
    def register(cls, subclass: type) -> NoReturn:
        """Refuse virtual subclasses: a box class derives from this one."""
        raise TypeError(f"{subclass.__qualname__} must derive from {cls.__qualname__} to be a box")

    @abc.abstractmethod
    def unbox(self) -> A:
        """Return the wrapped value, one layer only (BOX-3)."""

    @abc.abstractmethod
    def replace_boxed(self, val: Any) -> "AxisMetadata[Any]":
        """Return a box with the same metadata around `val` (BOX-4)."""

    @abc.abstractmethod
    def add_axis(self, index: int, params: Mapping[Any, Any]) -> Self:
        """Return the box for a value with a new axis; `remove_axis` is the inverse (BOX-5)."""

    @abc.abstractmethod
    def remove_axis(self, index: int, params: Mapping[Any, Any]) -> Self:
        """Return the box for a value without the axis; `add_axis` is the inverse (BOX-6)."""


# `isinstance`, but for the Python call that `abc` makes of it: it is asked of every node of a tree.
_is_box: Callable[[Any], bool] = functools.partial(type.__instancecheck__, AxisMetadata)
is_axis_metadata = _is_box  # Boxes and nothing else (BOX-1).
# The outermost boxes and the other leaves of a tree, and its structure around them.
_flatten: Callable[[Any], tuple[list[Any], Any]] = functools.partial(tree_flatten, is_leaf=_is_box)


def axis_names(names: Any) -> tuple[Any, ...]:
    """Axis names as boxes keep them: a hashable tuple. A string is no sequence of names."""
    try:
        hash(kept := tuple([tuple(name) if type(name) is list else name for name in names]))
    except TypeError as error:
        raise errors.NamesError(f"got {names!r}") from error
    if isinstance(names, str):
        raise errors.NamesError(f"got {names!r}")
    return kept


@functools.lru_cache(maxsize=4096)
def _changed(names: tuple[Any, ...], adds: bool, index: int, name: Any) -> tuple[Any, ...]:
    """The names with a new axis, or without an old one."""
    axes = len(names) + adds
    if index < -axes:
        raise errors.AxisIndexError(names, index, -axes)
    at = index + axes if index < 0 else index
    if adds:
        return (*names[:at], *(None,) * (at - len(names)), name, *names[at:])
    found = names[at] if at < axes else None
    if found != name:
        raise errors.AxisNameError(names, index, found, name)
    return names[:at] + names[at + 1 :]


class Partitioned(Node, AxisMetadata[A]):
    """A box whose metadata are the mesh axes that each axis of the value is sharded over.

    `value` is any tree of arrays, tracers, abstract values and boxes. `names` has for each axis a
    mesh axis, a tuple of them, or `None`. `mesh` is for `unbox`, in the place of that in context.
    Subclasses are frozen dataclasses and pytree nodes by themselves; all but `value` is static.

    >>> Partitioned(1.0, names=("data", None)).add_axis(0, {PARTITION_NAME: "layers"}).names
    ('layers', 'data', None)
    """

    fields_are_data: ClassVar[bool] = False
    value: A = field()
    names: tuple[Any, ...]
    mesh: Mesh | None = None

    def __post_init__(self) -> None:
        if type(self.names) is not tuple or not _PLAIN.issuperset(map(type, self.names)):
            object.__setattr__(self, "names", axis_names(self.names))

    def unbox(self, apply_constraint: bool = True) -> A:
        """Return the value; its arrays on the mesh of the box, or in context, if any (BOX-18).

        Scalars, abstract values and inner boxes stay, and without a mesh the value itself (BOX-3).
        """
        placed = apply_constraint and (self.mesh is not None or context_mesh() is not None)
        spec = self._mesh_spec() if placed else None
        if spec is None:
            return self.value
        put = functools.partial(constrain, spec=spec, mesh=self.mesh)
        return cast(A, tree_map(put, self.value, is_leaf=_is_box))

    def _mesh_spec(self) -> PartitionSpec | None:
        """The constraint in terms of mesh axes; `None` if there is none to apply."""
        return self.get_partition_spec()

    def replace_boxed(self, val: Any) -> Self:
        """Return a box with the same metadata around `val` (BOX-4)."""
        # The quickest copy that there is; trees have many boxes.
        fields = (copied := object.__new__(type(self))).__dict__
        fields |= self.__dict__
        fields["value"] = val
        return copied

    def add_axis(self, index: int, params: Mapping[Any, Any]) -> Self:
        """Name a new axis; `remove_axis` is the inverse (BOX-5).

        `index` is its place in the array that has it: -1 is last (BOX-11), and a gap before it is
        unsharded (BOX-7). `params` holds the name under `PARTITION_NAME`; `None` is one (BOX-8).
        """
        return self._renamed(True, index, params)

    def remove_axis(self, index: int, params: Mapping[Any, Any]) -> Self:
        """Forget an axis, which has the name in `params`; `None` beyond all names (BOX-6)."""
        return self._renamed(False, index, params)

    def _renamed(self, adds: bool, index: int, params: Mapping[Any, Any]) -> Self:
        if PARTITION_NAME not in params:
            raise errors.PartitioningUnspecifiedError(self, params)
        name = params[PARTITION_NAME]
        name = tuple(name) if type(name) is list else name
        fields = (copied := object.__new__(type(self))).__dict__
        fields |= self.__dict__
        fields["names"] = _changed(self.names, adds, index, name)
        return copied

    def get_partition_spec(self) -> PartitionSpec:
        """Return `PartitionSpec(*names)` (BOX-16)."""
        return partition_spec(self.names)

    def get_sharding(self, mesh: Mesh) -> NamedSharding:
        """Return the partition spec on `mesh`, which has an axis for every name (BOX-17)."""
        return NamedSharding(mesh, self.get_partition_spec())

    def to_nnx_metadata(self) -> dict[str, Any]:
        """Return the fields as metadata of a variable, where some have other names (BRG-4)."""
        return {_NNX_NAMES.get(name, name): each for name, each in vars(self).items()}

    @classmethod
    def from_nnx_metadata(cls, metadata: Mapping[str, Any]) -> Self:
        """Return the box of such metadata; what is no field of it is left out (BRG-4)."""
        keys = {f.name: _NNX_NAMES.get(f.name, f.name) for f in dataclasses.fields(cls)}
        return cls(**{name: metadata[key] for name, key in keys.items() if key in metadata})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.replace_boxed(copy.deepcopy(self.value, memo))


def boxing(fn: Fn[Any], box: Callable[[Any], A]) -> Fn[A]:
    """`fn`, with its name and docstring, and what it returns in a box (BOX-19)."""
    return functools.wraps(fn)(lambda *args, **kwargs: box(fn(*args, **kwargs)))


def with_partitioning(fn: Fn[Any], names: Any, mesh: Mesh | None = None) -> Fn[Partitioned[Any]]:
    """Box what an initializer returns, in a `Partitioned` (BOX-19)."""
    return boxing(fn, functools.partial(Partitioned, names=names, mesh=mesh))


def map_axis_meta(fn: Callable[[Any], Any], tree: Any) -> Any:
    """Call `fn` on every outermost box; every other leaf stays the same object (BOX-12)."""
    nodes, structure = _flatten(tree)
    return structure.unflatten([fn(x) if _is_box(x) else x for x in nodes])


def add_axis(tree: Any, index: int, params: Mapping[Any, Any]) -> Any:
    """Name a new axis in every box; see `Partitioned.add_axis` (BOX-13)."""
    nodes, structure = _flatten(tree)
    return structure.unflatten([x.add_axis(index, params) if _is_box(x) else x for x in nodes])


def remove_axis(tree: Any, index: int, params: Mapping[Any, Any]) -> Any:
    """Forget an axis in every box; see `Partitioned.remove_axis` (BOX-13)."""
    nodes, structure = _flatten(tree)
    return structure.unflatten([x.remove_axis(index, params) if _is_box(x) else x for x in nodes])


def _contents(nodes: list[Any], constrained: bool) -> tuple[list[Any], bool]:
    """What is in the boxes among these nodes, and whether there may be boxes in it."""
    placed = constrained and context_mesh() is not None
    kinds = set() if placed else {*map(type, nodes)}
    plain = {cls for cls in kinds if getattr(cls, "unbox", None) is Partitioned.unbox}
    values = [
        x.value
        if type(x) in plain and (not constrained or x.mesh is None)
        else (x.unbox() if _is_box(x) else x)
        for x in nodes
    ]
    return values, not all_leaves(values) or any(map(_is_box, values))


def unbox(tree: Any, apply_constraint: bool = True) -> Any:
    """Open every box, at any depth, with its constraint (BOX-14)."""
    nodes, structure = _flatten(tree)
    values, more = _contents(nodes, apply_constraint)
    return structure.unflatten(unbox(values, apply_constraint) if more else values)


def replace_boxed(tree: Any, updates: Any) -> Any:
    """Fill every box, at any depth, with the value at its place in `updates` (BOX-15).

    `updates` has the structure of `unbox(tree)`; leaves that are in no box are replaced as well.
    """
    slots, structure = _flatten(tree)
    try:
        values = structure.flatten_up_to(updates)
        contents, more = _contents(slots, constrained=False)
        if more:
            values = replace_boxed(contents, values)
        elif not all_leaves(values):
            raise ValueError("a subtree where a leaf is expected")
    except ValueError as error:
        found = difference(unbox(tree, apply_constraint=False), updates)
        if found is None:
            raise
        raise errors.StructureMismatchError(*found) from error
    pairs = zip(slots, values, strict=True)
    return structure.unflatten([x.replace_boxed(v) if _is_box(x) else v for x, v in pairs])


def _spec(node: Any) -> PartitionSpec | None:
    if not _is_box(node):
        return partition_spec(()) if hasattr(node, "shape") else None
    if not hasattr(node, "get_partition_spec"):
        return partition_spec(tuple(node.names)) if hasattr(node, "names") else None
    spec: PartitionSpec | None = node.get_partition_spec()
    return spec


def get_partition_spec(tree: Any) -> Any:
    """Return the tree with the spec of each box, `PartitionSpec()` for other arrays (BOX-16).

    What has no shape, and a box with neither `get_partition_spec` nor `names`, gives `None`.
    """
    nodes, structure = _flatten(tree)
    return structure.unflatten(map(_spec, nodes))


def get_sharding(tree: Any, mesh: Mesh) -> Any:
    """Return `get_partition_spec(tree)` with each spec as a sharding on `mesh` (BOX-17)."""
    on_mesh = functools.cache(functools.partial(NamedSharding, mesh))
    nodes, structure = _flatten(tree)
    specs = map(_spec, nodes)
    return structure.unflatten([None if spec is None else on_mesh(spec) for spec in specs])
