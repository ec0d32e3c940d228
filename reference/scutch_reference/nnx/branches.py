"""Lifted `jax.lax.cond` and `jax.lax.switch`: a choice of one of several functions of objects.

Every branch outputs the value of every leaf, because JAX asks for like outputs. A branch may also
change the structure of objects; then all branches must change it alike.

>>> import jax.numpy as jnp
>>> from scutch_reference import nnx
>>> def count(model, x):
...     model.n.value += 1
...     return 2 * x
>>> model = nnx.Dict(n=nnx.Variable(jnp.array(0)))
>>> float(cond(True, count, lambda model, x: x, model, 3.0)), int(model.n.value)
(6.0, 1)
>>> float(cond(False, count, lambda model, x: x, model, 3.0)), int(model.n.value)
(3.0, 1)
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax

from ..errors import LiftingError, SignatureError
from ..types import Tree
from .effects import Effects, runner
from .frames import Frame, Transformed
from .lifting import Lifted

T = TypeVar("T")


class Branching(Lifted[..., Any]):
    """A function of an index and operands that calls one of several functions; see `switch`.

    Args:
      choose: `jax.lax.switch`, or a function of the same parameters.
      branches: The functions.
      **options: Options of `Lifted`.
    """

    lifts = staticmethod(jax.lax.switch)

    def __init__(
        self, choose: Callable[..., Any], branches: Sequence[Callable[..., Any]], **options: Any
    ):
        super().__init__(lambda index, *operands: None, **options)
        self.choose, self.branches = choose, branches
        if missing := [branch for branch in branches if not callable(branch)]:
            raise SignatureError(
                place="the branches of cond or switch", given=missing, expected="callable objects"
            )

    def transform(self, frame: Frame, run: Callable[..., Any]) -> Transformed:
        """Return the choice of JAX among functions of leaves.

        Args:
          frame: The frame of a call.
          run: Not used: each branch has a function of leaves of its own.
        """
        every_leaf = [True] * len(frame.leaf_prefixes)
        found: list[Effects] = []

        def of(branch: Callable[..., Any]) -> Callable[..., Any]:
            def called(_: Any, *operands: Tree) -> Tree:
                return branch(*operands)

            run = runner(frame, called, self.inside, structural=self.structural)

            def function(*arguments: Tree) -> Tree:
                effects, groups, out = run(*arguments, always_out=every_leaf)
                found.append(effects)
                if effects != found[0]:
                    raise LiftingError(
                        place="the branches of cond or switch",
                        given="functions that change the structure of objects in unlike ways",
                        expected="the same attributes, metadata and returned objects after each",
                    )
                return groups, out

            return function

        functions = [*map(of, self.branches)]

        def transformed(values: list[Any], index: Any, *plain: Tree) -> Tree:
            found.clear()
            groups, out = self.choose(index, functions, values, index, *plain)
            return found[0], groups, out

        return Transformed(frame, transformed)


def switch(
    index: int | jax.Array,
    branches: Sequence[Callable[..., T]],
    *operands: Tree,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> T:
    """Call one of several functions of objects, as `jax.lax.switch` does (OBJ-8).

    Args:
      index: An integer without axes: which function is called; it is clamped to those there are.
      branches: Functions of the operands. They return alike outputs.
      *operands: Objects, arrays, and trees of them.
      graph: Accepted and not needed: sharing is always kept.
      graph_updates: If False, objects get new values and metadata, but no changes of structure.

    Returns:
      The output of the function; the objects are changed as it changes them.

    Raises:
      LiftingError: The branches change the structure of objects, or return objects, in unlike ways.
    """
    chosen = Branching(jax.lax.switch, branches, graph_updates=graph_updates)
    return chosen(index, *operands)  # type: ignore[no-any-return]


def cond(
    pred: bool | jax.Array,
    true_fun: Callable[..., T],
    false_fun: Callable[..., T],
    *operands: Tree,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> T:
    """Call one of two functions of objects, as `jax.lax.cond` does (OBJ-8).

    Args:
      pred: A boolean without axes.
      true_fun, false_fun: As the branches of `switch`.
      *operands, graph, graph_updates: As for `switch`.

    Returns:
      The output of the function; the objects are changed as it changes them.

    Raises:
      LiftingError: As `switch`.
    """

    def choose(pred: Any, functions: Sequence[Callable[..., Any]], *operands: Tree) -> Any:
        return jax.lax.cond(pred, *functions, *operands)

    chosen = Branching(choose, (true_fun, false_fun), graph_updates=graph_updates)
    return chosen(pred, *operands)  # type: ignore[no-any-return]
