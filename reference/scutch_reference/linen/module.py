"""Modules: dataclasses whose methods read and write variables (LIN-1).

A module is a description until it is *bound* to a place in a scope: by `init`, `apply` or `bind`,
or by being made in a bound module, in `setup` or in a method marked `compact`. Descriptions never
change: a copy is bound. Its stage is `new`, then `setup`, then `ready` or `compact`.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import zlib
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp

from .. import errors, meta
from .scope import DenyList, Filter, Scope, copied, matches, put

Fn: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Fn)
Method: TypeAlias = Fn | str | None
Path: TypeAlias = tuple[str, ...]
_NEW = DenyList("intermediates")  # what `init` returns
_BEFORE_BINDING = "it is there once the module is bound: by init, apply or bind"
_running: ContextVar[Any] = ContextVar("_running", default=None)
"""The innermost module of which a method runs: the parent of new modules."""


def compact(method: F) -> F:
    """Mark the method in which a module makes its parameters and sub-modules."""
    method.compact = True  # type: ignore[attr-defined]
    return method


def nowrap(method: F) -> F:
    """Mark a method that neither runs `setup` nor is the parent of the modules it makes."""
    method.nowrap = True  # type: ignore[attr-defined]
    return method


def _method(function: Fn) -> Fn:
    @functools.wraps(function)
    def call(self: Module, *args: Any, **kwargs: Any) -> Any:
        output, name = self._run(function, args, kwargs), function.__name__
        capture = self.scope is not None and self.scope.capture
        if capture and (name == "__call__" if capture is True else capture(self, name)):
            self.sow("intermediates", name, output)
        return output

    return call


def mapped(fn: Callable[[Module, str], Any], value: Any, *keys: Any) -> Any:
    """A value with `fn(module, name)` for each module in it; in containers, keys are the name."""
    if isinstance(value, Module):
        return fn(value, "_".join(map(str, keys)))
    if isinstance(value, Mapping):
        return {key: mapped(fn, item, *keys, key) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(mapped(fn, item, *keys, i) for i, item in enumerate(value))
    return value


@dataclass(eq=False)
class Variable:
    """A handle on one variable of a module."""

    module: Module
    collection: str
    name: str

    @property
    def value(self) -> Any:
        """The value, out of its box, into which a new value goes."""
        return meta.unbox(self.module.get_variable(self.collection, self.name))

    @value.setter
    def value(self, value: Any) -> None:
        held = self.module.get_variable(self.collection, self.name)
        value = held.replace_boxed(value) if meta.is_axis_metadata(held) else value
        self.module.put_variable(self.collection, self.name, value)


@dataclass_transform(eq_default=True)
@dataclass(eq=False)
class Module:
    """The base of Linen modules. A subclass is a dataclass, by its annotations (LIN-1).

    The `parent` is the module that makes this one. A `name` left out is the class and a number.
    """

    parent: Any = field(default_factory=_running.get, kw_only=True, compare=False, repr=False)
    name: str | None = field(default=None, kw_only=True)

    scope: ClassVar[Scope | None] = None
    path: ClassVar[Path] = ()
    _stage: ClassVar[str] = "unbound"

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        plain = {"setup", *inspect.get_annotations(cls)}
        for name, value in list(vars(cls).items()):
            special = name in plain or (name.startswith("__") and name != "__call__")
            if inspect.isfunction(value) and not special and not hasattr(value, "nowrap"):
                setattr(cls, name, _method(value))
            if isinstance(value, Field) and not value.init:  # It follows from others.
                value.compare = value.repr = False
        comparable = "__hash__" not in vars(cls)
        dataclass(eq=comparable, unsafe_hash=comparable)(cls)

    def setup(self) -> None:
        """Make parameters and sub-modules as attributes, instead of in a compact method."""

    def __post_init__(self) -> None:
        if isinstance(self.parent, Module):
            self.parent._admit(self)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute in `setup`; a module without a name gets the attribute's."""
        if self.scope is not None:
            if self._stage != "setup":
                raise errors.ModuleError(
                    f"Tried to set {name!r} of a bound {type(self).__qualname__} outside setup. "
                    "Modules are immutable; state is kept in variables: self.variable(...)."
                )
            mapped(self._admit, value, name)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """Run `setup`, if that has not happened, for an attribute that is not there yet."""
        if self._stage == "new" and not name.startswith("_"):
            self._set_up()
            return getattr(self, name)
        why = "" if self.scope is not None else f"; if setup makes it, {_BEFORE_BINDING}"
        raise AttributeError(f"{type(self).__qualname__!r} has no attribute {name!r}{why}")

    # Names and places

    def _set(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def _fields(self) -> dict[str, Any]:
        names = [each.name for each in fields(self) if each.init]
        return {name: vars(self)[name] for name in names if name not in ("parent", "name")}

    @property
    def _scope(self) -> Scope:
        if self.scope is None:
            raise errors.ModuleError(
                f"{type(self).__qualname__} is not bound, so it has no variables; {_BEFORE_BINDING}"
            )
        return self.scope

    def _reserve(self, name: str, collection: str | None = None) -> None:
        """Take a name, for a variable of a collection or for a sub-module."""
        kinds = {None: "sub-module", "params": "parameter"}
        for other in [its for taken, its in self._taken if taken == name]:
            if other == collection or None in (other, collection):
                found = [kinds.get(each, "variable") for each in (collection, other)]
                raise errors.NameInUseError(found[0], name, self.path, found[1])
        self._taken.add((name, collection))

    def _admit(self, child: Module, attribute: str | None = None) -> None:
        """Give a module that is made here, or is assigned in `setup`, its name and place."""
        if child.scope is not None:
            return
        kind, name = type(child).__name__, child.name or attribute
        if self._stage not in ("setup", "compact") or child.parent is not self:
            raise errors.ModuleError(
                f"Tried to add a {kind} to {type(self).__qualname__}. A module is made in setup or "
                "in a method marked compact of its parent, or passed as a field."
            )
        if name is None and self._stage == "compact":
            names = (f"{kind}_{i}" for i in itertools.count())
            name = next(each for each in names if (each, None) not in self._taken)
        if name is not None:  # Else it gets that of the attribute.
            self._reserve(name)
            child._set(name=name)
            child._bind(self._scope, (*self.path, name))

    def _bind(self, scope: Scope, path: Path, old: Scope | None = None) -> None:
        """Take a place in a scope, and places below for fields that are unbound, or in `old`."""
        self._set(scope=scope, path=path, _taken=set(), _stage="new")
        bound: dict[int, Module] = {}

        def adopted(module: Module, name: str) -> Module:
            if module.scope in (None, old) and id(module) not in bound:
                place = module.path if module.scope else (*path, module.name or name)
                own = place[:-1] == path
                if own:
                    self._reserve(place[-1])
                bound[id(module)] = module._bound(scope, place, self if own else module.parent)
            return bound.get(id(module), module)

        self._set(**mapped(adopted, self._fields()))

    def _bound(self, scope: Scope, path: Path = (), parent: Any = None, cls: Any = None) -> Any:
        """A copy of the module, of class `cls` or the same, with a place in a scope."""
        name = path[-1] if path else self.name
        copy = (cls or type(self))(**self._fields(), name=name, parent=None)
        copy._set(parent=parent)
        copy._bind(scope, path, self.scope)
        return copy

    def _set_up(self) -> None:
        if self._stage == "new":
            self._run(type(self).setup, (), {}, "setup")
            self._set(_stage="ready", _made=set(self._taken))

    def _run(self, function: Fn, args: Any, kwargs: Any, stage: str | None = None) -> Any:
        """Call a function as a method: `setup` first, new modules inside."""
        if stage is None:
            self._set_up()
        if hasattr(function, "compact") and self._scope and self._stage == "ready":
            stage = "compact"
            self._set(_taken=set(self._made))
        before, outer = self._stage, _running.set(self)
        self._set(_stage=stage or before)
        try:
            return function(self, *args, **kwargs)
        finally:
            self._set(_stage=before)
            _running.reset(outer)

    # Variables and keys

    def param(self, name: str, init_fn: Fn, *args: Any, unbox: bool = True, **kwargs: Any) -> Any:
        """Read a parameter, or make it with `init_fn(key, *args, **kwargs)`; its box is opened."""
        self._reserve(name, "params")
        present = self.variables.get("params", {})
        if name in present:
            made = jax.eval_shape(lambda: init_fn(jax.random.key(0), *args, **kwargs))
            shapes = [[*map(jnp.shape, jax.tree.leaves(tree))] for tree in (made, present[name])]
            if shapes[0] != shapes[1]:
                raise errors.ScopeParamShapeError(name, self.path, *shapes)
        elif self.is_mutable_collection("params"):
            self.put_variable("params", name, init_fn(self.make_rng(), *args, **kwargs))
        else:
            raise errors.ScopeParamNotFoundError(name, self.path, [*present])
        value = self.get_variable("params", name)
        return meta.unbox(value) if unbox else value

    def variable(
        self, col: str, name: str, init_fn: Fn | None = None, *args: Any, **kwargs: Any
    ) -> Variable:
        """A handle on a variable of collection `col`; made with `init_fn(*args)` where missing."""
        self._reserve(name, col)
        if not self.has_variable(col, name):
            made = init_fn(*args, **kwargs) if init_fn and self.is_mutable_collection(col) else None
            self.put_variable(col, name, made)
        return Variable(self, col, name)

    def has_variable(self, col: str, name: str) -> bool:
        """Whether a collection has a variable of that name here."""
        return name in self.variables.get(col, {})

    def get_variable(self, col: str, name: str, default: Any = None) -> Any:
        """The variable as it lies in its collection, box and all, or `default`."""
        return self.variables.get(col, {}).get(name, default)

    def put_variable(self, col: str, name: str, value: Any) -> None:
        """Write a variable as it shall lie in its collection, which must be mutable (LIN-8)."""
        if not self.is_mutable_collection(col):
            raise errors.ModifyScopeVariableError(col, name, self.path)
        if not self.has_variable(col, name):
            put(self._scope.created, (col, *self.path, name), value)
        put(self._scope.variables, (col, *self.path, name), value)

    def is_mutable_collection(self, col: str) -> bool:
        """Whether the variables of a collection may change."""
        return matches(self._scope.mutable, col)

    def sow(
        self,
        col: str,
        name: str,
        value: Any,
        reduce_fn: Fn = lambda old, new: (*old, new),
        init_fn: Fn = tuple,
    ) -> bool:
        """Append a value to a variable where its collection is mutable; returns whether it is."""
        if mutable := self.is_mutable_collection(col):
            if not self.has_variable(col, name):
                self.variable(col, name, init_fn)
            self.put_variable(col, name, reduce_fn(self.get_variable(col, name), value))
        return mutable

    def make_rng(self, name: str = "params") -> Any:
        """A key that no other path or call gets, of a stream, or `params` if it was not passed."""
        scope, stream = self._scope, name if self.has_rng(name) else "params"
        if stream not in scope.rngs:
            raise errors.InvalidRngError(name, self.path, [*scope.rngs])
        scope.counts[self.path, stream] += 1
        label = "/".join((*self.path, str(scope.counts[self.path, stream])))
        return jax.random.fold_in(scope.rngs[stream], zlib.crc32(label.encode()))

    def has_rng(self, name: str) -> bool:
        """Whether a key was passed for the stream."""
        return name in self._scope.rngs

    def is_initializing(self) -> bool:
        """Whether `init` runs."""
        return self._scope.initializing

    @property
    def variables(self) -> dict[str, Any]:
        """What each collection holds for this module."""
        return self._scope.at(self.path)

    # From outside

    def clone(self, *, parent: Any = None, **changes: Any) -> Self:
        """An unbound copy, with other fields."""
        given = {**self._fields(), "name": self.name, **changes}
        unbound = mapped(lambda m, _: m if m.scope is None else m.clone(), given)
        return type(self)(**unbound, parent=parent)

    copy = clone

    def bind(
        self, variables: Mapping[str, Any], *, rngs: Any = None, mutable: Filter = False
    ) -> Self:
        """A copy that has these variables, for interactive use; see `apply`."""
        streams = rngs if isinstance(rngs, Mapping) else {} if rngs is None else {"params": rngs}
        described = self if self.scope is None else self.clone()
        return described._bound(Scope(copied(variables), mutable, streams))  # type: ignore[no-any-return]

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
        """Call the module with these variables, which stay as they are.

        Args:
          rngs: A key for each stream, or one key for all of them.
          method: The name of one, or a function whose first argument is the module.
          mutable: Collections that may change, and are returned beside the output (LIN-8).
          capture_intermediates: Sow the output of each `__call__`, or of each method that this
            predicate of module and name takes, in 'intermediates', which then is mutable.
        """
        if capture_intermediates:
            mutable = ("intermediates", mutable)
        module = self.bind(variables, rngs=rngs, mutable=mutable)
        module._scope.capture = capture_intermediates
        output, changed = module._call(method, args, kwargs)
        return output if mutable is False else (output, changed)

    def init_with_output(
        self, rngs: Any, *args: Any, method: Method = None, mutable: Filter = _NEW, **kwargs: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Like `init`, with the output of the call before the variables."""
        module = self.bind({}, rngs=rngs, mutable=mutable)
        module._scope.initializing = True
        return module._call(method, args, kwargs)

    def init(self, rngs: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Make the variables that a call with these arguments needs; see `apply` (LIN-1)."""
        return self.init_with_output(rngs, *args, **kwargs)[1]

    def _call(self, method: Method, args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """The output of a method, and the collections that may have changed."""
        if callable(method):
            output = self._run(getattr(method, "__func__", method), args, kwargs)
        else:
            output = getattr(self, method or "__call__")(*args, **kwargs)
        return output, self._scope.mutated()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        raise errors.ModuleError(f"{type(self).__qualname__} defines no __call__; pass method=...")
