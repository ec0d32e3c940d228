"""The conversion of variables between Linen and NNX (document 004, BRG-1 to BRG-6).

In Linen a variable is a value, maybe in a box, at a path in a *collection*. In NNX a variable is an
object with *metadata*, whose class, its *type*, tells its role. A variable *crosses* the bridge
when it is converted from one form to the other:

- the *registry* pairs the name of each collection with one type;
- the fields of a box become metadata of a variable, which also stores the class of the box;
- a variable with metadata that came from no box becomes an `NNXMeta`, a box that holds its type,
  value and metadata.

A conversion runs no hook and moves no array, and its results share no container with its inputs.

>>> from scutch_reference.meta import Partitioned
>>> variable = to_nnx_var("params", Partitioned(1.0, ("data",)))
>>> type(variable).__name__, variable.get_metadata("out_sharding")
('Param', ('data',))
>>> to_linen_var(variable)
Partitioned(value=1.0, names=('data',), mesh=None)
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import jax

from .. import nnx
from ..errors import CrossingError, SharedPathError
from ..jax_versions import trace_level
from ..linen.scope import ModulePath
from ..meta import A, AxisMetadata, Params, is_box
from ..nnx.axes import add_axis, remove_axis
from ..nnx.metadata import HOOKS
from ..nnx.registry import (
    Type,
    register_variable_name as register_variable_name,
    variable_name_from_type as variable_name_from_type,
    variable_type_from_name as variable_type_from_name,
)
from ..nnx.static import Static
from ..nnx.variables import copied_tree, restored
from ..struct import Node
from ..types import Tree

_is_layer: Any = functools.lru_cache(maxsize=2048)(lambda cls: issubclass(cls, Mapping))
"""Whether the values of a class are layers, which means that it is a mapping (BRG-6d)."""
_BOX_TYPE = "linen_meta_type"
"""The key, in the metadata of a variable, of the class of the box that it came from."""
_HOOKS = frozenset(HOOKS)
# The names in document 004; Flax 0.12 uses the names imported above. Unlike the imported functions,
# these register a type or name that is new.
variable_type = functools.partial(variable_type_from_name, allow_register=True)
variable_type_name = functools.partial(variable_name_from_type, allow_register=True)
register_variable_name_type_pair = register_variable_name


def sort_variable_types(types: Iterable[type]) -> list[type]:
    """Return the types with each before its bases, and otherwise in the order given (BRG-3)."""
    return sorted(types, key=lambda t: -sum(issubclass(base, nnx.Variable) for base in t.__mro__))


@dataclasses.dataclass(frozen=True, eq=False)
class NNXMeta(AxisMetadata[A]):
    """The box of a variable that came from no Linen box, with its type and metadata (BRG-5).

    Args:
      var_type: The type of the variable; static.
      value: Its raw value: any tree.
      metadata: Its metadata, hooks included; static.
    """

    var_type: Type
    value: A
    metadata: dict[str, Any]

    def unbox(self) -> A:
        """Return the value (BOX-3)."""
        return self.value

    def replace_boxed(self, val: Tree) -> "NNXMeta[Any]":
        """Return a box with the same type and metadata around `val` (BOX-4)."""
        return NNXMeta(self.var_type, val, self.metadata)

    def add_axis(self, index: int, params: Params) -> Self:
        """Name a new axis, if the variable has names; its hooks run (BRG-5d).

        Args:
          index, params: As in `meta.Partitioned.add_axis`, which lists the errors.
        """
        variable = self.to_nnx_variable()
        add_axis(variable, index, params)
        return dataclasses.replace(self, metadata=variable.get_metadata())

    def remove_axis(self, index: int, params: Params) -> Self:
        """Forget the name of an axis; the inverse of `add_axis` (BRG-5d).

        Args:
          index, params: As in `meta.Partitioned.remove_axis`, which lists the errors.
        """
        variable = self.to_nnx_variable()
        remove_axis(variable, index, params)
        return dataclasses.replace(self, metadata=variable.get_metadata())

    def get_partition_spec(self) -> jax.sharding.PartitionSpec | None:
        """Return the spec that `nnx.get_partition_spec` gives for the variable (BRG-5e)."""
        return nnx.get_partition_spec(self.to_nnx_variable()).get_raw_value()  # type: ignore[no-any-return]

    def to_nnx_variable(self) -> nnx.Variable[A]:
        """Return the variable; no hook runs (BRG-5b)."""
        return self.var_type.from_metadata(self.value, self.metadata)

    __eq__ = Node.__eq__
    __hash__ = Node.__hash__


jax.tree_util.register_pytree_with_keys(
    NNXMeta,
    lambda x: ([(jax.tree_util.GetAttrKey("value"), x.value)], (x.var_type, Static(x.metadata))),
    lambda static, children: NNXMeta(static[0], next(iter(children)), static[1].value),
)


def is_vanilla_variable(variable: nnx.Variable[Any]) -> bool:
    """Tell whether a variable has no metadata; a hook that is empty counts as none (BRG-5a)."""
    metadata = variable._static.value
    # Asked of every variable that crosses, so without a generator.
    return not metadata or (_HOOKS.issuperset(metadata) and not any(metadata.values()))


def _attributes(box: Tree) -> Tree:
    """The fields of a box, its value included, by their keys in NNX."""
    return box.to_nnx_metadata() if hasattr(box, "to_nnx_metadata") else vars(box)


def _takes(box_type: type[Any], attributes: dict[str, Any]) -> bool:
    """Whether the constructor of a box takes attributes as its keywords."""
    try:
        inspect.signature(box_type).bind(**attributes)
    except TypeError:  # This is how `bind` answers no.
        return False
    return True


def to_linen_var(variable: nnx.Variable[Any]) -> Any:
    """Convert a variable to its entry in a Linen collection; inverse of `to_nnx_var` (BRG-4).

    Args:
      variable: Any variable; it stays as it is (BRG-4f).

    Returns:
      The bare value of a vanilla variable (BRG-5a). For a variable that came from a box, a box of
      that class, if it can hold all metadata. For any other variable an `NNXMeta` (BRG-4e,
      BRG-5b).
    """
    value = copied_tree(variable.get_raw_value())
    if is_vanilla_variable(variable):
        return value
    metadata = variable.get_metadata()
    attributes = {**metadata, "value": value}
    if box_type := attributes.pop(_BOX_TYPE, None):
        make = getattr(box_type, "from_nnx_metadata", None)
        if make or _takes(box_type, attributes):
            box = make(dict(attributes)) if make else box_type(**attributes)
            if _attributes(box).keys() >= attributes.keys():
                return box
    return NNXMeta(type(variable), value, metadata)


def to_nnx_var(col: str, x: Tree) -> nnx.Variable[Any]:
    """Convert an entry of a Linen collection to a variable; inverse of `to_linen_var` (BRG-4).

    Args:
      col: The name of the collection; a name that is not registered gets a new type.
      x: A box, or any tree without one at the root. `to_linen_var` can restore a box whose class
        has `to_nnx_metadata` and `from_nnx_metadata`, or a constructor that takes its attributes
        (BRG-4d).

    Returns:
      A variable of the type of the collection. Its metadata are the fields of the box, if any.

    Raises:
      CrossingError: `x` is an `NNXMeta` of another type (BRG-4g), or a box without a `value`.
    """
    return _variable_at(trace_level(), variable_type(col), x)


def _variable_at(level: Any, typ: Type, x: Tree) -> nnx.Variable[Any]:
    """Convert one entry of a Linen collection to a variable, as `to_nnx_var` does.

    Args:
      level: The trace level of the variable, which the caller looks up once for a layer.
      typ: The type of the collection, which the caller looks up once as well.
      x: A box, or any tree without one at the root.

    Returns:
      A variable of the type. Its value is the value of the box, or `x`, in new containers. Its
      metadata are the other fields of the box by their keys in NNX, and under `_BOX_TYPE` the class
      of the box; an `NNXMeta` has metadata of its own instead.

    Raises:
      CrossingError: `x` is an `NNXMeta` of another type (BRG-4g), or a box without a `value`.
    """
    if not is_box(x):
        return restored(typ, copied_tree(x), {}, level)
    if isinstance(x, NNXMeta):
        if x.var_type is not typ:
            col = variable_type_name(typ)
            raise CrossingError(
                place=f"the type of a variable of the collection {col!r}",
                given=x.var_type,
                expected=repr(typ),
            )
        return x.replace_boxed(copied_tree(x.value)).to_nnx_variable()
    metadata = {**_attributes(x), _BOX_TYPE: type(x)}
    if "value" not in metadata:
        raise CrossingError(
            place="a box", given=x, expected="a field `value`: a box must have a value to cross"
        )
    return restored(typ, copied_tree(metadata.pop("value")), metadata, level)


def get_col_name(keypath: Sequence[Any]) -> str:
    """Return the collection of a key path of JAX, which is its first key as a string (BRG-6e).

    Raises:
      CrossingError: The path is empty, or does not begin with the key of a dictionary.
    """
    if not keypath or not isinstance(keypath[0], jax.tree_util.DictKey):
        raise CrossingError(
            place="a key path",
            given=tuple(keypath),
            expected="a path that begins with its collection, a key of a dictionary",
        )
    return str(keypath[0].key)


def linen_vars_to_nnx_attrs(variables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return collections of Linen variables as one tree of NNX variables (BRG-6a).

    Args:
      variables: Collections, nested by path. Mappings of any class are layers (BRG-6d), anything
        else is a variable; a graph definition stays as it is (BRG-6f).

    Returns:
      Nested dictionaries by path, in which the type of a variable tells its collection.

    Raises:
      SharedPathError: A path is a variable in one collection and anything in another (BRG-6c).
      CrossingError: A collection is no mapping.
    """
    attributes: dict[Any, Any] = {}
    for col, tree in variables.items():
        if not isinstance(tree, Mapping):
            raise CrossingError(place=f"the collection {col!r}", given=tree, expected="a mapping")
        if path := _enter(col, tree, attributes, trace_level()):
            owner = next(name for name, other in variables.items() if _holds(other, path))
            raise SharedPathError(path=path, first=owner, second=col)
    return attributes


def _enter(
    col: str, layer: Mapping[Any, Any], attributes: dict[Any, Any], level: Any
) -> ModulePath | None:
    """Add the variables of a layer of a collection to the attributes of the layer.

    Returns:
      The path, below the layer, of an entry that an earlier collection has too, if at least one of
      the two is no layer; `None` without such an entry.
    """
    typ: Any = None  # The type of the collection, which is made when a variable needs it.
    for key, held in layer.items():
        if _is_layer(type(held)):
            inside = attributes.get(key)
            inside = inside if type(inside) is dict else {}
            if path := _enter(col, held, inside, level):
                return (key, *path)
            if inside and attributes.setdefault(key, inside) is not inside:
                return (key,)
        elif key in attributes:
            return (key,)
        elif isinstance(held, nnx.GraphDef):
            attributes[key] = held
        else:
            typ = typ or variable_type(col)
            attributes[key] = _variable_at(level, typ, held)
    return None


def _holds(tree: Tree, path: ModulePath) -> bool:
    """Whether a tree of mappings has a variable at a path or below it."""
    for key in path:
        tree = tree.get(key, {}) if isinstance(tree, Mapping) else {}
    return len(nnx.to_flat_state(tree)) > 0


def nnx_attrs_to_linen_vars(
    nnx_attrs: Mapping[str, Any], metadata_fn: Callable[[nnx.Variable[Any]], Any] = to_linen_var
) -> dict[str, Any]:
    """Return a tree of NNX variables as collections of Linen variables (BRG-6b).

    Args:
      nnx_attrs: Nested mappings by path, with variables and graph definitions at the ends.
      metadata_fn: Converts a variable to its entry in a collection.

    Returns:
      Collections, nested by path. Graph definitions lie in the collection `nnx` (BRG-6f).

    Raises:
      CrossingError: Anything else lies at the end of a path.
    """
    collections: dict[Any, Any] = {}
    _leave(nnx_attrs, (), collections, metadata_fn)
    return collections


def _leave(
    layer: Mapping[Any, Any],
    path: ModulePath,
    collections: dict[Any, Any],
    metadata_fn: Callable[[nnx.Variable[Any]], Any],
) -> None:
    """Write the variables of a layer of attributes into their collections, at the layer's path."""
    own: dict[type, dict[Any, Any]] = {}  # The layer in the collection of each type.
    for key, held in layer.items():
        cls = type(held)
        if _is_layer(cls):
            _leave(held, (*path, key), collections, metadata_fn)
            continue
        if cls not in own:
            own[cls] = _layer_at((_collection_of(held, (*path, key)), *path), collections)
        own[cls][key] = metadata_fn(held) if isinstance(held, nnx.Variable) else held


def _collection_of(held: Tree, path: ModulePath) -> str:
    """The collection of a variable, or of a graph definition (BRG-6f)."""
    if isinstance(held, nnx.GraphDef):
        return "nnx"
    if not isinstance(held, nnx.Variable):
        raise CrossingError(
            place=f"the entry at {path}", given=held, expected="a variable or a graph definition"
        )
    return variable_type_name(type(held))


def _layer_at(path: ModulePath, collections: dict[Any, Any]) -> dict[Any, Any]:
    """The dictionary at a path in nested dictionaries; missing ones are made."""
    for key in path:
        collections = collections.setdefault(key, {})
    return collections
