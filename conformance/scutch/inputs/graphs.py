"""Descriptions of objects: graphs of modules and variables, with sharing and cycles.

A `Graph` numbers its nodes, and attributes *refer* to nodes by number, so that one may sit in
several places or lead back to itself:

    Graph((Object('Node', {'a': Ref(1), 'b': [Ref(1), Ref(0)]}), Variable('Param', Array((2,)))))

is a `Node` that holds one parameter twice and itself once. Objects and variables may also stand
where they are used; then they are in one place only.

The classes are written over the implementation under judgment, as its user would write them, and
what can be seen of a graph is read as its user would read it: by attributes, not by `vars`.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from scutch.lawkit.equality import alike

ATTRIBUTES = ("a", "b", "c", "d", "e")
"""The names that attributes of described objects have."""

VARIABLES = ("Param", "BatchStat", "Cache", "Intermediate", "Scale", "Count")
HOOKS = ("on_get_value", "on_set_value", "on_create_value", "on_add_axis", "on_remove_axis")
MODULES = ("Node", "Branch")
TRACKED = ("List", "Dict")


@functools.lru_cache(maxsize=64)
def classes(nnx: Any) -> Mapping[str, type]:
    """The classes of objects and variables over one implementation, by name."""

    class Node(nnx.Module):  # type: ignore[misc]
        """A module."""

        def __call__(self, x: Any) -> Any:
            """Add to the variables of its own, and count the calls in static data."""
            for name in ATTRIBUTES:
                if isinstance(variable := getattr(self, name, None), nnx.Variable):
                    variable.set_value(variable.get_value() + x)
            self.calls = getattr(self, "calls", 0) + 1
            return x

    class Branch(Node):
        """A module of another type."""

    class Scale(nnx.Param):  # type: ignore[misc]
        """A user's kind of parameter."""

    class Count(nnx.Variable):  # type: ignore[misc]
        """A user's kind of variable."""

    own = {kind.__name__: kind for kind in (Node, Branch, Scale, Count)}
    return MappingProxyType(
        {**{name: getattr(nnx, name) for name in (*VARIABLES[:4], "Variable", *TRACKED)}, **own}
    )


@functools.lru_cache(maxsize=64)
def variable_types(nnx: Any) -> Mapping[str, type]:
    """Variable types that derive from each other in several ways, by name."""
    types = dict(classes(nnx))
    for name, bases in (
        ("Finer", ("Scale",)),
        ("Finest", ("Finer",)),
        ("Both", ("Count", "Scale")),
    ):
        types[name] = type(name, tuple(types[base] for base in bases), {})
    return MappingProxyType(types)


def put(nnx: Any, node: Any, name: str, value: Any) -> None:
    """Give an object an attribute; an element, if it is a tracked list or dict.

    A plain container that holds objects is marked as data, which Flax asks for since 0.12.
    """
    if isinstance(node, nnx.List):
        node.append(value)
    elif isinstance(node, nnx.Dict):
        node[name] = value
    elif isinstance(value, list | tuple | dict) and holds_data(nnx, value):
        setattr(node, name, nnx.data(value))
    else:
        setattr(node, name, value)


def holds_data(nnx: Any, value: Any) -> bool:
    """Whether there is an object, a variable or an array in a plain container."""
    if isinstance(value, list | tuple):
        return any(holds_data(nnx, each) for each in value)
    if isinstance(value, dict):
        return any(holds_data(nnx, each) for each in value.values())
    return isinstance(value, nnx.Variable | nnx.Pytree) or is_array(value)


def is_array(value: Any) -> bool:
    """Whether a value is an array: of NumPy, of JAX, or an abstract one."""
    return isinstance(value, np.ndarray | np.generic | jax.Array | jax.ShapeDtypeStruct)


def children(nnx: Any, value: Any) -> list[tuple[Any, Any]] | None:
    """What can be seen directly inside: pairs of a path's entry and a value; `None` for a leaf."""
    if isinstance(value, nnx.Variable):
        return None
    if isinstance(value, nnx.List | list | tuple):
        return list(enumerate(value))
    if isinstance(value, nnx.Dict | dict):
        return sorted(value.items())
    if isinstance(value, nnx.Pytree):
        names = (*ATTRIBUTES, "calls") if type(value).__name__ in MODULES else sorted(vars(value))
        found = [(n, getattr(value, n, _ABSENT)) for n in names if not n.startswith("_")]
        return [(n, each) for n, each in found if each is not _ABSENT]
    return None


_ABSENT = object()


def walk(nnx: Any, root: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every path of a graph with what is there; a node that was met before is not entered again."""
    met: set[int] = set()

    def visit(path: tuple[Any, ...], value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
        yield path, value
        if isinstance(value, nnx.Variable | nnx.Pytree):
            if id(value) in met:
                return
            met.add(id(value))
        for key, child in children(nnx, value) or ():
            yield from visit((*path, key), child)

    return visit((), root)


def nodes(nnx: Any, root: Any) -> list[Any]:
    """The objects and variables of a graph, each once, in the order of `walk`."""
    found = {id(v): v for _, v in walk(nnx, root) if isinstance(v, nnx.Variable | nnx.Pytree)}
    return list(found.values())


def leaves(nnx: Any, root: Any) -> dict[tuple[Any, ...], Any]:
    """The variables and arrays of a graph by the first path to each, parts in order of names.

    A variable counts once; arrays and marked numbers are leaves wherever they stand.
    """
    found: dict[tuple[Any, ...], Any] = {}
    met: set[int] = set()
    for path, value in walk(nnx, root):
        if isinstance(value, nnx.Variable):
            if id(value) not in met:
                found[path] = value
            met.add(id(value))
        elif is_array(value):
            found[path] = value
    return found


def follow(nnx: Any, root: Any, path: tuple[Any, ...]) -> Any:
    """What is at a path."""
    for key in path:
        root = dict(children(nnx, root) or ())[key]
    return root


def differences(nnx: Any, one: Any, other: Any, paired: Iterable[tuple[Any, Any]] = ()) -> str:
    """Where two values are not isomorphic, in words; empty if nowhere.

    They must agree in types, attributes, static data, values, metadata, and in which places hold
    one and the same object. Plain containers and arrays have no identity.

    Args:
      nnx: The namespace of the objects.
      one: A graph, or a container of graphs.
      other: What it is compared with.
      paired: Objects that correspond, one of each side: where one is, the other must be.
    """
    pairs = tuple(paired)
    there: dict[int, Any] = {id(a): b for a, b in pairs}
    back: dict[int, Any] = {id(b): a for a, b in pairs}
    entered: set[int] = set()

    def differ(path: str, a: Any, b: Any) -> str:
        if type(a) is not type(b) and not (is_array(a) and is_array(b)):
            return f"{path} is a {type(a).__name__} here and a {type(b).__name__} there"
        if isinstance(a, nnx.Variable | nnx.Pytree):
            if there.setdefault(id(a), b) is not b or back.setdefault(id(b), a) is not a:
                return f"{path} is not the object here that it is there"
            if id(a) in entered:
                return ""
            entered.add(id(a))
        if isinstance(a, nnx.Variable):
            if not alike(metadata(a), metadata(b)):
                return f"the metadata of {path} is {metadata(a)} and {metadata(b)}"
            return differ(f"the value of {path}", a.get_raw_value(), b.get_raw_value())
        inside, others = children(nnx, a), children(nnx, b)
        if inside is None or others is None:
            return "" if alike(a, b) else f"{path} is {a!r} and {b!r}"
        keys, other_keys = [k for k, _ in inside], [k for k, _ in others]
        if keys != other_keys:
            return f"{path} has {keys} here and {other_keys} there"
        found = (differ(f"{path}.{k}", x, y) for (k, x), (_, y) in zip(inside, others, strict=True))
        return next(filter(None, found), "")

    return differ("root", one, other)


def metadata(variable: Any) -> dict[str, Any]:
    """All metadata of a variable."""
    return dict(variable.get_metadata())


def recording(events: list[str], name: str) -> Callable[..., Any]:
    """A hook that notes its name, and leaves the value as it is."""

    def hook(variable: Any, value: Any, *axis: Any) -> Any:
        events.append(name)
        return value

    return hook


def same_leaves(nnx: Any, ours: Mapping[Any, Any], theirs: Mapping[Any, Any]) -> bool:
    """Whether two mappings have the same keys, and under each key leaves without `differences`.

    Args:
      nnx: The namespace of the objects.
      ours: Leaves of a state by path, as `flat_state` or `leaves` gives them.
      theirs: Others.
    """
    return ours.keys() == theirs.keys() and not any(
        differences(nnx, ours[path], theirs[path]) for path in ours
    )
