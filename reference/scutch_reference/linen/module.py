"""Modules: dataclasses whose methods read and write variables (document 002, contract LIN-1).

A module is a description, which holds no arrays. `init`, `apply` and `bind` make a copy of it that
is *bound* to variables, and each run is thrown away when it has ended. `binding` says how a module
is bound and at which stage its methods run; this module has what a user calls: the variables and
keys of a bound module, and the runs.

>>> import jax
>>> class Scale(Module):
...     @compact
...     def __call__(self, x):
...         return x * self.param("scale", jax.nn.initializers.ones, ())
>>> variables = Scale().init(jax.random.key(0), 2.0)
>>> float(Scale().apply(variables, 3.0))
3.0
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeAlias

import jax

from .. import errors, meta
from ..comparison import hashable
from ..types import Tree
from .binding import (
    Bindable,
    F as F,
    Fn as Fn,
    bound,
    cloned,
    compact as compact,
    current_module as current_module,
    is_free,
    nowrap as nowrap,
    run,
    scope_of,
    wrapped,
)
from .scope import DenyList, Filter, Scope, as_dicts, key_at, matches, put_at
from .variable import Variable

Method: TypeAlias = Fn | str | None
Rngs: TypeAlias = Mapping[str, jax.Array] | jax.Array | None
ALL_BUT_INTERMEDIATES = DenyList("intermediates")  # the collections that `init` returns


def _are_collections(variables: object) -> bool:
    """Whether variables are mappings by name, in a mapping by name (LIN-1g)."""
    return isinstance(variables, Mapping) and all(
        isinstance(tree, Mapping) and all(isinstance(each, str) for each in (name, *tree))
        for name, tree in variables.items()
    )


class Module(Bindable):
    """The base of Linen modules; each subclass becomes a dataclass of its annotations (LIN-1).

    A subclass defines `setup`, or methods marked `compact`, or both.

    Args:
      parent: The module that makes this one; by default the module whose method runs.
      name: The name in the parent; by default the name of the class and a count (LIN-1e).
    """

    _compared: ClassVar[Callable[[Any], Any]] = attrgetter("name")
    """Returns the values of the fields by which modules of the class are compared."""

    def __init_subclass__(cls, kw_only: bool = False, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        plain = {"setup", *inspect.get_annotations(cls)}
        for name, value in list(vars(cls).items()):
            special = name in plain or (name.startswith("__") and name != "__call__")
            if inspect.isfunction(value) and not special and not getattr(value, "nowrap", False):
                setattr(cls, name, wrapped(value))
            if isinstance(value, Field) and not value.init:  # It follows from other fields.
                value.compare = False
                value.repr = False
        comparable = "__hash__" not in vars(cls)
        dataclass(eq=comparable, kw_only=kw_only)(cls)
        if comparable:
            # A field without a `hash` of its own is hashed if it is compared.
            hashed = {
                each.name: each.compare if each.hash is None else each.hash for each in fields(cls)
            }
            cls._compared = attrgetter(*filter(hashed.get, hashed))
            cls.__hash__ = Module.__hash__  # type: ignore[method-assign]

    def __hash__(self) -> int:
        """Hash the values of the fields by which modules are compared (LIN-9h).

        Raises:
          BoundModuleHashError: The module is bound (LIN-1y).
          TypeError: A field holds an unhashable value, such as an array.
        """
        if self.scope is not None:
            raise errors.BoundModuleHashError(module=self)
        values = type(self)._compared(self)
        try:
            return hash(values)
        except TypeError:
            return hash(hashable(values))

    def param(self, name: str, init_fn: Fn, *args: Any, unbox: bool = True, **kwargs: Any) -> Any:
        """Read a parameter, or make it where it is missing and may be made (LIN-1).

        Args:
          name: Its name in the collection `params`.
          init_fn: An initializer, called as `init_fn(key, *args, **kwargs)`.
          args, kwargs: The other arguments of the initializer, such as shape and dtype.
          unbox: Whether to return the value without its box.

        Returns:
          The value: an array of the shape and dtype that the initializer gives, or a tree of them.

        Raises:
          NameInUseError: The module has given the name already (LIN-1h).
          ScopeParamNotFoundError: The parameter is missing, and `params` is not mutable (LIN-1g).
          ScopeParamShapeError: The parameter has another shape than the initializer gives.
        """
        self._names.reserve(self.path, name, "params")
        present = self.variables.get("params", {})
        given: Fn = meta.unbox if unbox else lambda tree: tree
        if name in present:
            value = given(present[name])
            made = jax.eval_shape(lambda: given(init_fn(jax.random.key(0), *args, **kwargs)))
            expected, found = [
                [*map(jax.numpy.shape, jax.tree.leaves(tree))] for tree in (made, value)
            ]
            if expected != found:
                raise errors.ScopeParamShapeError(
                    path=self.path, name=name, expected=expected, found=found
                )
        elif self.is_mutable_collection("params"):
            value = init_fn(self.make_rng(), *args, **kwargs)
            self.put_variable("params", name, value)
            value = given(value)
        else:
            raise errors.ScopeParamNotFoundError(path=self.path, name=name, present=[*present])
        return value

    def variable(
        self,
        col: str,
        name: str,
        init_fn: Fn | None = None,
        *args: Any,
        unbox: bool = True,
        **kwargs: Any,
    ) -> Variable:
        """Return a handle on a variable, which is made where it is missing (LIN-8).

        Args:
          col, name: The collection, and the name in it.
          init_fn: Called as `init_fn(*args, **kwargs)` for the first value.
          args, kwargs: The arguments of `init_fn`.
          unbox: Whether the handle gives the value without its box.

        Returns:
          The handle. Its attribute `value` reads the variable, and writes it while the collection
          is mutable.

        Raises:
          NameInUseError: The module has given the name already (LIN-1h).
          ModifyScopeVariableError: The variable is missing, and the collection is not mutable, or
            `init_fn` is `None` (LIN-8m).
        """
        self._names.reserve(self.path, name, col)
        if not self.has_variable(col, name):
            if init_fn is None or not self.is_mutable_collection(col):
                raise errors.ModifyScopeVariableError(path=self.path, collection=col, name=name)
            self.put_variable(col, name, init_fn(*args, **kwargs))
        return Variable(self, col, name, unbox)

    def has_variable(self, col: str, name: str) -> bool:
        """Return whether the module has a variable of this name.

        Args:
          col: The collection, such as `'params'`.
          name: The name of the variable in the module.
        """
        return name in self.variables.get(col, {})

    def get_variable(self, col: str, name: str, default: Tree = None) -> Tree:
        """Return a variable as it lies in its collection, box and all.

        Args:
          col: The collection, such as `'params'`.
          name: The name of the variable in the module.
          default: The value to return if the collection has no such variable.

        Returns:
          An array, a box around one, or any other tree: the stored object itself, not a copy.
        """
        return self.variables.get(col, {}).get(name, default)

    def put_variable(self, col: str, name: str, value: Tree) -> None:
        """Write a variable as it shall lie in its collection, box and all (LIN-8).

        Args:
          col, name: The collection, and the name in it.
          value: Any tree.

        Raises:
          ModifyScopeVariableError: The collection is not mutable (LIN-8b).
        """
        if not self.is_mutable_collection(col):
            raise errors.ModifyScopeVariableError(path=self.path, collection=col, name=name)
        if not (scope_of(self).making and self.has_variable(col, name)):
            put_at(scope_of(self).variables, (col, *self.path, name), value)

    def is_mutable_collection(self, col: str) -> bool:
        """Return whether the variables of the collection `col` may change in this run."""
        return matches(scope_of(self).mutable, col)

    def sow(
        self,
        col: str,
        name: str,
        value: Tree,
        reduce_fn: Fn = lambda old, new: (*old, new),
        init_fn: Fn = tuple,
    ) -> bool:
        """Add a value to a variable that collects values, if its collection is mutable (LIN-8i).

        Args:
          col, name: The collection, and the name in it.
          value: The value to add.
          reduce_fn: Takes the variable's old value and `value`, and returns the new one; by default
            it appends to a tuple.
          init_fn: Returns the variable's first value, an empty tuple by default.

        Returns:
          Whether the collection is mutable; if it is not, the value is dropped.
        """
        mutable = self.is_mutable_collection(col)
        if mutable:
            if not self.has_variable(col, name):
                self.variable(col, name, init_fn)
            self.put_variable(col, name, reduce_fn(self.get_variable(col, name), value))
        return mutable

    def make_rng(self, name: str = "params") -> Any:
        """Draw a key from a stream; no other module and no other call draws the same (LIN-8d).

        Args:
          name: The stream. If no key was passed for it, the stream `params` is used.

        Returns:
          A key of `jax.random`, which follows from the stream, the path, and how often the module
          has drawn from the stream.

        Raises:
          InvalidRngError: No key was passed for the stream, and none for `params` (LIN-8e).
        """
        scope, stream = scope_of(self), name if self.has_rng(name) else "params"
        if stream not in scope.rngs:
            raise errors.InvalidRngError(path=self.path, stream=name, streams=[*scope.rngs])
        scope.counts[self.path, stream] += 1
        return key_at(scope.rngs[stream], self.path, scope.counts[self.path, stream])

    def has_rng(self, name: str) -> bool:
        """Return whether a key was passed for the stream `name`."""
        return name in scope_of(self).rngs

    def is_initializing(self) -> bool:
        """Return whether `init` runs."""
        return scope_of(self).initializing

    @property
    def variables(self) -> dict[str, Any]:
        """The variables of this module by collection, in their boxes."""
        return scope_of(self).at(self.path)

    def bind(
        self, variables: Mapping[str, Any], *, rngs: Rngs = None, mutable: Filter = False
    ) -> Self:
        """Return a bound copy of the module, for interactive use.

        Args:
          variables, rngs, mutable: As for `apply`.

        Returns:
          A module with the same fields. Its methods can be called directly; they read a copy of
          `variables`, and change it where `mutable` admits that.
        """
        return self._bound_for_run(variables, rngs, mutable)

    def unbind(self) -> tuple[Self, dict[str, Any]]:
        """Return an unbound copy of a bound module, and its variables (LIN-1u).

        Neither the copy nor the parts in its fields have the names that they got by being bound.
        """
        return cloned(self, {}, False), as_dicts(self.variables)

    def apply(
        self,
        variables: Mapping[str, Any],
        *args: Tree,
        rngs: Rngs = None,
        method: Method = None,
        mutable: Filter = False,
        capture_intermediates: bool | Fn = False,
        **kwargs: Tree,
    ) -> Tree:
        """Call the module with variables; they stay as they are (LIN-1b).

        Args:
          variables: The collections that `init` returned, or others, nested by path as these are.
          args, kwargs: The arguments of the call.
          rngs: A key for each stream, in a mapping, or one key for all streams.
          method: The name of a method, or a function whose first argument is the module; `None`
            means `__call__` (LIN-1f).
          mutable: A filter of the collections that may change (LIN-8a).
          capture_intermediates: Sow the output of each `__call__` (`True`), or of each method that
            this predicate of module and name takes, in 'intermediates', which then is mutable.

        Returns:
          The output; if `mutable` is not `False`, a pair of it and the mutable collections.

        Raises:
          ModuleError: `variables` are no collections (LIN-1g).
          ScopeParamNotFoundError: A parameter is missing (LIN-1g).
          ModifyScopeVariableError: A variable of another collection is written (LIN-8b).
          InvalidRngError: A key is drawn from a stream that has none (LIN-8e).
        """
        module = self._bound_for_run(variables, rngs, mutable, capture=capture_intermediates)
        output, changed = module._call(method, args, kwargs)
        return output if mutable is False and not capture_intermediates else (output, changed)

    def init_with_output(
        self,
        rngs: Rngs,
        *args: Tree,
        method: Method = None,
        mutable: Filter = ALL_BUT_INTERMEDIATES,
        capture_intermediates: bool | Fn = False,
        **kwargs: Tree,
    ) -> tuple[Any, dict[str, Any]]:
        """Make the variables that a call needs; return its output and the variables (LIN-1f).

        Args:
          rngs, args, method, capture_intermediates, kwargs: As for `apply`.
          mutable: A filter of the collections that are made; all but 'intermediates' by default.

        Returns:
          A pair: the output of the call; and the collections that `mutable` takes, nested by path,
          with arrays in the boxes that their initializers return.
        """
        settings = {"initializing": True, "capture": capture_intermediates}
        return self._bound_for_run({}, rngs, mutable, **settings)._call(method, args, kwargs)

    def init(self, rngs: Rngs, *args: Tree, **kwargs: Tree) -> dict[str, Any]:
        """Make the variables that a call with these arguments needs (LIN-1a).

        Args:
          rngs, args, kwargs: As for `init_with_output`.

        Returns:
          The collections, nested by path; arrays are in the boxes that their initializers return.
        """
        return self.init_with_output(rngs, *args, **kwargs)[1]

    def _bound_for_run(
        self, variables: Mapping[str, Any], rngs: Rngs, mutable: Filter, **settings: Any
    ) -> Self:
        """A bound copy with `settings` in its scope; `capture` makes 'intermediates' mutable."""
        if not _are_collections(variables):
            raise errors.ModuleError(
                place=f"the variables of a {type(self).__qualname__}",
                given=variables,
                expected="a mapping from names to mappings from names: {'params': {...}}",
            )
        if settings.get("capture"):
            mutable = ("intermediates", mutable)
        streams = rngs if isinstance(rngs, Mapping) else {} if rngs is None else {"params": rngs}
        description = self if is_free(self) else self.clone()
        return bound(description, Scope(as_dicts(variables), mutable, streams, **settings))

    def _call(self, method: Method, args: Tree, kwargs: Tree) -> tuple[Any, dict[str, Any]]:
        """The output of a method, and the collections that may have changed."""
        if callable(method):
            output = run(self, getattr(method, "__func__", method), args, kwargs)
        else:
            output = getattr(self, method or "__call__")(*args, **kwargs)
        return output, scope_of(self).ended()

    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        """Compute the outputs; a subclass defines it, or is called by `method=`."""
        raise errors.ModuleError(
            place=f"the method of {type(self).__qualname__} to call",
            given=None,
            expected="method=..., because the class defines no `__call__`",
        )
