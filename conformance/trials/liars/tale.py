"""Liars and how to make them: a liar is the reference with one thing wrong.

A lie is told in two to eight lines. Its docstring begins with the requirements that it
breaks, `Breaks BOX-5: ...`, and the trials hold it to that. There are five kinds:

- `@of_boxes`: methods of a box class, told once of each of our two, and never of both at a time;
- `@of_logical_boxes`: methods of the logically partitioned box alone;
- `@function`: one function or class of a namespace, in the place of the reference's;
- `@of_objects`: functions and classes of the namespace `nnx`;
- `variant`: a copy of the reference's module `logical` in which some part is another.
"""

import functools
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

from scutch import catalogue
from scutch.adapters.reference import implementation as reference
from scutch.implementation import Implementation
from scutch.namespaces import NAMES, Namespace
from scutch_reference import bridge, linen, logical, meta, nnx

LIARS: list["Liar"] = []
"""Every liar that was told, in order. `tell` is the owner; `trials.liars.liars` gives all."""

HONEST = {
    "meta": meta,
    "logical": logical,
    "linen": linen,
    "nnx": nnx,
    "transforms": nnx,
    "bridge": bridge,
    "export": reference.export,
}
"""The reference's namespace for each capability."""

OPTIONAL = frozenset(
    "jit_partial eval_shape transform_metadata iter_module_children iter_modules recursive_map "
    "with_attributes with_rngs view fork_rngs fold_rngs named_call prefix".split()
)
"""Names that laws ask for where an implementation has them, beside the standard's."""

_ID = r"(?:[A-Z]+-\w+|[a-z]+/\S+)"
_BREAKS = re.compile(f"Breaks ({_ID}(?:(?:, | and ){_ID})*): ")


@dataclass(frozen=True)
class Liar:
    """An implementation that is right but for one law.

    Args:
      name: The name of the lie.
      breaks: The requirements that it breaks: the root causes that a judge must find.
      implementation: The reference, but for the lie.
    """

    name: str
    breaks: tuple[str, ...]
    implementation: Implementation


def breaks(lie: Any) -> tuple[str, ...]:
    """The requirements that the docstring of a lie begins with, by old ids or those of today."""
    found = _BREAKS.match(lie.__doc__ or "")
    if found is None:
        raise ValueError(f"{lie.__name__} says {lie.__doc__!r}; expected 'Breaks BOX-5: ...'")
    return tuple(re.split(", | and ", found[1]))


def tell(
    lie: Any,
    *,
    prefix: str = "",
    claims: Iterable[str] = ("meta", "logical"),
    **lies: dict[str, Any],
) -> None:
    """Enter a liar.

    Args:
      lie: The lying class or function; its name and docstring give the liar's name and breaches.
      prefix: Put before the requirements that it breaks, for a lie of the logical box.
      claims: The capabilities of the liar.
      lies: For each capability that is lied about, the replacements for the standard's names.
    """
    spaces = {space: HONEST[space] for space in claims}
    for space, names in lies.items():
        spaces[space] = Namespace(f"lying {space}", SimpleNamespace(**names), HONEST[space])
    found = (catalogue.current(prefix + identifier) for identifier in breaks(lie))
    broken = tuple(dict.fromkeys(found))
    title = lie.__name__ + ("[logical]" if prefix else "")
    LIARS.append(Liar(title, broken, Implementation(title, "0", **spaces)))


def names_in(lie: Any, space: str) -> dict[str, Any]:
    """The attributes of a lie whose names are in a namespace or in `OPTIONAL`."""
    told = NAMES[space] | OPTIONAL
    return {name: each for name, each in vars(lie).items() if name in told}


def of_objects(lie: type) -> type:
    """Tell a lie of objects: the functions and classes in it, in the place of the standard's."""
    names = names_in(lie, "nnx")
    for name, each in names.items():
        if isinstance(each, type):
            each.__name__ = each.__qualname__ = name
    tell(lie, claims=("meta", "logical", "nnx"), nnx=names)
    return lie


def initializer(box: type, wraps: Callable[..., Any] = functools.wraps) -> Callable[..., Any]:
    """`with_partitioning` for a box class."""

    def with_partitioning(fn: Any, names: Any, mesh: Any = None, **fields: Any) -> Any:
        return wraps(fn)(lambda *a, **k: box(fn(*a, **k), names, mesh=mesh, **fields))

    return with_partitioning


def box_class(lie: type, base: type) -> type:
    """A box class with the methods of a lie, where `pickle` finds it."""
    name = f"{lie.__name__}{base.__name__}"
    box = type(name, (lie, base), {"__module__": __name__})
    if "__setattr__" in vars(lie):  # in the place of the guard of frozen dataclasses
        box.__setattr__ = lie.__setattr__
    setattr(sys.modules[__name__], name, box)
    return box


def of_boxes(lie: type) -> type:
    """Tell a lie of the directly partitioned box, and then of the logically partitioned one."""
    box = box_class(lie, meta.Partitioned)
    tell(lie, meta={"Partitioned": box, "with_partitioning": initializer(box)})
    of_logical_boxes(lie, prefix="LOG-9.")
    return lie


def of_logical_boxes(lie: type, prefix: str = "") -> type:
    """Tell a lie of the logically partitioned box alone."""
    box = box_class(lie, logical.LogicallyPartitioned)
    names = {"LogicallyPartitioned": box, "with_logical_partitioning": initializer(box)}
    tell(lie, prefix=prefix, logical=names)
    return lie


def function(lie: Any) -> Any:
    """Tell a lie in the place of the function or class of the same name of the standard."""
    standard = lie.stands_for if hasattr(lie, "stands_for") else lie.__name__
    space = next(space for space, names in NAMES.items() if standard in names)
    tell(lie, **{space: {standard: lie}})
    return lie


def instead_of(standard: str) -> Callable[[Any], Any]:
    """As `function`, for a lie that has a name of its own."""

    def told(lie: Any) -> Any:
        lie.stands_for = standard
        return function(lie)

    return told


def variant(part: str) -> Callable[[Any], Any]:
    """Tell a lie in the place of a part of the module `logical`, in a copy of it.

    A lie with the parameter `module` is given the copy.
    """

    def told(lie: Any) -> Any:
        module = _copy_of_logical(lie.__name__)
        needs_module = "module" in inspect.signature(lie).parameters
        setattr(module, part, functools.partial(lie, module=module) if needs_module else lie)
        tell(lie, logical={name: getattr(module, name) for name in NAMES["logical"]})
        return lie

    return told


def _copy_of_logical(suffix: str) -> ModuleType:
    name = f"{logical.__name__}_{suffix}"
    spec = importlib.util.spec_from_file_location(name, logical.__file__)
    if spec is None or spec.loader is None:
        raise ImportError(f"no source of {logical.__name__} to copy; expected {logical.__file__}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
