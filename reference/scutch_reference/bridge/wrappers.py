"""Modules of one kind as modules of the other (BRG-7, BRG-8).

`ToNNX` keeps the Linen module's variables as attributes, `ToLinen` the NNX object's in collections.
A call takes them across the bridge, runs the module that is wrapped, and takes back what changed.
"""

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Self, TypeVar

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from .. import linen, nnx
from ..errors import CrossingError
from ..linen.scope import put
from ..meta import Partitioned, boxing
from .variables import linen_vars_to_nnx_attrs, nnx_attrs_to_linen_vars, to_linen_var

A = TypeVar("A")
M = TypeVar("M", bound=Callable[..., Any])
# What a wrapper in the other has to know: whether that initializes, and what may change by default.
_run: ContextVar[tuple[bool, Any]] = ContextVar("_run", default=(False, None))


@contextlib.contextmanager
def _running(initializing: bool, mutable: Any) -> Iterator[None]:
    token = _run.set((initializing, mutable))
    try:
        yield
    finally:
        _run.reset(token)


def lazy_init(fn: M, *args: Any, **kwargs: Any) -> M:
    """Call a module, or a function, so that each `ToNNX` in it makes its variables; return it."""
    with _running(True, _run.get()[1]):
        fn(*args, **kwargs)
    return fn


def _keys(rngs: Any) -> Any:
    """Keys for Linen: the next one of each stream; `default` answers for `params`."""
    if not isinstance(rngs, nnx.Rngs):
        return rngs
    keys = {n: each() for n, each in rngs.items() if each.key.get_raw_value() is not None}
    if "params" not in keys and "default" in keys:
        keys["params"] = keys.pop("default")
    return keys


def _fill(node: Any, attributes: Mapping[Any, Any]) -> None:
    """Give an object, or a container in it, these variables; those that it has keep identity."""
    held = vars(node) if isinstance(node, nnx.Module) else node
    for name, new in attributes.items():
        old = held.get(name)
        if isinstance(new, Mapping) and old is not None:
            _fill(old, new)
        elif isinstance(old, nnx.Variable):
            old.update_from_state(new)
        elif held is node:
            node[name] = new
        else:
            setattr(node, name, nnx.data(new))


class ToNNX(nnx.Module):
    """A Linen module as an NNX module: its methods, and its variables as attributes (BRG-7).

    These are made by `lazy_init`, with the arguments of a call; names, meshes and rules of boxes
    are metadata (BRG-8). `rngs` are seed streams for the calls that pass none.
    """

    def __init__(self, module: linen.Module, rngs: nnx.Rngs | jax.Array | None = None):
        self.to_nnx__module = module if module.scope is None else module.clone()
        self.to_nnx__rngs = nnx.Rngs(params=rngs) if isinstance(rngs, jax.Array) else rngs

    def lazy_init(self, *args: Any, **kwargs: Any) -> Self:
        """Make the variables that a call with these arguments needs, and return the module."""
        return lazy_init(self, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        module = vars(self).get("to_nnx__module")
        if name.startswith("_") or not callable(getattr(type(module), name, None)):
            raise AttributeError(f"{type(self).__qualname__!r} has no attribute {name!r}")
        return functools.partial(self.__call__, method=name)

    def __call__(
        self, *args: Any, rngs: Any = None, method: Any = None, mutable: Any = None, **kwargs: Any
    ) -> Any:
        """Call the Linen module, or a method of it; the options are those of `linen.Module.apply`.

        It is a `CrossingError` if the variables were not made: `lazy_init`.
        """
        module, (initializing, around) = self.to_nnx__module, _run.get()
        keys = _keys(self.to_nnx__rngs if rngs is None else rngs)
        attributes = {
            name: value
            for name, value in vars(self).items()
            if isinstance(value, nnx.Variable | Mapping) and not name.startswith("_")
        }
        if initializing and not attributes:
            output, changed = module.init_with_output(keys, *args, method=method, **kwargs)
        elif not attributes and around is None:
            raise CrossingError(
                f"ToNNX({type(module).__qualname__}) has no variables: they are made by a call, "
                "ToNNX(module).lazy_init(*args, rngs=nnx.Rngs(0))."
            )
        else:
            mutable = (around or False) if mutable is None else mutable
            options = {"rngs": keys, "method": method, "mutable": mutable, **kwargs}
            output = module.apply(nnx_attrs_to_linen_vars(attributes), *args, **options)
            output, changed = (output, {}) if mutable is False else output
        _fill(self, linen_vars_to_nnx_attrs(changed))
        return output


def _restarted(variable: nnx.Variable[Any], keys: Mapping[str, Any]) -> nnx.Variable[Any]:
    """The state of a stream as it is before the first draw; without a key where none was passed."""
    shape, key = variable.shape, keys.get(variable.get_metadata("tag"))
    if not isinstance(variable, nnx.RngKey):
        return variable.replace(jnp.zeros(shape, variable.dtype))
    return variable.replace(key if key is None or not shape else jax.random.split(key, shape))


class ToLinen(linen.Module):
    """An NNX class as a Linen module, in whose collections its object's variables lie (BRG-7).

    The object is made anew for each call, by its class with `args`, `kwargs` and, if it takes them,
    `rngs`, which `skip_rng` prevents; its methods are the module's. What lies in a collection is
    what `metadata_fn` makes of the variable: with names a box (BRG-8).
    """

    nnx_class: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)
    skip_rng: bool = False
    metadata_fn: Callable[[nnx.Variable[Any]], Any] = to_linen_var

    def __getattr__(self, name: str) -> Any:
        kind = vars(self).get("nnx_class")
        if not name.startswith("_") and callable(getattr(kind, name, None)):
            return functools.partial(self.__call__, nnx_method=name)
        return super().__getattr__(name)

    @linen.nowrap
    def _make(self, keys: Mapping[str, Any]) -> Any:
        """The object, as its constructor leaves it."""
        options = dict(self.kwargs)
        if not self.skip_rng and "rngs" in inspect.signature(self.nnx_class).parameters:
            options["rngs"] = nnx.Rngs(**keys)
        return self.nnx_class(*self.args, **options)

    @linen.nowrap
    def _remade(self, keys: Mapping[str, Any]) -> Any:
        """The object, with the variables of the scope and newly seeded streams."""
        made = nnx.eval_shape(lambda: self._make({"default": jax.random.key(0), **keys}))
        definition, state = nnx.split(made)
        flat = dict(nnx.to_flat_state(state))
        held = dict(nnx.to_flat_state(linen_vars_to_nnx_attrs(self.variables)))
        for path, variable in flat.items():
            if path not in held and not isinstance(variable, nnx.RngState):
                raise CrossingError(
                    f"{'/'.join(map(str, path))} of {self.nnx_class!r} is in no collection passed "
                    f"to apply; they have {['/'.join(map(str, each)) for each in held]}."
                )
            flat[path] = held[path] if path in held else _restarted(variable, keys)
        made = nnx.merge(definition, nnx.from_flat_state(flat))
        rest = [(path, variable) for path, variable in held.items() if path not in flat]
        _fill(made, nnx.from_flat_state(rest))  # What the first call made, as a `ToNNX` does.
        return made

    def __call__(self, *args: Any, nnx_method: str | None = None, **kwargs: Any) -> Any:
        """Call the object, or the method of that name."""
        scope = self._scope
        streams = {*scope.rngs} | ({"default"} if self.has_rng("params") else set())
        keys = {name: self.make_rng(name) for name in sorted(streams)}
        first = self.is_initializing() and not self.variables
        made = self._make(keys) if first else self._remade(keys)
        with _running(first, scope.mutable):
            output = (made if nnx_method is None else getattr(made, nnx_method))(*args, **kwargs)
        kept = nnx.state(made, nnx.Not(nnx.RngState))
        for name, tree in nnx_attrs_to_linen_vars(kept, self.metadata_fn).items():
            if self.is_mutable_collection(name):
                put(scope.variables, (name, *self.path), tree)
        return output


def to_linen(
    nnx_class: Callable[..., Any],
    *args: Any,
    metadata_fn: Callable[[nnx.Variable[Any]], Any] = to_linen_var,
    name: str | None = None,
    skip_rng: bool = False,
    **kwargs: Any,
) -> ToLinen:
    """`ToLinen` with the arguments of the constructor written as in its call (BRG-7)."""
    return ToLinen(nnx_class, args, kwargs, skip_rng, metadata_fn, name=name)


class Annotated(Partitioned[A]):
    """A box that an NNX variable takes too, for its value and its metadata."""

    raw_value = property(lambda self: self.value)

    @property
    def metadata(self) -> dict[str, Any]:
        """What the variable will know: the names, the mesh, and that this was a box."""
        known = {"out_sharding": self.names, "linen_meta_type": Partitioned}
        return known if self.mesh is None else {**known, "mesh": self.mesh}


nnx.VariableMetadata.register(Annotated)


def with_partitioning(
    initializer: Callable[..., Any], names: Any, mesh: Mesh | None = None
) -> Callable[..., Any]:
    """An initializer that names the axes of parameters of either kind (BRG-8)."""
    return boxing(initializer, functools.partial(Annotated, names=names, mesh=mesh))
