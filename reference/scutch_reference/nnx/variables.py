"""Variables: the cells of a model that change, and the shardings that they ask for.

A variable holds one value. The *type* of a variable tells its role, and filters select by it: a
`Param` is learned, a `BatchStat` is a running statistic. A variable also has metadata: the names of
the axes of its value, hooks, and entries that the user adds.

Words: the *raw value* is the stored value; the *value* is the result of the hooks `on_get_value`,
which `metadata` explains. In expressions a variable stands for its value.

>>> import jax.numpy as jnp
>>> weight = Param(jnp.ones(2), on_get_value=lambda variable, value: 2 * value)
>>> (weight + 1).tolist(), weight.get_raw_value().tolist()
([3.0, 3.0], [1.0, 1.0])
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar

import jax
import numpy as np

from ..errors import DataError
from ..jax_versions import trace_level
from ..meta import A as A
from ..placement import constrain, formatted
from ..types import Tree
from .defaults import using_eager_sharding
from .metadata import HOOKS, VariableMetadata, mesh_of, sharding_in, spec_of, tidied
from .operators import Operators, value_of as value_of
from .static import Static, copied
from .tracking import Tracked

T = TypeVar("T", bound="Variable[Any]")

_UNSET: Any = object()
_ARRAYS = (np.ndarray, jax.Array)


def copied_tree(value: Tree) -> Tree:
    """Return the same leaves in new containers; an array is returned itself."""
    return value if isinstance(value, _ARRAYS) else jax.tree.map(lambda x: x, value)


class Variable(Operators, Tracked, Generic[A]):
    """One value with a type and metadata; expressions compute with the value itself (OBJ-5).

    Args:
      value: An array, a tree of arrays, or a `VariableMetadata` from an initializer.
      **metadata: Kept with the value. Under the names of `HOOKS` are functions, or tuples of
        functions; under `out_sharding` names of axes, by which the value is sharded on `mesh`, or
        else on the mesh in context, unless `eager_sharding` is False (OBJ-9). A `NamedSharding`
        there has a mesh of its own, and JAX's `Format` of one also orders the array in memory.

    Raises:
      UnhashableStaticError: When the variable is first compared or compiled, metadata have no
        hash.
    """

    __slots__ = ("_static",)
    _static: Static  # The metadata; variables of the same origin share it.

    def __init__(self, value: A | VariableMetadata[A], **metadata: object):
        if isinstance(value, VariableMetadata):
            metadata = {**value.metadata, **metadata}
            value = value.raw_value
        methods = {hook: getattr(type(self), hook) for hook in HOOKS if hasattr(type(self), hook)}
        _put_static(self, tidied(methods | metadata))
        self._begin(trace_level(), value)
        made: Any = self.create_value(self.run_hooks("on_create_value", value))
        stored = self._static.value
        spec = spec_of(stored)
        if spec is not None and metadata.get("eager_sharding", using_eager_sharding()):
            given, mesh = stored["out_sharding"], mesh_of(stored)
            made = jax.tree.map(lambda leaf: constrain(leaf, spec, mesh), made)
            if given is not sharding_in(given):
                made = jax.tree.map(lambda leaf: formatted(leaf, given), made)
        self._cell[0] = made

    @classmethod
    def from_metadata(cls, value: A, attributes: Mapping[str, Any]) -> Self:
        """Make a variable with exactly this raw value and metadata; no hook runs (OBJ-5).

        Args:
          value: The raw value.
          attributes: The metadata by name.
        """
        return restored(cls, value, attributes, trace_level())

    def _flatten(self) -> tuple[Any, Static]:
        return ((jax.tree_util.GetAttrKey("value"), self._cell[0]),), self._static

    @classmethod
    def _unflatten(cls, static: Static, children: Iterable[Any]) -> Self:
        variable = object.__new__(cls)
        _put_static(variable, static)
        variable._begin(trace_level(), *children)
        return variable

    def _hooks(self, event: str) -> Iterable[Callable[..., Any]]:
        hooks = self._static.value.get(event) or ()
        return hooks if isinstance(hooks, tuple | list) else (hooks,)

    def run_hooks(self, event: str, value: Tree) -> Tree:
        """Return a value after the hooks of an event, which run one after the other (OBJ-5).

        A subclass may override it, to see or change all values that pass through hooks.

        Args:
          event: One of `on_create_value`, `on_get_value`, `on_set_value`.
          value: The input of the first hook; each further hook gets the result of the one before.
        """
        for hook in self._hooks(event):
            value = hook(self, value)
        return value

    def create_value(self, value: A) -> A:
        """Return the first raw value of a new variable; a subclass may override it.

        Args:
          value: The argument of the constructor, after the hooks `on_create_value`.
        """
        return value

    def add_axis(self, index: int, name: Hashable) -> None:
        """Run the hooks `on_add_axis`: a transformation adds an axis to the value (OBJ-5).

        Args:
          index: Where the new axis is.
          name: Its name, or None.
        """
        for hook in self._hooks("on_add_axis"):
            hook(self, index, name)

    def remove_axis(self, index: int, name: Hashable) -> None:
        """Run the hooks `on_remove_axis`: a transformation takes an axis off the value (OBJ-5).

        Args:
          index: Where the axis was.
          name: Its name, or None.
        """
        for hook in self._hooks("on_remove_axis"):
            hook(self, index, name)

    def get_value(self, *, index: Any = ...) -> Any:
        """Return the value, or a part of it, after the hooks `on_get_value` (OBJ-5).

        Args:
          index: The part of the raw value that the hooks get; all of it by default.

        Returns:
          An array, or a tree of arrays in new containers.
        """
        value = copied_tree(self._cell[0])
        return self.run_hooks("on_get_value", value if index is ... else value[index])

    def set_value(self, value: Tree, *, index: Any = _UNSET) -> None:
        """Store a value, or a part of it, after the hooks `on_set_value` (OBJ-5).

        Args:
          value: An array, a tree of arrays, or a variable, which stands for its value.
          index: The part of the value that changes. Without it, the value may have another shape
            and dtype afterwards; with `...` it has the shape and dtype that it had.

        Raises:
          TraceLevelError: The variable was made outside the transformation that runs.
        """
        self._check("change the value of")
        value = self.run_hooks("on_set_value", copied_tree(value_of(value)))
        old = self._cell[0]
        # A value of the same form replaces the old one, without broadcast or conversion.
        fits = index is ... and (not isinstance(old, _ARRAYS) or _form(value) == _form(old))
        if index is _UNSET or fits:
            self._cell[0] = value
        elif isinstance(old, jax.Array):
            self._cell[0] = old.at[index].set(value)
        else:
            self._cell[0] = old.copy()
            self._cell[0][index] = value

    def get_raw_value(self) -> A:
        """Return the stored value; no hook runs (OBJ-5)."""
        return self._cell[0]  # type: ignore[no-any-return]

    def set_raw_value(self, value: A) -> None:
        """Store a value; no hook runs (OBJ-5).

        Args:
          value: An array or a tree of arrays.

        Raises:
          TraceLevelError: The variable was made outside the transformation that runs.
        """
        self._check("change the value of")
        self._cell[0] = value

    value = property(lambda self: self.get_value(), lambda self, value: self.set_value(value))
    raw_value = property(get_raw_value, set_raw_value)

    def __getitem__(self, index: Any) -> Any:
        return self.get_value(index=index)

    def __setitem__(self, index: Any, value: Tree) -> None:
        self.set_value(value, index=index)

    @property
    def raw_metadata(self) -> Mapping[str, Any]:
        """The metadata as they are stored, to be read only; `get_metadata` hands out copies."""
        return MappingProxyType(self._static.value)

    def get_metadata(self, name: str = _UNSET, default: Any = _UNSET) -> Any:
        """Return all metadata in a new dictionary, or one entry; containers are copies (OBJ-5).

        Args:
          name: The entry; without it, all.
          default: Is returned if there is no such entry.

        Raises:
          KeyError: There is no such entry, and no default.
        """
        if default is not _UNSET and name not in self._static.value:
            return default
        return copied(self._static.value if name is _UNSET else self._static.value[name])

    def set_metadata(self, *args: Any, **kwargs: Any) -> None:
        """Replace all metadata by a dictionary, or set one `name, value`, or keywords (OBJ-5).

        Args:
          *args: One dictionary, or a name and a value.
          **kwargs: Values by name; not with `args`.

        Raises:
          DataError: The arguments are none of these.
          TraceLevelError: The variable was made outside the transformation that runs.
        """
        self._check("change the metadata of")
        if len(args) > 2 or bool(args) == bool(kwargs):
            raise DataError(
                place="metadata",
                given=args,
                expected="a dictionary, or a name and a value, or else keywords",
            )
        new = args[0] if len(args) == 1 else self._static.value | (kwargs or dict([args]))
        self._set_static(tidied(new))

    def has_metadata(self, name: str) -> bool:
        """Return whether there is a metadata entry of this name.

        Args:
          name: The name of the entry.
        """
        return name in self._static.value

    def del_metadata(self, name: str) -> None:
        """Delete a metadata entry; one that is not there is no error.

        Args:
          name: The name of the entry.

        Raises:
          TraceLevelError: The variable was made outside the transformation that runs.
        """
        self.set_metadata({k: v for k, v in self._static.value.items() if k != name})

    def _set_static(self, static: Static) -> None:
        _put_static(self, static)
        self._changed()

    sharding_names = property(lambda self: self._static.value.get("out_sharding"))
    type = var_type = property(lambda self: type(self))  # As `VariableState` had it.

    def copy(self, value: Tree = _UNSET, **updates: object) -> Self:
        """Return a new variable of the same type; no hook runs (OBJ-5).

        Args:
          value: The raw value of the copy, if it is to be another.
          **updates: Metadata that the copy has beside, or in place of, the same ones.
        """
        value = copied_tree(self._cell[0] if value is _UNSET else value)
        static = tidied(self._static.value | updates) if updates else self._static
        return self._unflatten(static, (value,))

    __copy__ = replace = to_state = copy

    def copy_from(self, other: "Variable[A]") -> None:
        """Take over raw value and metadata of a variable of the same type (OBJ-5).

        Args:
          other: The variable to copy.

        Raises:
          DataError: It has another type.
          TraceLevelError: This was made outside the transformation that runs.
        """
        if self.type is not other.type:
            raise DataError(
                place="the type of the other variable", given=other.type, expected=repr(self.type)
            )
        self.update_from_state(other)

    def update_from_state(self, state: "Variable[A]") -> None:
        """Take over raw value and metadata of a variable of any type (OBJ-2).

        Args:
          state: The variable, as a `State` holds it.

        Raises:
          TraceLevelError: This was made outside the transformation that runs.
        """
        self.set_raw_value(state._cell[0])
        if self._static != state._static:
            self._set_static(state._static)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.from_metadata, (self._cell[0], self._static.value)

    def __getattr__(self, name: str) -> Any:
        # A half-made copy must not look for its own cell; protocols are not the value's to answer.
        if name in ("_cell", "_static") or name.startswith("__"):
            raise AttributeError(name)
        if name in self._static.value:
            return copied(self._static.value[name])
        return getattr(self._cell[0], name)

    def __setattr__(self, name: str, value: object) -> None:
        self._check(f"set {name!r} of")
        if name in (*Tracked.__slots__, *Variable.__slots__) or not hasattr(type(self), name):
            raise AttributeError(
                f"To set {name!r}, use set_metadata({name}=...), or v[...] = x.",
                name=name,
                obj=self,
            )
        object.__setattr__(self, name, value)
        if name == "__class__":
            self._changed()

    def __repr__(self) -> str:
        metadata = "".join(f", {k}={v!r}" for k, v in self._static.value.items())
        return f"{type(self).__name__}(value={self._cell[0]!r}{metadata})"


# Sets the slot past `Variable.__setattr__`, as those of `Tracked` are set.
_put_static = vars(Variable)["_static"].__set__


def restored(cls: type[T], value: Tree, attributes: Mapping[str, Any], level: Hashable) -> T:
    """Make a variable as `from_metadata` does, at a trace level that the caller has asked for.

    A caller that makes many variables asks for the level once.

    Args:
      cls: The type of the variable.
      value: The raw value.
      attributes: The metadata by name.
      level: The running trace, as `trace_level` returns it.

    Returns:
      A variable with exactly this raw value and metadata; no hook runs.
    """
    variable = object.__new__(cls)
    _put_static(variable, tidied(attributes))
    variable._begin(level, value)
    return variable


def is_variable(value: object) -> bool:
    """Return whether a value is a variable."""
    return isinstance(value, Variable)


def _form(value: Tree) -> list[Any]:
    return [getattr(value, name, None) for name in ("shape", "dtype", "sharding")]


VariableState = Variable  # The name in the documents: states hold copies of variables.


class Param(Variable[A]):
    """A parameter that is learned."""


class BatchStat(Variable[A]):
    """A running statistic of a normalization."""


class Cache(Variable[A]):
    """A value that decoding keeps from step to step."""


class Intermediate(Variable[A]):
    """A value that was sown on the way."""


class Perturbation(Intermediate[A]):
    """A zero whose gradient is the gradient of an intermediate value."""
