"""Seed streams: randomness as objects, so that it is state like any other.

A stream is a key and a count. Each draw folds the count into the key and moves the count on, so the
same seed and the same draws give the same keys, and one stream does not disturb another.
"""

import functools
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax import random

from ..errors import StreamError
from . import filters as filterlib
from .graphs import clone, iter_graph
from .objects import Pytree, attributes_of
from .variables import Variable

Flag = bool | None
Shape = int | tuple[int, ...]
_UNSET: Any = object()
_FUNCTIONS = (
    "ball bernoulli beta binomial bits categorical cauchy chisquare choice dirichlet "
    "double_sided_maxwell exponential f gamma generalized_normal geometric gumbel laplace loggamma "
    "logistic lognormal maxwell multinomial multivariate_normal normal orthogonal pareto "
    "permutation poisson rademacher randint rayleigh t triangular truncated_normal uniform wald "
    "weibull_min"
).split()
_INITIALIZERS = (
    "delta_orthogonal glorot_normal glorot_uniform he_normal he_uniform kaiming_normal "
    "kaiming_uniform lecun_normal lecun_uniform variance_scaling xavier_normal xavier_uniform"
).split()


class RngState(Variable[jax.Array]):
    """A part of a seed stream; its `tag` is the name of the stream."""


class RngCount(RngState):
    """How many keys a stream has given."""


class RngKey(RngState):
    """The key that a stream starts from."""


def _as_key(seed: Any) -> Any:
    if isinstance(seed, RngStream):
        return seed.key.get_value()
    if isinstance(seed, int):
        return random.key(seed)
    dtype = getattr(seed, "dtype", None)
    if dtype == jnp.uint32:
        return random.wrap_key_data(seed)
    if dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key):
        raise StreamError(f"A seed stream starts from an integer or a jax.random.key, got {seed!r}")
    return seed


class _Random:
    """The functions of `jax.random` and the initializers, each with a new key of the stream."""

    __slots__ = ()

    def _drawn(self: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return function(self(), *args, **kwargs)

    def _initializer(self, constructor: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return functools.partial(self._drawn, constructor(*args, **kwargs))


for _name in filter(functools.partial(hasattr, random), _FUNCTIONS):
    setattr(_Random, _name, functools.partialmethod(_Random._drawn, getattr(random, _name)))
for _name in _INITIALIZERS:
    _made = getattr(jax.nn.initializers, _name)
    setattr(_Random, _name, functools.partialmethod(_Random._initializer, _made))


class RngStream(_Random, Pytree):
    """One stream of keys: `key` is an integer, a key of any shape, or its data."""

    def __init__(self, key: Any, *, tag: str):
        key = _as_key(key)
        self.tag = tag
        self.key = RngKey(key, tag=tag)
        self.count = RngCount(jnp.zeros(key.shape, jnp.uint32), tag=tag)

    def __call__(self) -> jax.Array:
        """A key that the stream has not given before; a `StreamError` where there is none."""
        if self.key.get_raw_value() is None:
            raise StreamError(f"The stream {self.tag!r} has no key.")
        count = self.count.get_value()
        self.count.set_value(count + 1)
        return random.fold_in(self.key.get_value(), count)

    def _restart(self, key: jax.Array) -> None:
        self.key.set_value(key)
        self.count.set_value(jnp.zeros(key.shape, jnp.uint32))

    def fork(self, *, split: Shape | None = None) -> Self:
        """A stream that is independent of this one, of one key or of several at once."""
        return type(self)(self() if split is None else random.split(self(), split), tag=self.tag)

    def split(self, k: Shape) -> Self:
        """A stream of `k` independent keys at once."""
        return self.fork(split=k)

    def broadcast(self, k: Shape) -> Self:
        """A stream of one key, `k` times."""
        key, shape = self(), k if isinstance(k, tuple) else (k,)
        return type(self)(jnp.broadcast_to(key, shape + key.shape), tag=self.tag)


def _rules(how: Any) -> Callable[..., Any]:
    """What a mapping of filters, or one value for all, says of the places of a stream."""
    rules = how if isinstance(how, Mapping) else {...: how}
    predicates = [(filterlib.to_predicate(each), k) for each, k in rules.items()]
    return lambda default, *places: next(
        (k for takes, k in predicates if all(takes(*place) for place in places)), default
    )


class Rngs(_Random, Pytree):
    """Named streams (OBJ-6); `default` is for names that are not there, or has names and seeds."""

    def __init__(self, default: Any = None, **rngs: Any):
        whole = isinstance(default, Mapping)
        for name, seed in ({**default, **rngs} if whole else {**rngs, "default": default}).items():
            if name != "default" or seed is not None:
                setattr(self, name, RngStream(seed, tag=name))

    def _stream(self, name: str) -> RngStream:
        """The stream of that name, or the default stream."""
        streams = attributes_of(self)
        found: RngStream | None = streams.get(name) or streams.get("default")
        if found is None:
            raise StreamError(
                f"There is no stream {name!r} and no default stream; there is {tuple(streams)!r}."
            )
        return found

    def __getitem__(self, name: str) -> RngStream:
        return self._stream(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._stream(name)

    def __call__(self) -> jax.Array:
        """A new key of the default stream."""
        return self._stream("default")()

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self.items()))

    def __len__(self) -> int:
        return len(self.items())

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        return name in attributes_of(self)

    def items(self) -> ItemsView[str, RngStream]:
        """Names and streams."""
        streams = attributes_of(self).items()
        return {name: each for name, each in streams if isinstance(each, RngStream)}.items()

    def _each(self, how: Any, change: Callable[[RngStream, Any], Any]) -> Self:
        rule = _rules(how)
        made = {name: change(each, rule(None, ((name,), each))) for name, each in self.items()}
        return type(self)(**made)

    def split(self, k: Any) -> Self:
        """Streams of `k` keys at once; a mapping of filters says for which."""
        return self._each(k, lambda each, k: each if k is None else each.split(k))

    def broadcast(self, k: Any) -> Self:
        """Streams of the same key, `k` times; a mapping of filters says for which."""
        return self._each(k, lambda each, k: each if k is None else each.broadcast(k))

    def fork(self, /, *, split: Any = None) -> Self:
        """Streams that are independent of these; `split` ones have several keys at once."""
        return self._each(split, lambda each, k: each.fork(split=k))


class SplitBackups(tuple[tuple[Any, ...], ...]):
    """What streams were before; a context that restores them."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        restore_rngs(self)


def _renewal(node: Any, how: Any, graph_updates: Flag, squeeze: bool = False) -> Any:
    """Give new keys to the streams of a node, or of the arguments that a function will get."""
    copies, rule = graph_updates is False, _rules(how)

    def renewed(node: Any) -> tuple[Any, SplitBackups]:
        node, backups = clone(node) if copies else node, []
        for path, stream in iter_graph(node):
            if isinstance(stream, RngStream):
                k = rule(_UNSET, ((*path, "key"), stream.key), ((*path, "count"), stream.count))
                if k is not _UNSET:
                    backups.append((stream, stream.key.get_value(), stream.count.get_value()))
                    keys = stream.fork(split=k).key.get_value()
                    stream._restart(keys[0] if squeeze else keys)
        return node, SplitBackups(backups)

    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            (args, kwargs), backups = renewed((args, kwargs))
            with backups:
                return function(*args, **kwargs)

        return wrapper

    return around if node is _UNSET else renewed(node)[0 if copies else 1]


def split_rngs(
    node: Any = _UNSET,
    /,
    *,
    splits: Shape,
    only: Any = ...,
    squeeze: bool = False,
    graph: Flag = None,
    graph_updates: Flag = None,
) -> Any:
    """Give each stream that `only` takes `splits` keys at once.

    It returns a context, which holds backups for `restore_rngs`; with `graph_updates=False` a copy
    of the node; without a node, a decorator that does it to all arguments during the call.
    """
    return _renewal(node, {only: splits}, graph_updates, squeeze)


def fork_rngs(
    node: Any = _UNSET, /, *, split: Any = None, graph: Flag = None, graph_updates: Flag = None
) -> Any:
    """Give each stream a new key, that is independent of its old one; see `split_rngs`."""
    return _renewal(node, split, graph_updates)


def restore_rngs(backups: Iterable[tuple[Any, ...]], /) -> None:
    """Make streams what they were before."""
    for stream, key, count in backups:
        stream.key.set_value(key)
        stream.count.set_value(count)


def reseed(
    node: Any, /, *, graph: Flag = None, policy: Any = "scalars_only", **stream_keys: Any
) -> None:
    """Start the streams of these names anew, wherever they are in an object.

    For streams of several keys, the policy `"match_shape"` splits the new key, `"scalars_only"`
    refuses with a `StreamError`, and a function of (path, key, shape) returns the keys.
    """
    rngs = Rngs(**stream_keys)
    for path, stream in iter_graph(node):
        if isinstance(stream, RngStream) and stream.tag in stream_keys:
            key, shape = rngs[stream.tag](), stream.key.shape
            if callable(policy):
                key = policy(path, key, shape)
            elif shape and policy == "match_shape":
                key = random.split(key, shape)
            elif shape or policy not in ("scalars_only", "match_shape"):
                raise StreamError(
                    f"The policy {policy!r} has no keys of shape {shape} for the stream at path "
                    f"{path!r}; use 'match_shape', or a function of (path, key, shape)."
                )
            stream._restart(key)
