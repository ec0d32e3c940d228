"""How implementations are found: by an installed name, by `module:attribute`, or by file.

Only this module imports adapters, which import implementations.
"""

import importlib.util
import sys
from importlib.metadata import distributions, entry_points
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from scutch.implementation import Implementation, SetupError, specification
from scutch.namespaces import CAPABILITIES

ENTRY_POINTS = "scutch.implementations"
SHIPPED = MappingProxyType(
    {
        "reference": "scutch.adapters.reference:implementation",
        "flax": "scutch.adapters.flax:implementation",
        "orbax": "scutch.adapters.orbax:implementation",
    }
)


def known_names() -> dict[str, str]:
    """Names that `load` accepts, with the `module:attribute` that each stands for."""
    found = {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}
    return {**SHIPPED, **found}


def load(where: str) -> Implementation:
    """Find an implementation by installed name, by `module:attribute`, or by file.

    A file is a Python file whose `implementation` is the adapter; `file.py:attribute` names
    another attribute.

    Raises:
      SetupError: It cannot be found or imported, is of another type, or lacks a claimed name.
    """
    names = known_names()
    if not (":" in where or where.endswith(".py") or where in names):
        raise SetupError(
            f"unknown implementation {where!r}",
            f"expected an installed name ({', '.join(sorted(names))}), module:attribute, "
            "or a .py file",
        )
    place = f"{where}:implementation" if where.endswith(".py") else names.get(where, where)
    return check(find(place), where)


def find(where: str) -> Any:
    """The object that `module:attribute` or `file.py:attribute` names.

    Modules beside the file, or in the current folder, can be imported after that.

    Raises:
      SetupError: It names no attribute, there is no such file, it cannot be imported, or has no
        such attribute.
    """
    path, _, attribute = where.rpartition(":")
    if not path:
        raise SetupError(repr(where), "expected FILE.py:NAME or MODULE:NAME")
    if path.endswith(".py"):
        module = _import_file(Path(path), path)
    else:
        _look_in(Path.cwd())
        module = _import_module(path, where)
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise SetupError(
            repr(where), f"{path} has no attribute {attribute!r}; expected a name in it"
        ) from None


def check(found: Any, where: str) -> Implementation:
    """Refuse anything that is not a complete `Implementation`.

    Args:
      found: The value of `implementation` in an adapter.
      where: How it was found, for messages.

    Returns:
      `found`, as `Implementation.plain` has it.

    Raises:
      SetupError: It is of another type, claims nothing, or lacks a name that it claims.
    """  # noqa: DOC501
    if not isinstance(found, Implementation):
        raise SetupError(
            f"implementation {where!r}",
            f"it is a {type(found).__name__}; expected a scutch.Implementation",
        )
    try:
        plain = Implementation.plain(found)
    except Exception as error:
        raise _import_failed(where, "reading its claims", error) from error
    for name in ("name", "version", "known"):
        if not isinstance(getattr(plain, name), str):
            raise SetupError(
                f"implementation {where!r}",
                f"{name} is {getattr(plain, name)!r}; expected a string",
            )
    for name in ("name", "version"):
        if not getattr(plain, name).strip():
            raise SetupError(f"implementation {where!r}", f"its {name} is empty")
    if not plain.claims:
        raise SetupError(
            f"implementation {where!r}",
            f"it claims no capability; expected at least one of {', '.join(CAPABILITIES)}",
        )
    for claim, needed in (("logical", "meta"), ("linen", "logical")):
        if claim in plain.claims and needed not in plain.claims:
            raise SetupError(
                f"implementation {where!r}",
                f"it claims {claim!r} without {needed!r}, which {claim!r} needs; expected "
                f"{needed}= too, or {claim}=Namespace(TITLE, MODULE, names=[...]) to claim "
                "names one by one",
            )
    for capability, names in plain.missing().items():
        raise SetupError(
            f"implementation {where!r}",
            f"it claims {capability!r} but lacks {', '.join(names)}; "
            f"provide the name, or leave {capability}=None",
        )
    return plain


def _look_in(folder: Path) -> None:
    """Let modules beside an adapter be imported, as they would be beside a script."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _import_module(name: str, where: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise _import_failed(where, f"importing {name}", error) from error


def _import_file(file: Path, where: str) -> ModuleType:
    if not file.is_file():
        raise SetupError(repr(where), f"there is no file {str(file)!r}")
    _look_in(file.resolve().parent)
    spec = specification(file.stem)  # as another module beside the file imports it
    own = spec is not None and Path(spec.origin or "").resolve() == file.resolve()
    if own and file.stem in sys.modules:
        return sys.modules[file.stem]
    name = file.stem if own else f"scutch_adapter_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise SetupError(f"implementation {where!r}", f"{str(file)!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _import_failed(where, f"running {file}", error) from error
    return module


def _import_failed(where: str, action: str, error: Exception) -> SetupError:
    problem = f"{action} raised {type(error).__name__}: {error}"
    if isinstance(error, ModuleNotFoundError) and error.name == "flax":
        problem += "; expected it beside scutch: pip install flax, or uvx --with flax"
    elif isinstance(error, AttributeError | ImportError) and "jax" in str(error):
        held = {each.name: each.version for each in distributions()}
        pair = ", ".join(f"{name} {held[name]}" for name in ("jax", "flax") if name in held)
        problem += f"; installed: {pair}; expected releases that go together"
    return SetupError(f"implementation {where!r}", problem)
