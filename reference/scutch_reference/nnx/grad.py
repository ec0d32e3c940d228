"""Lifted `grad`, `value_and_grad` and `remat`: derivatives with respect to variables in objects.

Words: a gradient is *wanted* with respect to a plain argument, or to those leaves of an object that
a filter takes, by default its `Param`s. The gradient of an object is a `State` with copies of these
variables that hold the gradients. `remat` saves memory: JAX computes a function again for its
gradient, but the objects are changed only once.

>>> import jax.numpy as jnp
>>> from scutch_reference import nnx
>>> model = nnx.Dict(w=nnx.Param(jnp.array(3.0)), seen=nnx.BatchStat(jnp.array(0)))
>>> def loss(model, x):
...     model.seen.value += 1
...     return model.w.value * x
>>> value, gradient = value_and_grad(loss)(model, 2.0)
>>> float(value), float(gradient.w.value), int(model.seen.value)
(6.0, 2.0, 1)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import jax

from ..errors import LiftingError
from ..types import Leaf, Tree
from .filters import Filter, Path, to_predicate
from .flatten import is_object
from .frames import Frame, Transformed
from .graph import pure, state
from .graphdef import unflatten
from .lifting import Lifted, P, R, lift
from .variables import Param, is_variable


@dataclass(frozen=True)
class DiffState:
    """The leaves of one argument to differentiate with respect to (OBJ-7a).

    Args:
      argnum: The number of the argument.
      filter: Takes the wanted leaves.
    """

    argnum: int
    filter: Any


class _OfNumber(DiffState):
    """The meaning of a number, the `Param`s of an argument or all of a variable (OBJ-7f)."""


ArgNums = int | DiffState | Sequence[int | DiffState]


class _Number(int):
    """The number of a leaf, in the place of the leaf."""


class Differentiated(Lifted[P, R]):
    """A function of objects that returns gradients; see `grad`.

    Args:
      *args: Arguments of `Lifted`.
      argnums: The arguments to differentiate with respect to; see `grad`.
      with_value: Whether the output of the function is returned, too.
      has_aux: Whether the function returns a pair, the loss and auxiliary output.
      **options: Options of `Lifted`.
    """

    lifts = staticmethod(jax.value_and_grad)

    def __init__(
        self,
        *args: Any,
        argnums: ArgNums,
        with_value: bool = False,
        has_aux: bool = False,
        **options: Any,
    ):
        super().__init__(*args, **options)
        self.with_value, self.has_aux = with_value, has_aux
        self.is_single = isinstance(argnums, int | DiffState)
        given: Any = [argnums] if self.is_single else argnums
        is_several = isinstance(given, Sequence)
        if not is_several or not all(isinstance(each, int | DiffState) for each in given):
            raise LiftingError(
                place="argnums",
                given=argnums,
                expected="the number of an argument, a DiffState, or a sequence of them",
            )
        self.wanted = [g if isinstance(g, DiffState) else _OfNumber(g, Param) for g in given]

    def transform(self, frame: Frame, run: Callable[..., Any]) -> Transformed:
        """Return `jax.value_and_grad` of a function of leaves.

        Args:
          frame: The frame of a call.
          run: The function.
        """

        def transformed(values: list[Any], *plain: Tree) -> Tree:
            inputs, count = [*values, *plain], len(values)
            numbers = self._numbers_of_wanted(frame, values)

            def loss(parts: list[Any]) -> Any:
                now = list(inputs)
                jax.tree.map(now.__setitem__, numbers, parts)
                effects, groups, out = run(now[:count], *now[count:])
                return (out[0] if self.has_aux else out), (effects, groups, out)

            # The effects are auxiliary output.
            differentiated = jax.value_and_grad(loss, has_aux=True, **self.options)
            start = jax.tree.map(inputs.__getitem__, numbers)
            (_, (effects, groups, out)), found = differentiated(start)
            return effects, groups, self._output(out, found)

        return Transformed(frame, transformed)

    def _output(self, out: Tree, found: Sequence[Any]) -> Tree:
        """Return the user's result, made of the output of the function and the gradients."""
        gradients = found[0] if self.is_single else tuple(found)
        if self.with_value:
            return out, gradients
        return (gradients, out[1]) if self.has_aux else gradients

    def _numbers_of_wanted(self, frame: Frame, values: list[Any]) -> list[Any]:
        """Return for each gradient a tree of leaf numbers; plain arguments are numbered last."""
        nodes, count = unflatten(frame.definition, values), len(values)
        pairs = zip(frame.definition.leaves, values, strict=True)
        leaves = [value if owner is None else nodes[owner] for (_, owner), value in pairs]
        numbered = unflatten(frame.definition, list(map(_Number, range(count))))[0]
        taken, found = set[int](), list[Any]()
        for wanted in self.wanted:
            i = self._argument(frame, wanted)
            if i in frame.signature.plain:
                found.append(count + frame.signature.plain.index(i))
            else:
                root = numbered[frame.signature.roots.index(i)]
                whole = isinstance(wanted, _OfNumber) and is_variable(root)
                found.append(_numbers_in(root, leaves, whole or wanted.filter, taken))
                taken.update(jax.tree.leaves(found[-1]))
        return found

    def _argument(self, frame: Frame, wanted: DiffState) -> int:
        """Return the number of a wanted argument among all arguments, bound ones included."""
        bound, given = len(self._bound), frame.signature.positional
        number = wanted.argnum + (bound if wanted.argnum >= 0 else given)
        if not bound <= number < given:
            raise LiftingError(
                place="the number of an argument to differentiate",
                given=wanted.argnum,
                expected=f"one of the {given - bound} arguments that were passed by position",
            )
        return number


def _numbers_in(root: Tree, leaves: Sequence[Any], filter: Filter, taken: set[int]) -> Tree:
    """Return the numbers of the wanted leaves in an argument.

    In an object, a leaf is wanted if the filter takes it and `taken` does not have it yet. All
    arrays beside objects are wanted. `root` is the argument with its number in place of each leaf;
    `leaves` has the variables and values themselves.
    """
    predicate = to_predicate(filter)

    def takes(path: Path, leaf: Leaf) -> bool:
        number = pure(leaf)
        return number not in taken and predicate(path, leaves[number])

    def chosen(part: Tree) -> Tree:
        if is_object(part):
            return state(part, takes)
        return part if isinstance(part, _Number) else None  # An array beside objects, or static.

    return jax.tree.map(chosen, root, is_leaf=is_object)


@overload
def grad(
    f: Callable[P, Any],
    *,
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Differentiated[P, Any]:
    """With the function: the transformed one."""


@overload
def grad(
    *,
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Callable[[Callable[P, Any]], Differentiated[P, Any]]:
    """Without the function: a decorator."""


def grad(f: Any = None, *, argnums: ArgNums = 0, **options: Any) -> Any:
    """Differentiate a function of objects (OBJ-7a).

    Args:
      f: A function of objects and arrays, as for `jit`, that returns a scalar. Without it, this
        returns a decorator.
      argnums: One argument, or several, to differentiate with respect to: numbers, which for
        objects mean their `Param`s and for a variable itself, or `DiffState`s with other filters.
        A leaf that several of them take is in the gradient of the first. In a container of objects
        and arrays, all arrays and numbers are meant.
      **options: With `has_aux`, the function returns a pair, whose second entry is returned beside
        the gradient; the others are those of `jax.grad`, and `graph` and `graph_updates` of `jit`.

    Returns:
      A function with the parameters of `f`. It returns the gradient, or for several `argnums` a
      tuple: for an object, a `State` of variables that hold it, each of the shape of its value.

    Raises:
      TypeError: `jax.grad` has no such option.
      LiftingError: When called: there is no such argument.
    """
    return lift(Differentiated, f, argnums=argnums, **options)


@overload
def value_and_grad(
    f: Callable[P, R],
    *,
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Differentiated[P, tuple[R, Any]]:
    """With the function: the transformed one."""


@overload
def value_and_grad(
    *,
    argnums: ArgNums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Callable[[Callable[P, R]], Differentiated[P, tuple[R, Any]]]:
    """Without the function: a decorator."""


def value_and_grad(f: Any = None, *, argnums: ArgNums = 0, **options: Any) -> Any:
    """Differentiate a function of objects, and return its output, too (OBJ-7a).

    Args:
      f: The function; see `grad`.
      argnums: See `grad`.
      **options: See `grad`. With `has_aux`, the output is the pair that the function returns.

    Returns:
      A function with the parameters of `f`. It returns a pair: the output, and the gradient.

    Raises:
      TypeError: `jax.value_and_grad` has no such option.
      LiftingError: When called: there is no such argument.
    """
    return lift(Differentiated, f, argnums=argnums, with_value=True, **options)


class Checkpointed(Lifted[P, R]):
    """A function of objects that is computed again for its gradient; see `remat`.

    Args:
      *args: Arguments of `Lifted`.
      static_argnums: The number of an argument that is compiled in, or a tuple of numbers; negative
        ones count from the end. None for none.
      **options: Options of `Lifted` and of `jax.checkpoint`.
    """

    lifts = staticmethod(jax.checkpoint)

    def __init__(
        self, *args: Any, static_argnums: int | tuple[int, ...] | None = None, **options: Any
    ):
        super().__init__(*args, static_argnums=static_argnums, **options)
        self._static = (static_argnums,) if isinstance(static_argnums, int) else static_argnums

    def transform(self, frame: Frame, run: Callable[..., Any]) -> Transformed:
        """Return `jax.checkpoint` of a function of leaves.

        Args:
          frame: The frame of a call.
          run: The function.

        Raises:
          LiftingError: `static_argnums` has a number beyond the arguments passed by position.
        """
        count = frame.signature.positional - len(self._bound)
        if missing := [n for n in self._static or () if not -count <= n < count]:
            raise LiftingError(
                place="numbers in static_argnums",
                given=missing,
                expected=f"numbers of the {count} arguments that were passed by position",
            )
        return Transformed(frame, jax.checkpoint(run, **self.options))


@overload
def remat(
    f: Callable[P, R],
    *,
    prevent_cse: bool = True,
    static_argnums: int | tuple[int, ...] | None = None,
    policy: Callable[..., bool] | None = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Checkpointed[P, R]:
    """With the function: the transformed one."""


@overload
def remat(
    *,
    prevent_cse: bool = True,
    static_argnums: int | tuple[int, ...] | None = None,
    policy: Callable[..., bool] | None = None,
    graph: bool | None = None,
    graph_updates: bool | None = None,
) -> Callable[[Callable[P, R]], Checkpointed[P, R]]:
    """Without the function: a decorator."""


def remat(f: Any = None, **options: Any) -> Any:
    """Compute a function of objects again for its gradient, instead of keeping intermediate values.

    Args:
      f: A function of objects and arrays, as for `jit`. Without it, this returns a decorator.
      **options: Options of `jax.checkpoint`, and `graph` and `graph_updates` of `jit`.

    Returns:
      A function with the parameters of `f`, and the same output and gradients.

    Raises:
      TypeError: `jax.checkpoint` has no such option.
    """
    return lift(Checkpointed, f, **options)
