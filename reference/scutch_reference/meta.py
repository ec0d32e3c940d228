"""Boxes: values that know what their axes are called (document 000).

A *box* wraps a value, which is an array or any tree of them, and holds metadata for each axis.
A transformation that adds an axis to every array, as `scan` and `vmap` over parameters do, tells
the boxes with `add_axis`; `remove_axis` is the inverse. `unbox` opens a box, `replace_boxed` fills
it again. A box is a pytree node: its leaves are those of its value, and all else is static.

The functions of this module are the methods of boxes on trees of boxes. They take any box class
that derives from `AxisMetadata`; `Partitioned` is the one whose metadata are mesh axes.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Self, cast

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.tree_util import all_leaves, tree_flatten

from . import errors
from .boxes import BOX_TYPES, A, Box, axis_names, set_fields
from .boxes import AxisMetadata as AxisMetadata
from .boxes import is_axis_metadata as is_axis_metadata
from .content import difference, equal, kind
from .placement import constrain, context_mesh, partition_spec

PARTITION_NAME = "partition_name"
"""Under this key the parameters of a transformation hold the name of the axis that it adds."""


_PLAIN = {str, type(None)}
# Fields of boxes that are called otherwise in the metadata of variables.
_NNX_NAMES = {"names": "out_sharding", "rules": "sharding_rules"}


# One box ------------------------------------------------------------------------------------------


class Partitioned(Box[A]):
    """A box whose metadata are the mesh axes that each axis of the value is sharded over.

    Args:
      value: The array, or tree of arrays, tracers or abstract values, or an inner box.
      names: For each axis a mesh axis, a tuple of them, or `None` for an unsharded axis. A
        sequence or a `PartitionSpec`; kept as a tuple.
      mesh: The mesh for `unbox`, where it is not to be the one in context.

    Subclasses are frozen dataclasses and pytree nodes by themselves; their further fields are
    static. Requirements BOX-1 to BOX-24.

    >>> import numpy as np
    >>> box = Partitioned(np.ones((4, 2)), names=("data", None))
    >>> stacked = box.add_axis(0, {PARTITION_NAME: "layers"})
    >>> stacked.names
    ('layers', 'data', None)
    >>> stacked.remove_axis(0, {PARTITION_NAME: "layers"}) == box
    True
    >>> jax.tree.map(np.shape, box)
    Partitioned(value=(4, 2), names=('data', None), mesh=None)
    """

    value: A
    names: tuple[Any, ...]
    mesh: Mesh | None = None

    def __post_init__(self) -> None:
        if type(self.names) is not tuple or not _PLAIN.issuperset(map(type, self.names)):
            object.__setattr__(self, "names", axis_names(self.names))

    def _renamed(self, names: tuple[Any, ...]) -> Self:
        """A copy with other names, at a third of the cost of the constructor."""
        box = object.__new__(type(self))
        fields = self.__dict__.copy()
        fields["names"] = names
        set_fields(box, fields)
        return box

    def unbox(self, apply_constraint: bool = True) -> A:
        """Return the value, constrained to the box's sharding where there is a mesh (BOX-18).

        The box's own mesh wins over the one in context. The constraint is for the arrays that the
        box itself holds: not for those of an inner box, nor for scalars and abstract values.

        Args:
          apply_constraint: `False` leaves the value alone.

        Returns:
          The value, one layer; the same object where no constraint applies (BOX-3).

        Raises:
          ValueError: JAX refuses the sharding for the value.
        """
        if apply_constraint and (self.mesh is not None or context_mesh() is not None):
            spec = self._mesh_spec()
            if spec is not None:
                return cast(
                    A,
                    jax.tree_util.tree_map(
                        lambda leaf: constrain(leaf, spec, self.mesh),
                        self.value,
                        is_leaf=is_axis_metadata,
                    ),
                )
        return self.value

    def _content(self) -> A:
        return self.value

    def _bare(self) -> A:
        return self.value if self.mesh is None else self.unbox()

    def _mesh_spec(self) -> PartitionSpec | None:
        """The constraint in terms of mesh axes; `None` if there is none to apply."""
        return self.get_partition_spec()

    def replace_boxed(self, val: Any) -> Self:
        """Return a box with the same metadata around `val` (BOX-4)."""
        box = object.__new__(type(self))
        fields = self.__dict__.copy()
        fields["value"] = val
        set_fields(box, fields)
        return box

    def replace(self, **changes: Any) -> Self:
        """Return a box with some fields changed."""
        return cast(Self, dataclasses.replace(cast(Any, self), **changes))

    def to_nnx_metadata(self) -> dict[str, Any]:
        """Return the fields under the names that they have as metadata of a variable (BRG-4)."""
        return {_NNX_NAMES.get(name, name): each for name, each in vars(self).items()}

    @classmethod
    def from_nnx_metadata(cls, metadata: Mapping[str, Any]) -> Self:
        """Return the box of such metadata; what is no field of it is left out (BRG-4)."""
        fields = [
            (f.name, _NNX_NAMES.get(f.name, f.name)) for f in dataclasses.fields(cast(Any, cls))
        ]
        return cls(**{name: metadata[key] for name, key in fields if key in metadata})

    def _axis_name(self, params: Mapping[Any, Any]) -> Any:
        """The name of the axis that comes or goes (BOX-8)."""
        if PARTITION_NAME not in params:
            raise errors.PartitioningUnspecifiedError(self, params)
        name = params[PARTITION_NAME]
        return tuple(name) if type(name) is list else name

    def _place(self, index: int, axes: int) -> int:
        """A negative index from the front, in an array of so many axes (BOX-11)."""
        if index < -axes:
            raise errors.AxisIndexError(self, index, -axes)
        return index + axes

    def add_axis(self, index: int, params: Mapping[Any, Any]) -> Self:
        """Name a new axis; `remove_axis` is the inverse (BOX-5).

        Args:
          index: Place of the new axis. Beyond the rank, the gap is unsharded (BOX-7). A negative
            index counts in the array that has the axis, as for `jnp.stack`: -1 is last (BOX-11).
          params: Holds the axis name under `PARTITION_NAME`; `None` there means unsharded.

        Raises:
          PartitioningUnspecifiedError: `params` names no axis (BOX-8).
          AxisIndexError: A negative index before the first axis.
        """
        name, names = self._axis_name(params), self.names
        if index < 0:
            index = self._place(index, len(names) + 1)
        if index > len(names):
            names += (None,) * (index - len(names))
        return self._renamed((*names[:index], name, *names[index:]))

    def remove_axis(self, index: int, params: Mapping[Any, Any]) -> Self:
        """Forget an axis; `add_axis` is the inverse (BOX-6).

        Args:
          index: Place of the axis; -1 is the last name. An axis beyond the names is unsharded, as
            in a partition spec, and leaves them as they are.
          params: Holds the axis name under `PARTITION_NAME`.

        Raises:
          PartitioningUnspecifiedError: `params` names no axis (BOX-8).
          AxisNameError: The axis has another name (BOX-9).
          AxisIndexError: A negative index before the first axis.
        """
        name, names = self._axis_name(params), self.names
        if index < 0:
            index = self._place(index, len(names))
        found = names[index] if index < len(names) else None
        if found != name:
            raise errors.AxisNameError(self, index, found, name)
        return self._renamed(names[:index] + names[index + 1 :])

    def get_partition_spec(self) -> PartitionSpec:
        """Return `PartitionSpec(*names)` (BOX-16)."""
        return partition_spec(self.names)

    def get_sharding(self, mesh: Mesh) -> NamedSharding:
        """Return the partition spec on `mesh` (BOX-17). Every name must be an axis of `mesh`."""
        return NamedSharding(mesh, self.get_partition_spec())

    def _static(self) -> tuple[Any, ...]:
        fields = dataclasses.fields(cast(Any, self))
        return tuple(getattr(self, field.name) for field in fields if field.name != "value")

    def __eq__(self, other: object) -> bool:
        """Compare the whole content; traced values are equal to themselves only (BOX-20)."""
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        box = cast(Partitioned[Any], other)
        return self._static() == box._static() and equal(self.value, box.value)

    def __hash__(self) -> int:
        """Hash structure, shapes, dtypes and names, never the numbers (BOX-20)."""
        leaves, structure = tree_flatten(self.value)
        return hash((type(self), self._static(), structure, *map(kind, leaves)))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.replace_boxed(copy.deepcopy(self.value, memo))


def with_partitioning(
    fn: Callable[..., Any], names: Any, mesh: Mesh | None = None
) -> Callable[..., Partitioned[Any]]:
    """Box what an initializer returns (BOX-19).

    Args:
      fn: Called with the arguments of the returned function, whose name and docstring it gives.
      names: The axis names of the box.
      mesh: The mesh of the box.

    >>> init = with_partitioning(jax.nn.initializers.ones, (None, "model"))
    >>> init(jax.random.key(0), (2, 2)).names
    (None, 'model')
    """

    @functools.wraps(fn)
    def init(*args: Any, **kwargs: Any) -> Partitioned[Any]:
        return Partitioned(fn(*args, **kwargs), names, mesh=mesh)

    return init


# Trees of boxes -----------------------------------------------------------------------------------


def _nodes(tree: Any) -> tuple[list[Any], Any]:
    """The outermost boxes and the other leaves of a tree, and its structure around them."""
    leaves, structure = tree_flatten(tree, is_leaf=is_axis_metadata)
    return leaves, structure


def map_axis_meta(fn: Callable[[Any], Any], tree: Any) -> Any:
    """Call `fn` on every outermost box; every other leaf stays the same object (BOX-12)."""
    leaves, structure = _nodes(tree)
    return structure.unflatten([fn(x) if type(x) in BOX_TYPES else x for x in leaves])


def _classes_with(method: str) -> set[type]:
    """The box classes that leave a method to `Partitioned`."""
    ours = getattr(Partitioned, method)
    return {cls for cls in BOX_TYPES if getattr(cls, method) is ours}


def _name_changer(method: str, index: int, params: Mapping[Any, Any]) -> Callable[[Any], Any]:
    """The method on a box. Where it is that of `Partitioned`, it is called once for equal names."""
    changes_names = getattr(Partitioned, method)
    alike = _classes_with(method)
    changed: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def change(box: Any) -> Any:
        if type(box) not in alike:
            return getattr(box, method)(index, params)
        names = changed.get(box.names)
        if names is None:
            names = changed[box.names] = changes_names(box, index, params).names
        return box._renamed(names)

    return change


def add_axis(tree: Any, index: int, params: Mapping[Any, Any]) -> Any:
    """Name a new axis in every box; see `Partitioned.add_axis` (BOX-13)."""
    return map_axis_meta(_name_changer("add_axis", index, params), tree)


def remove_axis(tree: Any, index: int, params: Mapping[Any, Any]) -> Any:
    """Forget an axis in every box; see `Partitioned.remove_axis` (BOX-13)."""
    return map_axis_meta(_name_changer("remove_axis", index, params), tree)


def _holds_more(values: list[Any]) -> bool:
    """Whether there are boxes, or containers that may hold some, among the values."""
    return not (all_leaves(values) and BOX_TYPES.isdisjoint(map(type, values)))


def unbox(tree: Any) -> Any:
    """Open every box, at any depth, with its constraint (BOX-14).

    >>> unbox({"kernel": Partitioned(Partitioned(1.0, ("data",)), (None,)), "bias": 0.0})
    {'bias': 0.0, 'kernel': 1.0}
    """
    leaves, structure = _nodes(tree)
    if context_mesh() is None:
        values = [x._bare() if type(x) in BOX_TYPES else x for x in leaves]
    else:
        values = [x.unbox() if type(x) in BOX_TYPES else x for x in leaves]
    if values and _holds_more(values):
        values = unbox(values)
    return structure.unflatten(values)


def _opened(node: Any) -> Any:
    """The content of a box, of the innermost where there are several; another node as it is."""
    while type(node) in BOX_TYPES:
        node = node._content()
    return node


def _refilled(tree: Any, updates: Any) -> Any:
    slots, structure = _nodes(tree)
    values = structure.flatten_up_to(updates)
    boxes, alike = BOX_TYPES, _classes_with("_content")
    contents = [
        x.value if type(x) in alike else x._content() if type(x) in boxes else x for x in slots
    ]
    if contents and _holds_more(contents):
        values = _refilled(contents, values)
    elif not all_leaves(values):
        raise ValueError("a subtree where a leaf is expected")
    return structure.unflatten(
        [x.replace_boxed(v) if type(x) in boxes else v for x, v in zip(slots, values, strict=True)]
    )


def replace_boxed(tree: Any, updates: Any) -> Any:
    """Fill every box, at any depth, with the value at its place in `updates` (BOX-15).

    Args:
      tree: Boxes and unboxed leaves.
      updates: A tree with the structure of `unbox(tree)`.

    Returns:
      `tree` with the values of `updates`: in every layer of boxes, and for unboxed leaves.

    Raises:
      StructureMismatchError: The structures differ; the message has the first place.
    """
    try:
        return _refilled(tree, updates)
    except ValueError as error:
        found = difference(tree, updates, _opened)
        if found is None:
            raise
        raise errors.StructureMismatchError(*found) from error


def _spec(leaf: Any) -> PartitionSpec | None:
    if type(leaf) in BOX_TYPES:
        if hasattr(leaf, "get_partition_spec"):
            return cast(PartitionSpec, leaf.get_partition_spec())
        return partition_spec(tuple(leaf.names)) if hasattr(leaf, "names") else None
    return partition_spec(()) if hasattr(leaf, "shape") else None


def get_partition_spec(tree: Any) -> Any:
    """Return the tree with a partition spec for each box and each unboxed array (BOX-16).

    A box gives its spec, an unboxed array `PartitionSpec()`, which is replicated; what has no
    shape, and a box of another class that has neither `get_partition_spec` nor `names`, `None`.
    """
    leaves, structure = _nodes(tree)
    return structure.unflatten(map(_spec, leaves))


def get_sharding(tree: Any, mesh: Mesh) -> Any:
    """Return `get_partition_spec(tree)` with each spec as a sharding on `mesh` (BOX-17)."""
    on_mesh = functools.cache(functools.partial(NamedSharding, mesh))
    leaves, structure = _nodes(tree)
    specs = map(_spec, leaves)
    return structure.unflatten([None if spec is None else on_mesh(spec) for spec in specs])
