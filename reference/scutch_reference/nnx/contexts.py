"""Contexts of updates: objects that go through a transformation of JAX in functional form.

A function that runs inside a transformation of plain JAX changes copies of objects. Four steps, two
outside and two inside, apply these changes, of values and of structure, to the real objects. Lifted
transformations need none of the steps:

    inside               (2) merge  ->  the function  ->  (3) split
                              ^                               |
    transformation            |                               v
    outside              (1) split                        (4) merge

Words: a context *numbers* the nodes that it splits. (2) makes new nodes and remembers the number
of each. (3) gives these nodes the same numbers, and numbers further nodes on from there. (4) finds
the real nodes by their numbers and changes them; it makes a node for each new number.

>>> import jax
>>> from scutch_reference import nnx
>>> model = nnx.Dict()
>>> @jax.jit
... def inside(definition, state):
...     with merge_context("grow", inner=True) as context:
...         model = context.merge(definition, state)
...     model.me = model
...     with split_context("grow") as context:
...         return context.split(model)
>>> with update_context("grow"):
...     with split_context("grow") as context:
...         parts = context.split(model)
...     parts = inside(*parts)
...     with merge_context("grow", inner=False) as context:
...         grown = context.merge(*parts)
>>> grown is model, model.me is model
(True, True)
"""

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax

from ..errors import LiftingError
from ..types import Tree
from .effects import Rewrite, rewrite_node
from .filters import Filter
from .flatten import flatten, is_object
from .graph import leaves_of, split
from .graphdef import GraphDef, blank, interned, unflatten
from .variables import Variable


@dataclass
class UpdateContext:
    """The nodes on both sides of one transformation, numbered alike.

    Args:
      tag: The name of the context; None for one without a name.
      outside: The real nodes; the number of a node is its index.
      inside: The nodes that stand for them inside the transformation, by the same numbers.
    """

    tag: Hashable
    outside: list[Any] = field(default_factory=list)
    inside: dict[int, Any] = field(default_factory=dict)


# The one owner of the contexts that are active, by their names; threads have their own.
_active: ContextVar[Mapping[Hashable, UpdateContext]] = ContextVar("active")


@contextmanager
def update_context(tag: Hashable) -> Iterator[UpdateContext]:
    """Number objects alike outside and inside, for the time of a block or of a call (JIT-1).

    Args:
      tag: The name by which `split_context` and `merge_context` find the context.

    Yields:
      The context.
    """
    context = UpdateContext(tag)
    token = _active.set({**_active.get({}), tag: context})
    try:
        yield context
    finally:
        _active.reset(token)


def current_update_context(tag: Hashable) -> UpdateContext:
    """Return the context that is active under a name; under None, a new one.

    Args:
      tag: The name of the context.

    Raises:
      LiftingError: No context of this name is active.
    """
    found = UpdateContext(None) if tag is None else _active.get({}).get(tag)
    if found is None:
        raise LiftingError(
            place="the name of an update context",
            given=tag,
            expected="a name that `with update_context(...)` has made active",
        )
    return found


@dataclass
class SplitContext:
    """Splits objects, and numbers their nodes.

    Args:
      nodes: The numbered nodes; the number of a node is its index. `split` appends new ones.
    """

    nodes: list[Any]

    def split(self, node: Tree, /, *filters: Filter) -> Any:
        """Return the structure of an object and its states; see `nnx.split`.

        Args:
          node: An object, or a tree of objects and arrays.
          *filters: A leaf goes to the state of the first filter that takes it.
        """
        definition, *states = split(node, *filters)
        found = flatten([node])[1][1:]
        index = {id(known): number for number, known in enumerate(self.nodes)}
        numbers = tuple([index.setdefault(id(each), len(index)) for each in found])
        pairs = zip(found, numbers, strict=True)
        self.nodes += [each for each, number in pairs if number >= len(self.nodes)]
        return interned(definition.nodes, numbers), *states


@dataclass
class MergeContext:
    """Merges objects; changes a known node in place, and makes a node for each other number.

    Args:
      nodes: The known nodes by their numbers; `merge` adds the nodes that it makes.
    """

    nodes: dict[int, Any]

    def merge(self, graphdef: GraphDef[Any], /, *states: Tree) -> Tree:
        """Return an object with the structure `graphdef` and the leaves of states; see `nnx.merge`.

        Args:
          graphdef: The definition that `SplitContext.split` returned.
          *states: The states that it returned.

        Raises:
          TraceLevelError: An object that is known was made outside the transformation that runs.
        """
        leaves, starts = leaves_of(graphdef, *states), graphdef.first_leaves
        numbered = enumerate(graphdef.numbers, 1)
        known = {i: self.nodes[number] for i, number in numbered if number in self.nodes}
        nodes = unflatten(graphdef, leaves, known)
        for i, node in known.items():
            described, values = graphdef.nodes[i], leaves[starts[i] : starts[i + 1]]
            if is_object(node):
                node._check("change")
            rewrite_node(nodes, Rewrite(i, described, []), None, values)
            if isinstance(node, Variable):
                node.update_from_state(blank(described, *values))
        self.nodes.update(zip(graphdef.numbers, nodes[1:], strict=True))
        return nodes[0][0]


@contextmanager
def split_context(ctxtag: Hashable = None) -> Iterator[SplitContext]:
    """Split objects that share nodes, outside (1) or inside (3) a transformation (JIT-1).

    Args:
      ctxtag: The name of the `update_context`; without one, only objects that are split in this
        block share their numbers.

    Yields:
      The `SplitContext`.

    Raises:
      LiftingError: There is no context of this name.
    """
    update = current_update_context(ctxtag)
    # A node that did not come inside keeps its number, held by an object that no node equals.
    known = [update.inside.get(number, object()) for number in range(len(update.outside))]
    context = SplitContext(known)
    yield context
    update.outside = update.outside or context.nodes


@contextmanager
def merge_context(ctxtag: Hashable = None, inner: bool | None = None) -> Iterator[MergeContext]:
    """Merge objects that share nodes, inside (2) or outside (4) a transformation (JIT-1).

    Args:
      ctxtag: The name of the `update_context`; without one, all nodes are new.
      inner: Whether this block is inside the transformation; needed with a name.

    Yields:
      The `MergeContext`.

    Raises:
      LiftingError: There is no context of this name, or `inner` is missing.
    """
    if ctxtag is not None and inner is None:
        raise LiftingError(
            place=f"the argument inner of merge_context({ctxtag!r})",
            given=inner,
            expected="True or False",
        )
    update = current_update_context(ctxtag)
    context = MergeContext({} if inner else dict(enumerate(update.outside)))
    yield context
    if inner:
        update.inside = context.nodes


class NodeStates(NamedTuple):
    """Replaces an object in the output of `to_tree`; to JAX, a tree of the leaves of the object.

    Args:
      graphdef: The structure of the object.
      state: Its state.
    """

    graphdef: GraphDef[Any]
    state: Any


def to_tree(tree: Tree, /, *, ctxtag: Hashable = None) -> Tree:
    """Return a tree with `NodeStates` in the place of objects; `from_tree` is the inverse (OBJ-10).

    Args:
      tree: A tree of objects and arrays. An object that occurs in several of its parts is one
        object after `from_tree`.
      ctxtag: The name of the `update_context`, if there is one.
    """
    with split_context(ctxtag) as context:
        return jax.tree.map(
            lambda part: NodeStates(*context.split(part)) if is_object(part) else part,
            tree,
            is_leaf=is_object,
        )


def from_tree(tree: Tree, /, *, is_inner: bool | None = None, ctxtag: Hashable = None) -> Tree:
    """Make objects of the `NodeStates` in a tree; inverse of `to_tree` (OBJ-10).

    Args:
      tree: A tree that `to_tree` returned; its leaves may have been replaced.
      is_inner: The `inner` of `merge_context`.
      ctxtag: The name of the `update_context`, if there is one.

    Returns:
      A tree with objects in their places.
    """
    with merge_context(ctxtag, is_inner) as context:
        return jax.tree.map(
            lambda part: context.merge(*part) if isinstance(part, NodeStates) else part,
            tree,
            is_leaf=lambda part: isinstance(part, NodeStates),
        )
