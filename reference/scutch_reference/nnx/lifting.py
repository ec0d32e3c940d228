"""Lifting: the one core under every transformation of functions of objects.

A transformation of JAX works on arrays. A lifted one takes objects apart into a flat list of their
leaves, and passes the leaves to JAX. Inside, it makes copies of the objects from the leaves, calls
the function on the copies, and compares them with their state before. Outside, it then makes the
same changes to the real objects:

    outside              plan: structure + values                      commit: change the objects
                              |                                             ^
    transformation            v                                             |
    inside               copies of the objects  ->  the function  ->  report: what changed

The Python code inside runs only while JAX traces. A call without a trace looks up the plan, proves
that it holds, calls the compiled function on the list of values, and stores the new values.

A transformation is a subclass of `Lifted` with a method `transform`, and its prefix rules. It may
also replace `inside`, to run code around the call of the function, and override `execute`.

>>> import jax
>>> class Doubled(Lifted):
...     lifts = staticmethod(jax.jit)
...
...     def transform(self, frame, run):
...         def twice(leaves, *plain):
...             effects, groups, out = run(leaves, *plain)
...             return effects, groups, 2 * out
...
...         return Transformed(frame, jax.jit(twice))
>>> from scutch_reference import nnx
>>> int(Doubled(lambda model: model.w.value)(nnx.Dict(w=nnx.Param(3))))
6
"""

import functools
import inspect
import weakref
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import chain
from operator import call, getitem, is_
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from ..errors import LiftingError, SignatureError, UnhashableStaticError
from ..types import Prefix, Tree
from .call_signature import (
    CallSignature,
    arguments_with_objects,
    choice,
    parameter_names,
    unbound,
)
from .defaults import updating_graph
from .effects import Inside, commit, runner
from .flatten import EMPTY, Plan, kept_plan
from .frames import Call, Frame, PrefixRules, Transformed
from .objects import has_data
from .prefixes import is_branch
from .static import Static
from .tracking import EPOCH

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R", covariant=True)
_CACHE_LIMIT = 1024
_signature = functools.cache(inspect.signature)


class Lifted(Generic[P, R]):
    """A transformed function of objects; see `jit` for the meaning of its options.

    Args:
      function: A function, a method, a partial function or a callable object.
      in_prefix: The prefix of the positional arguments that are not static.
      out_prefix: The prefix of the output.
      graph_updates: If False, objects get new values and metadata, but no changes of structure.
      static_argnums, static_argnames, donate_argnums, donate_argnames: As in `jax.jit`.
      **options: Options of the transformation of JAX, where they are not None.

    Raises:
      SignatureError: The transformation of JAX has no such option, or `function` is no function.
      LiftingError: A prefix holds an object, a variable or an array.
    """

    lifts: ClassVar[Callable[..., Any]]
    """The transformation of JAX whose options this takes."""
    rules: ClassVar[PrefixRules] = PrefixRules()
    """How it reads prefixes."""
    for_keywords: ClassVar[Any] = None
    """The prefix of keyword arguments."""
    without_prefix: int
    """The number of first arguments without a prefix; they are bound to the function."""
    by_position: bool = False
    """Whether arguments by name are refused, where JAX refuses them (JIT-10, SHM-6)."""
    inside: Inside = staticmethod(lambda frame, nodes, function: function())
    """Calls the function on the copies; a transformation may run code of its own around it."""

    def __init__(
        self,
        function: Callable[P, R],
        in_prefix: Prefix = None,
        out_prefix: Prefix = None,
        graph_updates: bool | None = None,
        *,
        static_argnums: Any = None,
        static_argnames: Any = None,
        donate_argnums: Any = None,
        donate_argnames: Any = None,
        **options: Any,
    ):
        what = f"jax.{self.lifts.__name__}"
        if not callable(function):
            raise SignatureError(
                place=f"the function of {what}", given=function, expected="a callable object"
            )
        functools.update_wrapper(self, function, updated=())
        self.function, self._bound, self._bound_names = unbound(function)
        self.without_prefix = len(self._bound)
        parameters, count = parameter_names(self.function), len(self._bound)
        static = choice(static_argnums, static_argnames, parameters, count)
        self.donated = choice(donate_argnums, donate_argnames, parameters, count)
        self._signature = functools.lru_cache(_CACHE_LIMIT)(
            functools.partial(CallSignature, parameters, static)
        )
        if found := has_data((in_prefix, out_prefix)):
            raise LiftingError(
                place=f"a prefix of {what}",
                given=found[0],
                expected="StateAxes or StateSharding for the variables of an object, or one value "
                "for all of them",
            )
        self.in_prefix, self.out_prefix = in_prefix, out_prefix
        self.structural = updating_graph(graph_updates)
        self.options = {name: value for name, value in options.items() if value is not None}
        known = [*_signature(self.lifts).parameters]
        if unknown := self.options.keys() - known:
            raise SignatureError(
                place=f"options of {what}", given=sorted(unknown), expected=f"some of {known}"
            )
        self._transformed: dict[Any, Transformed] = {}

    def transform(self, frame: Frame, run: Callable[..., Any]) -> Transformed:
        """Return the transformation of JAX, applied to `run`; subclasses define it.

        Args:
          frame: The frame of the calls.
          run: The function of arrays; see `effects.runner`.
        """
        raise NotImplementedError

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self:
        """Return the function: it was looked up in a class."""

    @overload
    def __get__(
        self: "Lifted[Concatenate[Any, Q], R]", instance: object, owner: type[Any] | None = None
    ) -> Callable[Q, R]:
        """Return the function with its first argument bound."""

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def prefixes(self, signature: CallSignature) -> tuple[Any, ...]:
        """Return the prefix of each argument, then the prefix of the output.

        As in `jax.jit`, a sequence of prefixes has an entry for each positional argument that is
        neither static nor bound, in their order (JIT-5). Any other prefix is the prefix of each of
        these arguments.

        Args:
          signature: The roles of the arguments of a call.

        Raises:
          LiftingError: There are prefixes for more or for fewer arguments.
        """
        count, prefix = signature.positional, self.in_prefix
        taken = signature.dynamic[bisect_left(signature.dynamic, self.without_prefix) :]
        given = dict.fromkeys(taken, prefix)
        if is_branch(prefix) and not isinstance(prefix, dict):
            if len(prefix) != len(taken):
                raise LiftingError(
                    place=f"{self.rules.what} for {len(prefix)} arguments",
                    given=prefix,
                    expected=f"one for each of the {len(taken)} positional arguments that are not "
                    "static",
                )
            given = dict(zip(taken, prefix, strict=True))
        of_keywords = [
            None if name in signature.fixed else self.for_keywords for name in signature.names
        ]
        return *map(given.get, range(count)), *of_keywords, self.out_prefix

    def _statics(self, signature: CallSignature, args: tuple[Any, ...]) -> tuple[Static, ...]:
        """Return the static arguments, which must be hashable, as in `jax.jit` (JIT-4)."""
        for i in signature.statics:
            try:
                hash(args[i])
            except TypeError as error:
                raise UnhashableStaticError(place=signature.labels[i], value=args[i]) from error
        return tuple(Static(args[i], signature.labels[i]) for i in signature.statics)

    def with_statics(
        self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments with the static ones of a frame, which a compiled form is not passed.

        Args:
          frame: The frame that the form was compiled for.
          args: The positional arguments that are not static.
          kwargs: The keyword arguments that are not static.

        Returns:
          The positional and the keyword arguments of the user's function, without its bound ones.
          Static arguments have the values with which the form was compiled.
        """
        signature, positional, named = frame.signature, list(args), dict(kwargs)
        for i, value in zip(signature.statics, frame.statics, strict=True):
            if i < signature.positional:
                positional.insert(i - len(self._bound), value)
            elif (name := signature.names[i - signature.positional]) not in signature.fixed:
                named[name] = value
        return tuple(positional), named

    def _new(
        self, signature: CallSignature, plan: Plan, args: Sequence[Tree], values: list[Any]
    ) -> Transformed:
        """Transform the function for calls like this one, and clear the cache if it is full."""
        prefixes, statics = self.prefixes(signature), [args[i] for i in signature.statics]
        frame = Frame(self.rules, signature, plan.definition, prefixes, values, statics)
        run = runner(frame, self.function, self.inside, structural=self.structural)
        run.__name__ = run.__qualname__ = getattr(self, "__name__", "function")
        # By a weak reference, since what is made keeps the function: with a strong one,
        # objects that are bound to this function would live until the garbage collector runs.
        this: Any = weakref.proxy(self)
        if len(self._transformed) > _CACHE_LIMIT:
            self._transformed.clear()
        return type(self).transform(this, frame, run)

    def prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return all that a call needs: looked up if it is known, made if it is not.

        This is one function, though it has four steps. It runs in every dispatch, and the cost of a
        dispatch is its number of Python calls (JIT-3). A dispatch makes 6 calls, whatever the size
        of the objects, and whatever number of lists, dictionaries and sets they contain.

        Args:
          args: The positional arguments.
          kwargs: The keyword arguments.

        Raises:
          UnhashableStaticError: A static argument, or static data of an object, has no hash.
          LiftingError: Arguments are passed by name where only positions are allowed, or the
            prefixes do not fit the arguments.
          AliasingError: The prefixes of one object differ.
          NoFilterMatchError: The filters of a prefix leave a variable out.
        """
        if kwargs and self.by_position:
            raise LiftingError(
                place="arguments by name",
                given=sorted(kwargs),
                expected=f"all arguments by position, as in JAX, where there are {self.rules.what}",
            )
        # The arguments in one tuple.
        fixed: tuple[str, ...] = ()
        if self._bound or self._bound_names:
            fixed = tuple(name for name in self._bound_names if name not in kwargs)
            args, kwargs = (*self._bound, *args), {**self._bound_names, **kwargs}
        names: tuple[str, ...] = ()
        if kwargs:
            names = tuple(sorted(kwargs))
            args = (*args, *map(kwargs.__getitem__, names))
        # Their roles.
        types = tuple(map(type, args))
        signature = self._signature(types, names, None, fixed)
        if signature.containers:
            full = arguments_with_objects(args, signature.containers)
            signature = self._signature(types, names, full, fixed)
        # The objects among them, flattened.
        roots, plain = signature.roots_of(args), signature.plain_of(args)
        if signature.only_objects:
            plans = roots[0]._plans
            plan = plans.get(tuple(map(id, roots[1:]))) if plans else None
            # In the usual case, this makes the last step of `holds` without a Python call.
            if plan is None or not (
                plan.holds()
                if plan.epoch != EPOCH[0] or plan.checks
                else [*map(len, plan.viewed)] == plan.sizes
                and all(map(is_, chain(*map(call, plan.views, plan.viewed)), plan.inside))
            ):
                plan = kept_plan(roots)
        else:
            plan = Plan(roots) if roots else EMPTY
        values = (
            [cell[0] for cell in plan.containers]  # The fastest form, although a Python call.
            if plan.has_only_variables
            else list(map(getitem, plan.containers, plan.keys))
        )
        # The function. Equal definitions are one object, and the frame keeps it, so that no other
        # has its `id`.
        key: tuple[Any, ...] = (id(plan.definition), signature)
        if signature.statics:
            key = (*key, *self._statics(signature, args))
        transformed = self._transformed.get(key)
        if transformed is None:
            transformed = self._new(signature, plan, args, values)
            self._transformed[key] = transformed
        return transformed, plan, roots, values, plain

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the transformed function; it changes its arguments as the function does (JIT-1)."""
        return self.execute(self.prepared(args, kwargs))  # type: ignore[no-any-return]

    def execute(self, call: Call, function: Callable[..., Any] | None = None) -> Any:
        """Call the transformed function, or a compiled form of it, and change the objects (JIT-1).

        Args:
          call: The call, as `prepared` returned it.
          function: The compiled form; without it, the transformed function is called.

        Returns:
          The output of the user's function.
        """
        transformed, plan, roots, values, plain = call
        moved: Sequence[int] = ()
        try:
            if transformed.placements:
                values, moved = transformed.placed(plan, values)
            given = (  # Without donation, at no Python call.
                transformed.arguments(values, plain) if transformed.donated else (values, *plain)
            )
            effects, groups, out = (function or transformed.function)(*given)
        except Exception as error:
            transformed.explain(values, plain, error)
            raise
        for number in moved:
            plan.containers[number][plan.keys[number]] = values[number]
        if effects.are_none:
            return out
        return commit((transformed, plan, roots, values, plain), effects, groups, out)


def lift(
    transformation: Callable[..., Any],
    function: Any,
    *prefixes: Prefix,
    graph: bool | None = None,
    **options: Any,
) -> Any:
    """Return the transformed function, or a decorator if there is no function yet (JIT-7).

    Args:
      transformation: A subclass of `Lifted`.
      function: The function, or None.
      *prefixes: The prefixes of arguments and output, and `graph_updates`, as `Lifted` takes them.
      graph: Accepted and not needed: sharing is always kept.
      **options: Options of the transformation.

    Returns:
      An instance of `transformation`; where `function` is None, a decorator that makes one.
    """
    if function is None:
        return lambda function: transformation(function, *prefixes, **options)
    return transformation(function, *prefixes, **options)
