"""The lifted `jit` and `remat`, and the parts that all lifted transformations share (LIN-4).

`jax.jit` and its like transform functions of arrays. To *lift* such a transformation is to apply it
to modules: in a call of a lifted module, the variables of the module become arguments of a function
that JAX transforms, and the variables that may have changed become results of it.

The *target* of a lift is a module class, of which some `methods` are transformed, or a function
whose first argument is a module. `lifted_target` returns a class or function that makes a `Call` of
each call of the target, and transforms it. Loops over an axis are in `loops`, gradients and
branches in `gradients` and `transforms`.

>>> import jax, jax.numpy as jnp
>>> from scutch_reference.linen import Dense
>>> layer = jit(Dense)(features=4)
>>> variables = layer.init(jax.random.key(0), jnp.ones((1, 2)))
>>> layer.apply(variables, jnp.ones((3, 2))).shape
(3, 4)
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import jax

from ..types import Tree
from .binding import (
    Bindable,
    Fn,
    bound,
    fields_of,
    gives_names,
    mapped,
    names_given,
    run,
    run_as,
    scope_of,
)
from .module import F, Module, nowrap
from .scope import Filter, ModulePath, Scope, as_dicts, both, hashable_filter, matches, put_at

Names: TypeAlias = str | Sequence[str]
Positions: TypeAlias = int | Sequence[int]
Collections: TypeAlias = dict[str, Any]


@dataclass
class Call:
    """One call of a lifted function, with its module and its arguments.

    A lifted module reaches its own variables, and those of the modules in its fields, which other
    modules may have made. `paths` holds the outermost paths of all these modules.

    Args:
      module: The bound module that the caller has.
      cls: The class that the module has inside the transformation.
      function: The method, or a function whose first argument is the module.
      args: The further arguments by position.
      kwargs: The arguments by name.
    """

    module: Module
    cls: type[Module]
    function: Fn
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.scope = scope_of(self.module)
        self.names = names_given(self.module)
        found: set[ModulePath] = set()

        def reach(module: Bindable, _: str) -> None:
            found.update([module.path] if module.scope is self.scope else [])
            mapped(reach, fields_of(module))

        reach(self.module, "")
        self.paths = {p for p in found if not any(p[:i] in found for i in range(len(p)))}

    def collections(self, choice: Filter) -> Collections:
        """Return the variables at `paths` in the collections that a filter takes."""
        return self._copy_at_paths(self.scope, choice, {})

    def write(self, collections: Collections) -> None:
        """Copy the variables at `paths` from `collections` into the mutable collections."""
        self._copy_at_paths(Scope(collections), self.scope.mutable, self.scope.variables)

    def _copy_at_paths(self, source: Scope, choice: Filter, target: Collections) -> Collections:
        for path in self.paths:
            for name, tree in source.at(path, choice).items():
                put_at(target, (name, *path), tree)
        return target

    def run(
        self, args: Tree, kwargs: Tree, variables: Tree, **changes: Any
    ) -> tuple[Any, Collections]:
        """Call the function on a copy of the module, in a scope of its own.

        Args:
          args, kwargs: The arguments by position, and those by name.
          variables: The collections of the scope.
          changes: Other fields of the scope, such as `rngs`.

        Returns:
          The output, and the collections that may have changed.
        """
        scope = replace(self.scope, variables=as_dicts(variables), **changes)
        inner = bound(self.module, scope, self.module.path, self.module.parent, self.cls)
        output = run_as(self.module, inner, self.names, self.function, args, kwargs)
        return output, scope.ended()

    def pure(self, variables: Filter, rngs: Filter) -> tuple[Fn, Collections, dict[str, Any]]:
        """Return the call as a function of arrays, and the first two arguments for it.

        Args:
          variables, rngs: Filters of the collections and streams that are visible inside.

        Returns:
          A function of collections, keys by stream and the arguments of the call, which returns the
          output and the collections that may have changed; then the collections and the keys.
        """

        def function(
            held: Tree, keys: Tree, *args: Tree, **kwargs: Tree
        ) -> tuple[Any, Collections]:
            mutable = both(self.scope.mutable, variables)
            return self.run(args, kwargs, held, mutable=mutable, rngs=keys)

        keys = {name: key for name, key in self.scope.rngs.items() if matches(rngs, name)}
        return function, self.collections(variables), keys

    def whole(self, transformation: Fn, variables: Filter, rngs: Filter, **options: Any) -> Any:
        """Transform the call with all its variables at once, without a loop.

        Args:
          transformation: Called as `transformation(function, **options)`. The function takes `None`
            before the arguments of the pure call, so that they are at the positions of `_program`.
          variables, rngs: Filters of the collections and streams that are visible inside.

        Returns:
          The output of the transformed function; changed variables are written to the module.
        """
        function, held, keys = self.pure(variables, rngs)
        transformed = transformation(
            lambda _, *args, **kwargs: function(*args, **kwargs), **options
        )
        output, changed = transformed(None, held, keys, *self.args, **self.kwargs)
        self.write(changed)
        return output


def call_of(function: Fn, module: Module, args: tuple[Any, ...]) -> Call:
    """Return the call of a function with a module that is bound already, and with arguments.

    Args:
      function: A function whose first argument is a module.
      module: The module.
      args: The further arguments by position.

    Returns:
      The call, in which the module has the same class inside and outside.
    """
    return Call(module, type(module), function, args, {})


def at_path(collections: Mapping[str, Any], path: ModulePath) -> Collections:
    """Nest the tree of each collection under a path; `Scope.at` is the inverse.

    Args:
      collections: Trees by collection, of one module.
      path: The path of the module.

    Returns:
      New dictionaries by collection, in which the keys of the path lead to the tree.
    """
    nested: Collections = {}
    for name, tree in collections.items():
        put_at(nested, (name, *path), tree)
    return nested


def lifted_target(
    target: F, prefix: str, methods: Names | None, transform: Callable[["Call"], Any]
) -> F:
    """Return the target with its methods, or itself, replaced by calls of `transform`.

    Args:
      target: A module class, or a function whose first argument is a module.
      prefix: The beginning of the name of the new class.
      methods: The methods of a class; `__call__` by default.
      transform: Takes the `Call`, runs it transformed, and returns the output.

    Returns:
      Of a function, a function. Of a module class, a subclass, whose name is the prefix and the
      name of the class, with the class's docstring and `__module__`. Its lifted methods are marked
      by `nowrap`, because the module inside the transformation runs `setup`.
    """
    cls: Any = target if isinstance(target, type) and issubclass(target, Module) else None

    def lifted(function: Any) -> Any:
        @functools.wraps(function)
        def call(self: Module, *args: Tree, **kwargs: Tree) -> Tree:
            return transform(Call(self, cls or type(self), function, args, kwargs))

        return call

    if cls is None:
        return lifted(target)  # type: ignore[no-any-return]
    names = [methods] if isinstance(methods, str) else methods or ["__call__"]
    parts: dict[str, Any] = {
        **{name: nowrap(lifted(getattr(cls, name))) for name in names},
        "__module__": cls.__module__,
        "__doc__": cls.__doc__,
    }
    return type(prefix + cls.__name__, (cls,), parts)  # type: ignore[return-value]


def _in_program(positions: Positions) -> tuple[int, ...]:
    """Positions of arguments of the module's method, which is at 0, as positions in `_program`."""
    given = [positions] if isinstance(positions, int) else positions
    return tuple(position + 2 for position in given if position > 0)


def remat(
    target: F,
    variables: Filter = True,
    rngs: Filter = True,
    prevent_cse: bool = True,
    static_argnums: Positions = (),
    policy: Callable[..., bool] | None = None,
    methods: Names | None = None,
) -> F:
    """Compute a module again for its gradient, instead of keeping intermediate values (LIN-4f).

    Args:
      target: A module class, or a function whose first argument is a module.
      variables, rngs: Filters of the collections and streams that are visible inside.
      prevent_cse, policy: As in `jax.checkpoint`.
      static_argnums: Positions of arguments that are not traced; the module is at 0.
      methods: The methods to lift; `__call__` by default.

    Returns:
      A subclass of the target, named `Checkpoint...`, or a function, with the same parameters.
    """

    def transform(call: Call) -> Any:
        return call.whole(
            jax.checkpoint,
            variables,
            rngs,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=_in_program(static_argnums),
        )

    return lifted_target(target, "Checkpoint", methods, transform)


checkpoint = remat


def _program(key: Any, variables: Tree, keys: Tree, /, *args: Tree, **kwargs: Tree) -> Tree:
    """The program of lifted `jit`, shared by all modules and calls with an equal `key`.

    Args:
      key: All that is static about a call, from `_static_key`: the module without its scope, the
        function, the path, the filter of mutable collections, and the other settings of the scope
        in the order of its fields.
      variables, keys: Collections, and keys by stream.
      args, kwargs: The arguments of the call.

    Returns:
      The output of the function, called with the module bound to these variables, and the
      collections that may have changed.
    """
    module, function, path, mutable, *settings = key
    scope = Scope(as_dicts(variables), mutable, keys, *settings)
    return run(bound(module, scope, path), function, args, kwargs), scope.ended()


def _static_key(call: Call, variables: Filter) -> tuple[Any, ...]:
    """All that is static about a call, such that equal calls have equal keys."""
    module, scope = call.module, call.scope
    described = call.cls(**fields_of(module.clone()), name=module.name, parent=None)
    mutable = hashable_filter(both(scope.mutable, variables))
    settings = (scope.initializing, scope.making, scope.capture)
    return (described, call.function, module.path, mutable, *settings)


def jit(
    target: F,
    variables: Filter = True,
    rngs: Filter = True,
    static_argnums: Positions = (),
    static_argnames: Names = (),
    donate_argnums: Positions = (),
    device: Any = None,
    backend: str | None = None,
    methods: Names | None = None,
) -> F:
    """Compile a module; equal modules of a class that are called alike share a program (LIN-4f).

    The fields of a compiled module must hold hashable values, or dictionaries, lists and sets of
    hashable values. A function is compiled on each call, and so is a module that reaches variables
    of other modules by its fields.

    Args:
      target: A module class, or a function whose first argument is a module.
      variables, rngs: Filters of the collections and streams that are visible inside.
      static_argnums, static_argnames, donate_argnums: As in `jax.jit`; the module is at 0.
      device, backend: As in `jax.jit`, which deprecates them.
      methods: The methods to lift; `__call__` by default.

    Returns:
      A subclass of the target, named `Jit...`, or a function, with the same parameters.
    """
    options: Any = {
        "static_argnums": (0, *_in_program(static_argnums)),
        "static_argnames": static_argnames,
        "donate_argnums": _in_program(donate_argnums),
    }
    places = {"device": device, "backend": backend}
    options |= {name: place for name, place in places.items() if place is not None}
    program = jax.jit(_program, **options)

    def transform(call: Call) -> Any:
        module = call.module
        if call.paths != {module.path} or type(module) is call.cls or gives_names(module):
            return call.whole(jax.jit, variables, rngs, **options)
        key, held = _static_key(call, variables), call.collections(variables)
        keys = {name: module.make_rng(name) for name in call.scope.rngs if matches(rngs, name)}
        output, changed = program(key, held, keys, *call.args, **call.kwargs)
        call.write(changed)
        return output

    return lifted_target(target, "Jit", methods, transform)
