"""Box classes written outside any implementation, as an owner of a custom box would write them.

A *foreign* class obeys document `000_` and shares nothing with `Partitioned` but the abstract base
class. Tree functions must treat its boxes by its own methods, whatever its fields are called:

- `Wrapped` keeps its value in a field of another name, and offers no partition spec;
- `Annotated` carries a further piece of metadata beside the names;
- `Padded` fills the gap before an axis beyond its rank with a name of its own;
- `Lookalike` has the static fields of `Partitioned`, names and a mesh, and is no `Partitioned`;
- `Plain` and `Portable` can cross the bridge of document `004_`: the one by its attributes, the
  other by the methods `to_nnx_metadata` and `from_nnx_metadata`.

For example::

    box = foreign(meta.AxisMetadata)['Annotated'](value, ('data', None))
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

PARTITION_NAME = "partition_name"
"""The key of the partition name, as an owner who imports nothing but the base class writes it."""

KINDS = ("Wrapped", "Annotated", "Padded", "Lookalike")
"""The foreign classes whose value is in a field `payload`."""

CROSSING = ("Plain", "Portable")
"""The foreign classes that can cross the bridge, whose value is in a field `value`."""


def _named(base: type) -> Any:
    """The base of the foreign classes, over `AxisMetadata` of an implementation."""

    class Named(base):  # type: ignore[misc]
        """The base of the foreign classes, which keeps a name for each axis, and adds axes."""

        padding: Any = None

        def unbox(self) -> Any:
            return self.payload

        def replace_boxed(self, val: Any) -> Any:
            return replace(self, payload=val)

        def add_axis(self, index: int, params: Mapping[Any, Any]) -> Any:
            name, names = self._name(params), list(self.names)
            at = index if index >= 0 else index + len(names) + 1
            names += [self.padding] * (at - len(names))
            names.insert(at, name)
            return replace(self, names=tuple(names))

        def remove_axis(self, index: int, params: Mapping[Any, Any]) -> Any:
            name, names = self._name(params), list(self.names)
            if names[index] != name:
                raise ValueError(f"axis {index} of {self} is {names[index]!r}, not {name!r}")
            del names[index]
            return replace(self, names=tuple(names))

        def _name(self, params: Mapping[Any, Any]) -> Any:
            if PARTITION_NAME not in params:
                raise KeyError(f"no {PARTITION_NAME!r} in {dict(params)} for {self}")
            return params[PARTITION_NAME]

    return Named


@functools.lru_cache(maxsize=32)
def foreign(base: type) -> Mapping[str, type]:
    """The foreign box classes over one implementation's `AxisMetadata`, by name.

    Args:
      base: `AxisMetadata` of the implementation under judgment.

    Returns:
      The classes in `KINDS` and `CROSSING`; the same ones for the same base.
    """
    Named: Any = _named(base)

    @dataclass(frozen=True)
    class Wrapped(Named):  # type: ignore[misc]
        payload: Any
        names: tuple[Any, ...]

    @dataclass(frozen=True)
    class Annotated(Named):  # type: ignore[misc]
        payload: Any
        names: tuple[Any, ...]
        unit: str = "metre"

        def get_partition_spec(self) -> PartitionSpec:
            return PartitionSpec(*self.names)  # type: ignore[no-untyped-call]

        def get_sharding(self, mesh: Any) -> NamedSharding:
            return NamedSharding(mesh, self.get_partition_spec())

    @dataclass(frozen=True)
    class Padded(Annotated):
        padding: Any = "gap"

    @dataclass(frozen=True)
    class Lookalike(Wrapped):
        mesh: Any = None

    @dataclass(frozen=True)
    class Plain(Named):  # type: ignore[misc]
        value: Any
        names: tuple[Any, ...]
        unit: str = "metre"

        def unbox(self) -> Any:
            return self.value

        def replace_boxed(self, val: Any) -> Any:
            return replace(self, value=val)

    @dataclass(frozen=True)
    class Portable(Plain):
        def to_nnx_metadata(self) -> dict[str, Any]:
            return {"value": self.value, "called": self.names, "unit": self.unit}

        @classmethod
        def from_nnx_metadata(cls, metadata: Mapping[str, Any]) -> Any:
            return cls(metadata["value"], metadata["called"], metadata["unit"])

    static = {
        Wrapped: ["names"],
        Annotated: ["names", "unit"],
        Padded: ["names", "unit", "padding"],
        Lookalike: ["names", "mesh"],
        Plain: ["names", "unit"],
        Portable: ["names", "unit"],
    }
    for kind, names in static.items():
        data = ["value" if kind.__name__ in CROSSING else "payload"]
        jax.tree_util.register_dataclass(kind, data_fields=data, meta_fields=names)
    return {kind.__name__: kind for kind in static}
