"""Forks of the seed streams in an object: new keys for a time, or for a copy of the object.

A fork draws a key from each stream, and starts a new stream from it. `fork_rngs` and `split_rngs`
do so in place and can be undone, by `restore_rngs` or at the end of a `with` block; `with_rngs`
makes a copy; `reseed` starts streams from seeds instead.

>>> rngs = Rngs(0)
>>> with split_rngs(rngs, splits=3):
...     rngs.default.key.shape
(3,)
>>> rngs.default.key.shape
()
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from jax import random

from ..errors import StreamError
from ..types import Tree
from .defaults import updating_graph
from .filters import Filter, Path, to_predicate
from .graph import clone, state, update
from .rngs import Rngs, RngStream, Shape, Shapes, by_filter_of, first_that_takes
from .traversals import iter_graph


def _selected(node: Tree, shapes: Shapes) -> Iterator[tuple[Path, RngStream, Any]]:
    """Yield the streams in a node whose variables a filter takes, each with the filter's value.

    A stream is taken by the first filter that takes both its key and its count, as in Flax.

    Args:
      node: An object, or a tree of objects.
      shapes: A mapping from filters to values, or one value for all streams.
    """
    by_filter = shapes if isinstance(shapes, Mapping) else {...: shapes}
    for path, stream in iter_graph(node):
        if isinstance(stream, RngStream):
            parts = [((*path, "key"), stream.key), ((*path, "count"), stream.count)]
            yield from [(path, stream, k) for _, k in first_that_takes(by_filter, *parts)]


def fork_rngs(
    node: Tree = ...,
    /,
    *,
    split: Shapes = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Tree:
    """Give each stream in an object a new key that is forked from it, in place (OBJ-6).

    Args:
      node: An object, or a tree of objects. Without it, this returns a decorator of functions,
        which does it to all arguments for the time of the call.
      split: The shape of the array of keys that a stream gets, or a mapping from filters to shapes;
        without it, one key. A filter takes a stream if it takes both its key and its count, as in
        Flax; streams that no filter takes stay as they are.
      graph: Accepted and not needed: sharing is always kept.
      graph_updates: If False, a copy of the node is changed and returned.

    Returns:
      A context manager. On leaving it, or by `restore_rngs`, each stream gets back its own key, and
      its count after the fork: the key that the fork drew from it is not drawn again.
    """
    in_place = updating_graph(graph_updates)

    def forked(node: Tree) -> tuple[Any, ExitStack]:
        node, backups = node if in_place else clone(node), ExitStack()
        for _, stream, k in _selected(node, split):
            new = stream.fork(split=k)  # Before the backup: its key is not drawn again.
            backups.callback(update, stream, state(stream))
            update(stream, state(new))
        return node, backups

    if node is ...:
        return functools.partial(_with_changed_arguments, forked)
    return forked(node)[in_place]


def with_rngs(
    node: Tree = ...,
    /,
    *,
    split: Shapes = None,
    fork: Any = None,
    broadcast: Shapes = None,
    only: Filter = ...,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Tree:
    """Return a copy of an object with other seed streams: split, forked, or broadcast (OBJ-6).

    The keys of the new streams are drawn from the streams of `node`, which never give them again.

    Args:
      node: An object, or a tree of objects. Without it, this returns a decorator of functions,
        which does it to all arguments.
      split: The shape of the array of keys that a stream gets, or a mapping from filters to shapes.
      fork: A filter, or a list of filters, of the streams that are forked: each gets one key.
      broadcast: How often a stream has its one key, as a shape, or a mapping from filters to
        shapes.
      only: A filter; streams that it does not take stay as they are.
      graph: Accepted and not needed: sharing is always kept.
      graph_updates: Accepted and not needed, as well: nothing is changed in place.

    Returns:
      An object, or tree, of the same structure; without `node`, the decorator.

    Raises:
      StreamError: Filters of two of the three take one stream, and neither of the two is `...`.
    """
    if node is ...:
        options = {"split": split, "fork": fork, "broadcast": broadcast, "only": only}
        return functools.partial(
            _with_changed_arguments, lambda given: (with_rngs(given, **options), ExitStack())
        )
    forked = fork if isinstance(fork, list | tuple) else [] if fork is None else [fork]
    changes = [
        (RngStream.split, by_filter_of(split)),
        (RngStream.broadcast, by_filter_of(broadcast)),
        (lambda stream, _: stream.fork(), dict.fromkeys(forked)),
    ]
    copy, predicate = clone(node), to_predicate(only)
    for (path, stream), (_, twin) in zip(iter_graph(node), iter_graph(copy), strict=True):
        if isinstance(stream, RngStream) and predicate(path, stream):
            found = [
                (change, *first)
                for change, by_filter in changes
                for first in first_that_takes(by_filter, (path, stream))
            ]
            if sum(filter is not ... and filter is not True for _, filter, _ in found) > 1:
                raise StreamError(
                    place=f"the changes of {path!r}", given=found, expected="one change at most"
                )
            for change, _, k in found[:1]:
                update(twin, state(change(stream, k)))
    return copy


def _with_changed_arguments(
    change: Callable[[Any], tuple[Any, ExitStack]], function: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function that changes its arguments before each call, and undoes it afterwards.

    Args:
      change: Gets a pair of the arguments by position and those by name. It returns the changed
        pair, and a context manager that undoes the change when it is left.
      function: The function.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        (args, kwargs), backups = change((args, kwargs))
        with backups:
            return function(*args, **kwargs)

    return wrapper


def split_rngs(
    node: Tree = ...,
    /,
    *,
    splits: Shape,
    only: Filter = ...,
    squeeze: bool = False,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Tree:
    """Give streams in an object several keys at once, in place (OBJ-6).

    Args:
      node: An object, or a tree of objects; without it, this returns a decorator of functions.
      splits: The number of keys, or the shape of the array of keys.
      only: A filter that says which streams.
      squeeze: Whether the streams get one key instead, without the axis that it would have.
      graph: Accepted and not needed: sharing is always kept.
      graph_updates: As in `fork_rngs`.

    Returns:
      A context manager, or with `graph_updates=False` the changed copy, as `fork_rngs`.
    """
    split = {to_predicate(only): () if squeeze else splits}
    return fork_rngs(node, split=split, graph_updates=graph_updates)


def restore_rngs(backups: ExitStack, /) -> None:
    """Give streams back the keys that they had before `split_rngs` or `fork_rngs` (OBJ-6).

    Args:
      backups: The context manager that the function returned.

    Raises:
      TraceLevelError: A stream was made outside the transformation that runs.
    """
    backups.close()


def reseed(
    node: Tree, /, *, graph: bool | None = None, policy: Any = "scalars_only", **stream_keys: Any
) -> None:
    """Start the streams of some names anew, wherever they are in an object (OBJ-6).

    Args:
      node: An object, or a tree of objects.
      graph: Accepted and not needed: sharing is always kept.
      policy: The treatment of a stream of several keys. `"scalars_only"` raises an error;
        `"match_shape"` splits the new key; a function of (path, key, shape) returns the keys.
      **stream_keys: Seeds by name, of any type that `RngStream` takes.

    Raises:
      StreamError: A stream has several keys, and the policy gives one.
    """
    for path, stream, new in _selected(node, dict(Rngs(**stream_keys).items())):
        shape, keys = stream.key.shape, new()
        if callable(policy):
            keys = policy(path, keys, shape)
        elif shape and policy == "match_shape":
            keys = random.split(keys, shape)
        elif shape:
            raise StreamError(
                place=f"the shape of the keys at {path!r}",
                given=shape,
                expected=f"(), because policy={policy!r} gives one key",
            )
        update(stream, state(RngStream(keys, tag=stream.tag)))
