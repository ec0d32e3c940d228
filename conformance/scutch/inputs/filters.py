"""Filters described as tuples, with a decision for each leaf that uses no filter under judgment.

A described filter is a tuple of its kind and its parts: `("type", "Param")`, `("path", "a")`,
`("not", ("literal", "..."))`. `build_filter` writes it in the implementation's terms, as its user
would. `takes` decides by itself whether the filter takes a leaf. A law compares the two.
"""

from typing import Any

from scutch.inputs.graphs import classes

FAILING: dict[str, Any] = {
    "KeyError": lambda path, value: {}[path],
    "IndexError": lambda path, value: [][len(path)],
    "TypeError": lambda path, value: path + 0,
    "ValueError": lambda path, value: int(f"number {path}"),
    "AttributeError": lambda path, value: path.no_such_attribute,
}
"""Predicates with a mistake, by the names of the errors that they raise when they are asked."""


def build_filter(nnx: Any, described: tuple[Any, ...]) -> Any:
    """Write a described filter in the terms of an implementation.

    Args:
      nnx: The namespace of objects of the implementation.
      described: The kind and the parts: `type`, `of type` (the name of a variable type), `path`,
        `predicate` (an attribute), `tag`, `name` (a tag), `literal` (`"..."`, a boolean or `None`),
        `any`, `all`, `not`, `list`, `tuple` (described filters).

    Returns:
      The filter, as a user of the implementation would write it.

    Raises:
      ValueError: The kind is none of these.
    """
    match described:
        case ("type", kind):
            return classes(nnx)[kind]
        case ("of type", kind):
            return nnx.OfType(classes(nnx)[kind])
        case ("path", key):
            return nnx.PathContains(key)
        case ("tag", tag):
            return nnx.WithTag(tag)
        case ("name", tag):
            return tag
        case ("predicate", key):
            return lambda path, value: isinstance(path, tuple) and path[-1:] == (key,)
        case ("literal", value):
            return ... if value == "..." else value
        case ("any" | "all" | "not", *parts):
            return getattr(nnx, described[0].title())(*(build_filter(nnx, part) for part in parts))
        case ("list", *parts):
            return [build_filter(nnx, part) for part in parts]
        case ("tuple", *parts):
            return tuple(build_filter(nnx, part) for part in parts)
    raise ValueError(
        f"{described!r} is no filter; expected a kind that `build_filter` knows, then parts"
    )


def takes(nnx: Any, described: tuple[Any, ...], path: tuple[Any, ...], value: Any) -> bool:
    """Decide whether a described filter takes a leaf of a graph or state.

    Args:
      nnx: The namespace of objects of the implementation.
      described: The filter, as for `build_filter`.
      path: The path of the leaf.
      value: The variable or array.

    Returns:
      Whether it does, by the meaning of the kinds and never by the implementation's own filters.

    Raises:
      ValueError: The kind of the filter is not known.
    """
    match described:
        case ("type" | "of type", kind):
            return isinstance(value, classes(nnx)[kind])
        case ("path", key):
            return key in path
        case ("tag" | "name", tag):
            return isinstance(value, nnx.Variable) and value.get_metadata().get("tag") == tag
        case ("predicate", key):
            return path[-1:] == (key,)
        case ("literal", value):
            return value in (True, "...")
        case ("all", *parts):
            return all(takes(nnx, part, path, value) for part in parts)
        case ("not", part):
            return not takes(nnx, part, path, value)
        case (_, *parts):
            return any(takes(nnx, part, path, value) for part in parts)
    raise ValueError(f"{described!r} is no filter")
