"""Graphs of objects and variables, with sharing and cycles: their classes, and how laws read them.

A *node* is an object or a variable: it has an identity, and may sit in several places. A *path* is
the tuple of attribute names, keys and indices that leads to a place. A *leaf* is a variable or an
array. *Tracked* containers are the implementation's own `List` and `Dict`; *plain* ones are
Python's list, tuple and dict.

A `descriptions.Graph` numbers its nodes, and attributes refer to nodes by number:

    Graph((Object('Node', {'a': Ref(1), 'b': [Ref(1), Ref(0)]}), Variable('Param', Array((2,)))))

is a `Node` that holds one parameter twice and itself once. An `Object` or `Variable` may also be
written where it is used; then it sits in that place alone.

The classes are written over the implementation under judgment as its user would write them, and a
graph is read as its user would read it: attribute by attribute, never by `vars`. Equality is
decided here, by `differences`, never by the implementation.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from scutch.lawkit.equality import alike, alike_in_any_order
from scutch.lawkit.tolerances import CALLS, near

ATTRIBUTES = ("a", "b", "c", "d", "e")
"""The names that attributes of described objects have."""

KNOWN_VARIABLES = ("Param", "BatchStat", "Cache", "Intermediate")
VARIABLES = (*KNOWN_VARIABLES, "Scale", "Count")
"""The types of variables: four of the implementation, and two that a user defined."""

HOOKS = ("on_get_value", "on_set_value", "on_create_value", "on_add_axis", "on_remove_axis")
"""The metadata that an implementation calls: functions that run when a variable is used."""

MODULES = ("Node", "Branch")
"""The types of objects with named attributes, both defined by a user; the second derives."""

TRACKED = ("List", "Dict")
"""The implementation's own containers, which are objects themselves."""


@functools.lru_cache(maxsize=64)
def classes(nnx: Any) -> Mapping[str, type]:
    """The classes of described objects and variables over one implementation, by name.

    Args:
      nnx: The namespace of objects of the implementation.

    Returns:
      The types of `VARIABLES`, `MODULES` and `TRACKED`, and `Variable`; the same classes each time.
    """

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
        {**{name: getattr(nnx, name) for name in (*KNOWN_VARIABLES, "Variable", *TRACKED)}, **own}
    )


@functools.lru_cache(maxsize=64)
def class_without_pytree(nnx: Any) -> type:
    """A class of modules that is declared to be no pytree: JAX takes its objects for leaves.

    Args:
      nnx: The namespace of objects of the implementation, whose classes take ``pytree=False``.

    Returns:
      The class, the same one each time.
    """

    class Leaf(nnx.Module, pytree=False):  # type: ignore[misc, call-arg]
        """A module that is no pytree."""

    return Leaf


@functools.lru_cache(maxsize=64)
def variable_types(nnx: Any) -> Mapping[str, type]:
    """`classes`, and three types more that derive from them: by one, by two and by several bases.

    Args:
      nnx: The namespace of objects of the implementation.

    Returns:
      The types by name, among them `Finer`, `Finest` and `Both`.
    """
    types = dict(classes(nnx))
    for name, bases in (
        ("Finer", ("Scale",)),
        ("Finest", ("Finer",)),
        ("Both", ("Count", "Scale")),
    ):
        types[name] = type(name, tuple(types[base] for base in bases), {})
    return MappingProxyType(types)


def put(nnx: Any, node: Any, name: str, value: Any) -> None:
    """Set an attribute of an object, append to a tracked list, or set a key of a tracked dict.

    A plain container with objects or arrays is marked as data, which Flax asks for since 0.12.

    Args:
      nnx: The namespace of objects of the implementation.
      node: The object.
      name: The attribute or key; ignored for a list.
      value: The new value.
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
    """Whether a plain container holds an object, a variable or an array, at any depth.

    Args:
      nnx: The namespace of objects of the implementation.
      value: Any value; one that is no container is asked itself.
    """
    if isinstance(value, list | tuple | dict):
        inside = value.values() if isinstance(value, dict) else value
        return any(holds_data(nnx, each) for each in inside)
    return is_node(nnx, value) or is_array(value)


def is_node(nnx: Any, value: Any) -> bool:
    """Whether a value is an object or a variable, which have an identity in a graph.

    Args:
      nnx: The namespace of objects of the implementation.
      value: Any value.
    """
    return isinstance(value, nnx.Variable | nnx.Pytree)


def is_module(nnx: Any, value: Any) -> bool:
    """Whether a value is a module of a user's class, and not a tracked container.

    Args:
      nnx: The namespace of objects of the implementation.
      value: Any value.
    """
    return isinstance(value, nnx.Module) and not isinstance(value, nnx.List | nnx.Dict)


def is_array(value: Any) -> bool:
    """Whether a value is an array of NumPy or of JAX, a NumPy scalar, or a `ShapeDtypeStruct`."""
    return isinstance(value, np.ndarray | np.generic | jax.Array | jax.ShapeDtypeStruct)


def children(nnx: Any, value: Any) -> list[tuple[Any, Any]] | None:
    """The values directly inside a value, in a fixed order.

    Args:
      nnx: The namespace of objects of the implementation.
      value: Any value.

    Returns:
      Pairs of an attribute name, key or index and the value there; `None` for a variable and for
        whatever else has no parts. Of objects of `MODULES` only the attributes of `ATTRIBUTES` and
        the count of calls are read, and private attributes never.
    """
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
    """Go through a graph, depth first; the parts of a node are entered only where it is met first.

    Args:
      nnx: The namespace of objects of the implementation.
      root: Where to begin; may be a plain container.

    Returns:
      An iterator of each path and the value there, the root with the empty path first.
    """
    met: set[int] = set()

    def visit(path: tuple[Any, ...], value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
        yield path, value
        if is_node(nnx, value):
            if id(value) in met:
                return
            met.add(id(value))
        for key, child in children(nnx, value) or ():
            yield from visit((*path, key), child)

    return visit((), root)


def nodes(nnx: Any, root: Any) -> list[Any]:
    """The objects and variables of a graph, each once, in the order of `walk`.

    Args:
      nnx: The namespace of objects of the implementation.
      root: Where to begin.
    """
    return list({id(v): v for _, v in walk(nnx, root) if is_node(nnx, v)}.values())


def values(nnx: Any, root: Any) -> list[Any]:
    """The values of the variables of a graph, as they are read, in the order of `walk`.

    Args:
      nnx: The namespace of objects of the implementation.
      root: Where to begin.
    """
    return [node.get_value() for node in nodes(nnx, root) if isinstance(node, nnx.Variable)]


def leaves(nnx: Any, root: Any) -> dict[tuple[Any, ...], Any]:
    """The variables and arrays of a graph by path, in the order of `walk`.

    Args:
      nnx: The namespace of objects of the implementation.
      root: Where to begin.

    Returns:
      A variable once, under the first path that leads to it; an array under each path.
    """
    found: dict[tuple[Any, ...], Any] = {}
    met: dict[int, Any] = {}  # Kept alive, so that no later value has the `id` of one that is gone.
    for path, value in walk(nnx, root):
        if is_array(value) or (isinstance(value, nnx.Variable) and id(value) not in met):
            found[path] = value
        met[id(value)] = value
    return found


def follow(nnx: Any, root: Any, path: tuple[Any, ...]) -> Any:
    """The value at a path of a graph.

    Args:
      nnx: The namespace of objects of the implementation.
      root: Where the path begins.
      path: Attribute names, keys and indices.

    Returns:
      The value; `root` itself for the empty path.

    Raises:
      AssertionError: The path leads to no value; the message shows the value that lacks its next
        key.
    """
    for number, key in enumerate(path):
        inside = dict(children(nnx, root) or ())
        if key not in inside:
            raise AssertionError(f"at {path[:number]} is {root!r}; {path} asks it for {key!r}")
        root = inside[key]
    return root


def differences(
    nnx: Any, one: Any, other: Any, paired: Iterable[tuple[Any, Any]] = (), *, close: bool = False
) -> str:
    """Say where two values are not isomorphic; this decides equality of graphs in every law.

    They must agree in types, attributes, static data, values and metadata, and two paths that lead
    to one node on one side must do so on the other. Plain containers and arrays have no identity.

    Args:
      nnx: The namespace of objects of the implementation.
      one: A graph, or a container of graphs.
      other: The graph or container to compare `one` with.
      paired: Pairs of a node of `one` and the node of `other` that must stand in its places.
      close: Whether arrays of floats may differ by rounding.

    Returns:
      The first difference in words, empty if there is none.
    """
    pairs = tuple(paired)
    there: dict[int, Any] = {id(a): b for a, b in pairs}
    back: dict[int, Any] = {id(b): a for a, b in pairs}
    entered: set[int] = set()

    def differ(path: str, a: Any, b: Any) -> str:
        if type(a) is not type(b) and not (is_array(a) and is_array(b)):
            return f"{path} is a {type(a).__name__} here and a {type(b).__name__} there"
        if is_node(nnx, a):
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
            floats = close and is_array(a) and is_array(b) and a.dtype == b.dtype
            if alike(a, b) or (
                floats and np.issubdtype(a.dtype, np.inexact) and near(a, b, **CALLS)
            ):
                return ""
            return f"{path} is {a!r} and {b!r}"
        keys, other_keys = [k for k, _ in inside], [k for k, _ in others]
        if not alike(keys, other_keys):
            return f"{path} has {keys} here and {other_keys} there"
        found = (differ(f"{path}.{k}", x, y) for (k, x), (_, y) in zip(inside, others, strict=True))
        return next(filter(None, found), "")

    return differ("root", one, other)


def metadata(variable: Any) -> dict[str, Any]:
    """All metadata of a variable, in a new dictionary."""
    return dict(variable.get_metadata())


def recording(events: list[str], name: str) -> Callable[..., Any]:
    """A hook that appends its name to a list, and returns the value unchanged.

    Args:
      events: The list.
      name: The text that each call appends.
    """

    def hook(variable: Any, value: Any, *axis: Any) -> Any:
        events.append(name)
        return value

    return hook


def same_leaves(nnx: Any, ours: Mapping[Any, Any], theirs: Mapping[Any, Any]) -> bool:
    """Whether two mappings have the same keys, and under each key leaves without `differences`.

    Args:
      nnx: The namespace of objects of the implementation.
      ours: Leaves of a state by path, as `flat_state` or `leaves` gives them.
      theirs: Others.

    Returns:
      Whether they are the same; plain arrays are compared by dtype, shape and contents.
    """
    return alike_in_any_order(ours, theirs) and not any(
        differences(nnx, ours[path], theirs[path]) for path in ours
    )
