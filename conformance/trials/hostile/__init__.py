"""Implementations that try to fool, stop or blame the judge, for the trials in `test_hostile_*`.

Each is the reference but for one thing that it does while one law is tried, its *own*; so its own
requirement has the verdict that the table says, and every other one the reference's. Which
law is tried is read from `PYTEST_CURRENT_TEST`, as a real one could.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from scutch.implementation import Implementation
from scutch.namespaces import Namespace
from scutch_reference import bridge, logical, meta, nnx


@dataclass(frozen=True)
class Case:
    """One hostile implementation.

    Args:
      name: Describes the act.
      law: The name of the law during which it does it.
      act: Called with the method of the box class, the box and its arguments; gives the result.
      verdict: The verdict that the law's requirement must get.
    """

    name: str
    law: str
    act: Callable[..., Any]
    verdict: str = "failed"


HONEST = {"meta": meta, "logical": logical, "nnx": nnx, "transforms": nnx, "bridge": bridge}
"""The reference's namespaces that a hostile implementation has."""

METHODS = ("unbox", "replace_boxed", "add_axis", "remove_axis", "get_partition_spec")
"""The methods of a box class that a hostile one may replace."""


def tried() -> str:
    """The name of the law that is being tried."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition("::")[2].partition(" ")[0]


def hostile(acts: dict[str, Callable[..., Any]], **spaces: Any) -> Implementation:
    """An implementation whose boxes call the function in `acts` for the law that is being tried.

    Args:
      acts: The `Case.act` for each law, by the law's name.
      spaces: Replacements for names in the namespaces of `HONEST`, as dictionaries.
    """

    def boxes(honest: type) -> type:
        def method(name: str) -> Any:
            own = getattr(honest, name)

            def call(self: Any, *args: Any) -> Any:
                act = acts.get(tried())
                return own(self, *args) if act is None else act(own, self, *args)

            call.__name__ = name
            return call

        return type(honest.__name__, (honest,), {name: method(name) for name in METHODS})

    lies = {space: dict(spaces.get(space, {})) for space in HONEST}
    lies["meta"] = {"Partitioned": boxes(meta.Partitioned), **lies["meta"]}
    lying_box = boxes(logical.LogicallyPartitioned)
    lies["logical"] = {"LogicallyPartitioned": lying_box, **lies["logical"]}
    return Implementation(
        "hostile",
        "1",
        **{
            space: Namespace(f"hostile: {space}", SimpleNamespace(**names), HONEST[space])
            for space, names in lies.items()
        },
    )
