"""Seed streams: randomness as objects, so that it is state like any other.

Each draw folds the count of a stream into its key, and moves the count on: the same seeds and draws
give the same keys, and no stream disturbs another.
"""

import functools
from collections.abc import Callable, ItemsView, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax import random

from ..errors import StreamError
from .filters import Path, to_predicate
from .graph import clone, iter_graph, state, update
from .objects import Pytree, attributes_of
from .variables import Variable

Flag = bool | None
Shape = int | tuple[int, ...]
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
        dtype = getattr(key, "dtype", float)
        if isinstance(key, RngStream):
            key = key.key.get_value()
        elif isinstance(key, int):
            key = random.key(key)
        elif dtype == jnp.uint32:
            key = random.wrap_key_data(key)
        elif not jnp.issubdtype(dtype, jax.dtypes.prng_key):
            raise StreamError(f"A stream starts from an integer or a jax.random.key, got {key!r}")
        self.tag = tag
        self.key: RngKey = RngKey(key, tag=tag)
        self.count = RngCount(jnp.zeros(key.shape, jnp.uint32), tag=tag)

    def __call__(self) -> jax.Array:
        """A key that the stream has not given before; a `StreamError` where there is none."""
        if self.key.get_raw_value() is None:
            raise StreamError(f"The stream {self.tag!r} has no key.")
        count = self.count.get_value()
        self.count.set_value(count + 1)
        return random.fold_in(self.key.get_value(), count)

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


def _taken(node: Any, how: Any) -> Iterator[tuple[Path, RngStream, Any]]:
    """The streams in a node that a mapping of filters takes, with its value; else one for all."""
    rules = how if isinstance(how, Mapping) else {...: how}
    predicates = [(to_predicate(each), k) for each, k in rules.items()]
    for path, stream in iter_graph(node):
        if isinstance(stream, RngStream):
            ks = [k for takes, k in predicates if takes((*path, "key"), stream.key)]
            yield from [(path, stream, k) for k in ks[:1]]


class Rngs(_Random, Pytree):
    """Named streams (OBJ-6); `default` is for names that are not there, or has names and seeds."""

    def __init__(self, default: Any = None, **rngs: Any):
        whole = isinstance(default, Mapping)
        for name, seed in ({**default, **rngs} if whole else {**rngs, "default": default}).items():
            if name != "default" or seed is not None:
                setattr(self, name, RngStream(seed, tag=name))

    def __getitem__(self, name: str) -> RngStream:
        streams = attributes_of(self)
        if name not in streams and "default" not in streams:
            raise StreamError(f"There is no stream {name!r}, and no default; only {[*streams]!r}.")
        return streams.get(name) or streams["default"]  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __call__(self) -> jax.Array:
        """A new key of the default stream."""
        return self["default"]()

    def __iter__(self) -> Iterator[str]:
        return iter(attributes_of(self))

    def __len__(self) -> int:
        return len(attributes_of(self))

    def __contains__(self, name: object) -> bool:
        return name in attributes_of(self)

    def items(self) -> ItemsView[str, RngStream]:
        """Names and streams."""
        return attributes_of(self).items()

    def _each(self, change: Callable[[RngStream, Any], RngStream], how: Any) -> Self:
        taken = {name: change(each, k) for (name,), each, k in _taken(self, how)}
        return type(self)(**{name: taken.get(name) or each.fork() for name, each in self.items()})

    def split(self, k: Any) -> Self:
        """Streams of `k` keys at once; a mapping of filters says for which, and others fork."""
        return self._each(RngStream.split, k)

    def broadcast(self, k: Any) -> Self:
        """Streams of one key, `k` times; a mapping of filters says for which, and others fork."""
        return self._each(RngStream.broadcast, k)

    def fork(self, /, *, split: Any = None) -> Self:
        """Streams that are independent of these; `split` ones have several keys at once."""
        return self._each(RngStream.split, split)


def fork_rngs(
    node: Any = ..., /, *, split: Any = None, graph: Flag = None, graph_updates: Flag = None
) -> Any:
    """Give each stream a new key, or `split` keys at once; a mapping of filters says for which.

    It returns a context, which holds backups for `restore_rngs`; with `graph_updates=False` a copy
    of the node; without a node, a decorator that does it to all arguments during the call.
    """

    def forked(node: Any) -> tuple[Any, ExitStack]:
        node, backups = clone(node) if graph_updates is False else node, ExitStack()
        for _, stream, k in _taken(node, split):
            new = stream.fork(split=k)  # Before the backup: what it drew stays drawn.
            backups.callback(update, stream, state(stream))
            update(stream, state(new))
        return node, backups

    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            (args, kwargs), backups = forked((args, kwargs))
            with backups:
                return function(*args, **kwargs)

        return wrapper

    return around if node is ... else forked(node)[graph_updates is not False]


def split_rngs(
    node: Any = ..., /, *, splits: Shape, only: Any = ..., squeeze: bool = False, **options: Any
) -> Any:
    """Give each stream that `only` takes `splits` keys, or `squeeze` the one; see `fork_rngs`."""
    return fork_rngs(node, split={to_predicate(only): () if squeeze else splits}, **options)


def restore_rngs(backups: ExitStack, /) -> None:
    """Make streams what they were before; `backups` are of `split_rngs` or `fork_rngs`."""
    backups.close()


def reseed(
    node: Any, /, *, graph: Flag = None, policy: Any = "scalars_only", **stream_keys: Any
) -> None:
    """Start the streams of these names anew, wherever they are in an object.

    For a stream of several keys, the policy `"match_shape"` splits the new key, `"scalars_only"` is
    a `StreamError`, and a function of (path, key, shape) returns the keys.
    """
    for path, stream, new in _taken(node, dict(Rngs(**stream_keys).items())):
        shape, keys = stream.key.shape, new()
        if callable(policy):
            keys = policy(path, keys, shape)
        elif shape and policy == "match_shape":
            keys = random.split(keys, shape)
        elif shape:
            raise StreamError(f"{path!r} has keys of shape {shape}; {policy=} gives one key.")
        update(stream, state(RngStream(keys, tag=stream.tag)))
