"""Wrappers that make Linen modules of NNX classes and the reverse (document 004, BRG-7, BRG-8).

`ToNNX` wraps a Linen module and keeps its variables as attributes. `ToLinen` wraps an NNX class and
keeps the variables of its object in collections. A call of a wrapper converts the variables to the
other form, runs the wrapped module, and converts the changed variables back. Wrappers may be
nested: an inner one reads in `current_run` the settings of the outer one.

>>> import jax.numpy as jnp
>>> model = to_linen(nnx.Linear, 2, 3)
>>> variables = model.init(jax.random.key(0), jnp.ones((1, 2)))
>>> sorted(variables["params"])
['bias', 'kernel']
"""

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import jax

from .. import linen, nnx
from ..errors import CrossingError, MissingVariableError
from ..linen.binding import scope_of
from ..linen.scope import Filter, put_at
from ..meta import A, P, Partitioned, boxing
from ..nnx.node_types import put as put_inside, type_of
from ..types import Tree
from .variables import linen_vars_to_nnx_attrs, nnx_attrs_to_linen_vars, to_linen_var

M = TypeVar("M", bound=Callable[..., Any])
Keys = Mapping[str, Any]


class Run(NamedTuple):
    """The settings of a call of a wrapper, which the wrappers inside read.

    Args:
      initializing: Whether wrappers make their variables now.
      mutable: The default filter of the collections that may change; `None` outside a `ToLinen`.
    """

    initializing: bool = False
    mutable: Filter | None = None


_OUTSIDE = Run()
current_run: ContextVar[Run] = ContextVar("current_run", default=_OUTSIDE)
"""The settings of the innermost call of a wrapper. Only `running` sets it."""


@contextlib.contextmanager
def running(initializing: bool, mutable: Filter | None) -> Iterator[None]:
    """Set `current_run` for a `with` block.

    Args:
      initializing: Whether wrappers make their variables.
      mutable: The filter of collections that may change.
    """
    token = current_run.set(Run(initializing, mutable))
    try:
        yield
    finally:
        current_run.reset(token)


def lazy_init(fn: M, /, *args: Tree, **kwargs: Tree) -> M:
    """Make the variables of every `ToNNX` in a module, by a call of it (BRG-7l).

    Args:
      fn: A module or a function; it is called once as `fn(*args, **kwargs)`, and the output is
        dropped.
      args, kwargs: The arguments of that call, with the shapes and dtypes of later calls.

    Returns:
      `fn` itself.
    """
    with running(True, current_run.get().mutable):
        fn(*args, **kwargs)
    return fn


def _drawn_keys(rngs: Any) -> Any:
    """Draw the next key of each stream that has a key, as a dictionary for Linen (BRG-7d).

    Without a stream `params`, the key of `default` becomes the key of `params`. If `rngs` is no
    `Rngs`, it is returned unchanged.
    """
    if not isinstance(rngs, nnx.Rngs):
        return rngs
    keys = {n: each() for n, each in rngs.items() if each.key.get_raw_value() is not None}
    if "params" not in keys and "default" in keys:
        keys["params"] = keys.pop("default")
    return keys


def _fill(node: Tree, attributes: Mapping[Any, Any]) -> None:
    """Give an object, or a container in it, variables; those that it has stay and are updated."""
    present = type_of(type(node)).container(node)
    for name, new in attributes.items():
        old = present.get(name)
        if isinstance(new, Mapping) and old is not None:
            _fill(old, new)
        elif isinstance(old, nnx.Variable):
            old.update_from_state(new)
        else:
            put_inside(node, name, nnx.data(new) if isinstance(node, nnx.Module) else new)


class ToNNX(nnx.Module):
    """A Linen module as an NNX module with its methods, and its variables as attributes (BRG-7).

    `lazy_init` makes the variables, by a call; names, meshes and rules of boxes become metadata
    (BRG-8a). The methods of the Linen module can be called on the wrapper.

    Args:
      module: The Linen module; a bound one is wrapped without its variables.
      rngs: Streams for the calls that pass none, or a key for the stream `params`.
    """

    def __init__(self, module: linen.Module, rngs: nnx.Rngs | jax.Array | None = None):
        self.to_nnx__module = module if module.scope is None else module.clone()
        self.to_nnx__rngs = nnx.Rngs(params=rngs) if isinstance(rngs, jax.Array) else rngs

    lazy_init = lazy_init

    def __getattr__(self, name: str) -> Any:
        module = vars(self).get("to_nnx__module")
        if name.startswith("_") or not callable(getattr(type(module), name, None)):
            raise AttributeError(
                f"{type(self).__qualname__!r} has no attribute {name!r}", name=name, obj=self
            )
        return functools.partial(self.__call__, method=name)

    def __call__(
        self,
        *args: Tree,
        rngs: nnx.Rngs | Keys | jax.Array | None = None,
        method: Callable[..., Any] | str | None = None,
        mutable: Filter | None = None,
        **kwargs: Tree,
    ) -> Tree:
        """Call the Linen module, and store its mutable collections as attributes (BRG-7a, BRG-7c).

        Args:
          args, kwargs: The arguments of the call.
          rngs: Streams, of which the next key of each is drawn, or keys as `linen.Module.apply`
            takes them; `None` means the `rngs` of the constructor.
          method: A method, or the name of one; `None` means `__call__`.
          mutable: A filter of the collections that may change; `None` means none, or inside
            of a `ToLinen` the mutable collections of its run.

        Returns:
          The output of the Linen module.

        Raises:
          ModuleError: Variables were not made, and this is no `lazy_init` (BRG-7l).
        """
        module, (initializing, around) = self.to_nnx__module, current_run.get()
        keys = _drawn_keys(self.to_nnx__rngs if rngs is None else rngs)
        attributes = {
            name: value
            for name, value in vars(self).items()
            if isinstance(value, nnx.Variable | Mapping) and not name.startswith("_")
        }
        if initializing and not attributes:
            output, changed = module.init_with_output(keys, *args, method=method, **kwargs)
        else:
            mutable = (around or False) if mutable is None else mutable
            output = module.apply(
                nnx_attrs_to_linen_vars(attributes),
                *args,
                rngs=keys,
                method=method,
                mutable=mutable,
                **kwargs,
            )
            output, changed = (output, {}) if mutable is False else output
        _fill(self, linen_vars_to_nnx_attrs(changed))
        return output


def _restarted(variable: nnx.Variable[Any], keys: Keys) -> nnx.Variable[Any]:
    """The state of a stream as it is before the first draw; without a key where none was passed."""
    shape, key = variable.shape, keys.get(variable.get_metadata("tag"))
    if not isinstance(variable, nnx.RngKey):
        return variable.replace(jax.numpy.zeros(shape, variable.dtype))
    return variable.replace(key if key is None or not shape else jax.random.split(key, shape))


class ToLinen(linen.Module):
    """An NNX class as a Linen module, in whose collections its object's variables lie (BRG-7).

    Each call makes the object anew, by a call of the class, and gives it the variables. The methods
    of the class can be called on the wrapper.

    Args:
      nnx_class: The class, or a function that makes the object.
      args, kwargs: The arguments that `nnx_class` is called with.
      skip_rng: Whether to withhold `rngs`; else `nnx_class` gets them if it has that parameter.
      metadata_fn: Converts a variable to its entry in a collection; by default a variable with
        names gives a box (BRG-8b).
    """

    nnx_class: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)
    skip_rng: bool = False
    metadata_fn: Callable[[nnx.Variable[Any]], Any] = to_linen_var

    def __getattr__(self, name: str) -> Any:
        cls = vars(self).get("nnx_class")
        if not name.startswith("_") and callable(getattr(cls, name, None)):
            return functools.partial(self.__call__, nnx_method=name)
        return super().__getattr__(name)

    @linen.nowrap
    def to_linen__made(self, keys: Keys) -> Any:
        """Return the object as its class makes it; a subclass may override it.

        Args:
          keys: A key for each stream.
        """
        options = dict(self.kwargs)
        if not self.skip_rng and "rngs" in inspect.signature(self.nnx_class).parameters:
            options["rngs"] = nnx.Rngs(**keys)
        return self.nnx_class(*self.args, **options)

    @linen.nowrap
    def to_linen__remade(self, keys: Keys) -> Any:
        """Return the object with the variables of the scope, and streams that begin anew.

        A subclass may override it. The class is called abstractly, so that no array is made to be
        thrown away.

        Args:
          keys: A key for each stream.

        Raises:
          MissingVariableError: A variable of the object is in no collection.
        """
        made = nnx.eval_shape(lambda: self.to_linen__made({"default": jax.random.key(0), **keys}))
        definition, state = nnx.split(made)
        flat = dict(nnx.to_flat_state(state))
        held = dict(nnx.to_flat_state(linen_vars_to_nnx_attrs(self.variables)))
        for path, variable in flat.items():
            if path not in held and not isinstance(variable, nnx.RngState):
                raise MissingVariableError(path=path, nnx_class=self.nnx_class, present=[*held])
            flat[path] = held[path] if path in held else _restarted(variable, keys)
        made = nnx.merge(definition, nnx.from_flat_state(flat))
        # Variables that the first call made and the constructor did not, as in a `ToNNX` inside.
        rest = [(path, variable) for path, variable in held.items() if path not in flat]
        _fill(made, nnx.from_flat_state(rest))
        return made

    def __call__(self, *args: Tree, nnx_method: str | None = None, **kwargs: Tree) -> Tree:
        """Call the object, or its method of that name; mutable collections change (BRG-7g).

        Args:
          args, kwargs: The arguments of the call.
          nnx_method: The name of a method; `None` means `__call__` (BRG-7i).

        Raises:
          MissingVariableError: A variable of the object is in no collection.
        """
        scope = scope_of(self)
        streams = {*scope.rngs} | ({"default"} if "params" in scope.rngs else set())
        keys = {name: self.make_rng(name) for name in sorted(streams)}
        first = scope.initializing and not self.variables
        made = self.to_linen__made(keys) if first else self.to_linen__remade(keys)
        kept_ones = nnx.Not(nnx.RngState)
        before = nnx.state(made, kept_ones) if first else {}
        with running(first, scope.mutable):
            output = (made if nnx_method is None else getattr(made, nnx_method))(*args, **kwargs)
        # As in Linen, `init` returns the variables as they are before a call changes them.
        kept = nnx.merge_state(nnx.state(made, kept_ones), before)
        for name, tree in nnx_attrs_to_linen_vars(kept, self.metadata_fn).items():
            if self.is_mutable_collection(name):
                put_at(scope.variables, (name, *self.path), tree)
        return output


def to_linen(
    nnx_class: Callable[..., Any],
    *args: Tree,
    metadata_fn: Callable[[nnx.Variable[Any]], Any] = to_linen_var,
    name: str | None = None,
    skip_rng: bool = False,
    **kwargs: Tree,
) -> ToLinen:
    """Wrap an NNX class, with the arguments of its constructor as they stand in its call (BRG-7h).

    Args:
      nnx_class, metadata_fn, skip_rng: As for `ToLinen`.
      args, kwargs: The arguments of the class.
      name: The name of the Linen module.

    Returns:
      An unbound Linen module. Its `init` constructs an object of `nnx_class` and calls it; its
      `apply` restores the object from the variables and calls it.
    """
    return ToLinen(nnx_class, args, kwargs, skip_rng, metadata_fn, name=name)


@dataclasses.dataclass
class Functional:
    """An NNX class in the style of Linen, whose `init` makes the state and `apply` uses it.

    Args:
      module_type: The class.
      graphdef: The graph definition of the object, which `init` sets.
      args, kwargs: The arguments that the class is called with.
    """

    module_type: Callable[..., Any]
    graphdef: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def init(self, *, rngs: nnx.Rngs | None = None) -> Any:
        """Make the object, and return its state.

        Args:
          rngs: Streams, which the class is passed as `rngs`; `None` passes none.
        """
        options = self.kwargs if rngs is None else {**self.kwargs, "rngs": rngs}
        self.graphdef, state = nnx.split(self.module_type(*self.args, **options))
        return state

    def apply(self, *states: Tree) -> Tree:
        """Return a stand-in for the object, which can be called, and so can its methods.

        Args:
          states: The state that `init` returned, or several states with all its variables.

        Returns:
          A function like the object: its call, or the call of a method of it, returns the output,
          and a pair of the graph definition and the state afterwards.

        Raises:
          CrossingError: `init` has not been called.
        """
        if self.graphdef is None:
            raise CrossingError(
                place="the graph definition of a Functional",
                given=None,
                expected="a call of init(rngs=...) before apply(state)",
            )
        return nnx.call((self.graphdef, *states))


def functional(cls: Callable[..., Any]) -> Callable[..., Functional]:
    """Make an NNX class a function of its arguments that returns a `Functional`.

    Args:
      cls: The class.

    >>> import jax.numpy as jnp
    >>> model = functional(nnx.Linear)(2, 3)
    >>> state = model.init(rngs=nnx.Rngs(0))
    >>> output, (graphdef, state) = model.apply(state)(jnp.ones((1, 2)))
    >>> output.shape
    (1, 3)
    """
    return lambda *args, **kwargs: Functional(cls, None, args, kwargs)


class Annotated(Partitioned[A]):
    """A box from which a variable of NNX also takes its value and its metadata (BRG-8e)."""

    raw_value = property(lambda self: self.value)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the variable, which are the names, the mesh and the class of the box."""
        known = {"out_sharding": self.names, "linen_meta_type": Partitioned}
        return known if self.mesh is None else {**known, "mesh": self.mesh}


nnx.VariableMetadata.register(Annotated)


def with_partitioning(
    initializer: Callable[P, A], names: Iterable[Any], mesh: jax.sharding.Mesh | None = None
) -> Callable[P, Annotated[A]]:
    """Make an initializer name the axes of parameters of modules of either kind (BRG-8e).

    Args:
      initializer: An initializer, as those of `jax.nn.initializers`.
      names, mesh: For each axis a mesh axis, a tuple of them, or `None`; and the mesh.

    Returns:
      An initializer with the parameters, the name and the docstring of `initializer`.
    """
    return boxing(initializer, Annotated, names=names, mesh=mesh)
