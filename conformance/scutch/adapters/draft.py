"""A first adapter for a package, made from the names that the package has.

    print(draft("my_library"))

If the package has all names of a capability, the adapter claims the capability; else it claims the
names that the package has, without the options that their signatures lack. The owner deletes the
claims that the judge is not to try.
"""

import importlib
import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from scutch.adapters import reference
from scutch.implementation import LAYOUT, modules_of, names_held
from scutch.namespaces import NAMES, Namespace

_TEXT = '''"""The adapter of {package} for scutch: `scutch run --implementation THIS_FILE.py`."""

from scutch import flax_shaped

implementation = flax_shaped(
    "{package}",
    version="{version}",
    # known="flax",  # if it is a fork: the known failures of what it descends from apply
    claims=[
{claims}
    ],{lacks}
)
'''
_LACKS = """
    lacks=[  # of the options that the standard's functions have
{lacks}
    ],"""


def draft(package: str) -> str:
    """The text of an adapter, with a comment at each capability.

    Args:
      package: The import name of the package, which is imported.

    Returns:
      The text; empty if the package has no name of the standard.

    Raises:
      ImportError: There is no such package.
    """
    version = getattr(importlib.import_module(package), "__version__", "0")
    lines, lacks, held = [], [], 0
    for capability in LAYOUT:
        modules = modules_of(package, capability, in_part=True)
        found = names_held(capability, modules)
        held += len(found)
        if len(found) == len(NAMES[capability]):
            lines += [f"        {capability!r},"]
        else:
            lines += [f"        # {capability}: {len(found)} of {len(NAMES[capability])} names"]
            lines += [f'        "{capability}.{name}",' for name in found]
            lacks += [f'        "{option}",' for option in _lacking(capability, modules, found)]
    if not held:
        return ""
    told = _LACKS.format(lacks="\n".join(lacks)) if lacks else ""
    return _TEXT.format(package=package, version=version, claims="\n".join(lines), lacks=told)


def _lacking(capability: str, modules: list[Any], names: Iterable[str]) -> Iterator[str]:
    """The options that the functions of a package lack, by their signatures."""
    standard, own = getattr(reference.implementation, capability), Namespace(capability, *modules)
    for name in names:
        has = _parameters(getattr(own, name))
        if has is None or any(each.kind is each.VAR_KEYWORD for each in has.values()):
            continue
        for option, each in (_parameters(getattr(standard, name)) or {}).items():
            if each.default is not each.empty and option not in has:
                yield f"{capability}.{name}.{option}"


def _parameters(function: Any) -> dict[str, inspect.Parameter] | None:
    """The parameters of a function by name; `None` for a class, and where they cannot be read."""
    if isinstance(function, type) or not callable(function):
        return None
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
