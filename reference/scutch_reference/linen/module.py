"""Modules: dataclasses whose methods read and write variables (document 002, contract LIN-1).

A module is a description, which holds no arrays, until it is *bound*: given a scope, which has the
variables, and a *path*, its place in them. `init`, `apply` and `bind` bind a copy of a module;
whatever module it makes, in `setup` or in a method marked `compact`, or has in its fields, is bound
below it. So a description never changes, and each run is thrown away when it has ended.

A bound module goes through *stages*: `new`; `setup` while its method `setup` runs; then `ready`, or
`compact` while a method with that mark runs. In `setup` and `compact` it makes sub-modules and
variables. A module that is not bound is at the stage `unbound`.

>>> import jax
>>> class Scale(Module):
...     @compact
...     def __call__(self, x):
...         return x * self.param("scale", jax.nn.initializers.ones, ())
>>> variables = Scale().init(jax.random.key(0), 2.0)
>>> float(Scale().apply(variables, 3.0))
3.0
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, dataclass_transform

import jax

from .. import errors, meta
from ..comparison import hashable
from .scope import DenyList, Filter, NamesInUse, Path, Scope, copied, key_at, matches, put
from .variable import Variable

Fn: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Fn)
Method: TypeAlias = Fn | str | None
ALL_BUT_INTERMEDIATES = DenyList("intermediates")  # the collections that `init` returns
_BEFORE_BINDING = "it is there once the module is bound: by init, apply or bind"
_running: ContextVar[Any] = ContextVar("_running", default=None)
"""The innermost module whose method runs, which is the parent of new modules."""


def current_module() -> "Module":
    """Return the innermost module whose method runs.

    Raises:
      ModuleError: No method of a module runs.
    """
    module: Module | None = _running.get()
    if module is None:
        raise errors.ModuleError(
            "No method of a module runs here: pass module=..., or call it in one."
        )
    return module


def compact(method: F) -> F:
    """Mark the method in which a module makes its parameters and sub-modules (LIN-1i)."""
    method.compact = True  # type: ignore[attr-defined]
    return method


def nowrap(method: F) -> F:
    """Mark a method that runs as any function: without `setup`, and not as a parent of modules."""
    method.nowrap = True  # type: ignore[attr-defined]
    return method


def _method(function: Fn) -> Fn:
    """Wrap a method of a class, to bind the modules that it makes and to capture its output."""

    @functools.wraps(function)
    def call(self: "Module", *args: Any, **kwargs: Any) -> Any:
        output = self._run(function, args, kwargs)
        name = function.__name__
        capture = self.scope is not None and self.scope.capture
        if capture and (name == "__call__" if capture is True else capture(self, name)):
            self.sow("intermediates", name, output)
        return output

    return call


def mapped(fn: Callable[["Module", str], Any], value: Any, *keys: Any) -> Any:
    """Replace each module in a value by the result of a function of it.

    Args:
      fn: Takes a module and its name, and returns the replacement.
      value: A module, or mappings, lists and tuples of them; anything else stays as it is.
      keys: The keys that led to the value. A module is named by all its keys, joined by `_`.

    Returns:
      The value, in new containers.
    """
    if isinstance(value, Module):
        return fn(value, "_".join(map(str, keys)))
    if isinstance(value, Mapping):
        return {key: mapped(fn, item, *keys, key) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(mapped(fn, item, *keys, i) for i, item in enumerate(value))
    return value


def _are_collections(variables: Any) -> bool:
    """Whether variables are mappings by name, in a mapping by name (LIN-1g)."""
    return isinstance(variables, Mapping) and all(
        isinstance(tree, Mapping) and all(isinstance(each, str) for each in (name, *tree))
        for name, tree in variables.items()
    )


def _is_hashed(each: Field[Any]) -> bool:
    return each.compare if each.hash is None else each.hash


@dataclass_transform(eq_default=True)
@dataclass(eq=False)
class Module:
    """The base of Linen modules; each subclass becomes a dataclass of its annotations (LIN-1).

    Names with an underscore are for `lift`, which shares the work with this module; a subclass
    defines `setup`, or methods marked `compact`, or both.

    Args:
      parent: The module that makes this one; by default the module whose method runs.
      name: The name in the parent; by default the name of the class and a count (LIN-1e).
    """

    parent: Any = field(default_factory=_running.get, kw_only=True, compare=False, repr=False)
    name: str | None = field(default=None, kw_only=True)

    scope: ClassVar[Scope | None] = None
    path: ClassVar[Path] = ()
    names_in_use: ClassVar[type[NamesInUse]] = NamesInUse
    """The class that records the names that a module gives; a subclass may use another."""
    _stage: ClassVar[str] = "unbound"
    _compared: ClassVar[Callable[[Any], Any]] = attrgetter("name")
    """Returns the values of the fields by which modules of the class are compared."""

    def __init_subclass__(cls, kw_only: bool = False, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        plain = {"setup", *inspect.get_annotations(cls)}
        for name, value in list(vars(cls).items()):
            special = name in plain or (name.startswith("__") and name != "__call__")
            if inspect.isfunction(value) and not special and not getattr(value, "nowrap", False):
                setattr(cls, name, _method(value))
            if isinstance(value, Field) and not value.init:  # It follows from other fields.
                value.compare = False
                value.repr = False
        comparable = "__hash__" not in vars(cls)
        dataclass(eq=comparable, kw_only=kw_only)(cls)
        if comparable:
            cls._compared = attrgetter(*(each.name for each in fields(cls) if _is_hashed(each)))
            cls.__hash__ = Module.__hash__  # type: ignore[method-assign]

    def __hash__(self) -> int:
        """Hash the values of the fields by which modules are compared (LIN-9h).

        Raises:
          TypeError: The module is bound (LIN-1y); or a field holds an unhashable value, such as an
            array.
        """
        if self.scope is not None:
            raise TypeError(
                f"Tried to hash a bound {type(self).__qualname__}, such as one that is a static "
                "argument: what it gives follows from its variables, too. Pass it unbound, and "
                "the variables as an argument."
            )
        values = type(self)._compared(self)
        try:
            return hash(values)
        except TypeError:
            return hash(hashable(values))

    def setup(self) -> None:
        """Make parameters and sub-modules as attributes, not in a compact method (LIN-1i)."""

    def __post_init__(self) -> None:
        if isinstance(self.parent, Module):
            self.parent._admit(self)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute in `setup`; a module without a name gets the attribute's.

        Raises:
          ModuleError: The module is bound, and `setup` does not run, or the attribute is a field
            that the constructor takes: a bound module is immutable (LIN-1m).
        """
        if self.scope is not None:
            if self._stage != "setup":
                raise errors.ModuleError(
                    f"Tried to set {name!r} of a bound {type(self).__qualname__} outside setup. "
                    "Modules are immutable; state is kept in variables: self.variable(...)."
                )
            if any(each.name == name and each.init for each in fields(self)):
                raise errors.ModuleError(
                    f"Tried to set the field {name!r} of a bound {type(self).__qualname__}. It has "
                    "what the constructor was given; setup may set attributes of other names."
                )
            mapped(self._admit, value, name)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """Run `setup`, if it has not run yet, to make a missing attribute.

        Raises:
          AttributeError: `setup` does not make it either, or cannot run before the module is bound.
        """
        if hasattr(type(self), name):  # A getter failed: Python asks here, and drops its error.
            return object.__getattribute__(self, name)
        if self._stage == "new" and not name.startswith("_"):
            self._set_up()
            return getattr(self, name)
        why = "" if self.scope is not None else f"; if setup makes it, {_BEFORE_BINDING}"
        raise AttributeError(f"{type(self).__qualname__!r} has no attribute {name!r}{why}")

    def _set(self, **attributes: Any) -> None:
        """Set attributes of a bound module from here: `__setattr__` is for its `setup`."""
        vars(self).update(attributes)

    def _fields(self) -> dict[str, Any]:
        """The values of the constructor's fields, except `parent` and `name`."""
        names = [each.name for each in fields(self) if each.init]
        return {name: vars(self)[name] for name in names if name not in ("parent", "name")}

    def _unbound(self) -> errors.ModuleError:
        return errors.ModuleError(
            f"{type(self).__qualname__} is not bound, so it has no variables; {_BEFORE_BINDING}"
        )

    @property
    def _scope(self) -> Scope:
        """The scope of a bound module, or an error."""
        if self.scope is None:
            raise self._unbound()
        return self.scope

    def _admit(self, child: "Module", attribute: str | None = None) -> None:
        """Bind a module that is made here, or is assigned to an attribute in `setup`.

        One that is made in `setup` without a name waits for the attribute that it is assigned to.

        Raises:
          ModuleError: It is made outside `setup` and compact methods, or of another parent.
        """
        if child.scope is not None:
            return
        cls = type(child).__name__
        if self._stage not in ("setup", "compact") or child.parent is not self:
            raise errors.ModuleError(
                f"Tried to add a {cls} to {type(self).__qualname__}. A module is made in setup or "
                "in a method marked compact of its parent, or passed as a field."
            )
        name = child.name or attribute
        if name is None and self._stage == "compact":
            name = self._names.free_name(cls)
        if name is not None and self.scope is not None:
            self._names.reserve(self.path, name)
            child._set(name=name)
            child._bind(self.scope, (*self.path, name), None, {})

    def _bind(self, scope: Scope, path: Path, old: Scope | None, bound: dict[int, Any]) -> None:
        """Bind this module, and the modules in its fields that are unbound or bound to `old`."""
        self._set(scope=scope, path=path, _names=self.names_in_use(), _stage="new")

        def adopted(module: Module, name: str) -> Any:
            """The bound copy of a module in a field; one for all fields that have the module."""
            if (module.scope is None or module.scope is old) and id(module) not in bound:
                place = module.path if module.scope else (*path, module.name or name)
                own = place[:-1] == path
                if own:
                    self._names.reserve(self.path, place[-1])
                bound[id(module)] = module._bound(
                    scope, place, self if own else module.parent, bound=bound
                )
            return bound.get(id(module), module)

        self._set(**mapped(adopted, self._fields()))

    def _bound(
        self,
        scope: Scope,
        path: Path = (),
        parent: Any = None,
        cls: Any = None,
        bound: dict[int, Any] | None = None,
    ) -> Any:
        """A copy of the module, of class `cls` or its own, bound to a scope.

        `bound` has the bound copies of parts by `id`: a part that is in the fields of two parts,
        however deep, is bound once (LIN-1r).
        """
        name = path[-1] if path else self.name
        copy = (cls or type(self))(**self._fields(), name=name, parent=None)
        copy._set(parent=parent)
        copy._bind(scope, path, self.scope, {} if bound is None else bound)
        return copy

    def _set_up(self) -> None:
        """Run `setup`, once."""
        if self._stage == "new":
            self._run(type(self).setup, (), {}, "setup")
            self._set(_stage="ready", _names_of_setup=self.names_in_use(self._names))

    def _run(self, function: Fn, args: Any, kwargs: Any, stage: str | None = None) -> Any:
        """Call a function as a method: after `setup`, at its stage, as the parent of new modules.

        Each call of a compact method begins with the names that `setup` has given.
        """
        if stage is None:
            self._set_up()
        if getattr(function, "compact", False):
            if self._stage == "unbound":
                raise self._unbound()
            if self._stage == "ready":
                stage = "compact"
                self._set(_names=self.names_in_use(self._names_of_setup))
        before, outer = self._stage, _running.set(self)
        self._set(_stage=stage or before)
        try:
            return function(self, *args, **kwargs)
        finally:
            self._set(_stage=before)
            _running.reset(outer)

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

    def get_variable(self, col: str, name: str, default: Any = None) -> Any:
        """Return a variable as it lies in its collection, box and all.

        Args:
          col: The collection, such as `'params'`.
          name: The name of the variable in the module.
          default: The value to return if the collection has no such variable.

        Returns:
          An array, a box around one, or any other tree: the stored object itself, not a copy.
        """
        return self.variables.get(col, {}).get(name, default)

    def put_variable(self, col: str, name: str, value: Any) -> None:
        """Write a variable as it shall lie in its collection, box and all (LIN-8).

        Args:
          col, name: The collection, and the name in it.
          value: Any tree.

        Raises:
          ModifyScopeVariableError: The collection is not mutable (LIN-8b).
        """
        if not self.is_mutable_collection(col):
            raise errors.ModifyScopeVariableError(path=self.path, collection=col, name=name)
        if not (self._scope.making and self.has_variable(col, name)):
            put(self._scope.variables, (col, *self.path, name), value)

    def is_mutable_collection(self, col: str) -> bool:
        """Return whether the variables of the collection `col` may change in this run."""
        return matches(self._scope.mutable, col)

    def sow(
        self,
        col: str,
        name: str,
        value: Any,
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
        scope, stream = self._scope, name if self.has_rng(name) else "params"
        if stream not in scope.rngs:
            raise errors.InvalidRngError(path=self.path, stream=name, streams=[*scope.rngs])
        scope.counts[self.path, stream] += 1
        return key_at(scope.rngs[stream], self.path, scope.counts[self.path, stream])

    def has_rng(self, name: str) -> bool:
        """Return whether a key was passed for the stream `name`."""
        return name in self._scope.rngs

    def is_initializing(self) -> bool:
        """Return whether `init` runs."""
        return self._scope.initializing

    @property
    def variables(self) -> dict[str, Any]:
        """The variables of this module by collection, in their boxes."""
        return self._scope.at(self.path)

    def clone(self, *, parent: Any = None, **changes: Any) -> Self:
        """Return an unbound copy, with other values in the fields named in `changes`.

        Args:
          parent: The module in which the copy is made, as if by its constructor.
        """
        return self._cloned({}, True, parent, changes)

    def _cloned(
        self, clones: dict[int, Any], named: bool, parent: Any, changes: Mapping[str, Any]
    ) -> Self:
        """A clone, with clones of the parts in its fields that are bound.

        `clones` has them by `id`: a part that is in the fields of two parts, however deep, stays
        one part (LIN-1r). Where they are not `named`, none of them has a name.
        """
        return type(self)(
            **mapped(
                lambda part, _: part if part._is_free()
                else clones.setdefault(id(part), part._cloned(clones, named, None, {})),
                {**self._fields(), "name": self.name if named else None, **changes},
            ),
            parent=parent,
        )  # fmt: skip

    def _is_free(self) -> bool:
        """Whether neither this module nor one in its fields is bound."""
        free = [self.scope is None]
        mapped(lambda part, _: free.append(part._is_free()), self._fields())
        return all(free)

    def copy(self, *, name: str | None = None, **changes: Any) -> Self:
        """Return a copy that is a part of the module whose method runs, as a new one is (LIN-1t).

        Args:
          name: Its name in the parent; left out, it gets one as any new part does.
          changes: Values for fields; and `parent`, if that is not the module whose method runs.
        """
        return self.clone(**{"parent": _running.get(), "name": name, **changes})

    def bind(
        self, variables: Mapping[str, Any], *, rngs: Any = None, mutable: Filter = False
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
        return self._cloned({}, False, None, {}), copied(self.variables)

    def apply(
        self,
        variables: Mapping[str, Any],
        *args: Any,
        rngs: Any = None,
        method: Method = None,
        mutable: Filter = False,
        capture_intermediates: Any = False,
        **kwargs: Any,
    ) -> Any:
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
        rngs: Any,
        *args: Any,
        method: Method = None,
        mutable: Filter = ALL_BUT_INTERMEDIATES,
        capture_intermediates: Any = False,
        **kwargs: Any,
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

    def init(self, rngs: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Make the variables that a call with these arguments needs (LIN-1a).

        Args:
          rngs, args, kwargs: As for `init_with_output`.

        Returns:
          The collections, nested by path; arrays are in the boxes that their initializers return.
        """
        return self.init_with_output(rngs, *args, **kwargs)[1]

    def _bound_for_run(
        self, variables: Mapping[str, Any], rngs: Any, mutable: Filter, **settings: Any
    ) -> Self:
        """A bound copy with `settings` in its scope; `capture` makes 'intermediates' mutable."""
        if not _are_collections(variables):
            raise errors.ModuleError(
                f"Tried to bind a {type(self).__qualname__} to variables that are no collections. "
                "They are a mapping from names to mappings from names, such as {'params': {...}}."
            )
        if settings.get("capture"):
            mutable = ("intermediates", mutable)
        streams = rngs if isinstance(rngs, Mapping) else {} if rngs is None else {"params": rngs}
        return (self if self._is_free() else self.clone())._bound(  # type: ignore[no-any-return]
            Scope(copied(variables), mutable, streams, **settings)
        )

    def _call(self, method: Method, args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """The output of a method, and the collections that may have changed."""
        if callable(method):
            output = self._run(getattr(method, "__func__", method), args, kwargs)
        else:
            output = getattr(self, method or "__call__")(*args, **kwargs)
        return output, self._scope.ended()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; a subclass defines it, or is called by `method=`."""
        raise errors.ModuleError(f"{type(self).__qualname__} defines no __call__; pass method=...")
