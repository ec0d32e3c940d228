"""Modules: dataclasses whose methods read and write variables (LIN-1).

A module is a description until it is *bound* to a scope: by `init`, `apply` or `bind`, or by being
made in a bound module, in `setup` or in a method marked `compact`. Binding never changes the
description: it makes a copy.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import jax
import jax.numpy as jnp

from .. import meta
from ..errors import ModuleError, NameInUseError, ScopeParamNotFoundError, ScopeParamShapeError
from .scope import Chosen, CollectionFilter, DenyList, Root, Scope, copied, matches

F = TypeVar("F", bound=Callable[..., Any])
_UNSET: Any = object()
ALL_BUT_INTERMEDIATES = DenyList("intermediates")
_BEFORE_BINDING = "it is there once the module is bound: by init, apply or bind"


class _Running(threading.local):
    """The modules whose methods run, innermost last: the last is the parent of new modules."""

    def __init__(self) -> None:
        self.modules: list[Any] = [None]


_running = _Running()


def compact(method: F) -> F:
    """Mark the method in which a module makes its parameters and sub-modules."""
    method.compact = True  # type: ignore[attr-defined]
    return method


def nowrap(method: F) -> F:
    """Mark a method that neither runs `setup` nor is the parent of the modules it makes."""
    method.nowrap = True  # type: ignore[attr-defined]
    return method


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(self: Module, *args: Any, **kwargs: Any) -> Any:
        output = self.run(function, args, kwargs)
        capture = self.scope is not None and self.scope.root.capture
        name = function.__name__
        if capture and (name == "__call__" if capture is True else capture(self, name)):
            self.sow("intermediates", name, output)
        return output

    return run


class Variable:
    """A handle on one variable of a module: `value` reads and writes it, unboxed."""

    def __init__(self, scope: Scope, collection: str, name: str, unbox: bool = True):
        """Args: where the variable lies; whether a box is opened."""
        self.scope, self.collection, self.name, self.unbox = scope, collection, name, unbox

    @property
    def value(self) -> Any:
        """The value, out of its box."""
        value = self.scope.collection(self.collection)[self.name]
        return meta.unbox(value) if self.unbox else value

    @value.setter
    def value(self, value: Any) -> None:
        held = self.scope.collection(self.collection).get(self.name)
        if self.unbox and meta.is_axis_metadata(held):
            value = cast(Any, held).replace_boxed(value)
        self.scope.put(self.collection, self.name, value)

    def is_mutable(self) -> bool:
        """Whether the value may be written."""
        return self.scope.is_mutable(self.collection)


@dataclass_transform(eq_default=True)
@dataclasses.dataclass(eq=False)
class Module:
    """The base of Linen modules. A subclass is a dataclass, by its annotations.

    Args:
      parent: A bound module, or `None` for a module on its own. Left out: the module that makes it.
      name: Its name in its parent. Left out: the class and a number (LIN-1).
    """

    parent: Any = dataclasses.field(default=_UNSET, kw_only=True, compare=False, repr=False)
    name: str | None = dataclasses.field(default=None, kw_only=True)

    scope: ClassVar[Any] = None

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        annotated = inspect.get_annotations(cls)
        for name, value in list(vars(cls).items()):
            internal = name == "setup" or (name.startswith("__") and name != "__call__")
            marked = internal or name in annotated or hasattr(value, "nowrap")
            if inspect.isfunction(value) and not marked:
                setattr(cls, name, _method(value))
        comparable = "__hash__" not in vars(cls)
        dataclasses.dataclass(eq=comparable, unsafe_hash=comparable)(cls)

    def setup(self) -> None:
        """Make parameters and sub-modules as attributes, instead of in a compact method."""

    def __post_init__(self) -> None:
        """Join the module that makes this one."""
        parent = _running.modules[-1] if self.parent is _UNSET else self.parent
        self._set(parent=parent)
        if isinstance(parent, Module):
            parent._admit(self)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute in `setup`; a module without a name gets the attribute's."""
        if self.scope is not None and not vars(self).get("_in_setup"):
            raise ModuleError(
                f"Tried to set {name!r} of a bound {type(self).__qualname__} outside setup. "
                "Modules are immutable; state is kept in variables: self.variable(...)."
            )
        if self.scope is not None:
            self._name_children(name, value)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """Run `setup`, if that has not happened, for an attribute that is not there yet."""
        if not name.startswith("_") and self.scope is not None and "_attributes" not in vars(self):
            self._run_setup()
            return getattr(self, name)
        why = "" if self.scope is not None else f"; if setup makes it, {_BEFORE_BINDING}"
        raise AttributeError(f"{type(self).__qualname__!r} has no attribute {name!r}{why}")

    # Names and places

    def _set(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def _fields(self) -> dict[str, Any]:
        own = ("parent", "name")
        return {f.name: vars(self)[f.name] for f in dataclasses.fields(self) if f.name not in own}

    def _reserve(self, kind: str, name: str, collection: str | None = None) -> None:
        """Take a name. Variables of different collections may share one."""
        taken = self._taken.setdefault(name, {})
        if taken and (collection is None or collection in taken or None in taken):
            raise NameInUseError(kind, name, self._scope.path, next(iter(taken.values())))
        taken[collection] = kind

    @property
    def _scope(self) -> Scope:
        if self.scope is None:
            raise ModuleError(
                f"{type(self).__qualname__} is not bound, so it has no variables; {_BEFORE_BINDING}"
            )
        return cast(Scope, self.scope)

    def _admit(self, child: Module) -> None:
        """Bind a module that is made while a method of this one runs."""
        if not vars(self).get("_defining"):
            raise ModuleError(
                f"Tried to make a {type(child).__qualname__} in {type(self).__qualname__} outside "
                "setup and outside any method marked compact."
            )
        if child.name is None and self._in_setup:
            return  # The attribute that it is assigned to names it.
        name = child.name
        if name is None:
            kind = type(child).__name__
            name = f"{kind}_{self._counters.setdefault(kind, 0)}"
            self._counters[kind] += 1
        self._place(child, name)

    def _place(self, child: Module, name: str) -> None:
        self._reserve("sub-module", name)
        child._set(name=name, parent=self)
        child._bind(self._scope.child(name), None)

    def _name_children(self, name: str, value: Any) -> None:
        if isinstance(value, Module):
            if value.scope is None:
                if value.parent is not self:  # Made elsewhere: the original stays unbound.
                    raise ModuleError(
                        f"Tried to assign an unbound {type(value).__qualname__} to {name!r} in "
                        "setup. Make it there, or pass it as a field."
                    )
                self._place(value, value.name or name)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                self._name_children(f"{name}_{key}", item)
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                self._name_children(f"{name}_{index}", item)

    def _bind(self, scope: Scope, old: Scope | None) -> None:
        """Take a scope, and bind the modules among the fields below it."""
        self._set(scope=scope, _taken={}, _counters={}, _defining=False, _in_setup=False)
        bound: dict[int, Module] = {}

        def adopted(value: Any, name: str) -> Any:
            if isinstance(value, Module):
                if value.scope is not None and (old is None or value.scope.path[:-1] != old.path):
                    if old is None or value.scope.root is not old.root or scope.path != old.path:
                        return value
                    # Inside a lifted transformation: at the same place, in the root at hand.
                    place = Scope(scope.root, value.scope.path)
                    return value._bound(place, value.name, value.parent)
                if id(value) not in bound:
                    name = value.name or name
                    self._reserve("sub-module", name)
                    bound[id(value)] = value._bound(scope.child(name), name, self)
                return bound[id(value)]
            if isinstance(value, Mapping):
                return {key: adopted(item, f"{name}_{key}") for key, item in value.items()}
            if type(value) in (list, tuple):
                return type(value)(adopted(v, f"{name}_{i}") for i, v in enumerate(value))
            return value

        self._set(**{name: adopted(value, name) for name, value in self._fields().items()})
        if type(self).setup is Module.setup:
            self._finish_setup()

    def _bound(
        self, scope: Scope, name: str | None, parent: Any = None, cls: type[Module] | None = None
    ) -> Any:
        """A copy of the description, of class `cls` or the same, bound to a scope."""
        copy = object.__new__(cls or type(self))
        copy._set(**self._fields(), name=name, parent=parent)
        copy._bind(scope, self.scope)
        return copy

    def _finish_setup(self) -> None:
        self._set(_attributes={name: dict(kinds) for name, kinds in self._taken.items()})

    def _run_setup(self) -> None:
        if "_attributes" in vars(self) or self._in_setup:
            return
        with self._as_parent(_in_setup=True):
            self.setup()
        self._finish_setup()

    @contextmanager
    def _as_parent(self, **flags: bool) -> Iterator[None]:
        """The module as parent of what is made meanwhile."""
        flags = {"_defining": True, **flags} if flags else {}
        before = {flag: vars(self)[flag] for flag in flags}
        self._set(**flags)
        _running.modules.append(self)
        try:
            yield
        finally:
            _running.modules.pop()
            self._set(**before)

    def run(self, function: Callable[..., Any], args: Any = (), kwargs: Any = {}) -> Any:  # noqa: B006
        """Call a function of a module as a method: `setup` first, new modules inside."""
        if self.scope is not None:
            self._run_setup()
        defines = hasattr(function, "compact")
        if defines and self._scope and not self._defining:
            taken = {name: dict(kinds) for name, kinds in self._attributes.items()}
            self._set(_taken=taken, _counters={})
        with self._as_parent(**({"_defining": True} if defines else {})):
            return function(self, *args, **kwargs)

    # Variables and keys

    def param(
        self, name: str, init_fn: Callable[..., Any], *args: Any, unbox: bool = True, **kwargs: Any
    ) -> Any:
        """Read a parameter, or make it with `init_fn(key, *args, **kwargs)`; its box is opened.

        Raises:
          ScopeParamNotFoundError: It is not there, and `params` is not mutable.
          ScopeParamShapeError: The initializer gives another shape.
          NameInUseError: The name is taken.
        """
        scope = self._scope
        self._reserve("parameter", name, "params")
        present = scope.collection("params")
        if name in present:
            self._check_shape(name, present[name], lambda key: init_fn(key, *args, **kwargs))
        elif not scope.is_mutable("params"):
            raise ScopeParamNotFoundError(name, scope.path, present)
        else:
            scope.put("params", name, init_fn(scope.make_rng("params"), *args, **kwargs))
        value = scope.collection("params")[name]
        return meta.unbox(value) if unbox else value

    def _check_shape(self, name: str, found: Any, init_fn: Callable[[Any], Any]) -> None:
        expected = jax.eval_shape(lambda: init_fn(jax.random.key(0)))
        shapes = [[jnp.shape(x) for x in jax.tree.leaves(tree)] for tree in (expected, found)]
        if shapes[0] != shapes[1]:
            single = [s[0] if len(s) == 1 else s for s in shapes]
            raise ScopeParamShapeError(name, self._scope.path, *single)

    def variable(
        self,
        col: str,
        name: str,
        init_fn: Callable[..., Any] | None = None,
        *args: Any,
        unbox: bool = True,
        **kwargs: Any,
    ) -> Variable:
        """A handle on a variable of collection `col`; made with `init_fn(*args)` where missing.

        Raises:
          ModifyScopeVariableError: It is not there, and the collection is not mutable.
          NameInUseError: The name is taken.
        """
        scope = self._scope
        self._reserve("variable", name, col)
        if name not in scope.collection(col):
            mutable = init_fn is not None and scope.is_mutable(col)
            scope.put(col, name, init_fn(*args, **kwargs) if init_fn and mutable else None)
        return Variable(scope, col, name, unbox)

    def has_variable(self, col: str, name: str) -> bool:
        """Whether a collection has a variable of that name here."""
        return name in self._scope.collection(col)

    def get_variable(self, col: str, name: str, default: Any = None) -> Any:
        """The variable as it lies in its collection, box and all, or `default`."""
        return self._scope.collection(col).get(name, default)

    def put_variable(self, col: str, name: str, value: Any) -> None:
        """Write a variable as it shall lie in its collection."""
        self._scope.put(col, name, value)

    def is_mutable_collection(self, col: str) -> bool:
        """Whether the variables of a collection may change."""
        return self._scope.is_mutable(col)

    def sow(
        self,
        col: str,
        name: str,
        value: Any,
        reduce_fn: Callable[[Any, Any], Any] = lambda old, new: (*old, new),
        init_fn: Callable[[], Any] = tuple,
    ) -> bool:
        """Append a value to a variable where its collection is mutable; returns whether it is."""
        scope = self._scope
        if not scope.is_mutable(col):
            return False
        held = scope.collection(col)
        if name not in held:
            self._reserve("variable", name, col)
        scope.put(col, name, reduce_fn(held[name] if name in held else init_fn(), value))
        return True

    def make_rng(self, name: str = "params") -> Any:
        """A new key of a stream; `params` answers for streams that were not passed.

        Raises:
          InvalidRngError: Neither was passed.
        """
        return self._scope.make_rng(name)

    def has_rng(self, name: str) -> bool:
        """Whether a key was passed for the stream."""
        return name in self._scope.root.rngs

    def is_initializing(self) -> bool:
        """Whether `init` runs."""
        return self._scope.root.initializing

    @property
    def variables(self) -> dict[str, Any]:
        """What each collection holds for this module."""
        held = {name: self._scope.collection(name) for name in self._scope.root.variables}
        return {name: tree for name, tree in held.items() if tree}

    @property
    def path(self) -> tuple[str, ...]:
        """The names that lead from the outermost module to this one."""
        return self._scope.path

    # From outside

    def clone(self, *, parent: Any = None, **changes: Any) -> Self:
        """An unbound copy, with other fields."""
        fields = self._fields() | {"name": self.name} | changes
        return type(self)(**_unbound(fields), parent=parent)

    copy = clone

    def bind(
        self, variables: Mapping[str, Any], *, rngs: Any = None, mutable: CollectionFilter = False
    ) -> Self:
        """A copy that has these variables, for interactive use; see `apply`."""
        root = Root(copied(variables), mutable, _streams(rngs))
        bound: Self = self._bound(Scope(root), self.name)
        return bound

    def unbind(self) -> tuple[Self, dict[str, Any]]:
        """The module without variables, and the variables."""
        return self.clone(), copied(self.variables)

    def apply(
        self,
        variables: Mapping[str, Any],
        *args: Any,
        rngs: Any = None,
        method: Callable[..., Any] | str | None = None,
        mutable: CollectionFilter = False,
        capture_intermediates: Any = False,
        **kwargs: Any,
    ) -> Any:
        """Call the module, or a `method` of it, with these variables, which stay as they are.

        Args:
          variables: By collection, trees of arrays and boxes; what `init` returned.
          *args, **kwargs: For the call.
          rngs: A key for each stream, or one key for all of them.
          method: Its name, or a function whose first argument is the module. Left out: `__call__`.
          mutable: The collections that may change: a name, names, a boolean or a `DenyList`.
          capture_intermediates: Sow the output of each `__call__`, or of each method that this
            predicate of module and name takes, in 'intermediates', which then is mutable.

        Returns:
          The output; with `mutable` the pair of it and those collections (LIN-8).
        """
        if capture_intermediates:
            given = mutable
            mutable = Chosen(lambda name: name == "intermediates" or matches(given, name))
        module = self.bind(variables, rngs=rngs, mutable=mutable)
        module._scope.root.capture = capture_intermediates
        output = module._call(method, args, kwargs)
        return output if mutable is False else (output, module._scope.root.mutated())

    def init_with_output(
        self,
        rngs: Any,
        *args: Any,
        method: Callable[..., Any] | str | None = None,
        mutable: CollectionFilter = ALL_BUT_INTERMEDIATES,
        **kwargs: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """Like `init`, with the output of the call before the variables."""
        module = self.bind({}, rngs=rngs, mutable=mutable)
        module._scope.root.initializing = True
        output = module._call(method, args, kwargs)
        return output, module._scope.root.mutated()

    def init(self, rngs: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Make the variables that a call with these arguments needs, boxes and all (LIN-1).

        Args:
          rngs: A key, for every stream, or a key for each stream.
          *args, **kwargs: For the call; `method` and `mutable` as for `apply`.
        """
        return self.init_with_output(rngs, *args, **kwargs)[1]

    def _call(self, method: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(method, str):
            return getattr(self, method)(*args, **kwargs)
        function = type(self).__call__ if method is None else getattr(method, "__func__", method)
        return self.run(function, args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        raise ModuleError(f"{type(self).__qualname__} defines no __call__; pass method=...")


def _unbound(value: Any) -> Any:
    """Descriptions for the modules in a value."""
    if isinstance(value, Module):
        return value.clone() if value.scope is not None else value
    if isinstance(value, Mapping):
        return {key: _unbound(item) for key, item in value.items()}
    return type(value)(map(_unbound, value)) if type(value) in (list, tuple) else value


def _streams(rngs: Any) -> Mapping[str, Any]:
    if rngs is None:
        return {}
    return rngs if isinstance(rngs, Mapping) else {"params": rngs}
