"""Boxes that keep their mesh where dataclasses do not show it; some of them lose it on the way."""

import functools
from types import SimpleNamespace
from typing import Any

import jax
from scutch.implementation import Implementation
from scutch.namespaces import Namespace
from scutch_reference import meta


class Unlisted(meta.Partitioned[Any]):
    """Its mesh is not among the fields that `dataclasses.fields` gives."""


class LosesUnlisted(Unlisted):
    """Forgets the mesh when an axis is added."""

    def add_axis(self, index: int, params: Any) -> Any:
        return _without_mesh(super().add_axis(index, params))


def _without_mesh(box: Any) -> Any:
    object.__setattr__(box, "mesh", None)
    return box


for each in (Unlisted, LosesUnlisted):
    kept = {name: f for name, f in each.__dataclass_fields__.items() if name != "mesh"}
    each.__dataclass_fields__ = kept


_TABLE: dict[int, Any] = {}
"""The contents of each box of `Tabled`, by its `id`; boxes are kept, so that no `id` is reused."""


@jax.tree_util.register_pytree_node_class
class Tabled:
    """Keeps its value, its names and its mesh in a table; the box itself has no attribute."""

    __slots__ = ()

    def __init__(self, value: Any, names: Any, mesh: Any = None) -> None:
        _TABLE[id(self)] = self, value, names, mesh

    value = property(lambda self: _TABLE[id(self)][1])
    names = property(lambda self: _TABLE[id(self)][2])
    mesh = property(lambda self: _TABLE[id(self)][3])

    def unbox(self) -> Any:
        return self.value

    def replace_boxed(self, val: Any) -> Any:
        return Tabled(val, self.names, self.mesh)

    def add_axis(self, index: int, params: Any) -> Any:
        names = [*self.names[:index], params[meta.PARTITION_NAME], *self.names[index:]]
        return Tabled(self.value, tuple(names), self.mesh)

    def tree_flatten(self) -> Any:
        return (self.value,), (self.names, self.mesh)

    @classmethod
    def tree_unflatten(cls, static: Any, children: Any) -> Any:
        return cls(*children, *static)


def implementation(box: type) -> Implementation:
    """The reference's metadata, with this class for `Partitioned`."""

    def with_partitioning(fn: Any, names: Any, mesh: Any = None) -> Any:
        def initializer(*args: Any, **kwargs: Any) -> Any:
            return box(fn(*args, **kwargs), names, mesh=mesh)

        return functools.update_wrapper(initializer, fn)

    own = SimpleNamespace(Partitioned=box, with_partitioning=with_partitioning)
    return Implementation("hiding", "1", meta=Namespace("hiding: meta", own, meta))
