"""Variables on both sides of the bridge: collections and boxes in Linen, types and metadata in NNX.

Names of *collections* and variable types are paired one to one, for all threads. What a Linen *box*
holds is *metadata* of the variable, which remembers its class; other metadata travels in an
`NNXMeta`. To cross is no event: no hook runs, nothing is placed, and no container is shared.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeAlias, TypeVar

import jax
from jax.sharding import PartitionSpec

from .. import nnx
from ..errors import CrossingError, RegistryError
from ..linen.scope import put
from ..meta import AxisMetadata, is_axis_metadata
from ..nnx.static import Static
from ..nnx.variables import HOOKS, add_axis, copied_tree, remove_axis
from ..struct import Node

A = TypeVar("A")
Type: TypeAlias = type[nnx.Variable[Any]]
_BOX_TYPE = "linen_meta_type"
_KNOWN: dict[str, Type] = {"params": nnx.Param, "batch_stats": nnx.BatchStat, "cache": nnx.Cache}
_KNOWN |= {"intermediates": nnx.Intermediate, "perturbations": nnx.Perturbation}
_pairs: dict[Any, Any] = {**_KNOWN, **{typ: name for name, typ in _KNOWN.items()}}
_lock = threading.RLock()  # of `_pairs`, which has the type of each name and the name of each type


def register_variable_name(name: str, typ: Any = None, overwrite: bool = False) -> Any:
    """Pair a collection and a type, or, without the type, decorate a class so (BRG-1).

    What either was paired with is forgotten with `overwrite`, and a `RegistryError` without.
    """
    if typ is None:
        return lambda cls: register_variable_name(name, cls, overwrite)
    if not (isinstance(typ, type) and issubclass(typ, nnx.Variable)):
        raise RegistryError(f"{name!r} cannot name {typ!r}, which is no variable type.")
    with _lock:
        for one in filter(_pairs.__contains__, (name, typ)):
            if not overwrite:
                raise RegistryError(f"{name!r} cannot name {typ!r}: {one!r} has {_pairs[one]!r}.")
            del _pairs[_pairs.pop(one)]
        _pairs[name], _pairs[typ] = typ, name
    return typ


def variable_type_from_name(
    name: str, /, *, base: Type = nnx.Variable, allow_register: bool = False
) -> Type:
    """The type of a collection; a new name is an error, or gets a new type derived from `base`."""
    with _lock:
        if name not in _pairs:
            if not allow_register:
                raise RegistryError(f"No variable type has the name {name!r}.")
            register_variable_name(name, type(name, (base,), {"__module__": __name__}))
        typ: Type = _pairs[name]
        return typ


def variable_name_from_type(typ: Type, /, *, allow_register: bool = False) -> str:
    """The collection of a type; a new type is an error, or gets the name of its class."""
    with _lock:
        if typ not in _pairs:
            if not allow_register:
                raise RegistryError(f"The variable type {typ!r} has no name.")
            register_variable_name(typ.__name__, typ)
        name: str = _pairs[typ]
        return name


# The names of the documents; those above are of today. They register what is new.
variable_type = functools.partial(variable_type_from_name, allow_register=True)
variable_type_name = functools.partial(variable_name_from_type, allow_register=True)
register_variable_name_type_pair = register_variable_name


def sort_variable_types(types: Iterable[type]) -> list[type]:
    """The types, each before its bases, and otherwise in the order given (BRG-3)."""
    return sorted(types, key=lambda t: -sum(issubclass(base, nnx.Variable) for base in t.__mro__))


@dataclasses.dataclass(frozen=True, eq=False)
class NNXMeta(AxisMetadata[A]):
    """The box of a variable: its type, raw value, and metadata, which is static (BRG-5)."""

    var_type: Type
    value: A
    metadata: dict[str, Any]

    def unbox(self) -> A:
        """Return the value (BOX-3)."""
        return self.value

    def replace_boxed(self, val: Any) -> NNXMeta[Any]:
        """Return a box with the same type and metadata around `val` (BOX-4)."""
        return NNXMeta(self.var_type, val, self.metadata)

    def add_axis(self, index: int, params: Mapping[Any, Any]) -> Self:
        """Name a new axis, if the variable has names, and run its hooks; see `nnx.variables`."""
        add_axis(variable := self.to_nnx_variable(), index, params)
        return dataclasses.replace(self, metadata=variable.get_metadata())

    def remove_axis(self, index: int, params: Mapping[Any, Any]) -> Self:
        """Forget the name of an axis, and run the hooks; the inverse of `add_axis`."""
        remove_axis(variable := self.to_nnx_variable(), index, params)
        return dataclasses.replace(self, metadata=variable.get_metadata())

    def get_partition_spec(self) -> PartitionSpec | None:
        """The spec of the variable (BRG-5e)."""
        spec: nnx.Variable[Any] = nnx.get_partition_spec(self.to_nnx_variable())
        return spec.get_raw_value()  # type: ignore[no-any-return]

    def to_nnx_variable(self) -> nnx.Variable[A]:
        """The variable; no hook runs."""
        return self.var_type.from_metadata(self.value, self.metadata)

    __eq__, __hash__ = Node.__eq__, Node.__hash__


jax.tree_util.register_pytree_with_keys(
    NNXMeta,
    lambda x: ([(jax.tree_util.GetAttrKey("value"), x.value)], (x.var_type, Static(x.metadata))),
    lambda static, children: NNXMeta(static[0], next(iter(children)), static[1].value),
)


def is_vanilla_variable(variable: nnx.Variable[Any]) -> bool:
    """Whether a variable has no metadata; hooks that are empty are none (BRG-5)."""
    metadata = variable.get_metadata()
    return all(name in HOOKS and not hooks for name, hooks in metadata.items())


def _attributes(box: Any) -> Any:
    return box.to_nnx_metadata() if hasattr(box, "to_nnx_metadata") else vars(box)


def _takes(box_type: Any, attributes: dict[str, Any]) -> bool:
    try:
        inspect.signature(box_type).bind(**attributes)
    except TypeError:  # That is how a signature says no.
        return False
    return True


def to_linen_var(variable: nnx.Variable[Any]) -> Any:
    """A variable as Linen has it: a bare value, the box that it came from, or an `NNXMeta`.

    It is an `NNXMeta` too where the box has no place for all that the variable holds (BRG-4).
    """
    value, metadata = copied_tree(variable.get_raw_value()), variable.get_metadata()
    if not metadata or is_vanilla_variable(variable):
        return value
    attributes = {**metadata, "value": value}
    if box_type := attributes.pop(_BOX_TYPE, None):
        make = getattr(box_type, "from_nnx_metadata", None)
        if make or _takes(box_type, attributes):
            box = make(dict(attributes)) if make else box_type(**attributes)
            if _attributes(box).keys() >= attributes.keys():
                return box
    return NNXMeta(type(variable), value, metadata)


def to_nnx_var(col: str, x: Any) -> nnx.Variable[Any]:
    """What lies in a Linen collection, as a variable; `to_linen_var` is the inverse (BRG-4).

    A box has `to_nnx_metadata` and `from_nnx_metadata`, or a constructor that takes its attributes,
    `value` among them. An `NNXMeta` must be of the type of the collection.
    """
    typ = variable_type(col)
    if not is_axis_metadata(x):
        return typ.from_metadata(copied_tree(x), {})
    if isinstance(x, NNXMeta):
        if x.var_type is not typ:
            raise CrossingError(f"{col!r} is the collection of {typ!r}, but holds {x.var_type!r}.")
        return x.replace_boxed(copied_tree(x.value)).to_nnx_variable()
    metadata = {**_attributes(x), _BOX_TYPE: type(x)}
    if "value" not in metadata:
        raise CrossingError(f"A box must have a value to cross; {x!r} has {list(metadata)}.")
    return typ.from_metadata(copied_tree(metadata.pop("value")), metadata)


def get_col_name(keypath: Sequence[Any]) -> str:
    """The collection of a key path, which begins with it; else it is a `CrossingError`."""
    if not keypath or not isinstance(keypath[0], jax.tree_util.DictKey):
        raise CrossingError(f"A path begins with its collection, a key; got {tuple(keypath)!r}.")
    return str(keypath[0].key)


def linen_vars_to_nnx_attrs(variables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Collections of Linen variables as one tree of NNX variables (BRG-6).

    Mappings of any class are layers, all else is a variable. A path that is a variable in one
    collection and anything in another is a `CrossingError`.
    """
    attributes: dict[Any, Any] = {}
    owners: dict[Any, tuple[str, bool]] = {}
    for col, tree in variables.items():
        if not isinstance(tree, Mapping):
            raise CrossingError(f"The collection {col!r} is no mapping, but {tree!r}.")
        for path, leaf in nnx.to_flat_state(tree):
            for end in range(1, len(path) + 1):
                whole = end == len(path)
                owner, taken = owners.setdefault(path[:end], (col, whole))
                if owner != col and (taken or whole):
                    raise CrossingError(f"{path[:end]} is in both {owner!r} and {col!r}.")
            put(attributes, path, leaf if isinstance(leaf, nnx.GraphDef) else to_nnx_var(col, leaf))
    return attributes


def nnx_attrs_to_linen_vars(
    nnx_attrs: Mapping[str, Any], metadata_fn: Callable[[nnx.Variable[Any]], Any] = to_linen_var
) -> dict[str, Any]:
    """A tree of NNX variables as collections of Linen variables (BRG-6).

    Graph definitions go to the collection `nnx`; anything else is a `CrossingError`.
    """
    collections: dict[Any, Any] = {}
    for path, leaf in nnx.to_flat_state(nnx_attrs):
        if isinstance(leaf, nnx.Variable):
            put(collections, (variable_type_name(type(leaf)), *path), metadata_fn(leaf))
        elif isinstance(leaf, nnx.GraphDef):
            put(collections, ("nnx", *path), leaf)
        else:
            raise CrossingError(f"{path} is {leaf!r}, which is neither a variable nor a graph.")
    return collections
