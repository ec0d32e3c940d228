"""Filters as plain data, with what they mean said independently of any implementation.

A filter is a tuple: its kind, then its parts. `made` writes it as the user of an implementation
would, `takes` says what it takes.
"""

from typing import Any

from scutch.inputs.graphs import classes


def made(nnx: Any, described: tuple[Any, ...]) -> Any:
    """The filter, in the implementation's terms."""
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
            return getattr(nnx, described[0].title())(*(made(nnx, part) for part in parts))
        case ("list", *parts):
            return [made(nnx, part) for part in parts]
        case ("tuple", *parts):
            return tuple(made(nnx, part) for part in parts)
    raise ValueError(f"{described!r} is no filter; expected a kind that `made` knows, then parts")


def takes(nnx: Any, described: tuple[Any, ...], path: tuple[Any, ...], value: Any) -> bool:
    """Whether the filter takes a leaf."""
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
