"""How modules are bound to a scope, and how their methods run (document 002, contract LIN-1).

A module is a description, which holds no arrays, until it is *bound*: given a scope, which has the
variables, and a *path*, its place in them. A copy is bound, never the description itself; so a
description never changes. Modules that the copy makes, in `setup` or in a method marked `compact`,
and modules in its fields, are bound below it. They are its *parts*.

A bound module goes through *stages*: `new`; `setup` while its method `setup` runs; then `ready`, or
`compact` while a method with that mark runs. In `setup` and `compact` it makes sub-modules and
variables. A module that is not bound is at the stage `unbound`.

`Bindable` is the base of `module.Module` and holds the stage. The functions here are the only ones
that change it: `module` and `lift` call them and read no private attribute of a module.

>>> import jax
>>> from scutch_reference.linen import Dense
>>> kernel = {"kernel": jax.numpy.ones((2, 1))}
>>> layer = bound(Dense(1, use_bias=False), Scope({"params": {"head": kernel}}), ("head",))
>>> run(layer, Dense.__call__, (jax.numpy.ones(2),), {}).tolist(), gives_names(layer)
([2.0], False)
"""

import functools
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, dataclass_transform

from ..errors import ImmutableModuleError, MisplacedModuleError, ModuleError, UnboundModuleError
from ..types import Tree
from .scope import ModulePath, NamesInUse, Scope

Fn: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Fn)
B = TypeVar("B", bound="Bindable")
running_module: ContextVar[Any] = ContextVar("running_module", default=None)
"""The innermost module whose method runs, which is the parent of new modules; `run` sets it."""


def current_module() -> Any:
    """Return the innermost module whose method runs.

    Raises:
      ModuleError: No method of a module runs.
    """
    module = running_module.get()
    if module is None:
        raise ModuleError(
            place="the module whose method runs",
            given=None,
            expected="a call from a method of a module, or to pass module=...",
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


@dataclass_transform(eq_default=True)
@dataclass(eq=False)
class Bindable:
    """The base of modules: the part of a module that knows its scope, its path and its stage.

    Args:
      parent: The module that makes this one; by default the module whose method runs.
      name: The name in the parent; by default the name of the class and a count (LIN-1e).
    """

    parent: Any = field(default_factory=running_module.get, kw_only=True, compare=False, repr=False)
    name: str | None = field(default=None, kw_only=True)

    scope: ClassVar[Scope | None] = None
    path: ClassVar[ModulePath] = ()
    names_in_use: ClassVar[type[NamesInUse]] = NamesInUse
    """The class that records the names that a module gives; a subclass may use another."""
    _stage: ClassVar[str] = "unbound"
    _names: ClassVar[NamesInUse]  # The names that the module has given.
    _names_of_setup: ClassVar[NamesInUse]  # Those that each compact method begins with.

    def setup(self) -> None:
        """Make parameters and sub-modules as attributes, not in a compact method (LIN-1i)."""

    def __post_init__(self) -> None:
        if isinstance(self.parent, Bindable):
            _admit(self.parent, self)

    def __setattr__(self, name: str, value: Tree) -> None:
        """Set an attribute in `setup`; a module without a name gets the attribute's.

        Raises:
          ImmutableModuleError: The module is bound, and `setup` does not run, or the attribute is a
            field that the constructor takes (LIN-1m).
        """
        if self.scope is not None:
            is_field = any(each.name == name and each.init for each in fields(self))
            if self._stage != "setup" or is_field:
                raise ImmutableModuleError(module=self, name=name, stage=self._stage)
            mapped(lambda child, attribute: _admit(self, child, attribute), value, name)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """Run `setup`, if it has not run yet, to make a missing attribute.

        Raises:
          AttributeError: `setup` does not make it either, or cannot run before the module is bound.
        """
        if hasattr(type(self), name):  # A getter failed: Python asks here, and drops its error.
            return object.__getattribute__(self, name)
        if self._stage == "new" and not name.startswith("_"):
            set_up(self)
            return getattr(self, name)
        why = "; setup runs once the module is bound: by init, apply or bind"
        raise AttributeError(
            f"{type(self).__qualname__!r} has no attribute {name!r}{'' if self.scope else why}",
            name=name,
            obj=self,
        )

    def clone(self, *, parent: Any = None, **changes: Any) -> Self:
        """Return an unbound copy, with other values in the fields named in `changes`.

        Args:
          parent: The module in which the copy is made, as if by its constructor.
        """
        return cloned(self, {}, True, parent, changes)

    def copy(self, *, name: str | None = None, **changes: Any) -> Self:
        """Return a copy that is a part of the module whose method runs, as a new one is (LIN-1t).

        Args:
          name: Its name in the parent; left out, it gets one as any new part does.
          changes: Values for fields; and `parent`, if that is not the module whose method runs.
        """
        return self.clone(**{"parent": running_module.get(), "name": name, **changes})


def wrapped(function: Fn) -> Fn:
    """Wrap a method of a module, to bind the modules that it makes and to capture its output."""

    @functools.wraps(function)
    def call(self: Any, *args: Tree, **kwargs: Tree) -> Tree:
        output = run(self, function, args, kwargs)
        name = function.__name__
        capture = self.scope is not None and self.scope.capture
        if capture and (name == "__call__" if capture is True else capture(self, name)):
            self.sow("intermediates", name, output)
        return output

    return call


def mapped(fn: Callable[[Any, str], Any], value: Tree, *keys: Any) -> Tree:
    """Replace each module in a value by the result of a function of it.

    Args:
      fn: Takes a module and its name, and returns the replacement.
      value: A module, or mappings, lists and tuples of them; anything else stays as it is.
      keys: The keys that led to the value. A module is named by all its keys, joined by `_`.

    Returns:
      The value, in new containers.
    """
    if isinstance(value, Bindable):
        return fn(value, "_".join(map(str, keys)))
    if isinstance(value, Mapping):
        return {key: mapped(fn, item, *keys, key) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(mapped(fn, item, *keys, i) for i, item in enumerate(value))
    return value


def fields_of(module: Bindable) -> dict[str, Any]:
    """Return the values of the constructor's fields, except `parent` and `name`."""
    names = [each.name for each in fields(module) if each.init]
    return {name: vars(module)[name] for name in names if name not in ("parent", "name")}


def scope_of(module: Bindable) -> Scope:
    """Return the scope of a bound module.

    Raises:
      UnboundModuleError: The module is not bound.
    """
    if module.scope is None:
        raise UnboundModuleError(module=module)
    return module.scope


def gives_names(module: Bindable) -> bool:
    """Return whether `setup` or a compact method runs, so that the module makes its parts."""
    return module._stage in ("setup", "compact")


def names_given(module: Bindable) -> NamesInUse:
    """Return a copy of the names that a bound module has given to its parts and variables."""
    return module.names_in_use(module._names)


def _admit(module: Bindable, child: Bindable, attribute: str | None = None) -> None:
    """Bind a module that is made in `module`, or is assigned to an attribute in `setup`.

    One that is made in `setup` without a name waits for the attribute that it is assigned to.

    Raises:
      MisplacedModuleError: It is made outside `setup` and compact methods, or of another parent.
    """
    if child.scope is not None:
        return
    if not gives_names(module) or child.parent is not module:
        raise MisplacedModuleError(parent=module, child=child)
    name = child.name or attribute
    if name is None and module._stage == "compact":
        name = module._names.free_name(type(child).__name__)
    if name is not None and module.scope is not None:
        module._names.reserve(module.path, name)
        vars(child)["name"] = name
        _bind(child, module.scope, (*module.path, name), None, {})


def _bind(
    module: Bindable, scope: Scope, path: ModulePath, old: Scope | None, copies: dict[int, Any]
) -> None:
    """Bind a module, and the modules in its fields that are unbound or bound to `old`."""
    vars(module).update(scope=scope, path=path, _names=module.names_in_use(), _stage="new")

    def adopted(part: Bindable, name: str) -> Any:
        """The bound copy of a module in a field; one for all fields that have the module."""
        if (part.scope is None or part.scope is old) and id(part) not in copies:
            place = part.path if part.scope else (*path, part.name or name)
            own = place[:-1] == path
            if own:
                module._names.reserve(module.path, place[-1])
            copies[id(part)] = bound(
                part, scope, place, module if own else part.parent, copies=copies
            )
        return copies.get(id(part), part)

    vars(module).update(mapped(adopted, fields_of(module)))


def bound(
    module: B,
    scope: Scope,
    path: ModulePath = (),
    parent: Bindable | None = None,
    cls: type[B] | None = None,
    copies: dict[int, Any] | None = None,
) -> B:
    """Return a copy of a module that is bound to a scope.

    Args:
      module: The module, bound or not; it stays as it is.
      scope: The scope of the copy, and of the parts in its fields that are not bound otherwise.
      path: The place of the copy in the scope.
      parent: The parent of the copy.
      cls: The class of the copy; by default the module's own.
      copies: The bound copies of parts, by the `id` of the part; this function adds to it. A part
        that is in the fields of two parts, however deep, is bound once (LIN-1r).

    Returns:
      A module with the same fields, at the stage `new`: its `setup` has not run.
    """
    name = path[-1] if path else module.name
    copy = (cls or type(module))(**fields_of(module), name=name, parent=None)
    vars(copy)["parent"] = parent
    _bind(copy, scope, path, module.scope, {} if copies is None else copies)
    return copy


def cloned(
    module: B,
    clones: dict[int, Any],
    named: bool,
    parent: Bindable | None = None,
    changes: Mapping[str, Any] | None = None,
) -> B:
    """Return an unbound copy of a module, with clones of the parts in its fields that are bound.

    Args:
      module: The module; it stays as it is.
      clones: The clones of parts, by the `id` of the part; this function adds to it. A part that is
        in the fields of two parts, however deep, stays one part (LIN-1r).
      named: Whether the copy and the clones keep their names.
      parent: The module in which the copy is made, as if by its constructor.
      changes: Other values for fields of the copy, by name.

    Returns:
      A module of the same class; fields that hold no bound module have the same values.
    """
    return type(module)(
        **mapped(
            lambda part, _: (
                part if is_free(part) else clones.setdefault(id(part), cloned(part, clones, named))
            ),
            {**fields_of(module), "name": module.name if named else None, **(changes or {})},
        ),
        parent=parent,
    )


def is_free(module: Bindable) -> bool:
    """Return whether neither a module nor one in its fields is bound."""
    free = [module.scope is None]
    mapped(lambda part, _: free.append(is_free(part)), fields_of(module))
    return all(free)


def set_up(module: Bindable) -> None:
    """Run `setup` of a bound module, unless it has run."""
    if module._stage == "new":
        run(module, type(module).setup, (), {}, "setup")
        vars(module).update(_stage="ready", _names_of_setup=names_given(module))


def run(module: Bindable, function: Fn, args: Tree, kwargs: Tree, stage: str | None = None) -> Tree:
    """Call a function as a method of a module: after `setup`, and as the parent of new modules.

    Each call of a compact method begins with the names that `setup` has given.

    Args:
      module: The module.
      function: Called as `function(module, *args, **kwargs)`.
      args, kwargs: The other arguments.
      stage: The stage of the module during the call; `set_up` passes one.

    Returns:
      The output of the function.

    Raises:
      UnboundModuleError: The function is a compact method, and the module is not bound.
    """
    if stage is None:
        set_up(module)
    if getattr(function, "compact", False):
        scope_of(module)
        if module._stage == "ready":
            stage = "compact"
            vars(module)["_names"] = module.names_in_use(module._names_of_setup)
    before, outer = module._stage, running_module.set(module)
    vars(module)["_stage"] = stage or before
    try:
        return function(module, *args, **kwargs)
    finally:
        vars(module)["_stage"] = before
        running_module.reset(outer)


def run_as(
    outer: Bindable, inner: Bindable, names: NamesInUse, function: Fn, args: Tree, kwargs: Tree
) -> Tree:
    """Call a function with a copy of a module that stands for it inside a transformation.

    If a method of the module makes this call while it runs, the function continues with the names
    that the method has given so far, and the method with the names of the function.

    Args:
      outer: The module of the caller.
      inner: The copy, as `bound` returns it.
      names: The names that `outer` had given when it made the call, from `names_given`.
      function: Called as `function(inner, *args, **kwargs)`.
      args, kwargs: The other arguments.

    Returns:
      The output of the function.
    """
    if not gives_names(outer):
        return run(inner, function, args, kwargs)
    if outer._stage == "compact":
        set_up(inner)
    vars(inner).update(_stage=outer._stage, _names=inner.names_in_use(names))
    output = run(inner, function, args, kwargs)
    vars(outer)["_names"] = inner._names
    return output
