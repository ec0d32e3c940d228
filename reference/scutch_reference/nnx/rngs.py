"""Seed streams: randomness as objects, so that it is state like any other.

A *stream* has a key and a count. Each draw folds the count into the key, and moves the count on: so
the same seeds and draws give the same keys, and no stream disturbs another. To *fork* a stream is
to start a new one from a key that it draws. A stream may have several keys at once, in an array of
keys: then each lane of `vmap` or step of `scan` has a key of its own.

>>> rngs = Rngs(0, dropout=1)
>>> rngs.params() == random.fold_in(random.key(0), 0)  # no such stream: the default one
Array(True, dtype=bool)
>>> rngs.dropout.normal((2, 3)).shape
(2, 3)
>>> int(rngs.dropout.count[...])
1
"""

import functools
from collections.abc import Callable, ItemsView, Mapping
from typing import Any, Self

import jax.numpy as jnp
from jax import Array, dtypes, random
from jax.nn import initializers

from .. import jax_versions
from ..errors import StreamError
from .filters import Path, to_predicate
from .objects import Elements, Pytree, attributes_of
from .variables import Variable

Shape = int | tuple[int, ...]
Shapes = Mapping[Any, Any] | Shape | None  # A shape for all streams, or one by filter.
# Methods of streams that draw: each calls its function with a new key, and then the arguments.
_DRAWING: dict[str, Callable[..., Any]] = {
    "ball": random.ball,
    "bernoulli": random.bernoulli,
    "beta": random.beta,
    "binomial": random.binomial,
    "bits": random.bits,
    "categorical": random.categorical,
    "cauchy": random.cauchy,
    "chisquare": random.chisquare,
    "choice": random.choice,
    "dirichlet": random.dirichlet,
    "double_sided_maxwell": random.double_sided_maxwell,
    "exponential": random.exponential,
    "f": random.f,
    "gamma": random.gamma,
    "generalized_normal": random.generalized_normal,
    "geometric": random.geometric,
    "gumbel": random.gumbel,
    "laplace": random.laplace,
    "loggamma": random.loggamma,
    "logistic": random.logistic,
    "lognormal": random.lognormal,
    "maxwell": random.maxwell,
    "multinomial": jax_versions.multinomial,
    "multivariate_normal": random.multivariate_normal,
    "normal": random.normal,
    "orthogonal": random.orthogonal,
    "pareto": random.pareto,
    "permutation": random.permutation,
    "poisson": random.poisson,
    "rademacher": random.rademacher,
    "randint": random.randint,
    "rayleigh": random.rayleigh,
    "t": random.t,
    "triangular": random.triangular,
    "truncated_normal": random.truncated_normal,
    "uniform": random.uniform,
    "wald": random.wald,
    "weibull_min": random.weibull_min,
}
# Methods of streams that return an initializer: a function of shape and dtype that draws.
_INITIALIZING: dict[str, Callable[..., Any]] = {
    "delta_orthogonal": initializers.delta_orthogonal,
    "glorot_normal": initializers.glorot_normal,
    "glorot_uniform": initializers.glorot_uniform,
    "he_normal": initializers.he_normal,
    "he_uniform": initializers.he_uniform,
    "kaiming_normal": initializers.kaiming_normal,
    "kaiming_uniform": initializers.kaiming_uniform,
    "lecun_normal": initializers.lecun_normal,
    "lecun_uniform": initializers.lecun_uniform,
    "variance_scaling": initializers.variance_scaling,
    "xavier_normal": initializers.xavier_normal,
    "xavier_uniform": initializers.xavier_uniform,
}


class RngState(Variable[Array]):
    """A part of a seed stream; its `tag` is the name of the stream."""


class RngCount(RngState):
    """How many keys a stream has given."""


class RngKey(RngState):
    """The key that a stream starts from."""


class _Random:
    """The functions of `jax.random` and the initializers, each with a new key of the stream."""

    __slots__ = ()

    def _draw(self: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return function(self(), *args, **kwargs)

    def _initializer(self, constructor: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return functools.partial(self._draw, constructor(*args, **kwargs))


for _name, _function in _DRAWING.items():
    if _function is not None:  # This JAX may not have it yet.
        setattr(_Random, _name, functools.partialmethod(_Random._draw, _function))
for _name, _function in _INITIALIZING.items():
    setattr(_Random, _name, functools.partialmethod(_Random._initializer, _function))


class RngStream(_Random, Pytree):
    """A stream of keys: each call gives the next one (OBJ-6).

    The functions of `jax.random` are methods, without the key: `stream.normal((2, 3))`.

    Args:
      key: An integer; a key, or an array of keys of any shape; the data of one, of dtype `uint32`;
        or a stream, whose key is taken.
      tag: The name of the stream.

    Raises:
      StreamError: The key is none of these.
    """

    def __init__(self, key: Any, *, tag: str):
        dtype = getattr(key, "dtype", float)
        if isinstance(key, RngStream):
            key = key.key.get_value()
        elif isinstance(key, int):
            key = random.key(key)
        elif dtype == jnp.uint32:
            key = random.wrap_key_data(key)
        elif not jnp.issubdtype(dtype, dtypes.prng_key):
            raise StreamError(
                place="the start of a stream", given=key, expected="an integer or a jax.random.key"
            )
        self.tag = tag
        self.key: RngKey = RngKey(key, tag=tag)
        self.count = RngCount(jnp.zeros(key.shape, jnp.uint32), tag=tag)

    def __call__(self) -> Array:
        """Return a key that the stream has not given before (OBJ-6).

        Raises:
          StreamError: The stream has no key.
          TraceLevelError: The stream was made outside the transformation that runs.
        """
        if self.key.get_raw_value() is None:
            raise StreamError(
                place=f"the key of the stream {self.tag!r}", given=None, expected="a key"
            )
        count = self.count.get_value()
        self.count.set_value(count + 1)
        return random.fold_in(self.key.get_value(), count)

    def fork(self, *, split: Shape | None = None) -> Self:
        """Return a stream that is independent of this one (OBJ-6).

        Args:
          split: The shape of the array of keys that it has; without it, it has one key.
        """
        return type(self)(self() if split is None else random.split(self(), split), tag=self.tag)

    def split(self, k: Shape) -> Self:
        """Return a stream of several independent keys at once (OBJ-6).

        Args:
          k: The number of keys, or the shape of the array of keys.
        """
        return self.fork(split=k)

    def broadcast(self, k: Shape) -> Self:
        """Return a stream that has one key several times (OBJ-6).

        Args:
          k: How often, or the shape of the array of keys.
        """
        key, shape = self(), k if isinstance(k, tuple) else (k,)
        return type(self)(jnp.broadcast_to(key, shape + key.shape), tag=self.tag)


def first_that_takes(by_filter: Mapping[Any, Any], *parts: tuple[Path, Any]) -> list[Any]:
    """Return the first filter that takes all parts, with its value, in a list; else an empty list.

    Args:
      by_filter: A mapping from filters to values.
      *parts: Pairs of a path and the value there.
    """
    for filter, value in by_filter.items():
        takes = to_predicate(filter)
        if all(takes(path, part) for path, part in parts):
            return [(filter, value)]
    return []


def by_filter_of(shapes: Shapes) -> Mapping[Any, Any]:
    """A mapping from filters, of one, of a value for all streams, or of None for no stream."""
    if isinstance(shapes, Mapping):
        return shapes
    return {} if shapes is None else {...: shapes}


class Rngs(_Random, Elements, Pytree):
    """Named streams (OBJ-6); `rngs.name` and `rngs["name"]` are the stream of that name.

    The functions of `jax.random` are methods, without the key; they draw from the default stream.

    Args:
      default: The seed of the stream `default`, which is there for all names without a stream; or a
        mapping from names to seeds.
      **rngs: Seeds by name, of any type that `RngStream` takes.

    Raises:
      StreamError: A seed is none.
    """

    def __init__(self, default: Any = None, **rngs: Any):
        by_name = isinstance(default, Mapping)
        seeds = {**default, **rngs} if by_name else {**rngs, "default": default}
        for name, seed in seeds.items():
            if name != "default" or seed is not None:
                setattr(self, name, RngStream(seed, tag=name))

    def __getitem__(self, name: str) -> RngStream:
        streams = attributes_of(self)
        if name not in streams and "default" not in streams:
            raise StreamError(
                place="the name of a stream",
                given=name,
                expected=f"one of {[*streams]!r}, as there is no default",
            )
        return streams.get(name) or streams["default"]  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __call__(self) -> Array:
        """Return a new key of the default stream (OBJ-6).

        Raises:
          StreamError: There is none.
        """
        return self["default"]()

    def __contains__(self, name: object) -> bool:
        return name in attributes_of(self)

    def items(self) -> ItemsView[str, RngStream]:
        """Return the names and streams, as `dict.items` does."""
        return attributes_of(self).items()

    def _replaced(self, change: Callable[[RngStream, Any], RngStream], shapes: Shapes) -> Self:
        """Return these streams, changed where a filter takes the stream itself, else forked.

        Args:
          change: Makes a new stream of an old one and the value of the filter.
          shapes: A mapping from filters to values, one value for all streams, or None for none.
        """
        by_filter, made = by_filter_of(shapes), {}
        for name, stream in self.items():
            taken = [k for _, k in first_that_takes(by_filter, ((name,), stream)) if k is not None]
            made[name] = change(stream, taken[0]) if taken else stream.fork()
        return type(self)(**made)

    def split(self, k: Shapes) -> Self:
        """Return streams of several independent keys at once (OBJ-6).

        Args:
          k: The number of keys, or the shape of the array of keys; or a mapping from filters to
            these. A filter is asked about the stream: `RngStream` takes every one, a string the
            stream of that name. Streams that no filter takes, and those with None, are forked:
            one key each.
        """
        return self._replaced(RngStream.split, k)

    def broadcast(self, k: Shapes) -> Self:
        """Return streams that have one key several times (OBJ-6).

        Args:
          k: How often; see `split`.
        """
        return self._replaced(RngStream.broadcast, k)

    def fork(self, /, *, split: Shapes = None) -> Self:
        """Return streams that are independent of these (OBJ-6).

        Args:
          split: The shape of the array of keys that each has, or a mapping from filters to shapes;
            without it, each has one key.
        """
        return self._replaced(RngStream.split, split)
