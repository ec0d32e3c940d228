"""Boxes, which keep a value together with the names of its axes (document 000, contract BOX).

A *box* wraps a value, which is any tree of arrays, and holds metadata for each axis of the value,
usually its *name*. Initializers return boxes, parameters are kept in them, and code that places an
array reads the names from its box. A transformation that gives every array one more axis, as `scan`
over layers does, tells each box with `add_axis`; `remove_axis` is the inverse, for the body of the
transformation, in which the axis is gone. The parameters of both hold the name of that axis under
`PARTITION_NAME`.

Words: the *names* of a `Partitioned` are axes of a device mesh, so that they are its *partition
spec* as well. A *constraint* tells JAX to lay an array out by a spec. A box class of another
library derives from `AxisMetadata`, and has methods of its own.

>>> import numpy as np
>>> kernel = Partitioned(np.ones((2, 3)), names=(None, "model"))
>>> stacked = kernel.add_axis(0, {PARTITION_NAME: "layers"})
>>> stacked.names
('layers', None, 'model')
>>> stacked.remove_axis(0, {PARTITION_NAME: "layers"}) == kernel
True
"""

import abc
import copy
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, NoReturn, ParamSpec, Self, TypeGuard, TypeVar, cast

from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec
from jax.tree_util import tree_map

from . import errors
from .names import PLAIN_NAMES, axis_names, names_with, names_without
from .placement import constrain, context_mesh, partition_spec
from .struct import Node, field
from .types import Tree

A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")
Params = Mapping[Any, Any]
PARTITION_NAME = "partition_name"
"""The key, in the parameters of `add_axis` and `remove_axis`, of the name of the axis."""
_NNX_NAMES = {"names": "out_sharding", "rules": "sharding_rules"}
"""The key in the metadata of a variable for each box field of another name (BRG-4)."""


class AxisMetadata(Generic[A], abc.ABC):
    """A box: one value, and metadata for its axes; boxes of your own derive from it.

    A subclass defines the four methods; one that leaves a method out cannot be instantiated
    (BOX-21a). It is registered as a pytree node whose leaves are its value's (BOX-2a), which
    `struct.Node` and `struct.dataclass` do. It may define `get_partition_spec(self)`, which the
    function of the same name then asks.
    """

    @classmethod
    def register(cls, subclass: type) -> NoReturn:
        """Refuse virtual subclasses: a box class derives from this one (BOX-1).

        Args:
          subclass: The class that was to be registered.

        Raises:
          VirtualBoxError: Always.
        """
        raise errors.VirtualBoxError(subclass=subclass, cls=cls)

    @abc.abstractmethod
    def unbox(self) -> A:
        """Return the wrapped value, one layer only (BOX-3)."""

    @abc.abstractmethod
    def replace_boxed(self, val: Tree) -> "AxisMetadata[Any]":
        """Return a box with the same metadata around `val` (BOX-4)."""

    @abc.abstractmethod
    def add_axis(self, index: int, params: Params) -> Self:
        """Return the box for a value with one more axis; `remove_axis` is the inverse (BOX-5).

        Args:
          index: The place of the new axis among the axes of the value that has it.
          params: The transformation's parameters for boxes: the axis name under `PARTITION_NAME`.
        """

    @abc.abstractmethod
    def remove_axis(self, index: int, params: Params) -> Self:
        """Return the box for a value without one axis; `add_axis` is the inverse (BOX-6).

        Args:
          index: The place of the axis among the axes of the value that still has it.
          params: As in `add_axis`.
        """


def get_global_mesh() -> Mesh | AbstractMesh | None:
    """Return the mesh in context, which `unbox` constrains to; `None` without one (BOX-18)."""
    return context_mesh()


def global_mesh_defined() -> bool:
    """Return whether there is a mesh in context (BOX-18)."""
    return context_mesh() is not None


def is_axis_metadata(val: object) -> TypeGuard[AxisMetadata[Any]]:
    """Tell whether a value is a box: an instance of `AxisMetadata`, and nothing else (BOX-1)."""
    return is_box(val)


# Tree functions ask this of every node of a tree. `isinstance` would call `abc.__instancecheck__`,
# a Python function, for each; there are no virtual subclasses, so that the plain check will do.
is_box: Callable[[Any], bool] = functools.partial(type.__instancecheck__, AxisMetadata)
"""The same as `is_axis_metadata`, without a Python call."""


@functools.cache
def _metadata_keys(cls: Any) -> tuple[tuple[str, str], ...]:
    """The fields of a class of boxes, each with the key of its value in the metadata (BRG-4)."""
    return tuple((f.name, _NNX_NAMES.get(f.name, f.name)) for f in dataclasses.fields(cls))


class Partitioned(Node, AxisMetadata[A]):
    """A box that names the mesh axes over which each axis of its value is sharded (document 000).

    Boxes are immutable (BOX-20). A subclass is a frozen dataclass and pytree node by itself; all
    its fields but `value` are static.

    Args:
      value: Any tree of arrays, tracers, abstract values (`jax.ShapeDtypeStruct`) and boxes.
      names: For each axis of the value a mesh axis, a tuple of several, or `None` for unsharded.
      mesh: The mesh that `unbox` constrains to, instead of the mesh in context.

    Raises:
      NoNamesError: `names` is a string, or no sequence of hashable entries.

    >>> Partitioned(1.0, names=("data", None)).add_axis(0, {PARTITION_NAME: "layers"}).names
    ('layers', 'data', None)
    """

    fields_are_data: ClassVar[bool] = False
    value: A = field()
    names: tuple[Any, ...]
    mesh: Mesh | None = None

    def __post_init__(self) -> None:
        if type(self.names) is not tuple or not PLAIN_NAMES.issuperset(map(type, self.names)):
            object.__setattr__(self, "names", axis_names(self.names))

    def unbox(self, apply_constraint: bool = True) -> A:
        """Return the value, constrained to the names on the mesh of the box or in context (BOX-18).

        Args:
          apply_constraint: `False` gives the wrapped object itself (BOX-18e).

        Returns:
          Without a mesh, the wrapped object itself (BOX-3). Under one, the same tree with every
          array sharded by `mesh_spec`; scalars, abstract values and inner boxes stay the same.
        """
        placed = apply_constraint and (self.mesh is not None or context_mesh() is not None)
        spec = self.mesh_spec() if placed else None
        if spec is None:
            return self.value
        placing = functools.partial(constrain, spec=spec, mesh=self.mesh)
        return cast(A, tree_map(placing, self.value, is_leaf=is_box))

    def mesh_spec(self) -> PartitionSpec | None:
        """Return the spec in terms of mesh axes that `unbox` constrains to; `None` for none.

        A subclass whose names are not mesh axes overrides it (LOG-9b).
        """
        return self.get_partition_spec()

    def replace_boxed(self, val: Tree) -> Self:
        """Return a box with the same metadata around `val`; this box stays as it is (BOX-4)."""
        # Trees have many boxes: this is the quickest copy that there is, and makes no Python call,
        # where `dataclasses.replace` makes several. The fields were checked when this box was made.
        copied = object.__new__(type(self))
        fields = copied.__dict__
        fields |= self.__dict__
        fields["value"] = val
        return copied

    def add_axis(self, index: int, params: Params) -> Self:
        """Name a new axis; `remove_axis` is the inverse (BOX-5).

        Args:
          index: Place of the new axis in the array that has it: -1 is last (BOX-11). Beyond the
            rank, the gap is filled with unsharded axes (BOX-7).
          params: Holds the axis name under `PARTITION_NAME`; `None` there means unsharded.

        Returns:
          A box of the same class around the same value, with one name more (BOX-10).

        Raises:
          PartitioningUnspecifiedError: `params` has no name (BOX-8a).
          AxisIndexError: `index` is below `-rank - 1`.
        """
        return self._renamed(names_with, index, params)

    def remove_axis(self, index: int, params: Params) -> Self:
        """Forget the name of an axis; `add_axis` is the inverse (BOX-6).

        Args:
          index: Place of the axis in the array that still has it: -1 is last (BOX-11).
          params: Holds the axis name under `PARTITION_NAME`; beyond all names it is `None`.

        Returns:
          A box of the same class around the same value, with one name less (BOX-10).

        Raises:
          PartitioningUnspecifiedError: `params` has no name (BOX-8b).
          AxisNameError: The axis at `index` has another name (BOX-9).
          AxisIndexError: `index` is below `-rank`.
        """
        return self._renamed(names_without, index, params)

    def _renamed(self, change: Callable[..., tuple[Any, ...]], index: int, params: Params) -> Self:
        if PARTITION_NAME not in params:
            raise errors.PartitioningUnspecifiedError(box=self, params=params)
        name = params[PARTITION_NAME]
        name = tuple(name) if type(name) is list else name
        copied = object.__new__(type(self))  # as in `replace_boxed`, and for the same reason
        fields = copied.__dict__
        fields |= self.__dict__
        fields["names"] = change(self.names, index, name)
        return copied

    def get_partition_spec(self) -> PartitionSpec:
        """Return `PartitionSpec(*names)` (BOX-16a)."""
        return partition_spec(self.names)

    def get_sharding(self, mesh: Mesh) -> NamedSharding:
        """Return the partition spec on `mesh`, which has an axis for every name (BOX-17a)."""
        return NamedSharding(mesh, self.get_partition_spec())

    def to_nnx_metadata(self) -> dict[str, Any]:
        """Return the fields, the value among them, as metadata of an NNX variable (BRG-4).

        Returns:
          A dictionary by the name of the field, but `out_sharding` for `names` and
          `sharding_rules` for `rules`.
        """
        return {_NNX_NAMES.get(name, name): value for name, value in vars(self).items()}

    @classmethod
    def from_nnx_metadata(cls, metadata: Mapping[str, Any]) -> Self:
        """Make a box from the metadata of an NNX variable; inverse of `to_nnx_metadata` (BRG-4).

        Args:
          metadata: The values of the fields, by their keys in NNX. Keys that belong to no field are
            ignored; `value` and `out_sharding` are required.
        """
        return cls(**{name: metadata[key] for name, key in _metadata_keys(cls) if key in metadata})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.replace_boxed(copy.deepcopy(self.value, memo))


def boxing(fn: Callable[P, A], box: Callable[..., B], **metadata: Any) -> Callable[P, B]:
    """Wrap an initializer so that its result comes in a box (BOX-19).

    Args:
      fn: Any function.
      box: Makes the box: called as `box(result, **metadata)`, and it checks the metadata.
      metadata: The other fields of the box.

    Returns:
      A function with the parameters, the name and the docstring of `fn`.
    """

    @functools.wraps(fn)
    def boxed(*args: P.args, **kwargs: P.kwargs) -> B:
        return box(fn(*args, **kwargs), **metadata)

    return boxed


def with_partitioning(
    fn: Callable[P, A], names: Iterable[Any], mesh: Mesh | None = None
) -> Callable[P, Partitioned[A]]:
    """Make an initializer return its array in a `Partitioned` (BOX-19, document 000).

    Args:
      fn: An initializer, such as those of `jax.nn.initializers`.
      names, mesh: The axis names and the mesh of the box.

    Returns:
      An initializer with the parameters, the name and the docstring of `fn`.

    >>> import jax
    >>> init = with_partitioning(jax.nn.initializers.ones, (None, "model"))
    >>> init(jax.random.key(0), (2, 3)).names
    (None, 'model')
    """
    return boxing(fn, Partitioned, names=names, mesh=mesh)
