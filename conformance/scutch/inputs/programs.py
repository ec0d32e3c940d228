"""Programs: what a user's code does to objects, as steps that any implementation can take.

A `Step` is a verb with small numbers. They choose among what there is (modulo its size), in the
order of `objects.walk`: every step can be taken on every graph, and on isomorphic graphs it does
the same. So one program can be run eagerly and inside a lifted transformation, and its two worlds
compared.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scutch.inputs import graphs

VALUES = ("assign", "bump", "copy", "constant", "call")
METADATA = ("tag", "untag")
ATTRIBUTES = ("add", "adopt", "delete", "mark", "retype")
PLACES = ("share", "swap", "unshare")
LISTS = ("append", "insert", "pop", "reverse", "replace item", "new list")
DICTS = ("set item", "pop item", "rename item", "new dict")
STRUCTURE = (*ATTRIBUTES, *PLACES, *LISTS, *DICTS)
STEPS = (*VALUES, *STRUCTURE)
"""What a step may do, but for metadata; the steps of one group change one kind of thing."""

RESULTS = ("node", "value", "fresh")
"""What may be returned: something that was passed or found, an array, a new object."""

NAMES = ("a", "b", "c")
CONTAINER, STATIC = "d", "e"
"""Attributes for plain containers and for static data: what is marked as one stays so, in Flax."""
KINDS = ("Param", "BatchStat", "Count")


def inputs(call: int) -> tuple[np.ndarray, np.ndarray]:
    """The arrays that the function takes beside objects, other ones in each call."""
    return np.asarray([10, 20], "int32") + np.int32(call), np.asarray(3 + call, "int32")


@dataclass(frozen=True)
class BuiltProgram:
    """A program whose objects are built, ready to be run in one world.

    Args:
      nnx: The namespace that the objects are of.
      arguments: Objects, and containers of them.
      steps: What the function does, in order.
      results: What it returns.
      between: What is done after each call but the last.
    """

    nnx: Any
    arguments: tuple[Any, ...]
    steps: tuple[Any, ...]
    results: tuple[Any, ...]
    between: tuple[tuple[Any, ...], ...]

    def function(self, *arguments: Any) -> tuple[Any, ...]:
        """What is run: takes the arguments and the arrays of `inputs`, and is pure beside that."""
        *roots, given = arguments
        hands = Interpreter(self.nnx, roots, given)
        for step in self.steps:
            hands.take(step)
        return tuple(map(hands.result, self.results))

    def nodes(self) -> list[Any]:
        """The objects and variables that can be reached from the arguments."""
        return graphs.nodes(self.nnx, self.arguments)

    def after(self, call: int) -> None:
        """Take the steps that follow a call."""
        hands = Interpreter(self.nnx, self.arguments, inputs(call))
        for step in self.between[call]:
            hands.take(step)


class Interpreter:
    """Takes steps on what can be reached from some roots."""

    def __init__(self, nnx: Any, roots: Sequence[Any], given: Sequence[Any]) -> None:
        """Args: the namespace, the roots, and the arrays that values are made of."""
        self.nnx = nnx
        self.given = given
        self.classes = graphs.classes(nnx)
        self.roots = tuple(_rooted(nnx, roots))

    # ---------------------------------------------------------------- what there is

    def nodes(self) -> list[Any]:
        """Objects and variables."""
        return graphs.nodes(self.nnx, self.roots)

    def variables(self) -> list[Any]:
        """Variables."""
        return [n for n in self.nodes() if isinstance(n, self.nnx.Variable)]

    def holders(self, *kinds: Any) -> list[Any]:
        """Objects and plain containers inside them, of the given types."""
        found = {id(v): v for _, v in graphs.walk(self.nnx, self.roots) if v is not self.roots}
        return [v for v in found.values() if isinstance(v, kinds)]

    def modules(self) -> list[Any]:
        """Objects with named attributes."""
        return [h for h in self.holders(self.nnx.Module) if type(h).__name__ in graphs.MODULES]

    def slots(self, *, named: bool = False) -> list[tuple[Any, Any]]:
        """Places where a node sits: a holder and a key of it."""
        found = []
        for holder in self.modules() if named else self._all_holders():
            for key, value in graphs.children(self.nnx, holder) or ():
                if isinstance(value, self.nnx.Variable | self.nnx.Pytree):
                    found.append((holder, key))
        return found

    def _all_holders(self) -> list[Any]:
        tracked = self.holders(self.nnx.List, self.nnx.Dict, list, dict)
        return [*self.modules(), *tracked]

    def _put(self, holder: Any, key: Any, value: Any) -> None:
        if type(holder).__name__ in graphs.MODULES:
            setattr(holder, key, value)
        else:
            holder[key] = value

    def _get(self, holder: Any, key: Any) -> Any:
        return dict(graphs.children(self.nnx, holder) or ())[key]

    def _new(self, n: int) -> Any:
        """A new variable."""
        return self.classes[KINDS[n % len(KINDS)]](self.given[n % 2])

    # ---------------------------------------------------------------- what is done

    def take(self, step: Any) -> None:
        """Take a step; where there is nothing to take it on, nothing happens."""
        if step.kind in (*VALUES[:4], *METADATA):
            if (variable := pick(self.variables(), step.at)) is not None:
                self._change(variable, step)
        elif step.kind in (*LISTS[:5], *DICTS[:3]):
            kinds = (self.nnx.List, list) if step.kind in LISTS else (self.nnx.Dict, dict)
            if (container := pick(self.holders(*kinds), step.at)) is not None:
                self._edit(container, step)
        elif step.kind in ("retype", "swap", "unshare"):
            self._move(step)
        elif (module := pick(self.modules(), step.at)) is not None:
            self._attribute(module, step)

    def _change(self, variable: Any, step: Any) -> None:
        match step.kind:
            case "assign":
                variable.set_value(self.given[step.n % 2])
            case "bump":
                variable.set_value(variable.get_value() * 2 + self.given[1])
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
        name = NAMES[step.other % len(NAMES)]
        match step.kind:
            case "call":
                module(self.given[1])
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
        """Steps on a place where a node sits."""
        slots = self.slots()
        if not slots:
            return
        holder, key = pick(slots, step.at)
        value = self._get(holder, key)
        if step.kind == "swap":
            other, other_key = pick(slots, step.other)
            there = self._get(other, other_key)
            self._put(other, other_key, value)
            self._put(holder, key, there)
        elif isinstance(value, self.nnx.Variable):
            kinds = [k for k in KINDS if k != type(value).__name__]
            kind = self.classes[pick(kinds, step.n)] if step.kind == "retype" else type(value)
            self._put(holder, key, kind(value.get_value(), **value.get_metadata()))

    def _edit(self, container: Any, step: Any) -> None:
        """Steps on a list or a dict, tracked or plain, in place."""
        fresh = pick(self.nodes(), step.other) if step.n == 3 else self._new(step.n)
        keys = list(container) if step.kind in DICTS else list(range(len(container)))
        match step.kind:
            case "append":
                container.append(fresh)
            case "insert":
                container.insert(step.other % (len(keys) + 1), fresh)
            case "set item":
                container["kmn"[step.other % 3]] = fresh
            case "replace item" if keys:
                container[pick(keys, step.other)] = fresh
            case "pop" | "pop item" if keys:
                del container[pick(keys, step.other)]
            case "reverse":
                for n, each in enumerate(list(container)[::-1]):
                    container[n] = each
            case "rename item" if keys:
                key = pick(sorted(keys), step.other)
                value = container[key]
                del container[key]
                container[f"{key}x"] = value

    def result(self, step: Any) -> Any:
        """What is returned for a step of `RESULTS`."""
        match step.kind:
            case "node":
                return pick(self.nodes(), step.at)
            case "value":
                variable = pick(self.variables(), step.at)
                return {"value": None if variable is None else variable.get_value()}
        fresh = self.classes["Node"]()
        fresh.a, fresh.b = self._new(step.n), pick(self.nodes(), step.at)
        return [fresh, self.given[0]]


def pick(choices: Sequence[Any], number: int) -> Any:
    """One of the choices, `None` if there are none."""
    return choices[number % len(choices)] if choices else None


def _rooted(nnx: Any, roots: Any) -> Iterable[Any]:
    """The objects in containers of arguments; the containers belong to the caller."""
    is_node = _node_test(nnx)
    return (leaf for leaf in jax.tree_util.tree_leaves(roots, is_leaf=is_node) if is_node(leaf))


def _node_test(nnx: Any) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, nnx.Variable | nnx.Pytree)


def fingerprint(nnx: Any, arguments: Any) -> tuple[Any, ...]:
    """All that decides how a call is traced: everything but values and the order of metadata."""
    numbers: dict[int, int] = {}

    def seen(value: Any) -> Any:
        if not isinstance(value, nnx.Variable | nnx.Pytree):
            inside = graphs.children(nnx, value)
            if inside is not None:
                return type(value).__name__, tuple((k, seen(v)) for k, v in inside)
            return (value.shape, str(value.dtype)) if hasattr(value, "dtype") else value
        if id(value) in numbers:
            return "again", numbers[id(value)]
        numbers[id(value)] = len(numbers)
        if isinstance(value, nnx.Variable):
            metadata = tuple(sorted(graphs.metadata(value).items()))
            return type(value).__name__, seen(value.get_raw_value()), metadata
        inside = graphs.children(nnx, value) or []
        return type(value).__name__, tuple((k, seen(v)) for k, v in inside)

    return tuple(map(seen, arguments))
