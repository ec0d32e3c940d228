"""Seed streams: randomness as objects, so that it is state like any other.

A stream is a key and a count. Each draw folds the count into the key and moves the count on, so the
same seed and the same draws give the same keys, and one stream does not disturb another.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax import random

from ..errors import StreamError
from . import filters as filterlib
from .graphs import iter_graph, recursive_map
from .objects import Pytree, attributes_of
from .variables import Variable

_UNSET: Any = object()
_FUNCTIONS = (
    *("ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy", "chisquare"),
    *("choice", "dirichlet", "double_sided_maxwell", "exponential", "f", "gamma"),
    *("generalized_normal", "geometric", "gumbel", "laplace", "loggamma", "logistic", "lognormal"),
    *("maxwell", "multinomial", "multivariate_normal", "normal", "orthogonal", "pareto"),
    *("permutation", "poisson", "rademacher", "randint", "rayleigh", "t", "triangular"),
    *("truncated_normal", "uniform", "wald", "weibull_min"),
)
_INITIALIZERS = (
    *("delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform"),
    *("kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "variance_scaling"),
    *("xavier_normal", "xavier_uniform"),
)


class RngState(Variable[jax.Array]):
    """A part of a seed stream; its `tag` is the name of the stream."""


class RngCount(RngState):
    """How many keys a stream has given."""


class RngKey(RngState):
    """The key that a stream starts from."""


def _as_key(seed: Any) -> jax.Array:
    if isinstance(seed, RngStream):
        return seed.key.get_value()  # type: ignore[no-any-return]
    if isinstance(seed, int):
        return random.key(seed)
    dtype = getattr(seed, "dtype", None)
    if dtype == jnp.uint32:
        return random.wrap_key_data(seed)  # type: ignore[no-any-return]
    if dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key):
        raise StreamError(f"A seed stream starts from an integer or a jax.random.key, got {seed!r}")
    return seed  # type: ignore[no-any-return]


def _as_shape(split: Any) -> tuple[int, ...]:
    return split if isinstance(split, tuple) else (split,)


class _Random:
    """The functions of `jax.random`, each with a new key of the stream."""

    __slots__ = ()

    def __call__(self) -> jax.Array:
        """A new key."""
        raise NotImplementedError


def _function(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(self: _Random, *args: Any, **kwargs: Any) -> Any:
        return function(self(), *args, **kwargs)

    return method


def _initializer(constructor: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(constructor)
    def method(self: _Random, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        initializer = constructor(*args, **kwargs)
        return lambda *args, **kwargs: initializer(self(), *args, **kwargs)

    return method


for _name in _FUNCTIONS:
    if hasattr(random, _name):
        setattr(_Random, _name, _function(getattr(random, _name)))
for _name in _INITIALIZERS:
    setattr(_Random, _name, _initializer(getattr(jax.nn.initializers, _name)))


class RngStream(_Random, Pytree):
    """One stream of keys.

    Args:
      key: An integer, a key of any shape, or its data.
      tag: The name of the stream.
    """

    def __init__(self, key: Any, *, tag: str):
        key = _as_key(key)
        self.tag = tag
        self.key = RngKey(key, tag=tag)
        self.count = RngCount(jnp.zeros(key.shape, jnp.uint32), tag=tag)

    def __call__(self) -> jax.Array:
        """A key that the stream has not given before.

        Raises:
          StreamError: It has no key.
        """
        if self.key.get_raw_value() is None:
            raise StreamError(f"The stream {self.tag!r} has no key.")
        count = self.count.get_value()
        self.count.set_value(count + 1)
        return random.fold_in(self.key.get_value(), count)

    def split(self, k: int | tuple[int, ...]) -> Self:
        """A stream of `k` independent keys at once."""
        return type(self)(random.split(self(), k), tag=self.tag)

    def broadcast(self, k: int | tuple[int, ...]) -> Self:
        """A stream of one key, `k` times."""
        key = self()
        return type(self)(jnp.broadcast_to(key, _as_shape(k) + key.shape), tag=self.tag)

    def fork(self, *, split: int | tuple[int, ...] | None = None) -> Self:
        """A stream that is independent of this one."""
        return type(self)(self(), tag=self.tag) if split is None else self.split(split)


class Rngs(_Random, Pytree):
    """Named streams (OBJ-6).

    Args:
      default: The stream for names that are not there; or a mapping of names to seeds.
      **rngs: A seed for each name: an integer, a key, or a stream.
    """

    def __init__(self, default: Any = None, **rngs: Any):
        if isinstance(default, Mapping):
            rngs = {**default, **rngs}
        elif default is not None:
            rngs["default"] = default
        for name, seed in rngs.items():
            setattr(self, name, RngStream(_as_key(seed), tag=name))

    def _stream(self, name: str) -> RngStream:
        streams = attributes_of(self)
        if name not in streams and "default" not in streams:
            raise StreamError(
                f"There is no stream {name!r} and no default stream; there is {tuple(streams)!r}."
            )
        found: RngStream = streams.get(name) or streams["default"]
        return found

    def __getitem__(self, name: str) -> RngStream:
        """The stream `name`, or the default stream."""
        return self._stream(name)

    def __getattr__(self, name: str) -> Any:
        """The default stream, for names that are not there."""
        if name.startswith("_"):
            raise AttributeError(name)
        return self._stream(name)

    def __call__(self) -> jax.Array:
        """A new key of the default stream."""
        return self._stream("default")()

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items())

    def __len__(self) -> int:
        return len(list(self.items()))

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        return name in attributes_of(self)

    def items(self) -> Iterator[tuple[str, RngStream]]:
        """Names and streams."""
        for name, stream in list(attributes_of(self).items()):
            if isinstance(stream, RngStream):
                yield name, stream

    def _each(
        self, how: Any, change: Callable[[RngStream, Any], Any], other: Callable[[Any], Any]
    ) -> Self:
        """`change(stream, k)` where a filter has a `k`, `other(stream)` for the others."""
        rules = how if isinstance(how, Mapping) else {...: how}
        predicates = [(filterlib.to_predicate(each), k) for each, k in rules.items()]
        made = {}
        for name, stream in self.items():
            k = next((k for takes, k in predicates if takes((name,), stream)), None)
            made[name] = other(stream) if k is None else change(stream, k)
        return type(self)(**made)

    def split(self, k: Any) -> Self:
        """Streams of `k` keys at once; a mapping of filters says for which."""
        return self._each(k, RngStream.split, lambda stream: stream)

    def broadcast(self, k: Any) -> Self:
        """Streams of the same key, `k` times; a mapping of filters says for which."""
        return self._each(k, RngStream.broadcast, lambda stream: stream)

    def fork(self, /, *, split: Any = None) -> Self:
        """Streams that are independent of these; `split` ones have several keys at once."""
        return self._each(split, RngStream.split, RngStream.fork)


class SplitBackups(tuple[tuple[Any, ...], ...]):
    """What streams were before; a context that restores them."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        restore_rngs(self)


def _rewind(stream: RngStream, key: jax.Array) -> None:
    """Start a stream anew from this key."""
    stream.key.set_value(key)
    stream.count.set_value(jnp.zeros(key.shape, jnp.uint32))


def _renew(node: Any, rules: Any, draw: Callable[[RngStream, Any], Any], in_place: bool) -> Any:
    """`draw(stream, k)` is the new key of each stream that a filter takes."""
    predicates = [(filterlib.to_predicate(each), k) for each, k in rules.items()]

    def rule(path: tuple[Any, ...], stream: RngStream) -> Any:
        parts = (((*path, "key"), stream.key), ((*path, "count"), stream.count))
        return next((k for takes, k in predicates if all(takes(*part) for part in parts)), _UNSET)

    def visit(path: tuple[Any, ...], value: Any) -> Any:
        if isinstance(value, RngStream) and (k := rule(path, value)) is not _UNSET:
            backup = (value.key.get_value(), value.count.get_value())
            _rewind(value, draw(value, k))
            backups.append((value, *backup))
        return value

    backups: list[Any] = []
    if not in_place:
        return recursive_map(visit, node)
    for path, value in iter_graph(node):
        visit(path, value)
    return SplitBackups(backups)


def _around(function: Callable[..., Any], renew: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with renew((args, kwargs)):
            return function(*args, **kwargs)

    return wrapper


def split_rngs(
    node: Any = _UNSET,
    /,
    *,
    splits: int | tuple[int, ...],
    only: Any = ...,
    squeeze: bool = False,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """Give each stream that `only` takes `splits` keys at once.

    Returns:
      Backups for `restore_rngs`, which are also a context; with `graph_updates=False` a changed
      copy; without a node, a decorator that does it to all arguments during the call.
    """

    def draw(stream: RngStream, k: Any) -> Any:
        keys = random.split(stream(), k)
        return keys[0] if squeeze else keys

    def renew(node: Any) -> Any:
        return _renew(node, {only: splits}, draw, graph_updates is not False)

    if node is _UNSET:
        return lambda function: _around(function, renew)
    return renew(node)


def fork_rngs(
    node: Any = _UNSET,
    /,
    *,
    split: Any = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Any:
    """Give each stream a new key, that is independent of its old one; see `split_rngs`."""
    rules = split if isinstance(split, Mapping) else {...: split}

    def draw(stream: RngStream, k: Any) -> Any:
        return stream() if k is None else random.split(stream(), k)

    def renew(node: Any) -> Any:
        return _renew(node, rules, draw, graph_updates is not False)

    if node is _UNSET:
        return lambda function: _around(function, renew)
    return renew(node)


def restore_rngs(backups: Iterable[tuple[Any, ...]], /) -> None:
    """Make streams what they were before."""
    for stream, key, *count in backups:
        stream.key.set_value(key)
        if count:
            stream.count.set_value(count[0])


def reseed(
    node: Any, /, *, graph: bool | None = None, policy: Any = "scalars_only", **stream_keys: Any
) -> None:
    """Start the streams of these names anew, wherever they are in an object.

    Args:
      node: The object.
      policy: For streams of several keys: `"match_shape"` splits the new key, `"scalars_only"`
        refuses, a function of (path, key, shape) returns the keys.
      **stream_keys: A seed for each name.

    Raises:
      StreamError: A stream has several keys, and the policy refuses.
    """
    rngs = Rngs(**stream_keys)
    for path, stream in iter_graph(node):
        if not isinstance(stream, RngStream) or stream.tag not in stream_keys:
            continue
        key, shape = rngs[stream.tag](), stream.key.shape
        if callable(policy):
            key = policy(path, key, shape)
        elif shape and policy == "match_shape":
            key = random.split(key, shape)
        elif shape or policy not in ("scalars_only", "match_shape"):
            raise StreamError(
                f"Cannot reseed the stream at path {path!r} with keys of shape {shape} under the "
                f"policy {policy!r}; use 'match_shape', or a function of (path, key, shape)."
            )
        _rewind(stream, key)
