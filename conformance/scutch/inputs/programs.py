"""Programs that change objects as a user's code would, by steps that suit any implementation.

A *step* is an operation with small numbers. Each number chooses an operand among the candidates in
a graph, modulo their count, in the order of `graphs.walk`. So every step can be taken on every
graph, and on isomorphic graphs it does the same. A *program* is a graph of objects, a function that
takes some steps on them, and steps that are taken outside, between calls of the function. A *place*
is a holder (an object or container) and the attribute, key or index under which it holds a node.

A law builds a program twice, calls the function of one copy eagerly and of the other lifted, and
compares the objects afterwards by `graphs.differences`. For example,

    Program(Graph((Object('Node', {'a': Variable('Param', Array((2,), 'int32'))}),)),
            steps=(Step('bump'), Step('add', other=1)))

doubles the parameter, adds 3, and then sets a new variable as the attribute `b`.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scutch.inputs import graphs

VARIABLE_CHANGES = ("assign", "bump", "copy", "constant")
VALUES = (*VARIABLE_CHANGES, "call")
METADATA = ("tag", "untag")
MODULE_CHANGES = ("add", "adopt", "delete", "mark")
ATTRIBUTES = (*MODULE_CHANGES, "retype")
PLACES = ("share", "swap", "unshare")
LIST_EDITS = ("append", "insert", "pop", "reverse", "replace item")
LISTS = (*LIST_EDITS, "new list")
DICT_EDITS = ("set item", "pop item", "rename item")
DICTS = (*DICT_EDITS, "new dict")
STRUCTURE = (*ATTRIBUTES, *PLACES, *LISTS, *DICTS)
STEPS = (*VALUES, *STRUCTURE)
"""The operations of steps, except those on metadata, in groups that change one thing each.

- Values of variables: `assign` an array, `bump` to twice the value and a number, `copy` another
  variable's value, a `constant`, or `call` a module, which adds to its variables and counts.
- Attributes of a module: `add` a variable, `adopt` a new module, `delete` an attribute, `mark` it
  with static data, `retype` a variable in its place.
- Places: `share` a node in a second place, `swap` two places, `unshare` a variable by a copy.
- Lists and dicts, tracked or plain, which are changed in place; or a `new list`, a `new dict`.
"""

RESULTS = ("node", "value", "fresh")
"""Results: an object or variable of the graph, an array, a new object that holds such a node."""

UNSHARED = ("value", "value", "own")
"""Results without a node of the graph: an array, or a new object with a new variable."""

KEPT = (*UNSHARED, "twice")
"""`UNSHARED`, and a new object that holds one new variable twice, where sharing is kept."""

NAMES = ("a", "b", "c")
"""The attributes of modules that steps set to variables and objects."""

CONTAINER, STATIC = "d", "e"
"""The attributes for plain containers and for static data: in Flax the mark of one stays there."""

KINDS = ("Param", "BatchStat", "Count")
"""The types of variables that steps make."""


def inputs(call: int) -> tuple[np.ndarray, np.ndarray]:
    """The arrays that the function takes beside objects, different ones in each call.

    Args:
      call: The number of the call, from 0.

    Returns:
      A vector of shape `(2,)` and a scalar, both int32.
    """
    return np.asarray([10, 20], "int32") + np.int32(call), np.asarray(3 + call, "int32")


@dataclass(frozen=True)
class BuiltProgram:
    """A program whose objects are built for an implementation, ready to be called.

    Args:
      nnx: The namespace of objects of the implementation.
      arguments: Objects, and containers of them.
      steps: The steps that the function takes, in order.
      results: One step for each result of the function.
      between: For each call but the last, the steps that follow it outside of the function.
    """

    nnx: Any
    arguments: tuple[Any, ...]
    steps: tuple[Any, ...]
    results: tuple[Any, ...]
    between: tuple[tuple[Any, ...], ...]

    def function(self, *arguments: Any) -> tuple[Any, ...]:
        """The function of the program, for a law to call eagerly or lifted.

        Args:
          arguments: The objects of `self.arguments`, or those that stand for them inside of a
            lifted call; last, the arrays of `inputs`.

        Returns:
          One value for each step in `self.results`.
        """
        *roots, arrays = arguments
        interpreter = Interpreter(self.nnx, roots, arrays)
        for step in self.steps:
            interpreter.apply(step)
        return tuple(map(interpreter.result, self.results))

    def nodes(self) -> list[Any]:
        """The objects and variables that can be reached from the arguments, in `walk`'s order."""
        return graphs.nodes(self.nnx, self.arguments)

    def after(self, call: int) -> None:
        """Take the steps that follow a call, outside of the function.

        Args:
          call: The number of the call that was made, from 0.
        """
        interpreter = Interpreter(self.nnx, self.arguments, inputs(call))
        for step in self.between[call]:
            interpreter.apply(step)


class Interpreter:
    """Takes steps on the objects and variables that can be reached from some roots."""

    def __init__(self, nnx: Any, roots: Sequence[Any], arrays: Sequence[Any]) -> None:
        """Look up the objects among the roots.

        Args:
          nnx: The namespace of objects of the implementation.
          roots: Objects, and containers of them; a container of arguments belongs to the caller and
            is never changed.
          arrays: The arrays that new values are made of, as `inputs` gives them.
        """
        self.nnx = nnx
        self.arrays = arrays
        self.classes = graphs.classes(nnx)
        self.roots = tuple(_rooted(nnx, roots))

    def nodes(self) -> list[Any]:
        """The objects and variables that can be reached, in the order of `walk`."""
        return graphs.nodes(self.nnx, self.roots)

    def variables(self) -> list[Any]:
        """The variables that can be reached, in the order of `walk`."""
        return [n for n in self.nodes() if isinstance(n, self.nnx.Variable)]

    def holders(self, *kinds: Any) -> list[Any]:
        """The objects and plain containers of the given types that can be reached.

        Args:
          kinds: The types.
        """
        found = {id(v): v for _, v in graphs.walk(self.nnx, self.roots) if v is not self.roots}
        return [v for v in found.values() if isinstance(v, kinds)]

    def modules(self) -> list[Any]:
        """The objects that have named attributes, of the types in `graphs.MODULES`."""
        return [h for h in self.holders(self.nnx.Module) if type(h).__name__ in graphs.MODULES]

    def places(self) -> list[tuple[Any, Any]]:
        """Every place where a node sits: pairs of a holder and an attribute, key or index."""
        found = []
        for holder in [*self.modules(), *self.holders(self.nnx.List, self.nnx.Dict, list, dict)]:
            for key, value in graphs.children(self.nnx, holder) or ():
                if graphs.is_node(self.nnx, value):
                    found.append((holder, key))
        return found

    def _put(self, holder: Any, key: Any, value: Any) -> None:
        """Set an attribute, key or index of a holder."""
        if type(holder).__name__ in graphs.MODULES:
            setattr(holder, key, value)
        else:
            holder[key] = value

    def _new(self, n: int) -> Any:
        """A new variable, whose type and value `n` chooses."""
        return self.classes[KINDS[n % len(KINDS)]](self.arrays[n % 2])

    def apply(self, step: Any) -> None:
        """Take a step; where there is nothing that it could change, it does nothing.

        Args:
          step: A `Step` of `STEPS` or `METADATA`.
        """
        if step.kind in (*VARIABLE_CHANGES, *METADATA):
            if (variable := pick(self.variables(), step.at)) is not None:
                self._change(variable, step)
        elif step.kind in (*LIST_EDITS, *DICT_EDITS):
            kinds = (self.nnx.List, list) if step.kind in LISTS else (self.nnx.Dict, dict)
            if (container := pick(self.holders(*kinds), step.at)) is not None:
                self._edit(container, step)
        elif step.kind in ("retype", "swap", "unshare"):
            self._move(step)
        elif (module := pick(self.modules(), step.at)) is not None:
            self._attribute(module, step)

    def _change(self, variable: Any, step: Any) -> None:
        """Steps on one variable: set its value, or change its metadata."""
        match step.kind:
            case "assign":
                variable.set_value(self.arrays[step.n % 2])
            case "bump":
                variable.set_value(variable.get_value() * 2 + self.arrays[1])
            case "copy":
                other = pick(self.variables(), step.other)
                variable.set_value(other.get_value())
            case "constant":
                variable.set_value(jnp.asarray(step.n, "int32"))
            case "tag":
                variable.set_metadata(note=step.n)
            case "untag" if "note" in variable.get_metadata():
                variable.del_metadata("note")

    def _attribute(self, module: Any, step: Any) -> None:
        """Steps on one module: call it, or set or delete an attribute."""
        name = NAMES[step.other % len(NAMES)]
        match step.kind:
            case "call":
                module(self.arrays[1])
            case "add":
                setattr(module, name, self._new(step.n))
            case "adopt":
                child = self.classes[graphs.MODULES[step.n % 2]]()
                child.a = self._new(step.n)
                setattr(module, name, child)
            case "mark":
                setattr(module, STATIC, ("text", step.n) if step.n > 1 else step.n)
            case "delete":
                present = [n for n in graphs.ATTRIBUTES if hasattr(module, n)]
                if chosen := pick(present, step.other):
                    delattr(module, chosen)
            case "share":
                setattr(module, name, pick(self.nodes(), step.n))
            case "new list":
                setattr(module, CONTAINER, self.nnx.data([self._new(step.n)]))
            case "new dict":
                setattr(module, CONTAINER, self.nnx.data({"k": self._new(step.n)}))

    def _move(self, step: Any) -> None:
        """Steps on a place: swap two places, or put a new variable of the same value there."""
        places = self.places()
        if not places:
            return
        holder, key = pick(places, step.at)
        value = graphs.follow(self.nnx, holder, (key,))
        if step.kind == "swap":
            other, other_key = pick(places, step.other)
            there = graphs.follow(self.nnx, other, (other_key,))
            self._put(other, other_key, value)
            self._put(holder, key, there)
        elif isinstance(value, self.nnx.Variable):
            kinds = [k for k in KINDS if k != type(value).__name__]
            kind = self.classes[pick(kinds, step.n)] if step.kind == "retype" else type(value)
            self._put(holder, key, kind(value.get_value(), **value.get_metadata()))

    def _edit(self, container: Any, step: Any) -> None:
        """Steps on a list or a dict, tracked or plain, which change it in place."""
        fresh = pick(self.nodes(), step.other) if step.n == 3 else self._new(step.n)
        keys = sorted(container) if step.kind in DICTS else list(range(len(container)))
        match step.kind:
            case "append":
                container.append(fresh)
            case "insert":
                container.insert(step.other % (len(keys) + 1), fresh)
            case "set item":
                container["kmn"[step.other % 3]] = fresh
            case "replace item" if keys:
                container[pick(keys, step.other)] = fresh
            case "pop" | "pop item" if keys and step.n % 2:
                container.pop(pick(keys, step.other))
            case "pop" | "pop item" if keys:
                del container[pick(keys, step.other)]
            case "reverse":
                for n, each in enumerate(list(container)[::-1]):
                    container[n] = each
            case "rename item" if keys:
                key = pick(keys, step.other)
                container[f"{key}x"] = container.pop(key)

    def result(self, step: Any) -> Any:
        """The value that a step of `RESULTS` returns.

        Args:
          step: `node` returns an object or variable of the graph, `value` the array in a variable,
            `own` a new object that holds a new variable, `twice` one that holds it at two places,
            and `fresh` one that also holds a node of the graph.

        Returns:
          The value, in a container unless it is a node.
        """
        match step.kind:
            case "node":
                return pick(self.nodes(), step.at)
            case "value":
                variable = pick(self.variables(), step.at)
                return {"value": None if variable is None else variable.get_value()}
        fresh = self.classes["Node"]()
        fresh.a = self._new(step.n)
        if step.kind != "own":
            fresh.b = fresh.a if step.kind == "twice" else pick(self.nodes(), step.at)
        return [fresh, self.arrays[0]]


def pick(choices: Sequence[Any], number: int) -> Any:
    """Choose one of several.

    Args:
      choices: The candidates.
      number: Any number from 0; taken modulo how many there are.

    Returns:
      The choice, `None` if there are none.
    """
    return choices[number % len(choices)] if choices else None


def _rooted(nnx: Any, roots: Any) -> Iterable[Any]:
    """The objects in containers of arguments."""
    is_node = functools.partial(graphs.is_node, nnx)
    return (leaf for leaf in jax.tree_util.tree_leaves(roots, is_leaf=is_node) if is_node(leaf))


def fingerprint(nnx: Any, arguments: Any) -> tuple[Any, ...]:
    """All that decides whether a lifted function must be traced again, as one hashable value.

    That is: types, attributes, static data, metadata in any order, shapes, dtypes, and which places
    hold one node. Values do not count.

    Args:
      nnx: The namespace of objects of the implementation.
      arguments: The arguments of a call.

    Returns:
      Nested tuples; equal for two calls exactly when the second need not be traced.
    """
    numbers: dict[int, int] = {}

    def seen(value: Any) -> Any:
        if graphs.is_node(nnx, value):
            if id(value) in numbers:
                return "again", numbers[id(value)]
            numbers[id(value)] = len(numbers)
        if isinstance(value, nnx.Variable):
            metadata = tuple(sorted(graphs.metadata(value).items()))
            return type(value).__name__, seen(value.get_raw_value()), metadata
        inside = graphs.children(nnx, value)
        if inside is not None:
            return type(value).__name__, tuple((k, seen(v)) for k, v in inside)
        return (value.shape, str(value.dtype)) if hasattr(value, "dtype") else value

    return tuple(map(seen, arguments))
